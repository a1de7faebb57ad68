"""`google_adk_agent`: an agent of Google's Agent Development Kit, run in this process."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from niceeval.adapter import (
    AdapterError,
    Agent,
    AgentContext,
    EvidenceCoverage,
    SessionSlot,
    Turn,
    TurnInput,
    define_agent,
    require_extra,
)
from niceeval.adapters.google_adk._conversation import Conversation
from niceeval.adapters.google_adk._loading import load

declared: Final = EvidenceCoverage.complete_except()
"""What a run shows at most: agents that are tools, which hide what they do and use, are found, and lower their turn."""
_CONVERSATION: SessionSlot[Conversation] = SessionSlot("google-adk-conversation")


def google_adk_agent(
    agent: Any,
    *,
    name: str | None = None,
    subagents: Mapping[str, str] | None = None,
    version: str | Callable[[], str] | None = None,
) -> Agent:
    """An agent of Google's ADK: `google_adk_agent(root_agent)`.

    `agent` is the agent, or a function of the context that makes it, once for each conversation: what an experiment's
    `model` changes. Each conversation is a session in memory, whose state begins with the experiment's flags.
    `subagents` maps tools that run another agent to its name, beside those that are `AgentTool`s, which are found.

    Raises AdapterError (`bad-argument`; `extra-missing` where the ADK is not installed).
    """
    require_extra("google.adk", extra="google-adk", wanted_by="google_adk_agent")
    is_agent = _is_agent(agent)
    if not is_agent and not _is_function(agent):
        raise _bad("agent", f"is {type(agent).__name__}", "give an agent of google.adk, or a function that makes one")
    named = name or (agent.name if is_agent else None) or "google-adk"
    driver = _Driver(agent, named, dict(subagents or {}))
    return define_agent(name=named, evidence_coverage=declared, send=driver.send, version=version)


class _Driver:
    def __init__(self, agent: Any, name: str, subagents: dict[str, str]) -> None:
        self._agent = agent
        self._name = name
        self._subagents = subagents

    async def send(self, input: TurnInput, ctx: AgentContext) -> Turn:
        """One turn of the conversation."""
        conversation = ctx.session.take(_CONVERSATION) or await self._begin(ctx)
        try:
            return await conversation.turn(input, ctx)
        finally:
            ctx.session.set(_CONVERSATION, conversation)

    async def _begin(self, ctx: AgentContext) -> Conversation:
        await load()
        agent = self._agent
        if not _is_agent(agent):
            agent = agent(ctx)
            agent = await agent if inspect.isawaitable(agent) else agent
            if not _is_agent(agent):
                raise _bad("agent", f"made {type(agent).__name__}", "return an agent of google.adk")
        else:
            for what, value in (("model", ctx.model), ("reasoning effort", ctx.reasoning_effort)):
                if value is not None:
                    said = f"an agent of google.adk has its own {what}: give agent= as a function of the context"
                    ctx.diagnostic("input-not-passed", "warning", said)
        return Conversation(agent, self._name, {**_agent_tools(agent), **self._subagents})


def _agent_tools(agent: Any) -> dict[str, str]:
    """The tools that run an agent, of the agent and all those that it hands work to."""
    found: dict[str, str] = {}
    waiting, seen = [agent], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        waiting += getattr(one, "sub_agents", None) or []
        for tool in getattr(one, "tools", None) or []:
            inner: Any = getattr(tool, "agent", None)
            if _is_agent(inner):
                found[tool.name] = inner.name
    return found


def _is_agent(value: object) -> bool:
    return callable(getattr(value, "run_async", None)) and hasattr(value, "sub_agents")


def _is_function(value: object) -> bool:
    return inspect.isroutine(value) or isinstance(value, functools.partial)


def _bad(argument: str, problem: str, fix: str) -> AdapterError:
    return AdapterError("bad-argument", call="google_adk_agent", argument=argument, problem=problem, fix=fix)
