"""The vendors' own clients over a transport that answers from a script: real parsing, no server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


def transport(*bodies: Any) -> Any:
    """A transport of both kinds that gives these answers in turn: JSON, or the text of a stream."""
    import httpx2

    left = list(bodies)

    def answer(request: Any) -> Any:
        body = left.pop(0)
        if isinstance(body, str):
            return httpx2.Response(200, text=body, headers={"content-type": "text/event-stream"})
        return httpx2.Response(200, json=body)

    return httpx2.MockTransport(answer)


def openai_client(*bodies: Any) -> Any:
    import httpx2
    from openai import OpenAI

    client = httpx2.Client(transport=transport(*bodies))
    return OpenAI(api_key="x", base_url="http://x/v1", max_retries=0, http_client=client)


def async_openai_client(*bodies: Any) -> Any:
    import httpx2
    from openai import AsyncOpenAI

    client = httpx2.AsyncClient(transport=transport(*bodies))
    return AsyncOpenAI(api_key="x", base_url="http://x/v1", max_retries=0, http_client=client)


def anthropic_client(*bodies: Any) -> Any:
    import httpx2
    from anthropic import Anthropic

    client = httpx2.Client(transport=transport(*bodies))
    return Anthropic(api_key="x", base_url="http://x", max_retries=0, http_client=client)


def async_anthropic_client(*bodies: Any) -> Any:
    import httpx2
    from anthropic import AsyncAnthropic

    client = httpx2.AsyncClient(transport=transport(*bodies))
    return AsyncAnthropic(api_key="x", base_url="http://x", max_retries=0, http_client=client)


def data_frames(frames: Iterable[Any], done: bool = False) -> str:
    """The text of a stream whose frames are data only."""
    text = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames)
    return text + "data: [DONE]\n\n" if done else text


def typed_frames(frames: Iterable[dict[str, Any]]) -> str:
    """The text of a stream whose frames name their type."""
    return "".join(f"event: {frame['type']}\ndata: {json.dumps(frame)}\n\n" for frame in frames)


async def later(items: Iterable[Any], error: Exception | None = None) -> AsyncIterator[Any]:
    """The items as they would arrive; then the error, if there is one."""
    for item in items:
        yield item
    if error is not None:
        raise error


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine comes to that never waits: without a loop of its own, which costs more than the work."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise AssertionError("it waits")
