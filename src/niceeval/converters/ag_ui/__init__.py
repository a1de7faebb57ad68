"""AG-UI's events into a turn: of version 1.0, and what was called otherwise before it.

    turn = ag_ui.to_turn([{"type": "RUN_STARTED", ...}, ..., {"type": "RUN_FINISHED", ...}])

An event is an object, or its JSON text: the data of one server-sent event. https://docs.ag-ui.com/concepts/events
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Collection, Iterable, Mapping
from typing import Any, Final

from niceeval.adapter import Turn
from niceeval.converters.ag_ui._reading import OPTIONS, Reading, asks_for_approval, coverage
from niceeval.turn_building import Collected

__all__ = [
    "OPTIONS",
    "Reading",
    "asks_for_approval",
    "collected",
    "collected_stream",
    "coverage",
    "situations",
    "to_turn",
    "to_turn_stream",
]

situations: Final[Mapping[str, str]] = {
    "success": "tested",
    "tool failure": "a result has no status; told only where a snapshot of the messages, or Pydantic AI, says it",
    "refusal by a human": "tested",
    "parallel tools": "tested",
    "nested agent": "tested",
    "empty answer": "tested",
    "multi-part content": "tested",
    "structured output": "the protocol has no place for an output schema",
    "cached and reasoning tokens": "tested",
    "error mid-stream": "tested",
}


def collected(
    events: Iterable[str | Mapping[str, Any]],
    *,
    open_calls: Collection[str] = (),
    refused: Collection[str] = (),
    known_messages: Collection[str] = (),
) -> Collected:
    """The turn of a whole stream, with what has to be said about it; the arguments are those of `Reading`."""
    reading = Reading(open_calls=open_calls, refused=refused, known_messages=known_messages)
    for event in events:
        reading.add(event)
    return reading.finish()


async def collected_stream(
    events: AsyncIterable[str | Mapping[str, Any]],
    *,
    open_calls: Collection[str] = (),
    refused: Collection[str] = (),
    known_messages: Collection[str] = (),
) -> Collected:
    """The turn of a stream that is still coming. One that raises keeps what has come, and is partial."""
    reading = Reading(open_calls=open_calls, refused=refused, known_messages=known_messages)
    try:
        async for event in events:
            reading.add(event)
            if reading.full:
                break
    except Exception as error:  # noqa: BLE001 - whatever breaks it, what has come is evidence
        return reading.finish(f"the stream broke: {type(error).__name__}: {str(error)[:500]}")
    return reading.finish()


def to_turn(
    events: Iterable[str | Mapping[str, Any]],
    *,
    open_calls: Collection[str] = (),
    refused: Collection[str] = (),
    known_messages: Collection[str] = (),
) -> Turn:
    """The turn of a whole stream; the arguments are those of `Reading`."""
    return collected(events, open_calls=open_calls, refused=refused, known_messages=known_messages).turn


async def to_turn_stream(
    events: AsyncIterable[str | Mapping[str, Any]],
    *,
    open_calls: Collection[str] = (),
    refused: Collection[str] = (),
    known_messages: Collection[str] = (),
) -> Turn:
    """The turn of a stream that is still coming; the arguments are those of `Reading`."""
    done = await collected_stream(events, open_calls=open_calls, refused=refused, known_messages=known_messages)
    return done.turn
