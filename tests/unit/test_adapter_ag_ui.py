"""A service that speaks AG-UI, driven through its adapter."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from niceeval.adapter import (
    ActionCalled,
    AdapterError,
    InputFile,
    InputRequested,
    InputResponse,
    Message,
    Thinking,
    Turn,
    derive_facts,
)
from niceeval.adapters import ag_ui_agent
from niceeval.adapters.ag_ui._json_patch import PatchError, patched
from niceeval.adapters.ag_ui._thread import Fold
from tests.unit.contexts import Conversation
from tests.unit.protocol_app import answering, in_a_loop, transport


def thread(seen: list[dict[str, Any]] | None = None, **given: Any) -> Conversation:
    names = ("forwarded_props", "headers", "context")
    agent_given = {key: given.pop(key) for key in names if key in given}
    return Conversation(ag_ui_agent("http://app/ag-ui", transport=transport(seen), **agent_given), **given)


def said(turn: Turn) -> list[str]:
    return [event.text for event in turn.events if isinstance(event, Message)]


@in_a_loop
async def test_the_client_carries_the_messages() -> None:
    """The client carries the messages, and a new conversation begins a new thread without any."""
    seen: list[dict[str, Any]] = []
    conversation = thread(seen)
    first = await conversation.send("hello there")
    second = await conversation.send("and again")
    fresh = await thread(seen).send("hello")
    assert (said(first), said(second), said(fresh)) == (
        ["message 1: hello there"],
        ["message 2: and again"],
        ["message 1: hello"],
    )
    assert (first.status, first.evidence_coverage) == ("completed", None)
    bodies = [request["body"] for request in seen]
    assert [[message["role"] for message in body["messages"]] for body in bodies] == [
        ["user"],
        ["user", "assistant", "user"],
        ["user"],
    ]
    assert bodies[0]["threadId"] == bodies[1]["threadId"] != bodies[2]["threadId"]
    assert bodies[0]["runId"] != bodies[1]["runId"]


@in_a_loop
async def test_parallel_calls_and_reasoning() -> None:
    """Parallel calls with their results are seen, and go back with the next message."""
    seen: list[dict[str, Any]] = []
    conversation = thread(seen)
    turn = await conversation.send("look here there")
    assert [(call.input, call.output, call.status) for call in derive_facts(turn.events).tool_calls] == [
        ({"where": "here"}, "here is fine", "completed"),
        ({"where": "there"}, "there is fine", "completed"),
    ]
    thinking = await conversation.send("think")
    assert [event.text for event in thinking.events if isinstance(event, Thinking)] == ["Hmm, yes."]
    messages = seen[1]["body"]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert json.loads(messages[1]["toolCalls"][0]["function"]["arguments"]) == {"where": "here"}


@in_a_loop
async def test_failures() -> None:
    """A tool that breaks the run, a model that breaks, and a call with a wrong input are told apart."""
    boom = await thread().send("boom")
    assert (boom.status, derive_facts(boom.events).tool_calls[0].status) == ("failed", "failed")
    crash = await thread().send("crash")
    assert (crash.status, said(crash)) == ("failed", ["I was"])
    wrong = await thread().send("bad")
    assert (wrong.status, derive_facts(wrong.events).tool_calls[0].status) == ("completed", "failed")


@in_a_loop
async def test_two_approvals_at_once() -> None:
    """Of two interrupts one is approved and one refused with a reason, and the next turn is an ordinary one."""
    seen: list[dict[str, Any]] = []
    conversation = thread(seen)
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
    assert [(call.status, call.output) for call in calls] == [
        ("completed", "a is gone"),
        ("rejected", "it is needed"),
    ]
    assert not [event for event in done.events if isinstance(event, ActionCalled)]
    assert done.status == "completed"
    payloads = [entry["payload"] for entry in seen[1]["body"]["resume"]]
    assert payloads == [{"approved": True}, {"approved": False, "reason": "it is needed"}]
    after = await conversation.send("hello")
    assert (said(after), "resume" in seen[2]["body"]) == (["message 2: hello"], False)


@in_a_loop
async def test_files_headers_and_forwarded_props() -> None:
    """Files are parts of the message; headers, context and forwarded props go with each run."""
    seen: list[dict[str, Any]] = []
    conversation = thread(
        seen,
        headers={"authorization": "Bearer k"},
        forwarded_props=lambda given, ctx: {"model": ctx.model},
        context=[{"description": "where", "value": "here"}],
        model="m-1",
        telemetry_headers={"traceparent": "00-1"},
    )
    file = InputFile(filename="a.png", mime_type="image/png", data=b"hi")
    assert (await conversation.send("see", files=(file,))).status == "completed"
    body, headers = seen[0]["body"], seen[0]["headers"]
    image = body["messages"][0]["content"][1]
    assert (image["type"], image["source"]["value"]) == ("image", "aGk=")
    assert (body["forwardedProps"], body["context"][0]["value"]) == ({"model": "m-1"}, "here")
    assert (headers["authorization"], headers["traceparent"]) == ("Bearer k", "00-1")
    assert conversation.said == []


@in_a_loop
async def test_what_has_no_place() -> None:
    """What has no place in the protocol is refused, or said."""
    conversation = thread(model="m-1", flags={"dark": True})
    await conversation.send("hello")
    assert [code for code, _ in conversation.said] == ["input-not-passed", "input-not-passed"]
    for refused in (
        conversation.send("hello", output_schema={"type": "object"}),
        conversation.respond(InputResponse(request_id="x", option_id="approve")),
    ):
        with pytest.raises(AdapterError) as error:
            await refused
        assert error.value.code == "agent-input"


def run(*events: dict[str, Any], outcome: dict[str, Any] | None = None) -> str:
    finished = {"type": "RUN_FINISHED", "outcome": outcome or {"type": "success"}}
    return "".join(f"data: {json.dumps(event)}\n\n" for event in ({"type": "RUN_STARTED"}, *events, finished))


QUESTIONS: dict[str, tuple[dict[str, Any] | None, str, Any]] = {
    "a text": (None, "blue", "blue"),
    "a text by its schema": ({"type": "string"}, "blue", "blue"),
    "a field": ({"type": "object", "properties": {"colour": {"type": "string"}}}, "blue", {"colour": "blue"}),
    "fields": (
        {"type": "object", "properties": {"a": {}, "b": {}}},
        '{"a": 1, "b": 2}',
        {"a": 1, "b": 2},
    ),
}


@pytest.mark.parametrize(("schema", "text", "payload"), QUESTIONS.values(), ids=QUESTIONS.keys())
def test_a_free_answer(schema: dict[str, Any] | None, text: str, payload: Any) -> None:
    """A question without options takes a text, which is sent in the form that was asked for."""
    interrupt = {"id": "q1", "reason": "input", "message": "Which colour?"}
    if schema is not None:
        interrupt["responseSchema"] = schema  # type: ignore[assignment]
    bodies: list[Any] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(request.content))
        outcome = {"type": "interrupt", "interrupts": [interrupt]} if len(bodies) == 1 else None
        stream = run(outcome=outcome).encode()
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    @in_a_loop
    async def body() -> None:
        conversation = Conversation(ag_ui_agent("http://app/a", transport=httpx2.MockTransport(answer)))
        waiting = await conversation.send("paint")
        (asked,) = [event.request for event in waiting.events if isinstance(event, InputRequested)]
        assert (waiting.status, asked.prompt, asked.options) == ("waiting", "Which colour?", None)
        done = await conversation.respond(InputResponse(request_id="q1", text=text))
        assert done.status == "completed"

    body()
    assert bodies[1]["resume"] == [{"interruptId": "q1", "status": "resolved", "payload": payload}]


@in_a_loop
async def test_state() -> None:
    """The state that the service sets, changes and repeats goes back to it with the next run."""
    first = run(
        {"type": "STATE_SNAPSHOT", "snapshot": {"list": [1]}},
        {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/list/-", "value": 2}]},
        {"type": "STATE_DELTA", "delta": [{"op": "remove", "path": "/nothing"}]},
    )
    bodies: list[Any] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(request.content))
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=first.encode())

    agent = ag_ui_agent("http://app/a", transport=httpx2.MockTransport(answer), state={"n": 1})
    conversation = Conversation(agent)
    await conversation.send("one")
    await conversation.send("two")
    await Conversation(agent).send("one")
    assert [body["state"] for body in bodies] == [{"n": 1}, {"list": [1, 2]}, {"n": 1}]
    assert [code for code, _ in conversation.said] == ["state-not-followed", "state-not-followed"]


@in_a_loop
async def test_a_snapshot_replaces_the_messages() -> None:
    """A snapshot of the messages replaces the client's own, and says nothing twice."""
    snapshot = run(
        {
            "type": "MESSAGES_SNAPSHOT",
            "messages": [
                {"id": "s1", "role": "user", "content": "shortened"},
                {"id": "s2", "role": "assistant", "content": "Well."},
            ],
        },
    )
    conversation = Conversation(ag_ui_agent("http://app/a", transport=answering(snapshot)))
    assert said(await conversation.send("one")) == ["Well."]
    assert said(await conversation.send("two")) == [], "it was said in the turn before"


