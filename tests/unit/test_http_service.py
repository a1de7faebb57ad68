"""Asking a service over HTTP: what is sent again, what is an error, and what a broken stream leaves."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

httpx2: Any = pytest.importorskip("httpx2", reason="pip install 'niceeval[http]'")

from niceeval.adapter import AdapterError, AgentContext, RetryableSendError  # noqa: E402
from niceeval.http_service import HttpService  # noqa: E402
from tests.unit.contexts import context  # noqa: E402


class Broken(httpx2.AsyncByteStream):
    """A body that ends in the middle."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"data: one\n\ndata: tw"
        raise httpx2.ReadError("reset by peer")


def service(answer: Callable[[Any], Any], **options: Any) -> HttpService:
    return HttpService("http://service.test/turn", name="desk", transport=httpx2.MockTransport(answer), **options)


async def events_of(one: HttpService, ctx: AgentContext) -> tuple[list[str], str | None]:
    async with one.post({"text": "hi"}, ctx) as answer:
        events = [event.data async for event in answer.events()]
        return events, answer.cut


def test_what_is_sent() -> None:
    """The request is JSON, with the adapter's headers and the attempt's trace headers."""
    seen: list[Any] = []

    def answer(request: Any) -> Any:
        seen.append(request)
        return httpx2.Response(200, json={"ok": True})

    async def body() -> Any:
        one = service(answer, headers={"authorization": "Bearer k"})
        async with one.post({"text": "hi"}, context(telemetry_headers={"traceparent": "00-1"})) as answered:
            return answered.status, await answered.json()

    assert asyncio.run(body()) == (200, {"ok": True})
    (request,) = seen
    assert (request.method, request.content) == ("POST", b'{"text":"hi"}')
    assert (request.headers["authorization"], request.headers["traceparent"]) == ("Bearer k", "00-1")


@pytest.mark.parametrize(("status", "waits"), [(429, 7.0), (503, 7.0)])
def test_what_was_not_accepted_may_be_sent_again(status: int, waits: float) -> None:
    """A server that says it is too busy took nothing, and says how long to wait."""
    one = service(lambda _: httpx2.Response(status, text="busy", headers={"retry-after": "7"}))
    with pytest.raises(RetryableSendError, match=f"it answered {status}: busy") as caught:
        asyncio.run(events_of(one, context()))
    assert caught.value.retry_after == waits


def test_a_refused_connection_may_be_sent_again() -> None:
    """Nobody listens: the input certainly did not arrive."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        one = HttpService(f"http://127.0.0.1:{taken.getsockname()[1]}/turn", name="desk")
        with pytest.raises(RetryableSendError, match="no connection"):
            asyncio.run(events_of(one, context()))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda _: httpx2.Response(401, text="who are you?"), "it answered 401: who are you?"),
        (lambda _: httpx2.Response(500), "it answered 500: nothing more"),
        (lambda _: httpx2.Response(302, headers={"location": "http://elsewhere.test"}), "it answered 302"),
    ],
)
def test_another_refusal_is_an_error_with_what_was_said(answer: Callable[[Any], Any], said: str) -> None:
    """It names the service, the status and the beginning of the body, and not the key."""
    one = service(answer, headers={"authorization": "Bearer secret-key"})
    with pytest.raises(Exception, match=said) as caught:
        asyncio.run(events_of(one, context()))
    assert getattr(caught.value, "code", "") == "service-failed"
    assert "secret-key" not in str(caught.value)


@pytest.mark.parametrize(("text", "said"), [("<html>", "what is no JSON: <html>"), ("[" * 200_000, "what is no JSON")])
def test_a_body_that_is_no_json_is_an_error(text: str, said: str) -> None:
    """The error shows the beginning of what came."""

    async def body() -> None:
        async with service(lambda _: httpx2.Response(200, text=text)).post({}, context()) as answered:
            await answered.json()

    with pytest.raises(Exception, match=said) as caught:
        asyncio.run(body())
    assert len(str(caught.value)) < 800


def test_a_stream_that_breaks_keeps_what_arrived_and_says_so() -> None:
    """The events before the break are given; `cut` has the reason."""
    one = service(lambda _: httpx2.Response(200, stream=Broken()))
    events, cut = asyncio.run(events_of(one, context()))
    assert events == ["one"]
    assert cut == "the connection broke: ReadError: reset by peer"


@pytest.mark.parametrize(
    ("text", "events", "cut"),
    [("data: one\n\n", ["one"], None), ("data: one\n\ndata: tw", ["one"], "the stream ended within an event")],
)
def test_a_stream_that_ends_early_says_so(text: str, events: list[str], cut: str | None) -> None:
    """An event without its blank line never counts as one."""
    assert asyncio.run(events_of(service(lambda _: httpx2.Response(200, text=text)), context())) == (events, cut)


@pytest.mark.parametrize(("kind", "streams"), [("text/event-stream; charset=utf-8", True), ("text/html", False)])
def test_an_answer_that_is_no_stream_is_told_from_one(kind: str, streams: bool) -> None:
    """A page of a proxy is an error, and not a turn in which nothing happened."""

    async def body() -> str | None:
        one = service(lambda _: httpx2.Response(200, text="x", headers={"content-type": kind}))
        async with one.post({}, context()) as answer:
            assert answer.streams_events is streams
            try:
                answer.require_events()
            except AdapterError as error:
                return error.message()
        return None

    said = None if streams else "desk: it answered with text/html, not with text/event-stream"
    assert asyncio.run(body()) == said
