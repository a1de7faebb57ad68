"""A graph behind a LangGraph server, driven through the adapter."""

from __future__ import annotations

from typing import Any

import pytest

from niceeval.adapter import AdapterError, InputFile, InputRequested, InputResponse, Message, Turn, derive_facts
from niceeval.adapters import langgraph_server_agent
from tests.unit.contexts import Conversation
from tests.unit.graph_app import transport
from tests.unit.protocol_app import answering, in_a_loop


def thread(graph: str = "desk", seen: list[Any] | None = None, **given: Any) -> Conversation:
    names = ("config", "context", "headers", "structured", "make_input", "resume")
    agent_given = {key: given.pop(key) for key in names if key in given}
    of_server = transport([] if seen is None else seen)
    agent = langgraph_server_agent("http://server/", graph, subagents={}, transport=of_server, **agent_given)
    return Conversation(agent, **given)


def said(turn: Turn) -> list[str]:
    return [event.text for event in turn.events if isinstance(event, Message)]


@in_a_loop
async def test_the_server_keeps_the_thread() -> None:
    """The server keeps the messages: a turn shows only what is new, with what it used."""
    seen: list[Any] = []
    conversation = thread(seen=seen)
    first = await conversation.send("hello")
    second = await conversation.send("again")
    fresh = await thread(seen=seen).send("hello")
    assert (said(first), said(second), said(fresh)) == (
        ["message 1: hello"],
        ["message 3: again"],
        ["message 1: hello"],
    )
    assert (first.status, first.evidence_coverage) == ("completed", None)
    assert second.usage is not None
    assert (second.usage.input_tokens, second.usage.cache_read_tokens, second.usage.output_tokens) == (6, 4, 2)
    threads = [request["thread"] for request in seen]
    assert threads[0] == threads[1] != threads[2]


@in_a_loop
async def test_tools() -> None:
    """Calls that run together are seen with their results."""
    turn = await thread().send("look a b")
    assert [(call.input, call.output, call.status) for call in derive_facts(turn.events).tool_calls] == [
        ({"path": "a"}, "a done", "completed"),
        ({"path": "b"}, "b done", "completed"),
    ]


@in_a_loop
async def test_two_approvals_at_once() -> None:
    """Of two calls that wait together one is approved and one refused with a reason; the next turn is ordinary."""
    seen: list[Any] = []
    conversation = thread(seen=seen)
    waiting = await conversation.send("delete a b")
    asked = [event.request for event in waiting.events if isinstance(event, InputRequested)]
    assert waiting.status == "waiting"
    assert [(request.action, request.input) for request in asked] == [
        ("delete", {"path": "a"}),
        ("delete", {"path": "b"}),
    ]
    assert [option.id for option in asked[0].options or ()] == ["approve", "reject"]
    with pytest.raises(AdapterError) as error:
        await conversation.respond(InputResponse(request_id=asked[0].id, option_id="approve"))
    assert error.value.code == "agent-input"
    done = await conversation.respond(
        InputResponse(request_id=asked[0].id, option_id="approve"),
        InputResponse(request_id=asked[1].id, text="it is needed"),
    )
    assert done.status == "completed"
    calls = derive_facts([*waiting.events, *done.events]).tool_calls
    assert [(call.status, call.output) for call in calls] == [
        ("completed", "a done"),
        ("rejected", "it is needed"),
    ]
    (values,) = seen[1]["body"]["command"]["resume"].values()
    assert values == {"decisions": [{"type": "approve"}, {"type": "reject", "message": "it is needed"}]}
    assert said(await conversation.send("hello")) == ["message 6: hello"]


