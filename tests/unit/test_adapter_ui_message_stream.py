"""An app that answers with the AI SDK's UI message stream, driven through its adapter."""

from __future__ import annotations

import json
from typing import Any

import pytest

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    AdapterError,
    InputFile,
    InputRequested,
    InputResponse,
    Message,
    Thinking,
    Turn,
    derive_facts,
)
from niceeval.adapters import ui_message_stream_agent
from tests.unit.contexts import Conversation
from tests.unit.protocol_app import answering, in_a_loop, transport


def chat(seen: list[dict[str, Any]] | None = None, **given: Any) -> Conversation:
    agent_given = {key: given.pop(key) for key in ("body", "history", "headers", "reports_usage") if key in given}
    return Conversation(ui_message_stream_agent("http://app/ui", transport=transport(seen), **agent_given), **given)


def said(turn: Turn) -> list[str]:
    return [event.text for event in turn.events if isinstance(event, Message)]


@in_a_loop
async def test_the_client_carries_the_history() -> None:
    """The client carries the history and a new conversation begins without one."""
    seen: list[dict[str, Any]] = []
    conversation = chat(seen)
    first = await conversation.send("hello there")
    second = await conversation.send("and again")
    fresh = await chat(seen).send("hello")
    assert (said(first), said(second), said(fresh)) == (
        ["message 1: hello there"],
        ["message 2: and again"],
        ["message 1: hello"],
    )
    assert first.status == second.status == "completed"
    assert first.evidence_coverage is None
    roles = [[message["role"] for message in request["body"]["messages"]] for request in seen]
    assert roles == [["user"], ["user", "assistant", "user"], ["user"]]
    assert seen[0]["body"]["id"] == seen[1]["body"]["id"] != seen[2]["body"]["id"]


@in_a_loop
async def test_parallel_calls_and_reasoning() -> None:
    """Parallel calls and reasoning are seen and go back with the next message."""
    seen: list[dict[str, Any]] = []
    conversation = chat(seen)
    turn = await conversation.send("look here there")
    calls = derive_facts(turn.events).tool_calls
    assert [(call.input, call.output, call.status) for call in calls] == [
        ({"where": "here"}, "here is fine", "completed"),
        ({"where": "there"}, "there is fine", "completed"),
    ]
    assert [event.text for event in (await conversation.send("think")).events if isinstance(event, Thinking)] == [
        "Hmm, yes."
    ]
    states = [part["state"] for part in seen[1]["body"]["messages"][1]["parts"] if "toolCallId" in part]
    assert states == ["output-available", "output-available"]


@in_a_loop
async def test_failures() -> None:
    """A tool that fails and a model that breaks fail the turn with what was said."""
    boom = await chat().send("boom")
    assert (boom.status, derive_facts(boom.events).tool_calls[0].status) == ("failed", "failed")
    crash = await chat().send("crash")
    assert (crash.status, said(crash)) == ("failed", ["I was"])
    wrong = await chat().send("bad")
    assert (wrong.status, derive_facts(wrong.events).tool_calls[0].status) == ("completed", "failed")


@in_a_loop
async def test_two_approvals_at_once() -> None:
    """Two approvals at once one granted one refused with a reason."""
    seen: list[dict[str, Any]] = []
    conversation = chat(seen)
    waiting = await conversation.send("delete a b")
    asked = [event.request for event in waiting.events if isinstance(event, InputRequested)]
    assert waiting.status == "waiting"
    assert [(request.action, request.input) for request in asked] == [
        ("delete", {"path": "a"}),
        ("delete", {"path": "b"}),
    ]
    assert [option.id for option in asked[0].options or ()] == ["approve", "reject"]
    done = await conversation.respond(
        InputResponse(request_id=asked[0].id, option_id="approve"),
        InputResponse(request_id=asked[1].id, text="it is needed"),
    )
    calls = derive_facts([*waiting.events, *done.events]).tool_calls
    assert [(call.status, call.output) for call in calls] == [("completed", "a is gone"), ("rejected", None)]
    assert not [event for event in done.events if isinstance(event, ActionCalled)], "the call is of the turn before"
    assert done.status == "completed"
    assert "delete gave it is needed" in said(done)[0]
    assert [message["role"] for message in seen[1]["body"]["messages"]] == ["user", "assistant"]
    after = await conversation.send("delete c")
    request = next(event.request for event in after.events if isinstance(event, InputRequested))
    refused = await conversation.respond(InputResponse(request_id=request.id, option_id="reject"))
    assert [event.status for event in refused.events if isinstance(event, ActionResult)] == ["rejected"]