@in_a_loop
async def test_no_stream() -> None:
    """An answer that is no stream is an error that says so, and a stream that is cut a failed turn."""
    with pytest.raises(AdapterError, match="application/json"):
        await Conversation(ag_ui_agent("http://app/a", transport=answering("{}", kind="application/json"))).send("x")
    cut = run({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "Hel"})[:-40]
    turn = await Conversation(ag_ui_agent("http://app/a", transport=answering(cut))).send("x")
    assert (turn.status, turn.evidence_coverage is not None) == ("failed", True)


PATCHES: list[tuple[Any, list[Any], Any]] = [
    ({"a": 1}, [{"op": "replace", "path": "/a", "value": 2}], {"a": 2}),
    ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
    ({"a": [1, 2]}, [{"op": "replace", "path": "/a/0", "value": 9}], {"a": [9, 2]}),
    ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
    ({"a": {"b": 1}}, [{"op": "move", "from": "/a/b", "path": "/c"}], {"a": {}, "c": 1}),
    ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}),
    ({"a/b": {"~": 1}}, [{"op": "replace", "path": "/a~1b/~0", "value": 2}], {"a/b": {"~": 2}}),
    ({"a": 1}, [{"op": "test", "path": "/a", "value": 1}, {"op": "add", "path": "", "value": []}], []),
]
BROKEN: list[list[Any]] = [
    [{"op": "remove", "path": "/x"}],
    [{"op": "add", "path": "/l/5", "value": 1}],
    [{"op": "add", "path": "/l/-1", "value": 1}],
    [{"op": "test", "path": "/n", "value": 2}],
    [{"op": "spin", "path": "/n"}],
    [{"op": "add", "path": "n", "value": 1}],
    [{"op": "add", "path": "/n/x", "value": 1}],
    ["add"],
]


