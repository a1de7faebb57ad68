"""An agent behind A2A, driven through its adapter: the SDK is both the server and the client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from niceeval.adapter import (
    AdapterError,
    InputFile,
    InputRequested,
    InputResponse,
    Message,
    RetryableSendError,
    Turn,
)
from niceeval.adapters import a2a_agent
from tests.unit.a2a_app import URL, Noting
from tests.unit.contexts import Conversation
from tests.unit.protocol_app import in_a_loop

WAYS = pytest.mark.parametrize("way", [{}, {"streaming": False}, {"version": "0.3"}], ids=["streaming", "whole", "0.3"])


def talk(seen: list[Any] | None = None, way: dict[str, Any] | None = None, **given: Any) -> Conversation:
    agent_given = {key: given.pop(key) for key in ("headers", "metadata") if key in given}
    return Conversation(
        a2a_agent(URL, transport=Noting([] if seen is None else seen, **(way or {})), **agent_given), **given
    )


def said(turn: Turn) -> list[str]:
    return [event.text for event in turn.events if isinstance(event, Message)]


ANSWERS: dict[str, tuple[list[str], str]] = {
    "hi": (["Hello."], "completed"),
    "work": (["Looking.", "It is fine."], "completed"),
    "big": (["One two three."], "completed"),
    "data": (['{"city": "Oslo", "days": 3, "share": 0.5}'], "completed"),
    "file": ([], "completed"),
    "fail": (["No stock."], "failed"),
    "reject": (["No stock."], "failed"),
    "cancel": ([], "failed"),
    "raise": ([], "failed"),
}


@WAYS
@pytest.mark.parametrize("words", ANSWERS)
def test_answers(words: str, way: dict[str, Any]) -> None:
    """What the agent says and gives is its messages, each once, however it is sent."""

    @in_a_loop
    async def body() -> None:
        turn = await talk(way=way).send(words)
        texts, status = ANSWERS[words]
        assert turn.status == status
        # The order of what a finished task holds is not told.
        assert sorted(said(turn)) == sorted(texts)

    body()


@WAYS
def test_a_task_that_asks(way: dict[str, Any]) -> None:
    """A task that waits is answered in words, and what it said before is not said again."""

    @in_a_loop
    async def body() -> None:
        seen: list[Any] = []
        conversation = talk(seen, way)
        waiting = await conversation.send("order")
        (asked,) = [event.request for event in waiting.events if isinstance(event, InputRequested)]
        assert (waiting.status, asked.prompt, asked.options, said(waiting)) == (
            "waiting",
            "Which one?",
            None,
            ["Which one?"],
        )
        done = await conversation.respond(InputResponse(request_id=asked.id, text="the blue one"))
        assert done.status == "completed"
        assert sorted(said(done)) == ["On it.", "Ordered: the blue one"]
        after = await conversation.send("hello")
        assert said(after) == ["You said hello; True []"]
        messages = [request["body"]["params"]["message"] for request in seen]
        assert messages[1]["taskId"] == asked.id
        assert not messages[2].get("taskId"), "a task that is done is not gone on with"
        assert messages[1]["contextId"] == messages[2]["contextId"]

    body()


@in_a_loop
async def test_a_login() -> None:
    """A task that needs a login waits for it, and an answer to what does not wait is refused."""
    conversation = talk()
    waiting = await conversation.send("login")
    (asked,) = [event.request for event in waiting.events if isinstance(event, InputRequested)]
    assert (waiting.status, asked.prompt) == ("waiting", "Log in first.")
    for answers in (
        [InputResponse(request_id="another", text="x")],
        [InputResponse(request_id=asked.id, text="x"), InputResponse(request_id="another", text="x")],
    ):
        with pytest.raises(AdapterError) as error:
            await conversation.respond(*answers)
        assert error.value.code == "agent-input"


@in_a_loop
async def test_conversations_apart() -> None:
    """A conversation keeps its context, and a new one gets its own."""
    seen: list[Any] = []
    conversation = talk(seen)
    await conversation.send("hello")
    await conversation.send("hello")
    await talk(seen).send("hello")
    contexts = [request["body"]["params"]["message"].get("contextId") for request in seen]
    assert contexts[0] is None
    assert contexts[1] is not None
    assert contexts[2] is None


@in_a_loop
async def test_data() -> None:
    """Where data is asked for, JSON is, and the last data part is the turn's data with its whole numbers."""
    seen: list[Any] = []
    conversation = talk(seen)
    turn = await conversation.send("data", output_schema={"type": "object"})
    assert (turn.data, said(turn)) == ({"city": "Oslo", "days": 3, "share": 0.5}, [])
    assert isinstance(turn.data, dict)
    assert isinstance(turn.data["days"], int)
    assert seen[0]["body"]["params"]["configuration"]["acceptedOutputModes"] == ["application/json"]
    assert [code for code, _ in conversation.said] == ["input-not-passed"]


@in_a_loop
async def test_files_headers_and_metadata() -> None:
    """Files are parts of the message; headers, trace headers and metadata go with each request."""
    seen: list[Any] = []
    conversation = talk(
        seen,
        headers={"authorization": "Bearer k"},
        metadata=lambda given, ctx: {"model": ctx.model},
        model="m-1",
        telemetry_headers={"traceparent": "00-1"},
    )
    turn = await conversation.send("see", files=(InputFile(filename="a.png", mime_type="image/png", data=b"hi"),))
    assert said(turn) == ["You said see; True ['a.png image/png 2']"]
    (request,) = seen
    assert (request["headers"]["authorization"], request["headers"]["traceparent"]) == ("Bearer k", "00-1")
    assert request["body"]["params"]["metadata"] == {"model": "m-1"}
    assert conversation.said == []
    plain = talk(model="m-1", reasoning_effort="low")
    await plain.send("hello")
    assert [code for code, _ in plain.said] == ["input-not-passed", "input-not-passed"]


def refusing(answer: Callable[[httpx.Request], httpx.Response]) -> Conversation:
    return Conversation(a2a_agent(URL, transport=httpx.MockTransport(answer)))


@in_a_loop
async def test_what_was_not_accepted() -> None:
    """No connection, 429 and 503 may be sent again; any other refusal may not."""

    def unreachable(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nobody there")

    for answer, expected in (
        (unreachable, RetryableSendError),
        (lambda request: httpx.Response(503), RetryableSendError),
        (lambda request: httpx.Response(500, text="oh"), AdapterError),
        (lambda request: httpx.Response(200, text="<html>"), AdapterError),
        (lambda request: httpx.Response(200, json={"name": "x"}), AdapterError),
    ):
        with pytest.raises(expected):
            await refusing(answer).send("hello")