@pytest.mark.parametrize("how", ["text", "resume="])
def test_a_question(how: str) -> None:
    """What a node asks is answered by a text, or by what `resume` makes of it."""

    @in_a_loop
    async def body() -> None:
        more = {} if how == "text" else {"resume": lambda value, response: f"{value} {response.text}"}
        conversation = thread("colour", **more)
        waiting = await conversation.send("paint")
        (asked,) = [event.request for event in waiting.events if isinstance(event, InputRequested)]
        assert (waiting.status, asked.prompt, asked.options) == ("waiting", "Which colour?", None)
        done = await conversation.respond(InputResponse(request_id=asked.id, text="blue"))
        assert said(done) == ["You like blue." if how == "text" else "You like Which colour? blue."]

    body()


@in_a_loop
async def test_two_questions_at_once() -> None:
    """Each of two nodes that ask gets its own answer."""
    conversation = thread("big")
    waiting = await conversation.send("paint")
    asked = [event.request for event in waiting.events if isinstance(event, InputRequested)]
    assert [request.prompt for request in asked] == ["One?", "Two?"]
    done = await conversation.respond(
        InputResponse(request_id=asked[1].id, text="blue"), InputResponse(request_id=asked[0].id, text="red")
    )
    assert said(done) == ["red and blue"]


@in_a_loop
async def test_a_graph_that_breaks() -> None:
    """A node that raises fails the turn with what the server says, and keeps what came before."""
    turn = await thread("broken").send("go")
    assert (turn.status, said(turn)) == ("failed", ["I begin."])
    assert "ValueError: no such desk" in str(turn.events)
    assert turn.evidence_coverage is not None
    assert turn.evidence_coverage["actions"].level == "partial"


@in_a_loop
async def test_a_structured_answer() -> None:
    """The structured answer in the state is the turn's data, where the graph keeps one."""
    turn = await thread(structured=True).send("one two three", output_schema={"type": "object"})
    assert turn.data == {"words": 3}
    assert (await thread(structured=True).send("one two")).data is None
    with pytest.raises(AdapterError) as error:
        await thread().send("one", output_schema={"type": "object"})
    assert error.value.code == "agent-input"


@in_a_loop
async def test_what_is_passed() -> None:
    """Files are blocks of the message; model, effort and flags are settings of the run, in one of two places."""
    seen: list[Any] = []
    experiment: dict[str, Any] = {"model": "m-1", "reasoning_effort": "low", "flags": {"dark": True}}
    settings = {"model": "m-1", "reasoning_effort": "low", "dark": True}
    conversation = thread(
        seen=seen,
        headers={"x-api-key": "k"},
        config={"recursion_limit": 9, "configurable": {"who": "me"}},
        telemetry_headers={"traceparent": "00-1"},
        **experiment,
    )
    file = InputFile(filename="a.png", mime_type="image/png", data=b"hi")
    await conversation.send("see", files=(file,))
    await thread(seen=seen, context={"who": "me"}, **experiment).send("see")
    await thread(seen=seen, make_input=lambda given, ctx: {"messages": [("user", f"made {given.text}")]}).send("x")
    first, second, third = (request["body"] for request in seen)
    assert first["config"] == {"recursion_limit": 9, "configurable": {"who": "me", **settings}}
    assert [block["type"] for block in first["input"]["messages"][0]["content"]] == ["text", "image"]
    assert (second["config"], second["context"]) == ({}, {"who": "me", **settings})
    assert third["input"] == {"messages": [["user", "made x"]]}
    assert (seen[0]["headers"]["x-api-key"], seen[0]["headers"]["traceparent"]) == ("k", "00-1")


@in_a_loop
async def test_what_is_refused() -> None:
    """A graph that is not there is an error; a stream that breaks is a failed turn that claims nothing."""
    with pytest.raises(AdapterError, match="no assistant nothing"):
        await thread("nothing").send("hello")
    cut = 'event: values\ndata: {"messages": []}\n\nevent: updates\ndata: {"model"'
    agent = langgraph_server_agent("http://server", "desk", subagents={}, transport=answering(cut))
    turn = await Conversation(agent).send("hello")
    assert turn.status == "failed"
    assert turn.evidence_coverage is not None
    assert turn.evidence_coverage["messages"].level == "partial"
