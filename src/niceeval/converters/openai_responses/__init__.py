"""The OpenAI Responses protocol into turns, of whichever server speaks it.

    response = await client.responses.create(...)
    return openai_responses.to_turn(response)

Works on the SDK's objects and on their JSON alike; imports nothing of it. Of a tool loop that your code runs, give all
of it: `to_turn([response, {"type": "function_call_output", ...}, response])`.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Collection, Iterable, Mapping
from typing import Any, Final

from niceeval.adapter import Turn
from niceeval.converters._plain_json import parts_of
from niceeval.converters.openai_responses._items import APPROVE, REJECT
from niceeval.converters.openai_responses._reading import Reading, coverage
from niceeval.turn_building import Collected

__all__ = [
    "APPROVE",
    "REJECT",
    "Reading",
    "collected",
    "collected_stream",
    "coverage",
    "situations",
    "to_turn",
    "to_turn_stream",
]

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
    response: object,
    *,
    tool_results: Iterable[object] = (),
    failed: Collection[str] | None = None,
    rejected: Collection[str] = (),
    structured: bool = False,
) -> Collected:
    """The turn of a response, and what has to be said about it.

    `response` is a response, or everything of a tool loop in order: responses, events of streamed ones, and the items
    that your code sent between them: outputs of functions, answers to requests for approval. `tool_results` are the
    outputs that followed a single response. A function's output has no status: `failed` and `rejected` are the call ids
    of those that went wrong and that a human refused; without `failed`, an output counts as completed and the turn says
    that nobody said so. With `structured`, the last message is JSON, and is the turn's data. Nothing is raised: a
    stream that raises keeps what has come.
    """
    reading = Reading(failed=failed, rejected=rejected, structured=structured)
    try:
        for given in parts_of(response):
            reading.add(given)
            if reading.full:
                break
    except Exception as error:  # noqa: BLE001 - whatever breaks it, what has come is evidence
        return reading.broke(error)
    for given in tool_results:
        reading.add(given)
    return reading.finish()


async def collected_stream(
    events: AsyncIterable[object],
    *,
    failed: Collection[str] | None = None,
    rejected: Collection[str] = (),
    structured: bool = False,
) -> Collected:
    """The turn of a streamed response: the SDK's events, those of its `.stream()`, or events as dicts. Arguments as for
    `collected`."""
    reading = Reading(failed=failed, rejected=rejected, structured=structured)
    try:
        async for event in events:
            reading.add(event)
            if reading.full:
                break
    except Exception as error:  # noqa: BLE001 - whatever breaks it, what has come is evidence
        return reading.broke(error)
    return reading.finish()


def to_turn(response: object, **how: Any) -> Turn:
    """The turn of a response; arguments as `collected`, whose diagnostics it leaves out."""
    return collected(response, **how).turn


async def to_turn_stream(events: AsyncIterable[object], **how: Any) -> Turn:
    """The turn of a streamed response; arguments as `collected_stream`, whose diagnostics it leaves out."""
    return (await collected_stream(events, **how)).turn
