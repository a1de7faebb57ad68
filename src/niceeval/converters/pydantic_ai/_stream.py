"""A run's events as they come, as a turn."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any, Final

from niceeval.adapter import Turn
from niceeval.converters._attributes import count_field, field, text_field
from niceeval.converters._call_ids import CallIds
from niceeval.converters.pydantic_ai._names import DEFAULT_OUTPUT_TOOL
from niceeval.converters.pydantic_ai._parts import PartReader
from niceeval.converters.pydantic_ai._run import collected, coverage
from niceeval.turn_building import Collected, TurnBuilder

_WHOLE_PARTS: Final = frozenset({"compaction", "file", "speech", "builtin-tool-call", "builtin-tool-return"})
"""Parts that are taken when they end; texts are taken as they come, and calls when they are made."""
_NO_EVENT: Final = frozenset(
    {
        "final_result",
        "output_tool_call",
        "enqueued_messages",
        "tool_availability_delta",
        "capability_load_delta",
        "model_settings_delta",
        "deferred_tool_requests",
        "deferred_tool_results",
    }
)


async def to_turn_stream(events: AsyncIterable[object], **how: Any) -> Turn:
    """The turn of `agent.run_stream_events(...)`; arguments as `collected_stream`, without its diagnostics."""
    return (await collected_stream(events, **how)).turn


async def collected_stream(events: AsyncIterable[object], **how: Any) -> Collected:
    """The turn of a run's events, and what has to be said about it; further arguments as `collected`.

    The last event has the whole result, and is what counts. A stream that raises or ends without it makes a failed
    turn of what arrived, in which nothing is complete.
    """
    ids: CallIds = how.setdefault("ids", CallIds())
    arrived = _Arrived(how, ids)
    try:
        async for event in events:
            if text_field(event, "event_kind") == "agent_run_result":
                # What was read so far must not count as calls of an earlier turn.
                arrived.forget()
                return collected(field(event, "result"), **how)
            arrived.take(event)
    except Exception as error:  # noqa: BLE001 - whatever ended the stream, what arrived before is evidence
        return arrived.cut(f"{type(error).__name__}: {error}", said=True)
    return arrived.cut("the stream ended before the run did", said=False)


class _Arrived:
    """What has come of a run that may never end."""

    def __init__(self, how: dict[str, Any], ids: CallIds) -> None:
        self._builder = TurnBuilder(coverage)
        self._ids = ids
        self._before = ids.copy()
        names = frozenset({DEFAULT_OUTPUT_TOOL, *how.get("output_tools_named", ())})
        self._reader = PartReader(self._builder, ids, names, how.get("subagents") or {})
        self._response = 0

    def take(self, event: object) -> None:
        kind = text_field(event, "event_kind") or "an event without a kind"
        if kind == "part_start":
            self._start(event)
        elif kind == "part_delta":
            self._delta(field(event, "delta"), "content_delta")
        elif kind == "part_end":
            self._end(field(event, "part"))
        elif kind == "function_tool_call":
            self._reader.call(field(event, "part"))
        elif kind in ("function_tool_result", "output_tool_result"):
            part = field(event, "part")
            self._reader.result(field(event, "result") if part is None else part)
        elif kind not in _NO_EVENT:
            self._builder.unknown(kind)

    def forget(self) -> None:
        """The calls that were read are read again."""
        self._ids.restore(self._before)

    def cut(self, why: str, *, said: bool) -> Collected:
        """What arrived, as a failed turn."""
        self._builder.incomplete("the stream was cut")
        self._builder.failed(why, said=said)
        return self._builder.build()

    def _start(self, event: object) -> None:
        if count_field(event, "index") == 0:
            self._response += 1
        part = field(event, "part")
        self._piece(text_field(part, "part_kind"), text_field(part, "content"))

    def _delta(self, delta: object, name: str) -> None:
        self._piece(text_field(delta, "part_delta_kind"), text_field(delta, name))

    def _piece(self, kind: str | None, text: str | None) -> None:
        if kind == "text":
            self._builder.text_delta(text or "", key=str(self._response))
        elif kind == "thinking":
            self._builder.text_delta(text or "", kind="thinking", key=str(self._response))

    def _end(self, part: object) -> None:
        if text_field(part, "part_kind") in _WHOLE_PARTS:
            self._reader.part(part)
