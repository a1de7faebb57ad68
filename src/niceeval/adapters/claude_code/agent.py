"""`claude_code_agent`: Claude Code in a sandbox."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from niceeval.adapter import Agent
from niceeval.adapters.claude_code._transcript import Transcript, coverage
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
from niceeval.turn_building import Collected

PACKAGE = CliPackage(
    name="claude-code",
    command="claude",
    registry="npm",
    package="@anthropic-ai/claude-code",
    version_script='"$cli" -v',
)

LOWERED: Final[Mapping[str, str]] = {
    "usage": "turns with a subagent of older versions, which report the tokens of the main conversation alone"
}
"""Channels that some whole turns have less of than the agent declares: when, and what is missing."""

PermissionMode = Literal["bypassPermissions", "acceptEdits", "default", "dontAsk", "plan", "auto"]
_MODES = ("bypassPermissions", "acceptEdits", "default", "dontAsk", "plan", "auto")


def claude_code_agent(
    *,
    name: str = "claude-code",
    version: str | None = None,
    command: str | None = None,
    base_url: str | None = None,
    api_key_env: str | None = "ANTHROPIC_API_KEY",
    permission_mode: PermissionMode = "bypassPermissions",
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
    """Claude Code (`claude --print`), run once for each turn in the attempt's sandbox.

    `version`: the exact version, installed from npm where the sandbox has another; None takes the one that is there, or
    the newest. `command`: its path in the sandbox, where it is not on PATH. `base_url`: another endpoint of the
    Messages API. `api_key_env`: the variable of this machine that holds the key; None where the CLI is logged in.
    The model and the effort (`low` to `max`) are the experiment's.

    `permission_mode` is Claude Code's own: by default nothing is asked, since the sandbox is the boundary; in the other
    modes what would have to be asked is refused. `allowed_tools` and `denied_tools` are its rules, such as
    `Bash(git push:*)`. `settings` is merged into its settings file. `max_turns`: the most model calls of a turn.
    `resume`: a line's next turn goes on with the conversation. `turn_timeout`: seconds of one turn, after which it is
    killed and its evidence is partial. `args` and `env` are added to each command; `secret_env` maps the command's
    variables to those of this machine that hold their values.

    Raises ProjectError (`bad-argument`).
    """
    arguments = CliArguments("claude_code_agent", dict(locals()))
    given = _Given(
        mode=arguments.one_of("permission_mode", _MODES),
        mcp=arguments.parts("mcp_servers", McpServer),
        skills=arguments.parts("skills", Skill),
        plugins=arguments.parts("plugins", Plugin),
        settings=_settings(arguments),
        max_turns=arguments.count("max_turns"),
        timeout=arguments.seconds("turn_timeout"),
        args=arguments.names("args"),
    )
    key = arguments.text("api_key_env")
    options = CliOptions(
        version=arguments.text("version"),
        command=arguments.text("command"),
        secrets={
            **({} if key is None else {"ANTHROPIC_API_KEY": key}),
            **{variable: variable for server in given.mcp for variable in server.variables},
            **arguments.texts("secret_env"),
        },
        env={**_environment(arguments.text("base_url"), given.mode), **arguments.texts("env")},
        resume=arguments.flag("resume"),
    )
    return define_cli_agent(
        name=name,
        package=PACKAGE,
        evidence_coverage=coverage,
        options=options,
        prepare=given.prepare,
        turn=given.turn,
        home_env=lambda home: {"CLAUDE_CONFIG_DIR": home},
        depends_on=[given.settings, given.mode, given.mcp, given.skills, given.plugins, given.max_turns, given.args],
    )


def _environment(base_url: str | None, mode: str) -> dict[str, str]:
    env = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    if base_url is not None:
        env["ANTHROPIC_BASE_URL"] = base_url
    if mode == "bypassPermissions":
        # Without it Claude Code refuses to run unasked as root, which it is in some sandboxes.
        env["IS_SANDBOX"] = "1"
    return env


def _settings(arguments: CliArguments) -> dict[str, Any]:
    """The settings file: rules and hooks, and over them what the author gave."""
    rules = {"allow": list(arguments.names("allowed_tools")), "deny": list(arguments.names("denied_tools"))}
    ours: dict[str, Any] = {"permissions": {key: value for key, value in rules.items() if value}}
    for hook in arguments.parts("hooks", Hook):
        entry: dict[str, Any] = {"type": "command", "command": hook.command}
        if hook.timeout is not None:
            entry["timeout"] = hook.timeout
        group: dict[str, Any] = {"hooks": [entry]}
        if hook.matcher is not None:
            group["matcher"] = hook.matcher
        ours.setdefault("hooks", {}).setdefault(hook.event, []).append(group)
    return merged(ours, arguments.json_object("settings"))


class _Given:
    """The factory's arguments, checked, and what is done with them."""

    def __init__(
        self,
        *,
        mode: str,
        mcp: tuple[McpServer, ...],
        skills: tuple[Skill, ...],
        plugins: tuple[Plugin, ...],
        settings: dict[str, Any],
        max_turns: int | None,
        timeout: float | None,
        args: tuple[str, ...],
    ) -> None:
        self.mode = mode
        self.mcp = mcp
        self.skills = skills
        self.plugins = plugins
        self.settings = settings
        self.max_turns = max_turns
        self.timeout = timeout
        self.args = args

    async def prepare(self, setup: CliSetup) -> None:
        servers = {server.name: _server(server) for server in self.mcp}
        await setup.write_home(
            {"settings.json": json.dumps(self.settings), "mcp.json": json.dumps({"mcpServers": servers})}
        )
        for skill in self.skills:
            await setup.sandbox.upload_directory(skill.path, f"{setup.home}/skills/{skill.name}")
        for plugin in self.plugins:
            await setup.sandbox.upload_directory(plugin.path, f"{setup.home}/given-plugins/{plugin.name}")

    async def turn(self, turn: CliTurn) -> tuple[CliRun, Collected]:
        transcript = Transcript()
        run = await turn.run(self._words(turn), stdin=turn.prompt, reader=transcript, timeout=self.timeout)
        turn.continues_as(transcript.session_id)
        return run, transcript.finish(exit_code=run.exit_code, killed=run.killed)

    def _words(self, turn: CliTurn) -> list[str]:
        words = ["--print", "--output-format", "stream-json", "--verbose"]
        if self.mode == "bypassPermissions":
            words.append("--dangerously-skip-permissions")
        elif self.mode != "default":
            words += ["--permission-mode", self.mode]
        if turn.ctx.model is not None:
            words += ["--model", turn.ctx.model]
        if turn.ctx.reasoning_effort is not None:
            words += ["--effort", turn.ctx.reasoning_effort]
        if self.max_turns is not None:
            words += ["--max-turns", str(self.max_turns)]
        if self.mcp:
            words += ["--strict-mcp-config", "--mcp-config", f"{turn.home}/mcp.json"]
        for plugin in self.plugins:
            words += ["--plugin-dir", f"{turn.home}/given-plugins/{plugin.name}"]
        if turn.session_id is not None:
            words += ["--resume", turn.session_id]
        return [*words, *self.args]


def _server(server: McpServer) -> dict[str, Any]:
    """The server in Claude Code's form, where `${NAME}` stands for a variable's value."""
    if server.url is not None:
        headers = dict(server.headers)
        if server.bearer_token_env is not None:
            headers["Authorization"] = f"Bearer ${{{server.bearer_token_env}}}"
        return {"type": "http", "url": server.url, "headers": headers}
    env = {**server.env, **{name: f"${{{name}}}" for name in server.secret_env}}
    return {"type": "stdio", "command": server.command, "args": list(server.args), "env": env}
