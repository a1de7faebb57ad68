"""Chat Completions as turns: the objects of the real SDK, whole and streamed, and what else servers make of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    ErrorEvent,
    Message,
    Thinking,
    Turn,
    Usage,
)
from niceeval.converters import openai_chat as converter
from tests.unit.sdk_clients import async_openai_client, at_once, data_frames, later, openai_client

pytest.importorskip("openai", reason="the SDK is not installed: pip install 'niceeval[openai]'")

USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


def body(message: dict[str, Any], reason: str | None = "stop", usage: Any = USAGE, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", "content": None, **message}}
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage, **more}


def call(id: str, name: str, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


def tool(id: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


def create(*bodies: Any, **how: Any) -> Any:
    """What the SDK makes of one answer."""
    return openai_client(*bodies).chat.completions.create(model="m", messages=[], **how)


def chunk(delta: dict[str, Any] | None = None, reason: str | None = None, **more: Any) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason}]
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": choices, **more}


def piece(index: int, arguments: str, id: str | None = None, name: str | None = None) -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"index": index, "function": function} | ({"id": id, "type": "function"} if id else {})


STREAM = [
    chunk({"role": "assistant", "reasoning_content": "Let me "}),
    chunk({"reasoning_content": "add."}),
    chunk({"content": "One "}),
    chunk({"content": "moment."}),
    chunk({"tool_calls": [piece(0, "", "c1", "add"), piece(1, "", "c2", "add")]}),
    chunk({"tool_calls": [piece(1, '{"a": 3}'), piece(0, '{"a"')]}),
    chunk({"tool_calls": [piece(0, ": 1}")]}),
    chunk({}, "tool_calls"),
    chunk(usage={**USAGE, "prompt_tokens_details": {"cached_tokens": 40}}),
]
STREAMED = (
    Thinking(text="Let me add."),
    Message(role="assistant", text="One moment."),
    ActionCalled(call_id="c1", name="add", input={"a": 1}),
    ActionCalled(call_id="c2", name="add", input={"a": 3}),
)


def streamed(frames: list[Any], *, done: bool = True, **how: Any) -> Turn:
    """The turn of what the SDK's asynchronous stream gives of these frames."""

    async def run() -> Turn:
        client = async_openai_client(data_frames(frames, done))
        stream = await client.chat.completions.create(model="m", messages=[], stream=True)
        return await converter.to_turn_stream(stream, **how)

    return asyncio.run(run())


def levels(turn: Turn) -> dict[str, str]:
    return {channel: coverage.level for channel, coverage in (turn.evidence_coverage or {}).items()}


def test_an_answer_is_a_completed_turn() -> None:
    """Success: the text and the tokens; nothing is missing."""
    turn = converter.to_turn(create(body({"content": "Bergen."})))
    assert turn.events == (Message(role="assistant", text="Bergen."),)
    assert turn == Turn(events=turn.events, usage=Usage(input_tokens=100, output_tokens=20, requests=1))


def test_a_tool_loop_is_one_turn() -> None:
    """Of a loop that the client runs: calls, results, the answers' texts in their order, and all tokens."""
    first = create(body({"content": "I look.", "tool_calls": [call("c1", "stock", {"item": "cup"})]}, "tool_calls"))
    last = create(body({"content": "Three."}, id="chatcmpl-2"))
    again = first.choices[0].message
    turn = converter.to_turn([first, again, tool("c1", "3"), last], failed=())
    assert turn.events == (
        Message(role="assistant", text="I look."),
        ActionCalled(call_id="c1", name="stock", input={"item": "cup"}),
        ActionResult(call_id="c1", status="completed", output="3"),
        Message(role="assistant", text="Three."),
    )
    assert turn.usage == Usage(input_tokens=200, output_tokens=40, requests=2)
    assert (turn.status, turn.evidence_coverage) == ("completed", None)


def test_calls_without_results_are_open() -> None:
    """Results are only in the caller's next request: without them, that is said of the actions alone."""
    one = create(body({"tool_calls": [call("c1", "add", {"a": 1})]}, "stop"))
    turn = converter.to_turn(one)
    assert turn.events == (ActionCalled(call_id="c1", name="add", input={"a": 1}),)
    assert (turn.status, levels(turn)) == ("completed", {"actions": "partial"})
    assert (
        "failed" in (converter.to_turn(one, tool_results=[tool("c1", "3")]).evidence_coverage or {})["actions"].reason
    )


