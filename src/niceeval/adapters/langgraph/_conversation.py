"""One conversation with a graph: its thread, and what it waits for."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import typing
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from niceeval.adapter import (
    AdapterError,
    AgentContext,
    Coverage,
    InputFile,
    RetryableSendError,
    Turn,
    TurnInput,
)
from niceeval.adapters.langgraph._counting import Counter, counter
from niceeval.converters.langgraph import CallIds, Pause, Reading, Resume, resume_values

STRUCTURED: Final = "structured_response"
"""Where LangChain's agents keep their structured answer."""
MODEL: Final = "model"
EFFORT: Final = "reasoning_effort"
_BUSY: Final = frozenset({429, 503})
_KINDS: Final = ("image", "audio", "video")
_OURS: Final = ("thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map")
"""What a flag cannot set: it names where the conversation is kept."""

MakeInput = Callable[[TurnInput, AgentContext], Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a graph is run with."""

    name: str
    config: Mapping[str, Any]
    context: Any
    make_input: MakeInput | None
    messages_key: str
    resume: Resume | None
    subagents: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """One run of a graph: what it is called with, what has come of it, and what its models did."""

    arguments: Mapping[str, Any]
    reading: Reading
    seen: Any


class Conversation:
    """A thread of a graph. `made_for_it`: the graph was made for this conversation, by a function of its context."""

    def __init__(self, graph: Any, options: Options, *, made_for_it: bool) -> None:
        self._graph = graph
        self._options = options
        self._made_for_it = made_for_it
        self._thread = str(uuid.uuid4())
        self._ids = CallIds()
        self._seen: frozenset[str] = frozenset()
        self._pauses: list[Pause] = []

    async def begin(self, input: TurnInput, ctx: AgentContext) -> Running:
        """A run of the graph, which has not begun yet."""
        from langchain_core.runnables.config import merge_configs

        self._check_schema(input)
        seen = counter()
        config = merge_configs(
            typing.cast(Any, dict(self._options.config)),
            {"configurable": self._configurable(ctx), "callbacks": [seen]},
        )
        context = self._context(ctx)
        return Running(
            arguments={
                "input": self._resumed(input) if input.responses else await self._input(input, ctx),
                "config": config,
                "stream_mode": ["updates", "values"],
                "subgraphs": True,
                **({} if context is None else {"context": context}),
            },
            reading=Reading(
                before=self._seen,
                subagents=self._options.subagents,
                ids=self._ids,
                data=input.output_schema is not None,
                messages_key=self._options.messages_key,
            ),
            seen=seen,
        )

    async def run(self, running: Running) -> Exception | None:
        """Run until the graph ends or waits; returns what it raised."""
        stream = self._graph.astream(**running.arguments)
        try:
            async with contextlib.aclosing(stream):
                async for part in stream:
                    running.reading.add(part)
        except Exception as error:  # noqa: BLE001 - the graph's own code; what it raises is judged
            return error
        return None

    def run_here(self, running: Running, ctx: AgentContext) -> Exception | None:
        """The same in this thread, by what of the graph is not async."""
        stream = self._graph.stream(**running.arguments)
        try:
            with contextlib.closing(stream):
                for part in stream:
                    running.reading.add(part)
                    if ctx.cancelled.is_set():
                        break
        except Exception as error:  # noqa: BLE001 - as above
            return error
        return None

    def end(self, running: Running, error: Exception | None, input: TurnInput, ctx: AgentContext) -> Turn:
        """The turn of a run that ended. Raises what it raised, where that says nothing of the agent."""
        reading, seen = running.reading, running.seen
        if error is not None:
            self._raise_unless_its_own(error, input, reading, seen)
        ctx.session.capture(self._thread)
        self._seen = reading.seen
        self._pauses = [] if error is not None else reading.pauses
        self._say_which_model(ctx, seen)
        collected = reading.finish(error=error, usage=seen.usage(), uncounted=seen.uncounted())
        return _with_data(collected.report(ctx), input)

    def _raise_unless_its_own(self, error: Exception, input: TurnInput, reading: Reading, seen: Counter) -> None:
        """Raises what says nothing of the agent: its model was not to be had, or the graph could not begin."""
        if isinstance(error, NotImplementedError) and "async" in str(error).lower():
            raise AdapterError(
                "agent-input",
                agent=self._options.name,
                problem=f"a part of the graph runs only synchronously: {str(error)[:300]}",
                fix="langgraph_agent(graph, sync=True) runs it as graph.invoke does",
            ) from error
        of_a_model = any(cause in seen.errors for cause in _causes(error))
        nothing_done = reading.steps == 0 and not input.responses
        if of_a_model and nothing_done and not self._seen and getattr(error, "status_code", None) in _BUSY:
            # The thread has the input already: the next try gets another. A thread with a past cannot be left.
            self._thread = str(uuid.uuid4())
            raise RetryableSendError(f"{type(error).__name__}: {error}") from error
        if of_a_model or nothing_done:
            raise error

    # What the graph is given ------------------------------------------------------------------------------------

    async def _input(self, input: TurnInput, ctx: AgentContext) -> Any:
        self._pauses = []
        if self._options.make_input is not None:
            made = self._options.make_input(input, ctx)
            return await made if inspect.isawaitable(made) else made
        from langchain_core.messages import HumanMessage

        content: Any = input.text
        if input.files:
            text = [{"type": "text", "text": input.text}] if input.text else []
            content = [*text, *map(_block, input.files)]
        return {self._options.messages_key: [HumanMessage(content)]}

    def _resumed(self, input: TurnInput) -> Any:
        from langgraph.types import Command

        values, wrong = resume_values(self._pauses, input.responses, self._options.resume)
        if wrong:
            raise AdapterError(
                "agent-input", agent=self._options.name, problem=wrong[0], fix="answer all of them: t.respond_all(...)"
            )
        return Command(resume=values)

    def _check_schema(self, input: TurnInput) -> None:
        if input.output_schema is not None and STRUCTURED not in (getattr(self._graph, "channels", None) or {}):
            raise AdapterError(
                "agent-input",
                agent=self._options.name,
                problem=f"the graph's state has no {STRUCTURED!r}, so it has no place for an output schema",
                fix="give create_agent a response_format, or check t.reply",
            )

    def _configurable(self, ctx: AgentContext) -> dict[str, Any]:
        flags = {name: value for name, value in ctx.flags.items() if name not in _OURS and not name.startswith("__")}
        return {**flags, **_settings(ctx), "thread_id": self._thread}

    def _context(self, ctx: AgentContext) -> Any:
        base = self._options.context
        if inspect.isroutine(base):
            base = base(ctx)
        if base is not None and not isinstance(base, Mapping):
            return base
        wanted = _fields(getattr(self._graph, "context_schema", None))
        values = {name: value for name, value in {**ctx.flags, **_settings(ctx)}.items() if name in wanted}
        return {**(base or {}), **values} if base is not None or wanted else None

    def _say_which_model(self, ctx: AgentContext, seen: Counter) -> None:
        asked = ctx.model
        if asked is None or self._made_for_it or not seen.models:
            return
        if not any(name in asked or asked in name for name in seen.models):
            names = ", ".join(sorted(seen.models)[:5])
            ctx.diagnostic(
                "model-unused", "warning", f"the experiment's model is {asked}, and the graph asked {names} instead"
            )


def _settings(ctx: AgentContext) -> dict[str, Any]:
    given = {MODEL: ctx.model, EFFORT: ctx.reasoning_effort}
    return {name: value for name, value in given.items() if value is not None}


def _fields(schema: Any) -> frozenset[str]:
    """The names of a context's fields: of a dataclass, a typed dict, or a model."""
    names: set[str] = set()
    for cls in getattr(schema, "__mro__", ()):
        names |= set(getattr(cls, "__annotations__", {}))
    return frozenset(names)


def _block(file: InputFile) -> dict[str, Any]:
    kind = file.mime_type.partition("/")[0]
    block = {"type": kind if kind in _KINDS else "file", "base64": file.base64(), "mime_type": file.mime_type}
    return {**block, "extras": {"filename": file.filename}}


def _causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in found and len(found) < 20:
        found.append(current)
        current = current.__cause__ or current.__context__
    return found


def _with_data(turn: Turn, input: TurnInput) -> Turn:
    """Says where a structured answer was wanted and the graph is made to give none."""
    if input.output_schema is None or turn.data is not None or turn.status != "completed":
        return turn
    why = f"the graph gave no {STRUCTURED!r}: create_agent needs a response_format"
    return dataclasses.replace(
        turn, evidence_coverage={**(turn.evidence_coverage or {}), "data": Coverage.unavailable(why)}
    )
