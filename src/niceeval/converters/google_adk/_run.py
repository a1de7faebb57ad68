"""A run's events, as a turn."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Collection, Iterable, Mapping
from typing import Any, Final

from niceeval.adapter import Coverage, EvidenceCoverage, InputRequest, Turn
from niceeval.converters._attributes import field, items, text_field
from niceeval.converters._call_ids import CallIds
from niceeval.converters.google_adk._events import EventReader
from niceeval.turn_building import FROM_EVENTS, Collected, SeenIds, TurnBuilder

coverage: Final = EvidenceCoverage.complete_except(
    usage=Coverage.partial("a model that is called in a tool counts its tokens elsewhere"),
)
"""A run's events are all that its agents did; a turn says where they may not be."""

situations: Final[Mapping[str, str]] = {
    "success": "tested",
    "tool failure": "tested",
    "refusal by a human": "tested",
    "parallel tools": "tested",
    "nested agent": "tested",
    "empty answer": "tested",
    "multi-part content": "tested",
    "structured output": "tested",
    "cached and reasoning tokens": "tested",
    "error mid-stream": "tested",
}
"""What can happen in a run -> "tested", or why the framework does not show it."""

_INNER: Final = "an agent that a tool ran is not in the events: say with subagents= which tools run one, or {} for none"


def to_turn(events: Iterable[object], **how: Any) -> Turn:
    """The turn of a run's events; arguments as `collected`, whose diagnostics it leaves out."""
    return collected(events, **how).turn


def collected(events: Iterable[object], *, error: BaseException | None = None, **how: Any) -> Collected:
    """The turn of all events that `runner.run_async(...)` gave, and what has to be said about it.

    `error` is what it raised: what came before makes a failed turn. Further arguments as for `Reading`.
    """
    reading = Reading(**how)
    for event in events:
        reading.add(event)
    return reading.finish(error=error)


async def to_turn_stream(events: AsyncIterable[object], **how: Any) -> Turn:
    """The turn of `runner.run_async(...)`; arguments as `collected`, without its diagnostics."""
    return (await collected_stream(events, **how)).turn


async def collected_stream(events: AsyncIterable[object], **how: Any) -> Collected:
    """The turn of a run's events as they come; further arguments as for `Reading`. One that raises keeps what came."""
    reading = Reading(**how)
    try:
        async for event in events:
            reading.add(event)
    except Exception as error:  # noqa: BLE001 - whatever ended the run, what arrived before is evidence
        return reading.finish(error=error)
    return reading.finish()


class Reading:
    """Reads a run as it comes: `add` each event, then `finish`.

    `subagents` maps tools that run another agent (`AgentTool`) to that agent's name; None where it is not known whether
    any does. `output_key` is where the agent puts its structured answer in the state; `text_is_data` says that it has
    an `output_schema`, so that its last text is one. `rejected` are ids of calls that a human refused, for tools that
    say so in words of their own. `ids` are a conversation's, so that a call id that comes again is told apart.
    """

    def __init__(
        self,
        *,
        subagents: Mapping[str, str] | None = None,
        output_key: str | None = None,
        text_is_data: bool = False,
        rejected: Collection[str] = (),
        ids: CallIds | None = None,
        data: bool = True,
    ) -> None:
        self._builder = TurnBuilder(coverage)
        self._reader = EventReader(self._builder, ids or CallIds(), subagents or {}, rejected)
        self._subagents = subagents
        self._output_key = output_key
        self._text_is_data = text_is_data
        self._wants_data = data
        self._seen = SeenIds()
        self._pieces: list[str] = []
        self.answers = 0

    @property
    def requests(self) -> dict[str, InputRequest]:
        """What the run waits for, by id; whole when it has ended."""
        return self._reader.requests

    @property
    def open_calls(self) -> list[str]:
        """The ids of the calls that have no result."""
        return self._reader.open_calls

    def add(self, event: object) -> None:
        """One event. Those that are `partial` are pieces of the one that follows them."""
        if field(event, "partial") is True:
            parts = items(field(field(event, "content"), "parts"))
            self._pieces += [text_field(part, "text") or "" for part in parts if field(part, "thought") is not True]
            return
        if self._seen.first(text_field(event, "id")):
            self._pieces.clear()
            self.answers += text_field(field(event, "content"), "role") == "model"
            self._reader.read(event)

    def finish(self, *, error: BaseException | None = None) -> Collected:
        """The turn. `error` is what ended the run, where it raised."""
        builder, reader = self._builder, self._reader
        if self._pieces:
            builder.message("".join(self._pieces))
            builder.incomplete("an answer of the model did not come whole")
        failed = error is not None or reader.error is not None
        reader.finish(failed=failed)
        if reader.calls_subagents:
            names = ", ".join(sorted(set((self._subagents or {}).values())))
            builder.incomplete(f"what these did inside is not in the events: {names}", ("events", "actions", "usage"))
        elif reader.tools_ran and self._subagents is None:
            builder.incomplete(_INNER, ("events", "actions"))
        if not failed and not reader.requests:
            self._data()
        self._status(error)
        return builder.build()

    def _data(self) -> None:
        if not self._wants_data:
            return
        reader = self._reader
        if reader.answered is not None:
            self._builder.data(reader.answered)
        elif self._output_key is not None and self._output_key in reader.state:
            self._builder.data(reader.state[self._output_key])
        elif self._text_is_data and reader.last_text is not None:
            try:
                self._builder.data(json.loads(reader.last_text))
            except (ValueError, RecursionError):
                self._builder.diagnostic("answer-not-json", "the agent has a schema, and its last text is no JSON")

    def _status(self, error: BaseException | None) -> None:
        if error is None:
            if self._reader.error is not None:
                self._builder.failed(self._reader.error)
            return
        why = f"the run ended with {type(error).__name__}"
        if self._reader.open_calls:
            self._builder.incomplete(f"{why} while tools ran", ("events", "actions"))
        self._builder.incomplete(f"{why}: what its last step did is not shown", (*FROM_EVENTS, "usage"))
        self._builder.failed(f"{type(error).__name__}: {error}")