@pytest.mark.parametrize(("value", "operations", "result"), PATCHES)
def test_json_patch(value: Any, operations: list[Any], result: Any) -> None:
    """Each operation of RFC 6902 does what it says, and leaves the value that it was given alone."""
    before = json.dumps(value)
    assert patched(value, operations) == result
    assert json.dumps(value) == before


@pytest.mark.parametrize("operations", BROKEN)
def test_json_patch_that_cannot_be_applied(operations: list[Any]) -> None:
    """What cannot be applied is an error of its own."""
    with pytest.raises(PatchError):
        patched({"n": 1, "l": [1]}, operations)


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
EVENTS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            (
                "TEXT_MESSAGE_CHUNK",
                "REASONING_MESSAGE_CONTENT",
                "TOOL_CALL_ARGS",
                "TOOL_CALL_RESULT",
                "STATE_DELTA",
                "MESSAGES_SNAPSHOT",
                "REASONING_ENCRYPTED_VALUE",
            )
        )
    },
    optional={
        "messageId": st.sampled_from(["a", "b"]),
        "toolCallId": st.sampled_from(["a", "b"]),
        "parentMessageId": st.sampled_from(["a", "b"]),
        "entityId": st.sampled_from(["a", "b"]),
        "delta": JSON,
        "content": JSON,
        "messages": st.lists(
            st.fixed_dictionaries({"id": st.sampled_from(["a", "b"])}, optional={"content": JSON, "toolCalls": JSON})
        )
        | JSON,
    },
)


@given(st.lists(EVENTS, max_size=6))
def test_whatever_a_service_sends(events: list[dict[str, Any]]) -> None:
    """The client's thread takes any events without an error of its own."""
    fold = Fold([{"id": "a", "role": "user", "content": "x"}], {})
    for event in events:
        fold.add(event)
    json.dumps(fold.messages)
