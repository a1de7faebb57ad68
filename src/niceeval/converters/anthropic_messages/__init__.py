"""The Anthropic Messages protocol into turns.

    message = await client.messages.create(...)
    return anthropic_messages.to_turn(message)

Works on the SDK's objects and on their JSON alike; imports nothing of it. Of a tool loop that your code runs, give all
of it: `to_turn([message, {"role": "user", "content": [{"type": "tool_result", ...}]}, message])`.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Collection, Iterable, Mapping
from typing import Any, Final

from niceeval.adapter import Turn
from niceeval.converters._plain_json import parts_of
from niceeval.converters.anthropic_messages._reading import Reading, coverage
from niceeval.turn_building import Collected

__all__ = ["Reading", "collected", "collected_stream", "coverage", "situations", "to_turn", "to_turn_stream"]

situations: Final[Mapping[str, str]] = {
    "success": "tested",
    "tool failure": "tested",
    "refusal by a human": "tested",
    "parallel tools": "tested",
    "nested agent": "what one model says is all there is: an agent behind a tool is a call like any other",
    "empty answer": "tested",
    "multi-part content": "tested",
    "structured output": "tested",
    "cached and reasoning tokens": "tested",
    "error mid-stream": "tested",
}
"""What can happen -> "tested", or why the protocol does not show it."""


def collected(
    message: object,
    *,
    tool_results: Iterable[object] = (),
    rejected: Collection[str] = (),
    structured: bool = False,
) -> Collected:
    """The turn of a message, and what has to be said about it.

    `message` is a message, or everything of a tool loop in order: messages, events of streamed ones, and the user's
    messages with the results. `tool_results` are the results that followed a single message: blocks, or the user's
    message that has them. `rejected` are the ids of calls that a human refused, which the protocol has no word for.
    With `structured`, the last text is JSON, and is the turn's data. Nothing is raised: a stream that raises keeps
    what has come.
    """
    reading = Reading(rejected=rejected, structured=structured)
    try:
        for given in parts_of(message):
            reading.add(given)
            if reading.full:
                break
    except Exception as error:  # noqa: BLE001 - whatever breaks it, what has come is evidence
        return reading.broke(error)
    for given in tool_results:
        reading.add(given)
    return reading.finish()


async def collected_stream(
    events: AsyncIterable[object], *, rejected: Collection[str] = (), structured: bool = False
) -> Collected:
    """The turn of a streamed message: the SDK's raw events, those of its `.stream()`, or events as dicts. Arguments as
    for `collected`."""
    reading = Reading(rejected=rejected, structured=structured)
    try:
        async for event in events:
            reading.add(event)
            if reading.full:
                break
    except Exception as error:  # noqa: BLE001 - whatever breaks it, what has come is evidence
        return reading.broke(error)
    return reading.finish()


def to_turn(message: object, **how: Any) -> Turn:
    """The turn of a message; arguments as `collected`, whose diagnostics it leaves out."""
    return collected(message, **how).turn


async def to_turn_stream(events: AsyncIterable[object], **how: Any) -> Turn:
    """The turn of a streamed message; arguments as `collected_stream`, whose diagnostics it leaves out."""
    return (await collected_stream(events, **how)).turn
