"""`acp_agent`: any agent that speaks the Agent Client Protocol over its standard input and output."""

from __future__ import annotations

import asyncio
import secrets as random_words
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from niceeval.adapter import Agent, SandboxAgentContext, SessionSlot, Turn, TurnInput, define_sandbox_agent
from niceeval.adapters.acp._conversation import Conversation
from niceeval.adapters.acp._updates import coverage
from niceeval.cli_agent import CliArguments, LiveProcess, McpServer, prompt_of, secret_values

LOWERED: Final[Mapping[str, str]] = {}
"""Channels that some whole turns have less of than the agent declares."""

_CONVERSATION: SessionSlot[Conversation] = SessionSlot("acp-conversation")


def acp_agent(
    *,
    command: Sequence[str],
    name: str = "acp",
    mode: str | None = None,
    permissions: Literal["ask", "allow", "deny"] = "ask",
    mcp_servers: Sequence[McpServer] = (),
    set_model: bool = False,
    version: str | None = None,
    env: Mapping[str, str] | None = None,
    secret_env: Mapping[str, str] | None = None,
) -> Agent:
    """An agent in the sandbox that speaks the Agent Client Protocol: `acp_agent(command=["gemini", "--acp"])`.

    `command` is its program with arguments, installed in the sandbox. One process runs for each conversation line.
    `mode` is one of the agent's own (`session/set_mode`): some ask nobody until they are told to. `permissions`: a
    request for permission makes the turn wait for the eval's answer (`"ask"`), or is answered at once. `mcp_servers`
    are given to the session. `set_model`: the experiment's model is set by `session/set_model`, which not every agent
    offers; otherwise it is the command that says it. `version` joins what a result depends on. `env` is set for the
    program; `secret_env` maps its variables to those of this machine that hold their values.

    Raises ProjectError (`bad-argument`).
    """
    arguments = CliArguments("acp_agent", dict(locals()))
    words = arguments.names("command")
    if not words:
        raise arguments.error("command", "is empty", 'command=["gemini", "--acp"]')
    servers = arguments.parts("mcp_servers", McpServer)
    driver = _Driver(
        name=arguments.text("name") or "acp",
        command=words,
        mode=arguments.text("mode"),
        permissions=arguments.one_of("permissions", ("ask", "allow", "deny")),
        servers=servers,
        set_model=arguments.flag("set_model"),
        env=arguments.texts("env"),
        secrets={
            **arguments.texts("secret_env"),
            **{variable: variable for server in servers for variable in server.variables},
        },
    )
    return define_sandbox_agent(
        name=driver.name,
        evidence_coverage=coverage,
        send=driver.send,
        teardown=driver.teardown,
        version=f"{arguments.text('version') or 'any'}; {driver.settings}",
        secret_env=tuple(dict.fromkeys(driver.secrets.values())),
    )


_Key = tuple[str, str, int, str]


class _Driver:
    """The agent's callbacks. The processes of an attempt are kept until its teardown."""

    def __init__(
        self,
        *,
        name: str,
        command: tuple[str, ...],
        mode: str | None,
        permissions: str,
        servers: tuple[McpServer, ...],
        set_model: bool,
        env: Mapping[str, str],
        secrets: Mapping[str, str],
    ) -> None:
        self.name = name
        self.secrets = secrets
        self._command = command
        self._mode = mode
        self._permissions = permissions
        self._servers = servers
        self._set_model = set_model
        self._env = env
        self._running: dict[_Key, list[LiveProcess]] = {}

    @property
    def settings(self) -> str:
        """What a result depends on beside the source."""
        given = (
            self._command,
            self._mode,
            self._permissions,
            self._servers,
            self._set_model,
            sorted(self._env.items()),
        )
        return repr(given)

    async def send(self, input: TurnInput, ctx: SandboxAgentContext) -> Turn:
        conversation = ctx.session.take(_CONVERSATION)
        if conversation is None:
            conversation = await self._begin(ctx)
        try:
            if input.responses:
                collected = await conversation.answer(input.responses)
            else:
                folder = f"{ctx.sandbox.private_dir}/acp-{random_words.token_hex(4)}"
                collected = await conversation.prompt(await prompt_of(input, ctx.sandbox, folder, 1))
        except asyncio.CancelledError:
            # A turn that was cut short is not gone on with, and what it runs must not go on either.
            await asyncio.shield(conversation.end())
            raise
        ctx.session.set(_CONVERSATION, conversation)
        return collected.report(ctx)

    async def _begin(self, ctx: SandboxAgentContext) -> Conversation:
        folder = f"{ctx.sandbox.private_dir}/acp-{random_words.token_hex(4)}"
        process = LiveProcess(ctx.sandbox, folder, name=self.name)
        self._running.setdefault(_key(ctx), []).append(process)
        env = {**self._env, **secret_values(self.name, self.secrets)}
        await process.start(self._command, env)
        conversation = Conversation(process, self._permissions)
        model = ctx.model if self._set_model else None
        servers = [_server(server, env) for server in self._servers]
        ctx.session.capture(await conversation.begin(ctx.sandbox.workdir, servers, self._mode, model))
        said = {key: str(conversation.about.get(key)) for key in ("name", "version") if conversation.about.get(key)}
        ctx.diagnostic("cli-version", "info", " ".join(said.values()) or self.name, dict(said))
        return conversation

    async def teardown(self, ctx: SandboxAgentContext) -> None:
        for process in self._running.pop(_key(ctx), []):
            await process.stop()


def _key(ctx: SandboxAgentContext) -> _Key:
    return ctx.experiment_id, ctx.eval_id, ctx.attempt, ctx.sandbox.sandbox_id


def _server(server: McpServer, env: Mapping[str, str]) -> dict[str, Any]:
    """The server in the protocol's form, which takes values: they go to the agent alone, through its pipe."""
    if server.url is not None:
        headers = dict(server.headers)
        if server.bearer_token_env is not None:
            headers["Authorization"] = f"Bearer {env[server.bearer_token_env]}"
        pairs = [{"name": key, "value": value} for key, value in headers.items()]
        return {"type": "http", "name": server.name, "url": server.url, "headers": pairs}
    variables = {**server.env, **{name: env[name] for name in server.secret_env}}
    pairs = [{"name": key, "value": value} for key, value in variables.items()]
    return {"name": server.name, "command": server.command, "args": list(server.args), "env": pairs}
