"""`openai_agents_agent`: an agent of the OpenAI Agents SDK, run in this process."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal

from niceeval.adapter import (
    AdapterError,
    Agent,
    AgentContext,
    SessionSlot,
    Turn,
    TurnInput,
    complete_evidence_coverage,
    define_agent,
    require_extra,
)
from niceeval.adapters.openai_agents._conversation import Conversation, Settings

_CONVERSATION: SessionSlot[Conversation] = SessionSlot("openai-agents-conversation")


def openai_agents_agent(
    agent: Any,
    *,
    name: str | None = None,
    context: Any = None,
    models: Mapping[str, Any] | None = None,
    run_config: Any = None,
    max_turns: int | None = None,
    session: Callable[[AgentContext], Any] | None = None,
    start: Literal["given", "last"] = "given",
    tracing: bool = False,
    version: str | Callable[[], str] | None = None,
) -> Agent:
    """An agent of the OpenAI Agents SDK: `openai_agents_agent(my_agent)`.

    `agent` is the agent, or a function of the context that makes it, once for each conversation: what an experiment's
    `flags` change. `context` is what its tools are given, or such a function; an object that is given is shared by all
    attempts. `models` maps what an experiment calls `model` to the SDK's models; another name is given to the SDK as it
    is. `run_config` and `max_turns` are those of `Runner.run`. `session` makes the SDK's session of a conversation;
    without it the history is kept as a list. `start="last"`: a turn begins with the agent that the one before ended
    with. `tracing`: leave the SDK's tracing as `run_config` has it; otherwise these runs have none.

    Raises AdapterError (`bad-argument`; `extra-missing` where the SDK is not installed).
    """
    require_extra("agents", extra="openai-agents", wanted_by="openai_agents_agent")
    is_agent = _is_agent(agent)
    if not is_agent and not _is_function(agent):
        raise _bad("agent", f"is {type(agent).__name__}", "give an agents.Agent, or a function that makes one")
    if start not in ("given", "last"):
        raise _bad("start", f"is {start!r}", 'one of "given", "last"')
    if session is not None and not callable(session):
        raise _bad("session", f"is {type(session).__name__}", "give a function of the context that makes a session")
    settings = Settings(
        models=dict(models or {}), run_config=run_config, max_turns=max_turns, start=start, tracing=tracing
    )
    return define_agent(
        name=name or (getattr(agent, "name", None) if is_agent else None) or "openai-agents",
        # The runs are listened to, so more is known of them than their results say.
        evidence_coverage=complete_evidence_coverage,
        send=_Maker(agent, context, session, settings).send,
        version=version,
    )


class _Maker:
    """Sends each turn on its conversation."""

    def __init__(self, agent: Any, context: Any, session: Callable[[AgentContext], Any] | None, how: Settings) -> None:
        self._agent = agent
        self._context = context
        self._session = session
        self._how = how

    async def send(self, input: TurnInput, ctx: AgentContext) -> Turn:
        conversation = ctx.session.take(_CONVERSATION) or await self._begin(ctx)
        try:
            return await conversation.turn(input, ctx)
        finally:
            ctx.session.set(_CONVERSATION, conversation)

    async def _begin(self, ctx: AgentContext) -> Conversation:
        agent = self._agent if _is_agent(self._agent) else await _made(self._agent, ctx)
        if not _is_agent(agent):
            raise _bad("agent", f"made {type(agent).__name__}", "return an agents.Agent")
        context = await _made(self._context, ctx) if _is_function(self._context) else self._context
        if ctx.flags and agent is self._agent and not _is_function(self._context):
            names = ", ".join(sorted(ctx.flags))
            ctx.diagnostic(
                "flags-unused",
                "warning",
                f"nothing reads the experiment's flags ({names}): give agent= or context= as a function of the context",
            )
        session = None if self._session is None else await _made(self._session, ctx)
        return Conversation(agent, context, session, self._how)


def _is_agent(value: object) -> bool:
    return not inspect.isclass(value) and callable(getattr(value, "clone", None)) and hasattr(value, "handoffs")


def _is_function(value: object) -> bool:
    return inspect.isroutine(value) or isinstance(value, functools.partial)


async def _made(make: Callable[[AgentContext], Any], ctx: AgentContext) -> Any:
    made = make(ctx)
    return await made if inspect.isawaitable(made) else made


def _bad(argument: str, problem: str, fix: str) -> AdapterError:
    return AdapterError("bad-argument", call="openai_agents_agent", argument=argument, problem=problem, fix=fix)