@in_a_loop
async def test_files_headers_and_extra_fields() -> None:
    """Files go as data urls and headers and extra fields with each request."""
    seen: list[dict[str, Any]] = []
    conversation = chat(
        seen,
        headers={"authorization": "Bearer k"},
        body=lambda given, ctx: {"model": ctx.model},
        model="m-1",
        telemetry_headers={"traceparent": "00-1"},
    )
    await conversation.send("see", files=(InputFile(filename="a.txt", mime_type="text/plain", data=b"hi"),))
    body, headers = seen[0]["body"], seen[0]["headers"]
    assert body["messages"][0]["parts"][0]["url"] == "data:text/plain;base64,aGk="
    assert (body["model"], headers["authorization"], headers["traceparent"]) == ("m-1", "Bearer k", "00-1")
    assert conversation.said == []


@in_a_loop
async def test_what_has_no_place() -> None:
    """What has no place in the protocol is refused or said."""
    conversation = chat(model="m-1", reasoning_effort="high")
    await conversation.send("hello")
    assert [code for code, _ in conversation.said] == ["input-not-passed", "input-not-passed"]
    for refused in (
        conversation.send("hello", output_schema={"type": "object"}),
        conversation.respond(InputResponse(request_id="x", option_id="approve")),
    ):
        with pytest.raises(AdapterError) as error:
            await refused
        assert error.value.code == "agent-input"


@in_a_loop
async def test_history_on_the_server() -> None:
    """A server that keeps the history is sent only the newest message."""
    seen: list[dict[str, Any]] = []
    conversation = chat(seen, history="server")
    await conversation.send("one")
    await conversation.send("two")
    assert [message["parts"][0]["text"] for message in seen[1]["body"]["messages"]] == ["two"]


def stream(*frames: dict[str, Any], done: bool = True) -> str:
    lines = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames)
    return lines + ("data: [DONE]\n\n" if done else "")


@in_a_loop
async def test_a_cut_stream() -> None:
    """A stream that is cut is a failed turn that claims nothing."""
    cut = stream({"type": "start"}, {"type": "text-start", "id": "0"}, done=False) + 'data: {"type": "text-del'
    agent = ui_message_stream_agent("http://app/ui", transport=answering(cut))
    turn = await Conversation(agent).send("hello")
    assert turn.status == "failed"
    assert turn.evidence_coverage is not None
    assert {channel: found.level for channel, found in turn.evidence_coverage.items()} == dict.fromkeys(
        ("events", "actions", "messages", "usage", "status"), "partial"
    )


@in_a_loop
async def test_reported_usage() -> None:
    """Usage that the app reports counts where the agent says so."""
    frames = stream(
        {"type": "start"}, {"type": "finish", "messageMetadata": {"totalUsage": {"inputTokens": 9, "outputTokens": 2}}}
    )
    agent = ui_message_stream_agent("http://app/ui", transport=answering(frames), reports_usage=True)
    assert agent.evidence_coverage["usage"].level == "complete"
    turn = await Conversation(agent).send("hello")
    assert turn.usage is not None
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (9, 2)


@in_a_loop
async def test_no_stream() -> None:
    """An answer that is no stream is an error that says so."""
    agent = ui_message_stream_agent("http://app/ui", transport=answering("{}", kind="application/json"))
    with pytest.raises(AdapterError, match="application/json"):
        await Conversation(agent).send("hello")
