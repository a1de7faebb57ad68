"""`gemini_cli_agent`: Gemini CLI in a sandbox."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from niceeval.adapter import Agent
from niceeval.adapters.gemini_cli._transcript import NO_EXIT_CODE, Transcript, coverage
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
)
from niceeval.turn_building import Collected, object_of

PACKAGE: Final = CliPackage(name="gemini-cli", command="gemini", registry="npm", package="@google/gemini-cli")

LOWERED: Final[Mapping[str, str]] = {
    "actions": f"turns in which a command ran: {NO_EXIT_CODE}; turns with a subagent: its steps are not in the stream"
}
"""Channels that some whole turns have less of than the agent declares: when, and what is missing."""

ApprovalMode = Literal["yolo", "auto_edit", "default", "plan"]
_MODES: Final = ("yolo", "auto_edit", "default", "plan")
_MILLISECONDS: Final = 1000


def gemini_cli_agent(
    *,
    name: str = "gemini-cli",
    version: str | None = None,
    command: str | None = None,
    base_url: str | None = None,
    api_key_env: str | None = "GEMINI_API_KEY",
    approval_mode: ApprovalMode = "yolo",
    allowed_tools: Sequence[str] = (),
    denied_tools: Sequence[str] = (),
    mcp_servers: Sequence[McpServer] = (),
    skills: Sequence[Skill] = (),
    plugins: Sequence[Plugin] = (),
    hooks: Sequence[Hook] = (),
    settings: Mapping[str, Any] | None = None,
    max_turns: int | None = None,
    resume: bool = True,
    turn_timeout: float | None = None,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    secret_env: Mapping[str, str] | None = None,
) -> Agent:
    """Gemini CLI (`gemini --output-format stream-json`), run once for each turn in the attempt's sandbox.

    `version`, `command`, `resume`, `turn_timeout`, `args`, `env`, `secret_env`: as for every agent of this kind.
    `base_url`: another endpoint of the Gemini API. `api_key_env`: the variable of this machine that holds the key; None
    where the CLI is logged in. The model is the experiment's; there is no option for its effort.

    `approval_mode` is Gemini CLI's own: by default nothing is asked, since the sandbox is the boundary; in the other
    modes a tool that would have to be asked for is not offered, but for `allowed_tools`. `denied_tools` are not offered
    either; of `run_shell_command(git push)` only the commands that begin so are refused. `plugins` are extensions:
    folders with a `gemini-extension.json`. `settings` is merged into its settings file. `max_turns`: the most model
    calls of a turn.

    Raises ProjectError (`bad-argument`).
    """
    arguments = CliArguments("gemini_cli_agent", dict(locals()))
    base_url, key = arguments.text("base_url"), arguments.text("api_key_env")
    mcp = arguments.parts("mcp_servers", McpServer)
    quiet = {"GEMINI_CLI_TRUST_WORKSPACE": "true", "NO_COLOR": "1"}
    options = CliOptions(
        version=arguments.text("version"),
        command=arguments.text("command"),
        secrets={
            **({} if key is None else {"GEMINI_API_KEY": key}),
            **{variable: variable for server in mcp for variable in server.variables},
            **arguments.texts("secret_env"),
        },
        env={**quiet, **({} if base_url is None else {"GOOGLE_GEMINI_BASE_URL": base_url}), **arguments.texts("env")},
        resume=arguments.flag("resume"),
    )
    given = _Given(
        mode=arguments.one_of("approval_mode", _MODES),
        rules=[
            *_rules(arguments.names("allowed_tools"), "allow", 800),
            *_rules(arguments.names("denied_tools"), "deny", 900),
        ],
        settings=_settings(arguments, mcp, keyed=key is not None),
        skills=arguments.parts("skills", Skill),
        plugins=arguments.parts("plugins", Plugin),
        timeout=arguments.seconds("turn_timeout"),
        args=arguments.names("args"),
    )
    return define_cli_agent(
        name=name,
        package=PACKAGE,
        evidence_coverage=coverage,
        options=options,
        prepare=given.prepare,
        turn=given.turn,
        home_env=lambda home: {"GEMINI_CLI_HOME": home},
        depends_on=[given.mode, given.rules, given.settings, given.skills, given.plugins, given.args],
    )


def _settings(arguments: CliArguments, mcp: tuple[McpServer, ...], *, keyed: bool) -> dict[str, Any]:
    """The settings file: ours, and over it what the author gave."""
    turns = arguments.count("max_turns")
    ours: dict[str, Any] = {
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}} if keyed else {},
        "mcpServers": {server.name: _server(server) for server in mcp},
        "model": {} if turns is None else {"maxSessionTurns": turns},
    }
    hooks: dict[str, list[Any]] = {}
    for hook in arguments.parts("hooks", Hook):
        entry: dict[str, Any] = {"type": "command", "command": hook.command}
        if hook.timeout is not None:
            entry["timeout"] = round(hook.timeout * _MILLISECONDS)
        group: dict[str, Any] = {"hooks": [entry]}
        if hook.matcher is not None:
            group["matcher"] = hook.matcher
        hooks.setdefault(hook.event, []).append(group)
    if hooks:
        ours |= {"hooks": hooks, "hooksConfig": {"enabled": True}}
    return merged(ours, arguments.json_object("settings"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """The factory's arguments, checked, and what is done with them."""

    mode: str
    rules: list[str]
    settings: dict[str, Any]
    skills: tuple[Skill, ...]
    plugins: tuple[Plugin, ...]
    timeout: float | None
    args: tuple[str, ...]

    async def prepare(self, setup: CliSetup) -> None:
        files = {".gemini/settings.json": json.dumps(self.settings)}
        if self.rules:
            files[".gemini/policies/given.toml"] = "\n".join([*self.rules, ""])
        await setup.write_home(files)
        for skill in self.skills:
            await setup.sandbox.upload_directory(skill.path, f"{setup.home}/.gemini/skills/{skill.name}")
        for plugin in self.plugins:
            await setup.sandbox.upload_directory(plugin.path, f"{setup.home}/.gemini/extensions/{plugin.name}")

    async def turn(self, turn: CliTurn) -> tuple[CliRun, Collected]:
        words = ["--output-format", "stream-json", "--approval-mode", self.mode]
        if turn.ctx.model is not None:
            words += ["--model", turn.ctx.model]
        if turn.session_id is not None:
            words += ["--resume", turn.session_id]
        transcript = Transcript(servers=list(object_of(self.settings, "mcpServers")))
        run = await turn.run([*words, *self.args], stdin=turn.prompt, reader=transcript, timeout=self.timeout)
        turn.continues_as(transcript.session_id)
        return run, transcript.finish(exit_code=run.exit_code, killed=run.killed)


def _rules(tools: tuple[str, ...], decision: str, priority: int) -> list[str]:
    """A policy file's lines: `tool`, or `tool(beginning of a command)`."""
    lines = []
    for tool in tools:
        name, _, prefix = tool.partition("(")
        lines += ["[[rule]]", f"toolName = {json.dumps(name)}"]
        if prefix:
            lines.append(f"commandPrefix = {json.dumps(prefix.removesuffix(')'))}")
        lines += [f'decision = "{decision}"', f"priority = {priority}"]
    return lines


def _server(server: McpServer) -> dict[str, Any]:
    """The server in Gemini CLI's form, where `$NAME` stands for a variable's value."""
    if server.url is not None:
        headers = dict(server.headers)
        if server.bearer_token_env is not None:
            headers["Authorization"] = f"Bearer ${server.bearer_token_env}"
        return {"httpUrl": server.url, "headers": headers}
    env = {**server.env, **{name: f"${name}" for name in server.secret_env}}
    return {"command": server.command, "args": list(server.args), "env": env}