def test_tool_failure_and_refusal_come_from_the_caller() -> None:
    """A tool's message has no status: what failed, and what a human refused, is what the caller says."""
    calls = [call("c1", "pay", {}), call("c2", "pay", {}), call("c3", "pay", {})]
    first = create(body({"tool_calls": calls}, "tool_calls"))
    results = [tool("c1", "no money"), tool("c2", "The user said no."), tool("c3", [{"type": "text", "text": "paid"}])]
    turn = converter.to_turn(first, tool_results=results, failed=["c1"], rejected=["c2"])
    found = {event.call_id: (event.status, event.output) for event in turn.events if isinstance(event, ActionResult)}
    assert found == {
        "c1": ("failed", "no money"),
        "c2": ("rejected", "The user said no."),
        "c3": ("completed", "paid"),
    }
    assert turn.evidence_coverage is None


def test_ids_that_come_again_are_other_calls() -> None:
    """A server that numbers its calls anew in each answer does not make two calls one."""
    answers = [
        create(body({"tool_calls": [call("call_0", "add", {"a": n})]}, "tool_calls", id=f"chatcmpl-{n}"))
        for n in (1, 2)
    ]
    turn = converter.to_turn([answers[0], tool("call_0", "1"), answers[1], tool("call_0", "2")], failed=())
    assert [(event.call_id, getattr(event, "output", None)) for event in turn.events] == [
        ("call_0", None),
        ("call_0", "1"),
        ("call_0#2", None),
        ("call_0#2", "2"),
    ]


@pytest.mark.parametrize("content", ["", None])
def test_an_empty_answer_is_an_answer(content: str | None) -> None:
    """Nothing was said, and that is certain."""
    turn = converter.to_turn(create(body({"content": content})))
    assert (turn.events, turn.status, turn.evidence_coverage) == ((), "completed", None)


def test_content_in_parts() -> None:
    """Texts are joined, reasoning is apart, and what is no text is said to be missing."""
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "text", "text": "A "},
        {"type": "text", "text": "cat."},
    ]
    turn = converter.to_turn(create(body({"content": parts})))
    assert turn.events == (Thinking(text="Hm."), Message(role="assistant", text="A cat."))
    assert turn.evidence_coverage is None
    turn = converter.to_turn(create(body({"content": [*parts, {"type": "image_url", "image_url": {"url": "data:"}}]})))
    assert levels(turn) == {"events": "partial", "messages": "partial"}
    turn = converter.to_turn(create(body({"content": None, "audio": {"id": "a", "transcript": "A cat."}})))
    assert turn.events == (Message(role="assistant", text="A cat."),)


def test_structured_output() -> None:
    """The last answer is the data, parsed by the SDK or not; what is no JSON is no data, and says so."""
    from pydantic import BaseModel

    class City(BaseModel):
        name: str

    answer = body({"content": '{"name": "Bergen"}'})
    parsed = openai_client(answer).chat.completions.parse(model="m", messages=[], response_format=City)
    assert converter.to_turn(parsed, structured=True).data == {"name": "Bergen"}
    assert converter.to_turn(create(answer), structured=True).data == {"name": "Bergen"}
    assert converter.to_turn(create(answer)).data is None
    told = converter.collected(create(body({"content": "Bergen"})), structured=True)
    assert (told.turn.data, told.turn.evidence_coverage) == (None, None)
    assert [said.code for said in told.diagnostics] == ["output-not-json"]


def test_a_refusal_of_the_model_is_what_it_said() -> None:
    """A refusal is a message of a completed turn, also where the SDK parses."""
    told = converter.collected(create(body({"refusal": "I can not."})), structured=True)
    assert told.turn.events == (Message(role="assistant", text="I can not."),)
    assert (told.turn.status, told.turn.data) == ("completed", None)
    assert "model-refused" in [said.code for said in told.diagnostics]


def test_what_the_sdk_raises_while_it_parses_has_the_answer() -> None:
    """A refusal is no data; an answer that the limit cut leaves `parse` as an error that carries the completion."""
    from openai import LengthFinishReasonError
    from pydantic import BaseModel

    class City(BaseModel):
        name: str

    how: dict[str, Any] = {"model": "m", "messages": [], "response_format": City}
    refused = openai_client(body({"refusal": "I can not."})).chat.completions.parse(**how)
    assert converter.to_turn(refused, structured=True).events == (Message(role="assistant", text="I can not."),)
    with pytest.raises(LengthFinishReasonError) as raised:
        openai_client(body({"content": '{"na'}, "length")).chat.completions.parse(**how)
    turn = converter.to_turn(raised.value.completion, structured=True)
    assert (turn.status, turn.data, turn.usage) == (
        "failed",
        None,
        Usage(input_tokens=100, output_tokens=20, requests=1),
    )


