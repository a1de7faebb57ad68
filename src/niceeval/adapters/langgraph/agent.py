"""`langgraph_agent`: a graph of LangGraph, or an agent of LangChain, run in this process."""

from __future__ import annotations

import asyncio
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
from niceeval.adapters.langgraph._conversation import Conversation, MakeInput, Options
from niceeval.converters.langgraph import Resume

declared: Final = EvidenceCoverage.complete_except()
"""What a run shows at most: the stream has all steps, also those of graphs in graphs, and every model is counted."""
_CONVERSATION: SessionSlot[Conversation] = SessionSlot("langgraph-conversation")


def langgraph_agent(
    graph: Any,
    *,
    name: str | None = None,
    config: Mapping[str, Any] | None = None,
    context: Any = None,
    make_input: MakeInput | None = None,
    messages_key: str = "messages",
    resume: Resume | None = None,
    subagents: Mapping[str, str] | None = None,
    memory: bool = True,
    sync: bool = False,
    version: str | Callable[[], str] | None = None,
) -> Agent:
    """A compiled graph, or what `create_agent` made: `langgraph_agent(graph)`.

    `graph` is the graph, or a function of the context that makes it, once for each conversation. Each conversation is
    a thread of its own; a graph without a checkpointer gets one in memory, for a copy of it, unless `memory=False`.
    `config` is added to each run's (`recursion_limit`, `tags`); an experiment's model, effort and flags are put into
    its `configurable`, and into the `context` where the graph's schema has a field of that name. `context` is the rest
    of it, or a function `(ctx) -> context`. `make_input(input, ctx)` makes the graph's input, where that is no message.
    `resume(value, response)` makes what `interrupt(value)` returns, where that is not the answer's text. `subagents`
    maps tools that run another agent to that agent's name. `sync=True` runs the graph as `graph.invoke` does, in a
    thread, for tools, middleware and checkpointers that have no async form.

    Raises AdapterError (`bad-argument`; `extra-missing` where LangGraph is not installed).
    """
    for module in ("langgraph", "langchain_core"):
        require_extra(module, extra="langgraph", wanted_by="langgraph_agent")
    if not _is_graph(graph) and not _is_function(graph):
        problem = f"is {type(graph).__name__}"
        if callable(getattr(graph, "compile", None)):
            raise _bad("graph", f"{problem}, which is not compiled", "give graph.compile()")
        raise _bad("graph", problem, "give a compiled graph, or a function that makes one")
    named = name or (_own_name(graph) if _is_graph(graph) else None) or "langgraph"
    options = Options(
        name=named,
        config=dict(config or {}),
        context=context,
        make_input=make_input,
        messages_key=messages_key,
        resume=resume,
        subagents=dict(subagents or {}),
    )
    driver = _Driver(graph, options, memory=memory)
    send = driver.send_here if sync else driver.send
    return define_agent(name=named, evidence_coverage=declared, send=send, version=version)


class _Driver:
    def __init__(self, graph: Any, options: Options, *, memory: bool) -> None:
        self._graph = graph
        self._options = options
        self._memory = memory

    async def send(self, input: TurnInput, ctx: AgentContext) -> Turn:
        """One turn of the conversation."""
        conversation = await self._conversation(ctx)
        running = await conversation.begin(input, ctx)
        return conversation.end(running, await conversation.run(running), input, ctx)

    def send_here(self, input: TurnInput, ctx: AgentContext) -> Turn:
        """The same, for a thread of its own, in which no event loop runs while the graph does."""
        conversation = asyncio.run(self._conversation(ctx))
        running = asyncio.run(conversation.begin(input, ctx))
        return conversation.end(running, conversation.run_here(running, ctx), input, ctx)

    async def _conversation(self, ctx: AgentContext) -> Conversation:
        conversation = ctx.session.take(_CONVERSATION) or await self._begin(ctx)
        ctx.session.set(_CONVERSATION, conversation)
        return conversation

    async def _begin(self, ctx: AgentContext) -> Conversation:
        graph = self._graph
        made_for_it = not _is_graph(graph)
        if made_for_it:
            graph = graph(ctx)
            graph = await graph if inspect.isawaitable(graph) else graph
            if not _is_graph(graph):
                raise _bad("graph", f"made {type(graph).__name__}", "return a compiled graph")
        if self._memory and not _keeps_threads(graph):
            from langgraph.checkpoint.memory import InMemorySaver

            graph = graph.copy({"checkpointer": InMemorySaver()})
        return Conversation(graph, self._options, made_for_it=made_for_it)


def _keeps_threads(graph: Any) -> bool:
    # A graph that is in another one may say True or False here; alone it keeps nothing then.
    return hasattr(getattr(graph, "checkpointer", None), "aput") or not hasattr(graph, "copy")


def _own_name(graph: Any) -> str | None:
    name = getattr(graph, "name", None)
    return name if isinstance(name, str) and name != "LangGraph" else None


def _is_graph(value: object) -> bool:
    return callable(getattr(value, "astream", None)) and not inspect.isroutine(value)


def _is_function(value: object) -> bool:
    return inspect.isroutine(value) or isinstance(value, functools.partial)


def _bad(argument: str, problem: str, fix: str) -> AdapterError:
    return AdapterError("bad-argument", call="langgraph_agent", argument=argument, problem=problem, fix=fix)
