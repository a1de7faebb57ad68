"""The OpenAI Chat Completions protocol into turns, of whichever server speaks it.

    completion = await client.chat.completions.create(...)
    return openai_chat.to_turn(completion)

Works on the SDK's objects and on their JSON alike; imports nothing of it. Of a tool loop that your code runs, give all
of it: `to_turn([completion, {"role": "tool", ...}, completion])`, or the first answer and its `tool_results`.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Collection, Iterable, Mapping
from typing import Any, Final

from niceeval.adapter import Turn
from niceeval.converters._plain_json import parts_of
from niceeval.converters.openai_chat._reading import Reading, coverage
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
    answer: object,
    *,
    tool_results: Iterable[object] = (),
    failed: Collection[str] | None = None,
    rejected: Collection[str] = (),
    structured: bool = False,
) -> Collected:
    """The turn of an answer, and what has to be said about it.

    `answer` is a completion, or everything of a tool loop in order: completions, chunks of streamed ones, and the
    messages that your code sent between them. `tool_results` are the tool messages that followed a single completion.
    A tool message has no status: `failed` and `rejected` are the ids of calls that went wrong and that a human refused;
    without `failed`, a result counts as completed and the turn says that nobody said so. With `structured`, the last
    answer is JSON, and is the turn's data. Nothing is raised: a stream that raises keeps what has come.
    """
    reading = Reading(failed=failed, rejected=rejected, structured=structured)
    try:
        for given in parts_of(answer):
            reading.add(given)
            if reading.full:
                break
    except Exception as error:  # noqa: BLE001 - whatever breaks it, what has come is evidence
        return reading.broke(error)
    for given in tool_results:
        reading.add(given)
    return reading.finish()


async def collected_stream(
    chunks: AsyncIterable[object],
    *,
    failed: Collection[str] | None = None,
    rejected: Collection[str] = (),
    structured: bool = False,
) -> Collected:
    """The turn of a streamed answer: the SDK's chunks, the events of its `.stream()`, or chunks as dicts. The usage is
    only there where it was asked for: `stream_options={"include_usage": True}`. Arguments as for `collected`."""
    reading = Reading(failed=failed, rejected=rejected, structured=structured)
    try:
        async for chunk in chunks:
            reading.add(chunk)
            if reading.full:
                break
    except Exception as error:  # noqa: BLE001 - whatever breaks it, what has come is evidence
        return reading.broke(error)
    return reading.finish()


def to_turn(answer: object, **how: Any) -> Turn:
    """The turn of an answer; arguments as `collected`, whose diagnostics it leaves out."""
    return collected(answer, **how).turn


async def to_turn_stream(chunks: AsyncIterable[object], **how: Any) -> Turn:
    """The turn of a streamed answer; arguments as `collected_stream`, whose diagnostics it leaves out."""
    return (await collected_stream(chunks, **how)).turn