def test_what_the_sdk_makes_of_a_cut_stream_is_no_answer() -> None:
    """Its final completion has half a call and no reason to end."""
    with openai_client(data_frames(STREAM[:6])).chat.completions.stream(model="m", messages=[]) as stream:
        for _ in stream:
            pass
        turn = converter.to_turn(stream.get_final_completion())
    assert [event.call_id for event in turn.events if isinstance(event, ActionCalled)] == ["c2"]
    assert turn.status == "failed"
    assert set(levels(turn)) == {"events", "actions", "messages", "usage", "status"}


def test_cached_and_reasoning_tokens() -> None:
    """Cached tokens are taken out of the input; reasoning is a part of the output."""
    usage = {
        **USAGE,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
        "completion_tokens_details": {"reasoning_tokens": 15},
    }
    turn = converter.to_turn(create(body({"content": "x", "reasoning": "Hm."}, usage=usage)))
    assert turn.usage == Usage(
        input_tokens=30,
        output_tokens=20,
        cache_read_tokens=60,
        cache_write_tokens=10,
        reasoning_tokens=15,
        requests=1,
    )
    assert turn.events[0] == Thinking(text="Hm.")
    without = converter.to_turn(create(body({"content": "x"}, usage=None)))
    assert (without.usage, levels(without)) == (None, {"usage": "partial"})


@pytest.mark.parametrize(
    ("reason", "status", "lowered"),
    [
        ("tool_calls", "completed", {}),
        ("length", "failed", {}),
        ("content_filter", "failed", {}),
        ("eos", "completed", {"status": "partial"}),
        (None, "failed", dict.fromkeys(("events", "actions", "messages", "usage", "status"), "partial")),
    ],
)
def test_how_an_answer_ends(reason: str | None, status: str, lowered: dict[str, str]) -> None:
    """An answer that was cut short failed; one that does not say why it ends is not known to be whole."""
    turn = converter.to_turn(create(body({"content": "x"}, reason)))
    assert (turn.status, levels(turn)) == (status, lowered)


def test_half_a_call_is_none() -> None:
    """Arguments that the limit cut make no call; arguments that the model got wrong do."""
    cut = converter.to_turn(create(body({"tool_calls": [call("c1", "add", '{"a": ')]}, "length")))
    assert (cut.events, cut.status) == ((), "failed")
    assert levels(cut) == {"events": "partial", "actions": "partial"}
    wrong = converter.to_turn(create(body({"tool_calls": [call("c1", "add", "a=1")]}, "tool_calls")))
    assert wrong.events == (ActionCalled(call_id="c1", name="add", input="a=1"),)


