"""`codex_agent`: Codex in a sandbox."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from niceeval.adapter import Agent
from niceeval.adapters.codex._plugins import install, plugin_names
from niceeval.adapters.codex._thread import read_thread
from niceeval.adapters.codex._transcript import NO_ROLLOUT, coverage
from niceeval.cli_agent import (
    CliArguments,
    CliOptions,
    CliPackage,
    CliRun,
    CliSetup,
    CliTurn,
    Hook,
    McpServer,
    Plugin,
    Skill,
    define_cli_agent,
    merged,
    toml_lines,
)
from niceeval.turn_building import Collected, object_of

PACKAGE = CliPackage(name="codex", command="codex", registry="npm", package="@openai/codex")

_NO_FILE: Final = f"turns whose thread file cannot be read: {NO_ROLLOUT}"
LOWERED: Final[Mapping[str, str]] = {"events": _NO_FILE, "actions": _NO_FILE}
"""Channels that some whole turns have less of than the agent declares: when, and what is missing."""

SandboxMode = Literal["danger-full-access", "workspace-write", "read-only"]
_MODES = ("danger-full-access", "workspace-write", "read-only")
_PROVIDER = "niceeval"
_KEY = "CODEX_API_KEY"


def codex_agent(
    *,
    name: str = "codex",
    version: str | None = None,
    command: str | None = None,
    base_url: str | None = None,
    api_key_env: str | None = "OPENAI_API_KEY",
    sandbox_mode: SandboxMode = "danger-full-access",
    denied_commands: Sequence[str] = (),
    mcp_servers: Sequence[McpServer] = (),
    skills: Sequence[Skill] = (),
    plugins: Sequence[Plugin] = (),
    hooks: Sequence[Hook] = (),
    settings: Mapping[str, Any] | None = None,
    resume: bool = True,
    turn_timeout: float | None = None,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    secret_env: Mapping[str, str] | None = None,
) -> Agent:
    """Codex (`codex exec --json`), run once for each turn in the attempt's sandbox.

    `version`, `command`, `resume`, `turn_timeout`, `args`, `env`, `secret_env`: as for every agent of this kind.
    `base_url`: another endpoint of the Responses API, such as `https://proxy.example/v1`. `api_key_env`: the variable
    of this machine that holds the key; None where the CLI is logged in. Model and effort are the experiment's.

    `sandbox_mode` is Codex's own: by default it has none of its own, since the sandbox is the boundary; `read-only` and
    `workspace-write` need what Codex's sandbox needs. It never asks: what its sandbox or a rule forbids is refused.
    `denied_commands`: beginnings of commands that are refused, such as `"git push"`. `plugins` are folders with a
    `.codex-plugin/plugin.json` (or a `.claude-plugin/plugin.json`), installed in the attempt's own home. `settings` is
    merged into its `config.toml`, as nested mappings. Codex has no limit of turns.

    Raises ProjectError (`bad-argument`).
    """
    arguments = CliArguments("codex_agent", dict(locals()))
    mcp = arguments.parts("mcp_servers", McpServer)
    key = arguments.text("api_key_env")
    options = CliOptions(
        version=arguments.text("version"),
        command=arguments.text("command"),
        secrets={
            **({} if key is None else {_KEY: key}),
            **{variable: variable for server in mcp for variable in server.variables},
            **arguments.texts("secret_env"),
        },
        env=arguments.texts("env"),
        resume=arguments.flag("resume"),
    )
    mode = arguments.one_of("sandbox_mode", _MODES)
    given = _Given(
        config=_config(arguments, mode, mcp, list(options.secrets), logged_in=key is None),
        denied=arguments.names("denied_commands"),
        skills=arguments.parts("skills", Skill),
        plugins=plugin_names(arguments),
        hooks=arguments.parts("hooks", Hook),
        timeout=arguments.seconds("turn_timeout"),
        args=arguments.names("args"),
        confined=mode != "danger-full-access",
    )
    return define_cli_agent(
        name=name,
        package=PACKAGE,
        evidence_coverage=coverage,
        options=options,
        prepare=given.prepare,
        turn=given.turn,
        home_env=given.home_env,
        depends_on=[given.config, given.denied, given.skills, given.plugins, given.hooks, given.args],
    )


def _config(
    arguments: CliArguments, mode: str, mcp: tuple[McpServer, ...], secrets: list[str], *, logged_in: bool
) -> dict[str, Any]:
    """The configuration file: ours, and over it what the author gave."""
    ours: dict[str, Any] = {
        "approval_policy": "never",
        "sandbox_mode": mode,
        "check_for_update_on_startup": False,
        "analytics": {"enabled": False},
        "mcp_servers": {server.name: _server(server) for server in mcp},
        # The commands that the model runs have no use for the keys.
        "shell_environment_policy": {"exclude": secrets},
    }
    base_url = arguments.text("base_url")
    if base_url is not None:
        provider = {
            "name": "niceeval",
            "base_url": base_url,
            "wire_api": "responses",
            "requires_openai_auth": logged_in,
        }
        if not logged_in:
            provider["env_key"] = _KEY
        ours |= {"model_provider": _PROVIDER, "model_providers": {_PROVIDER: provider}}
    return merged(ours, arguments.json_object("settings"))


class _Given:
    """The factory's arguments, checked, and what is done with them."""

    def __init__(
        self,
        *,
        config: dict[str, Any],
        denied: tuple[str, ...],
        skills: tuple[Skill, ...],
        plugins: dict[str, Plugin],
        hooks: tuple[Hook, ...],
        timeout: float | None,
        args: tuple[str, ...],
        confined: bool,
    ) -> None:
        self.config = config
        self.denied = denied
        self.skills = skills
        self.plugins = plugins
        self.hooks = hooks
        self.timeout = timeout
        self.args = args
        self.confined = confined

    def home_env(self, home: str) -> dict[str, str]:
        env = {"CODEX_HOME": home}
        if self.confined and home.startswith(("/tmp/", "/var/tmp/")):
            # Below the temporary folder Codex does not make the helpers that its sandbox runs commands with.
            env["TMPDIR"] = "/dev/shm"
        return env

    async def prepare(self, setup: CliSetup) -> None:
        files = {"config.toml": "\n".join([*toml_lines(self._of(setup)), ""])}
        if self.denied:
            rules = [
                f'prefix_rule(pattern = {json.dumps(shlex.split(one))}, decision = "forbidden")' for one in self.denied
            ]
            files["rules/denied.rules"] = "\n".join([*rules, ""])
        if self.hooks:
            files["hooks.json"] = json.dumps({"hooks": _hooks(self.hooks)})
        await setup.write_home(files)
        for skill in self.skills:
            await setup.sandbox.upload_directory(skill.path, f"{setup.home}/skills/{skill.name}")
        if self.plugins:
            await install(setup, self.plugins)

    def _of(self, setup: CliSetup) -> dict[str, Any]:
        chosen = {"model": setup.ctx.model, "model_reasoning_effort": setup.ctx.reasoning_effort}
        return {**{key: value for key, value in chosen.items() if value is not None}, **self.config}

    async def turn(self, turn: CliTurn) -> tuple[CliRun, Collected]:
        words = ["exec", "resume"] if turn.session_id is not None else ["exec"]
        words += ["--json", "--skip-git-repo-check"]
        if self.hooks or self.plugins:
            # Nobody is there to say that hooks, of which a plugin may bring some, are trusted.
            words.append("--dangerously-bypass-hook-trust")
        words += self.args
        words += ["-"] if turn.session_id is None else [turn.session_id, "-"]
        return await read_thread(turn, words, self.timeout, list(object_of(self.config, "mcp_servers")))


def _hooks(hooks: tuple[Hook, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for hook in hooks:
        entry: dict[str, Any] = {"type": "command", "command": hook.command}
        if hook.timeout is not None:
            # Codex drops all hooks where one of them has a part of a second.
            entry["timeout"] = math.ceil(hook.timeout)
        group: dict[str, Any] = {"hooks": [entry]}
        if hook.matcher is not None:
            group["matcher"] = hook.matcher
        found.setdefault(hook.event, []).append(group)
    return found


def _server(server: McpServer) -> dict[str, Any]:
    """The server in Codex's form, which takes variables by their names."""
    if server.url is not None:
        return {
            "url": server.url,
            "http_headers": dict(server.headers),
            "bearer_token_env_var": server.bearer_token_env,
        }
    return {
        "command": server.command,
        "args": list(server.args),
        "env": dict(server.env),
        "env_vars": list(server.secret_env),
    }
