"""A run's events as they come, as a turn."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any

from niceeval.adapter import Turn
from niceeval.converters._attributes import field, text_field
from niceeval.converters._call_ids import CallIds
from niceeval.converters.openai_agents._items import ItemReader
from niceeval.converters.openai_agents._run import collected, coverage
from niceeval.turn_building import Collected, TurnBuilder


async def to_turn_stream(streamed: object, **how: Any) -> Turn:
    """The turn of `Runner.run_streamed(...)`; arguments as `collected_stream`, without its diagnostics."""
    return (await collected_stream(streamed, **how)).turn


async def collected_stream(streamed: object, **how: Any) -> Collected:
    """The turn of a streamed run, and what has to be said about it; further arguments as `collected`.

    `streamed` is what `Runner.run_streamed` gives: when its events are over it has the whole run. Events alone, without
    it, have no end: what arrived makes a failed turn in which nothing is complete, as does a stream that raises.
    """
    stream_events = getattr(streamed, "stream_events", None)
    events: AsyncIterable[object] = stream_events() if callable(stream_events) else streamed  # type: ignore[assignment]
    arrived = _Arrived(how)
    try:
        async for event in events:
            arrived.take(event)
    except Exception as error:  # noqa: BLE001 - whatever ended the stream, what arrived before is evidence
        return arrived.cut(f"{type(error).__name__}: {error}", said=True)
    if not callable(stream_events) or field(streamed, "is_complete") is False:
        return arrived.cut("the stream ended before the run did", said=False)
    return collected(streamed, **how)


class _Arrived:
    """What has come of a run that may never end. The conversation's ids are only touched when it is cut."""

    def __init__(self, how: dict[str, Any]) -> None:
        self._builder = TurnBuilder(coverage)
        given: CallIds | None = how.get("ids")
        self._ids = given
        self._own = CallIds() if given is None else given.copy()
        self._reader = ItemReader(self._builder, self._own, how.get("failed", ()), how.get("rejected", ()))
        self._text: list[str] = []

    def take(self, event: object) -> None:
        kind = text_field(event, "type") or "an event without a type"
        if kind == "run_item_stream_event":
            item = field(event, "item")
            if text_field(item, "type") == "message_output_item":
                self._text.clear()
            self._reader.item(item)
        elif kind == "raw_response_event":
            self._raw(field(event, "data"))
        elif kind != "agent_updated_stream_event":
            self._builder.unknown(kind)

    def cut(self, why: str, *, said: bool) -> Collected:
        """What arrived, as a failed turn."""
        self._builder.message("".join(self._text))
        self._builder.incomplete("the stream was cut")
        self._reader.ended(None, False)
        self._builder.failed(why, said=said)
        if self._ids is not None:
            self._ids.restore(self._own)
        return self._builder.build()

    def _raw(self, data: object) -> None:
        # The same text comes again, whole, as an item: only what no item has yet is kept.
        if text_field(data, "type") == "response.output_text.delta":
            self._text.append(text_field(data, "delta") or "")
