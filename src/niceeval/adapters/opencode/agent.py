"""`opencode_agent`: opencode in a sandbox."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from niceeval.adapter import Agent
from niceeval.adapters.opencode._transcript import Transcript, coverage
from niceeval.cli_agent import (
    CliArguments,
    CliOptions,
    CliPackage,
    CliRun,
    CliSetup,
    CliTurn,
    McpServer,
    Plugin,
    Skill,
    define_cli_agent,
    merged,
)
from niceeval.turn_building import Collected, object_of

PACKAGE: Final = CliPackage(name="opencode", command="opencode", registry="npm", package="opencode-ai")

_SUBAGENT: Final = "turns with a subagent: its own steps are not in the stream"
LOWERED: Final[Mapping[str, str]] = {"events": _SUBAGENT, "actions": _SUBAGENT, "usage": _SUBAGENT}
"""Channels that some whole turns have less of than the agent declares: when, and what is missing."""

_PROVIDER: Final = "niceeval"
_KEY: Final = "OPENCODE_PROVIDER_KEY"
_LIBRARY: Final = "@opencode-ai/plugin"
_CODE: Final = (".js", ".mjs", ".cjs", ".ts", ".mts", ".json")
_QUIET: Final = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
}


def opencode_agent(
    *,
    name: str = "opencode",
    version: str | None = None,
    command: str | None = None,
    base_url: str | None = None,
    api_key_env: str | None = "ANTHROPIC_API_KEY",
    allowed_tools: Sequence[str] = (),
    denied_tools: Sequence[str] = (),
    mcp_servers: Sequence[McpServer] = (),
    skills: Sequence[Skill] = (),
    plugins: Sequence[Plugin] = (),
    settings: Mapping[str, Any] | None = None,
    max_turns: int | None = None,
    resume: bool = True,
    turn_timeout: float | None = None,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    secret_env: Mapping[str, str] | None = None,
) -> Agent:
    """opencode (`opencode run --format json`), run once for each turn in the attempt's sandbox.

    `version`, `command`, `resume`, `turn_timeout`, `args`, `env`, `secret_env`: as for every agent of this kind. The
    model is the experiment's, as `provider/model`; its effort is opencode's `--variant`. `base_url`: an endpoint of the
    Chat Completions API; the model is then one of it, by its name alone. `api_key_env`: the variable of this machine
    that holds the key; the command has it under the same name, or None.

    What is asked for is refused, since nobody answers: `denied_tools` are refused always, and with `allowed_tools` all
    others are (`bash`, `edit`, ...; opencode's `permission`, which `settings` can also say). `settings` is merged into
    its configuration file. `plugins` are folders whose `.js` and `.ts` files are plugins. `max_turns`: the most model
    calls of a turn: at the last one it is told to answer, and where it goes on calling tools, opencode is ended.

    Raises ProjectError (`bad-argument`).
    """
    arguments = CliArguments("opencode_agent", dict(locals()))
    base_url, key = arguments.text("base_url"), arguments.text("api_key_env")
    mcp = arguments.parts("mcp_servers", McpServer)
    options = CliOptions(
        version=arguments.text("version"),
        command=arguments.text("command"),
        secrets={
            **({} if key is None else {key if base_url is None else _KEY: key}),
            **{variable: variable for server in mcp for variable in server.variables},
            **arguments.texts("secret_env"),
        },
        env={**_QUIET, **arguments.texts("env")},
        resume=arguments.flag("resume"),
    )
    given = _Given(
        base_url=base_url,
        config=_config(arguments, mcp),
        skills=arguments.parts("skills", Skill),
        plugins=arguments.parts("plugins", Plugin),
        max_turns=arguments.count("max_turns"),
        timeout=arguments.seconds("turn_timeout"),
        args=arguments.names("args"),
        keyed=key is not None,
    )
    return define_cli_agent(
        name=name,
        package=PACKAGE,
        evidence_coverage=coverage,
        options=options,
        prepare=given.prepare,
        turn=given.turn,
        home_env=given.home_env,
        depends_on=[given.config, given.skills, given.plugins, given.args],
    )


def _config(arguments: CliArguments, mcp: tuple[McpServer, ...]) -> dict[str, Any]:
    """The configuration file: ours, and over it what the author gave."""
    allowed, denied = arguments.names("allowed_tools"), arguments.names("denied_tools")
    rules = {"*": "deny", **dict.fromkeys(allowed, "allow")} if allowed else {}
    ours: dict[str, Any] = {
        "autoupdate": False,
        "share": "disabled",
        "permission": {**rules, **dict.fromkeys(denied, "deny")},
        "mcp": {server.name: _server(server) for server in mcp},
    }
    turns = arguments.count("max_turns")
    if turns is not None:
        ours["agent"] = {"build": {"steps": turns}}
    return merged(ours, arguments.json_object("settings"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """The factory's arguments, checked, and what is done with them."""

    base_url: str | None
    config: dict[str, Any]
    skills: tuple[Skill, ...]
    plugins: tuple[Plugin, ...]
    max_turns: int | None
    timeout: float | None
    args: tuple[str, ...]
    keyed: bool

    def home_env(self, home: str) -> dict[str, str]:
        return {
            "OPENCODE_CONFIG": f"{home}/opencode.json",
            "OPENCODE_CONFIG_DIR": f"{home}/config",
            "XDG_CONFIG_HOME": f"{home}/xdg/config",
            "XDG_DATA_HOME": f"{home}/xdg/data",
            "XDG_STATE_HOME": f"{home}/xdg/state",
            "XDG_CACHE_HOME": f"{home}/xdg/cache",
        }

    async def prepare(self, setup: CliSetup) -> None:
        model = setup.ctx.model
        config = self.config if self.base_url is None or model is None else merged(self._provider(model), self.config)
        await setup.write_home({"opencode.json": json.dumps(config), "config/.keep": "", **self._nothing_to_fetch()})
        for skill in self.skills:
            await setup.sandbox.upload_directory(skill.path, f"{setup.home}/config/skill/{skill.name}")
        for plugin in self.plugins:
            await setup.sandbox.upload_directory(plugin.path, f"{setup.home}/config/plugin")

    def _nothing_to_fetch(self) -> dict[str, str]:
        """Files by which opencode takes its plugins' library for installed in its configuration folders: it would fetch
        it from npm there in every attempt. None where a plugin may need it."""
        if any(_needs_library(plugin) for plugin in self.plugins):
            return {}
        lock = json.dumps({"packages": {"": {"dependencies": {_LIBRARY: "*"}}}})
        return {
            f"{folder}/{name}": text
            for folder in ("config", "xdg/config/opencode")
            for name, text in (("package-lock.json", lock), ("node_modules/.keep", ""))
        }

    def _provider(self, model: str) -> dict[str, Any]:
        options = {"baseURL": self.base_url, **({"apiKey": f"{{env:{_KEY}}}"} if self.keyed else {})}
        provider = {"npm": "@ai-sdk/openai-compatible", "name": _PROVIDER, "options": options, "models": {model: {}}}
        return {"provider": {_PROVIDER: provider}, "small_model": f"{_PROVIDER}/{model}"}

    async def turn(self, turn: CliTurn) -> tuple[CliRun, Collected]:
        words = ["run", "--format", "json", "--thinking"]
        if turn.ctx.model is not None:
            prefix = "" if self.base_url is None else f"{_PROVIDER}/"
            words += ["--model", prefix + turn.ctx.model]
        if turn.ctx.reasoning_effort is not None:
            words += ["--variant", turn.ctx.reasoning_effort]
        if turn.session_id is not None:
            words += ["--session", turn.session_id]
        transcript = Transcript(servers=list(object_of(self.config, "mcp")), most_steps=self.max_turns)
        limited = _Limited(transcript)
        running = turn.run([*words, *self.args], stdin=turn.prompt, reader=limited, timeout=self.timeout)
        run = await (running if self.max_turns is None else _unless(limited.over, running))
        turn.continues_as(transcript.session_id)
        return run, transcript.finish(exit_code=run.exit_code, killed=run.killed)


class _Limited:
    """A reader that says when the model goes on after its limit of calls: opencode only asks it to stop there."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self.over = asyncio.Event()

    def feed(self, chunk: bytes) -> None:
        self._transcript.feed(chunk)
        if self._transcript.over:
            self.over.set()


async def _unless(over: asyncio.Event, running: Coroutine[Any, Any, CliRun]) -> CliRun:
    """Run the command, and end it, with all that it began, once `over` is set."""
    command, stop = asyncio.ensure_future(running), asyncio.ensure_future(over.wait())
    try:
        await asyncio.wait({command, stop}, return_when=asyncio.FIRST_COMPLETED)
        if command.done():
            return command.result()
    finally:
        command.cancel()
        stop.cancel()
        await asyncio.gather(command, stop, return_exceptions=True)
    return CliRun(exit_code=None, killed=True, stdout="", stderr="")


def _needs_library(plugin: Plugin) -> bool:
    """Whether a file of the plugin names opencode's library for plugins."""
    files = [file for file in Path(plugin.path).rglob("*") if file.suffix in _CODE and file.is_file()]
    return any(_LIBRARY.encode() in file.read_bytes() for file in files)


def _server(server: McpServer) -> dict[str, Any]:
    """The server in opencode's form, where `{env:NAME}` stands for a variable's value."""
    if server.url is not None:
        headers = dict(server.headers)
        if server.bearer_token_env is not None:
            headers["Authorization"] = f"Bearer {{env:{server.bearer_token_env}}}"
        return {"type": "remote", "url": server.url, "headers": headers, "enabled": True}
    env = {**server.env, **{name: f"{{env:{name}}}" for name in server.secret_env}}
    return {"type": "local", "command": [server.command, *server.args], "environment": env, "enabled": True}
