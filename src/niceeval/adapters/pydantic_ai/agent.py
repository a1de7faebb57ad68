"""`pydantic_ai_agent`: an agent of Pydantic AI, run in this process."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from niceeval.adapter import (
    AdapterError,
    Agent,
    AgentContext,
    SessionSlot,
    Turn,
    TurnInput,
    define_agent,
    require_extra,
)
from niceeval.adapters.pydantic_ai._conversation import Conversation
from niceeval.converters.pydantic_ai import coverage

RESERVED: Final = frozenset({"user_prompt", "message_history", "deferred_tool_results", "usage", "deps", "model"})
"""Arguments of a run that the adapter gives itself."""

_CONVERSATION: SessionSlot[Conversation] = SessionSlot("pydantic-ai-conversation")


def pydantic_ai_agent(
    agent: Any,
    *,
    name: str | None = None,
    deps: Any = None,
    models: Mapping[str, Any] | None = None,
    run: Mapping[str, Any] | None = None,
    subagents: Mapping[str, str] | None = None,
    version: str | Callable[[], str] | None = None,
) -> Agent:
    """An agent of Pydantic AI: `pydantic_ai_agent(my_agent)`.

    `agent` is the agent, or a function of the context that makes it, once for each conversation: what an experiment's
    `flags` change. `deps` are its dependencies, or such a function; an object that is given is shared by all attempts.
    `models` maps what an experiment calls `model` to the framework's models; a name that is not there is given to the
    framework as it is (`"openai:gpt-5"`). `run` are further arguments of `agent.run`: `usage_limits`, `toolsets`,
    `output_type`. `subagents` maps the tools that run another agent to that agent's name.

    Raises AdapterError (`bad-argument`; `extra-missing` where Pydantic AI is not installed).
    """
    require_extra("pydantic_ai", extra="pydantic-ai", wanted_by="pydantic_ai_agent")
    is_agent = _is_agent(agent)
    if not is_agent and not _is_function(agent):
        raise _bad("agent", f"is {type(agent).__name__}", "give a pydantic_ai.Agent, or a function that makes one")
    taken = sorted(RESERVED & set(run or {}))
    if taken:
        raise _bad("run", f"has {taken[0]!r}, which the adapter gives itself", "deps= and models= are arguments")
    maker = _Maker(agent, deps, dict(models or {}), dict(run or {}), dict(subagents or {}))
    return define_agent(
        name=name or (getattr(agent, "name", None) if is_agent else None) or "pydantic-ai",
        evidence_coverage=coverage,
        send=maker.send,
        version=version,
    )


class _Maker:
    """Sends each turn on its conversation."""

    def __init__(
        self, agent: Any, deps: Any, models: dict[str, Any], run: dict[str, Any], subagents: dict[str, str]
    ) -> None:
        self._agent = agent
        self._deps = deps
        self._models = models
        self._run = run
        self._subagents = subagents

    async def send(self, input: TurnInput, ctx: AgentContext) -> Turn:
        conversation = ctx.session.take(_CONVERSATION) or await self._begin(ctx)
        try:
            return await conversation.turn(input, ctx)
        finally:
            ctx.session.set(_CONVERSATION, conversation)

    async def _begin(self, ctx: AgentContext) -> Conversation:
        agent = self._agent if _is_agent(self._agent) else await _made(self._agent, ctx)
        if not _is_agent(agent):
            raise _bad("agent", f"made {type(agent).__name__}", "return a pydantic_ai.Agent")
        deps = await _made(self._deps, ctx) if _is_function(self._deps) else self._deps
        if ctx.flags and agent is self._agent and not _is_function(self._deps):
            names = ", ".join(sorted(ctx.flags))
            ctx.diagnostic(
                "flags-unused",
                "warning",
                f"nothing reads the experiment's flags ({names}): give agent= or deps= as a function of the context",
            )
        return Conversation(agent, deps, self._models, self._run, self._subagents)


def _is_agent(value: object) -> bool:
    return callable(getattr(value, "run", None)) and hasattr(value, "output_type")


def _is_function(value: object) -> bool:
    return inspect.isroutine(value) or isinstance(value, functools.partial)


async def _made(make: Callable[[AgentContext], Any], ctx: AgentContext) -> Any:
    made = make(ctx)
    return await made if inspect.isawaitable(made) else made


def _bad(argument: str, problem: str, fix: str) -> AdapterError:
    return AdapterError("bad-argument", call="pydantic_ai_agent", argument=argument, problem=problem, fix=fix)