def test_custom_tools_and_functions_of_old() -> None:
    """A custom tool's input is text; a function call of the old form has no id and pairs by its name."""
    custom = {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    first = create(body({"tool_calls": [custom], "function_call": {"name": "now", "arguments": "{}"}}, "function_call"))
    turn = converter.to_turn([first, {"role": "function", "name": "now", "content": "noon"}], failed=())
    assert turn.events == (
        ActionCalled(call_id="c1", name="sql", input="select 1"),
        ActionCalled(call_id="call-1", name="now", input={}),
        ActionResult(call_id="call-1", status="completed", output="noon"),
    )


def test_a_stream_is_what_the_answer_would_have_been() -> None:
    """The SDK's chunks, its typed events, a plain iterator and dicts: one turn, with the usage of the last chunk."""
    turn = streamed(STREAM)
    assert turn.events == STREAMED
    assert turn.usage == Usage(input_tokens=60, cache_read_tokens=40, output_tokens=20, requests=1)
    assert (turn.status, levels(turn)) == ("completed", {"actions": "partial"})

    async def typed() -> Turn:
        client = async_openai_client(data_frames(STREAM, done=True))
        async with client.chat.completions.stream(model="m", messages=[]) as stream:
            return await converter.to_turn_stream(stream)

    assert asyncio.run(typed()) == turn
    assert converter.to_turn(create(data_frames(STREAM, done=True), stream=True)) == turn
    assert at_once(converter.to_turn_stream(later(STREAM))) == turn


def test_a_streamed_tool_loop() -> None:
    """Streams and the messages between them, one after the other."""
    last = [{**chunk({"content": "4."}, "stop"), "id": "chatcmpl-2"}, {**chunk(usage=USAGE), "id": "chatcmpl-2"}]
    turn = converter.to_turn([*STREAM, tool("c1", "1"), tool("c2", "3"), *last], failed=())
    assert turn.events[-3:] == (
        ActionResult(call_id="c1", status="completed", output="1"),
        ActionResult(call_id="c2", status="completed", output="3"),
        Message(role="assistant", text="4."),
    )
    assert turn.usage is not None
    assert (turn.usage.requests, turn.evidence_coverage) == (2, None)


@pytest.mark.parametrize("kept", range(len(STREAM)))
def test_a_cut_stream_says_so(kept: int) -> None:
    """The SDK raises nothing where a stream is cut: what came is kept, half a call is none, and nothing is certain."""
    turn = streamed(STREAM[:kept], done=False)
    calls = [event for event in turn.events if isinstance(event, ActionCalled)]
    assert all(event in STREAMED for event in calls)
    if kept < len(STREAM) - 1:
        assert turn.status == "failed"
        assert set(levels(turn)) == {"events", "actions", "messages", "usage", "status"}
    else:
        assert (turn.status, levels(turn)) == ("completed", {"actions": "partial", "usage": "partial"})


def test_an_error_in_the_middle_of_a_stream() -> None:
    """The SDK raises what the server says: what had come is kept, the error is an event, the turn failed."""
    error = {"error": {"message": "overloaded", "type": "server_error"}}
    turn = streamed([*STREAM[:4], error])
    assert turn.events[:2] == STREAMED[:2]
    assert isinstance(turn.events[2], ErrorEvent)
    assert "overloaded" in turn.events[2].message
    assert turn.status == "failed"
    assert set(levels(turn)) == {"events", "actions", "messages", "usage", "status"}
    assert converter.to_turn([*STREAM[:4], error]).events[2] == ErrorEvent(message="overloaded")
    lost = at_once(converter.to_turn_stream(later(STREAM[:3], ConnectionError("reset"))))
    assert lost.events == (Thinking(text="Let me add."), Message(role="assistant", text="One "))
    assert (lost.status, lost.evidence_coverage is not None) == ("failed", True)


def test_calls_that_share_an_index_or_have_none() -> None:
    """Compatible servers tell calls apart by their ids, or give each whole."""
    same = [
        chunk({"tool_calls": [piece(0, '{"a": 1}', "c1", "add")]}),
        chunk({"tool_calls": [piece(0, '{"a": ', "c2", "add")]}),
        chunk({"tool_calls": [piece(0, "2}")]}, "tool_calls"),
    ]
    without = [chunk({"tool_calls": [call("c1", "add", {"a": 1}), call("c2", "add", {"a": 2})]}, "stop")]
    wanted = tuple(ActionCalled(call_id=f"c{n}", name="add", input={"a": n}) for n in (1, 2))
    assert converter.to_turn(same).events == converter.to_turn(without).events == wanted


def test_an_error_instead_of_an_answer() -> None:
    """An error in the place of a completion fails the turn with its own words."""
    turn = converter.to_turn({"error": {"message": "no credits", "code": 402}})
    assert turn.events == (ErrorEvent(message="no credits"),)
    assert (turn.status, levels(turn)) == ("failed", {"usage": "partial"})


def test_several_choices_are_said() -> None:
    """Of several answers to one question, the first is the turn."""
    answer = body({"content": "one"})
    answer["choices"].append({"index": 1, "finish_reason": "stop", "message": {"content": "two"}})
    told = converter.collected(create(answer))
    assert told.turn.events == (Message(role="assistant", text="one"),)
    assert [said.code for said in told.diagnostics] == ["choices-left-out"]


WORDS = [
    *("choices", "message", "delta", "content", "role", "tool", "assistant", "tool_calls", "function", "arguments"),
    *("id", "name", "index", "finish_reason", "usage", "prompt_tokens", "type", "text", "error", "tool_call_id"),
    *("prompt_tokens_details", "cached_tokens", "custom", "input", "object", "chat.completion.chunk", "refusal"),
]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(max_size=5)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5)
)
ANSWER = st.fixed_dictionaries({}, optional={"choices": st.lists(JSON, max_size=2), "usage": JSON, "error": JSON})
MESSAGE = st.fixed_dictionaries({"message": JSON, "finish_reason": st.sampled_from(["stop", "length", None])})


@pytest.mark.slow
@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(JSON | ANSWER | st.builds(lambda one: {"choices": [one]}, MESSAGE), max_size=4), st.booleans())
def test_nothing_is_raised(given_items: list[Any], structured: bool) -> None:
    """Whatever JSON comes, there is a turn; and what is no answer at all is no success."""
    turn = converter.to_turn(given_items, structured=structured)
    assert isinstance(turn, Turn)
    assert turn.status == "failed" or any(isinstance(item, dict) for item in given_items)
    at_once(converter.to_turn_stream(later(given_items)))
