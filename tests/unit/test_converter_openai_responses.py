"""Responses as turns: the objects of the real SDK, whole and streamed, with the tools that the service runs itself."""

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
    Compaction,
    ErrorEvent,
    InputRequested,
    Message,
    StreamEvent,
    Thinking,
    Turn,
    Usage,
    derive_facts,
)
from niceeval.converters import openai_responses as converter
from tests.unit.sdk_clients import async_openai_client, at_once, later, openai_client, typed_frames

pytest.importorskip("openai", reason="the SDK is not installed: pip install 'niceeval[openai]'")

USAGE = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}


def body(*output: dict[str, Any], number: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "id": f"resp_{number}",
        "object": "response",
        "status": "completed",
        "output": list(output),
        "usage": USAGE,
        **more,
    }


def text(said: str, number: int = 1, **part: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": said, "annotations": [], **part}]
    return {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": content}


def function(id: str, name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    given = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name, "arguments": given}
    return {**call, "status": "completed", **more}


def output(id: str, value: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id, "output": value}


def create(*bodies: Any, **how: Any) -> Any:
    """What the SDK makes of one response."""
    return openai_client(*bodies).responses.create(model="m", input="q", **how)


def levels(turn: Turn) -> dict[str, str]:
    return {channel: coverage.level for channel, coverage in (turn.evidence_coverage or {}).items()}


def said(*texts: str) -> tuple[Message, ...]:
    return tuple(Message(role="assistant", text=one) for one in texts)


def test_a_response_is_a_completed_turn() -> None:
    """Success: what was said, thought and used, in its order; nothing is missing."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Norway."}]}
    turn = converter.to_turn(create(body(thought, text("Bergen."))))
    assert turn.events == (Thinking(text="Norway."), *said("Bergen."))
    assert turn == Turn(events=turn.events, usage=Usage(input_tokens=100, output_tokens=20, requests=1))
    hidden = converter.to_turn(create(body({**thought, "summary": []}, text("Bergen."))))
    assert levels(hidden) == {"events": "partial"}


def test_a_tool_loop_is_one_turn() -> None:
    """Of functions that the client runs: parallel calls, their results by call id, and what was said after them. What
    the caller repeats of a response, in its own list of items, is not said again."""
    first = create(body(text("I look."), function("c1", "stock", {"item": "cup"}), function("c2", "price", {})))
    last = create(body(text("Three.", 2), number=2))
    repeated = [first.output[0], function("c1", "stock", {"item": "cup"})]
    loop = [first, *repeated, output("c2", "5"), output("c1", [{"type": "input_text", "text": "3"}]), last]
    turn = converter.to_turn(loop, failed=())
    assert turn.events == (
        *said("I look."),
        ActionCalled(call_id="c1", name="stock", input={"item": "cup"}),
        ActionCalled(call_id="c2", name="price", input={}),
        ActionResult(call_id="c2", status="completed", output="5"),
        ActionResult(call_id="c1", status="completed", output="3"),
        *said("Three."),
    )
    assert turn.usage == Usage(input_tokens=200, output_tokens=40, requests=2)
    assert (turn.status, turn.evidence_coverage) == ("completed", None)


def test_functions_without_results_are_open() -> None:
    """A function's result is in the next request: without it, the actions are partial and nothing else is."""
    one = create(body(function("c1", "add", {"a": 1})))
    assert levels(converter.to_turn(one)) == {"actions": "partial"}
    unsaid = converter.to_turn(one, tool_results=[output("c1", "3")])
    assert "failed" in (unsaid.evidence_coverage or {})["actions"].reason
    assert levels(converter.to_turn([output("c9", "3"), one, output("c1", "3")], failed=())) == {"actions": "partial"}


def test_tool_failure_and_refusal_come_from_the_caller() -> None:
    """An output has no status: what failed, and what a human refused, is what the caller says."""
    one = create(body(*(function(f"c{n}", "pay", {}) for n in (1, 2, 3))))
    results = [output(f"c{n}", "said") for n in (1, 2, 3)]
    turn = converter.to_turn(one, tool_results=results, failed=["c1"], rejected=["c2"])
    found = [event.status for event in turn.events if isinstance(event, ActionResult)]
    assert (found, turn.evidence_coverage) == (["failed", "rejected", "completed"], None)


HOSTED: list[tuple[dict[str, Any], str, str | None, Any, str, Any]] = [
    (
        {"type": "mcp_call", "server_label": "files", "name": "read", "arguments": '{"p": 1}', "output": "x"},
        "mcp__files__read",
        None,
        {"p": 1},
        "completed",
        "x",
    ),
    (
        {
            "type": "mcp_call",
            "server_label": "files",
            "name": "read",
            "arguments": "{}",
            "error": {"type": "http_error", "code": 500, "message": "no"},
            "status": "failed",
        },
        "mcp__files__read",
        None,
        {},
        "failed",
        {"type": "http_error", "code": 500, "message": "no"},
    ),
    (
        {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "cups"}},
        "web_search",
        "web_search",
        {"action": {"type": "search", "query": "cups"}},
        "completed",
        None,
    ),
    (
        {"type": "file_search_call", "status": "failed", "queries": ["cups"], "results": None},
        "file_search",
        None,
        {"queries": ["cups"]},
        "failed",
        None,
    ),
    (
        {"type": "image_generation_call", "status": "completed", "result": "iVBOR"},
        "image_generation",
        None,
        {},
        "completed",
        {"kind": "binary", "base64_chars": 5},
    ),
    (
        {
            "type": "code_interpreter_call",
            "status": "completed",
            "code": "1+1",
            "container_id": "c",
            "outputs": [{"type": "logs", "logs": "2"}],
        },
        "code_interpreter",
        None,
        {"code": "1+1"},
        "completed",
        [{"type": "logs", "logs": "2"}],
    ),
]


@pytest.mark.parametrize(("item", "name", "tool", "given", "status", "result"), HOSTED, ids=lambda x: str(x)[:30])
def test_tools_that_the_service_runs(
    item: dict[str, Any], name: str, tool: str | None, given: Any, status: Any, result: Any
) -> None:
    """One item is the call and its result, and it only has an `id`."""
    turn = converter.to_turn(create(body({"id": "h1", **item}, text("Done."))))
    assert turn.events == (
        ActionCalled(call_id="h1", name=name, input=given, tool=tool),
        ActionResult(call_id="h1", status=status, output=result),
        *said("Done."),
    )
    assert turn.evidence_coverage is None


def shell(exit_code: int) -> dict[str, Any]:
    return {"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": exit_code}}


@pytest.mark.parametrize(
    ("call", "result", "name", "status"),
    [
        (
            {"type": "shell_call", "action": {"commands": ["ls"]}},
            {"type": "shell_call_output", "output": [shell(0)]},
            "shell",
            "completed",
        ),
        (
            {"type": "shell_call", "action": {"commands": ["ls"]}},
            {"type": "shell_call_output", "output": [shell(0), shell(2)]},
            "shell",
            "failed",
        ),
        (
            {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a"}},
            {"type": "apply_patch_call_output", "status": "failed", "output": "no such file"},
            "apply_patch",
            "failed",
        ),
        (
            {"type": "custom_tool_call", "name": "sql", "input": "select 1"},
            {"type": "custom_tool_call_output", "output": "1"},
            "sql",
            "completed",
        ),
        (
            {"type": "program", "code": "1+1", "fingerprint": "f"},
            {"type": "program_output", "result": "2", "status": "completed"},
            "program",
            "completed",
        ),
    ],
    ids=lambda x: str(x)[:30],
)
def test_tools_with_an_output_of_their_own(
    call: dict[str, Any], result: dict[str, Any], name: str, status: str
) -> None:
    """A call and its output pair by call id, and kinds that say how it went are believed."""
    loop = create(
        body({"id": "i1", "call_id": "c1", "status": "completed", **call}, {"id": "o1", "call_id": "c1", **result})
    )
    called, done = converter.to_turn(loop, failed=()).events
    assert isinstance(called, ActionCalled)
    assert isinstance(done, ActionResult)
    assert (called.name, called.call_id, done.call_id, done.status) == (name, "c1", "c1", status)


def approval(number: int) -> dict[str, Any]:
    asked = {"type": "mcp_approval_request", "id": f"mcpr_{number}", "server_label": "files", "name": "delete"}
    return {**asked, "arguments": json.dumps({"n": number})}


def approved(number: int) -> dict[str, Any]:
    call = {**approval(number), "type": "mcp_call", "id": f"mcp_{number}", "approval_request_id": f"mcpr_{number}"}
    return {**call, "output": "gone", "status": "completed"}


def refusal(number: int) -> dict[str, Any]:
    answer = {"type": "mcp_approval_response", "approval_request_id": f"mcpr_{number}"}
    return {**answer, "approve": False, "reason": "it is mine"}


def test_a_request_for_approval_waits() -> None:
    """Two requests wait; the next turn has what was approved and what a human refused, as results of these calls."""
    waiting = converter.to_turn(create(body(approval(1), approval(2))))
    assert (waiting.status, waiting.evidence_coverage) == ("waiting", None)
    requests = [event.request for event in waiting.events if isinstance(event, InputRequested)]
    assert [(one.id, one.action, one.input) for one in requests] == [
        (f"mcpr_{n}", "mcp__files__delete", {"n": n}) for n in (1, 2)
    ]
    done = converter.to_turn([refusal(2), create(body(approved(1), text("One is gone."), number=2))])
    assert done.status == "completed"
    events: list[StreamEvent] = [*waiting.events, Message(role="user", text="go"), *done.events]
    facts = derive_facts(events)
    assert [(call.status, call.output) for call in facts.tool_calls] == [
        ("completed", "gone"),
        ("rejected", "it is mine"),
    ]


def test_a_loop_that_answers_requests_itself_does_not_wait() -> None:
    """A request that the caller's code has answered is a call like any other."""
    first, last = create(body(approval(1))), create(body(text("Then not."), number=2))
    turn = converter.to_turn([first, refusal(1), last])
    assert turn.status == "completed"
    assert [type(event) for event in turn.events] == [ActionCalled, ActionResult, Message]
    assert turn.evidence_coverage is None


def test_items_of_unknown_kinds() -> None:
    """The SDK takes an item that it does not know for a message: only its type counts, and it lowers the coverage."""
    told = converter.collected(create(body({"type": "brand_new_call", "id": "z", "foo": 1}, text("Hi."))))
    assert told.turn.events == said("Hi.")
    assert levels(told.turn) == {"events": "partial", "actions": "partial", "messages": "partial"}
    assert [one.code for one in told.diagnostics] == ["unknown-lines"]


def test_an_empty_answer_and_a_compaction() -> None:
    """Nothing was said, and that is certain; a compaction is an event."""
    assert converter.to_turn(create(body())) == Turn(
        events=(), usage=Usage(input_tokens=100, output_tokens=20, requests=1)
    )
    compacted = converter.to_turn(create(body({"type": "compaction", "id": "cmp", "encrypted_content": "x"}, text(""))))
    assert compacted.events == (Compaction(),)


def test_content_in_parts() -> None:
    """Parts of one message are one text; a part that is no text is said to be missing; a refusal is what was said."""
    parts = [{"type": "output_text", "text": one, "annotations": []} for one in ("A ", "cat.")]
    assert converter.to_turn(create(body({**text(""), "content": parts}))).events == said("A cat.")
    odd = converter.to_turn(create(body({**text(""), "content": [*parts, {"type": "output_image", "url": "x"}]})))
    assert levels(odd) == {"events": "partial", "messages": "partial"}
    told = converter.collected(create(body({**text(""), "content": [{"type": "refusal", "refusal": "I can not."}]})))
    assert (told.turn.events, told.turn.status) == (said("I can not."), "completed")
    assert [one.code for one in told.diagnostics] == ["model-refused"]


def test_structured_output() -> None:
    """The last message is the data, parsed by the SDK or not; what is no JSON is no data, and says so."""
    from pydantic import BaseModel

    class City(BaseModel):
        name: str

    answer = body(text('{"name": "Bergen"}'))
    parsed = openai_client(answer).responses.parse(model="m", input="q", text_format=City)
    assert converter.to_turn(parsed, structured=True).data == {"name": "Bergen"}
    assert converter.to_turn(create(answer), structured=True).data == {"name": "Bergen"}
    assert converter.to_turn(create(answer)).data is None
    told = converter.collected(create(body(text("Bergen"))), structured=True)
    assert (told.turn.data, [one.code for one in told.diagnostics]) == (None, ["output-not-json"])


def test_cached_and_reasoning_tokens() -> None:
    """Cached tokens are taken out of the input; reasoning is a part of the output; what is not said stays unsaid."""
    usage = {
        **USAGE,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
        "output_tokens_details": {"reasoning_tokens": 15},
    }
    assert converter.to_turn(create(body(usage=usage))).usage == Usage(
        input_tokens=30,
        output_tokens=20,
        cache_read_tokens=60,
        cache_write_tokens=10,
        reasoning_tokens=15,
        requests=1,
    )
    none = converter.to_turn(create(body(usage=None)))
    assert (none.usage, levels(none)) == (None, {"usage": "partial"})


ALL = dict.fromkeys(("events", "actions", "messages", "usage", "status"), "partial")


@pytest.mark.parametrize(
    ("more", "status", "lowered"),
    [
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "failed", {}),
        ({"status": "failed", "error": {"code": "server_error", "message": "it broke"}}, "failed", {}),
        ({"status": "cancelled"}, "failed", {}),
        ({"status": "in_progress"}, "failed", ALL),
        ({"status": None}, "failed", ALL),
    ],
)
def test_how_a_response_ends(more: dict[str, Any], status: str, lowered: dict[str, str]) -> None:
    """Only a completed response did well, and one that does not say how it ended is not known to be whole."""
    told = converter.collected(create(body(text("x"), **more)))
    assert (told.turn.status, levels(told.turn)) == (status, lowered)
    errors = [event.message for event in told.turn.events if isinstance(event, ErrorEvent)]
    assert errors == ({"failed": ["it broke"], "cancelled": ["it was cancelled"]}.get(more["status"] or "") or [])


@pytest.mark.parametrize("marked", [{"status": "incomplete"}, {"status": None}])
def test_half_a_call_is_none(marked: dict[str, Any]) -> None:
    """A call that the limit cut was not made; arguments that the model got wrong are a call."""
    cut = create(body(function("c1", "add", '{"a": ', **marked), status="incomplete"))
    turn = converter.to_turn(cut)
    assert (turn.events, levels(turn)) == ((), {"events": "partial", "actions": "partial"})
    wrong = converter.to_turn(create(body(function("c1", "add", "a=1"))))
    assert wrong.events == (ActionCalled(call_id="c1", name="add", input="a=1"),)


DONE = [text("One moment."), function("c1", "add", {"a": 1}), text("Two.", 2)]


def stream(end: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The events of a streamed response: each text comes three times, and the end has everything again."""
    events: list[dict[str, Any]] = [{"type": "response.created", "response": body(status="in_progress", usage=None)}]
    for index, item in enumerate(DONE):
        at = {"output_index": index, "item_id": item["id"]}
        begun = {**item, "status": "in_progress", **({"content": []} if "content" in item else {"arguments": ""})}
        events.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        if item["type"] == "message":
            whole, part = item["content"][0]["text"], {**at, "content_index": 0}
            empty = {**item["content"][0], "text": ""}
            events.append({"type": "response.content_part.added", **part, "part": empty})
            for half in (whole[:4], whole[4:]):
                events.append(
                    {"type": "response.output_text.delta", **at, "content_index": 0, "delta": half, "logprobs": []}
                )
            events.append(
                {"type": "response.output_text.done", **at, "content_index": 0, "text": whole, "logprobs": []}
            )
        else:
            events.append({"type": "response.function_call_arguments.delta", **at, "delta": item["arguments"]})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append(end or {"type": "response.completed", "response": body(*DONE)})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def streamed(events: list[dict[str, Any]]) -> Turn:
    """The turn of what the SDK's asynchronous stream gives of these events."""

    async def run() -> Turn:
        client = async_openai_client(typed_frames(events))
        return await converter.to_turn_stream(await client.responses.create(model="m", input="q", stream=True))

    return asyncio.run(run())


def test_a_stream_is_what_the_response_would_have_been() -> None:
    """The SDK's events, those of its helper, a plain iterator and dicts: one turn, and no text twice."""
    turn = converter.to_turn(create(body(*DONE)))
    assert streamed(stream()) == turn

    async def helper() -> Turn:
        client = async_openai_client(typed_frames(stream()))
        async with client.responses.stream(model="m", input="q") as events:
            return await converter.to_turn_stream(events)

    assert asyncio.run(helper()) == turn
    assert converter.to_turn(create(typed_frames(stream()), stream=True)) == turn
    assert at_once(converter.to_turn_stream(later(stream()))) == turn
    bare = stream({"type": "response.completed", "response": body()})
    assert converter.to_turn(bare) == turn


@pytest.mark.parametrize("kept", range(len(stream())))
def test_a_cut_stream_says_so(kept: int) -> None:
    """The SDK raises nothing where a stream is cut: what came is kept, half a call is none, and nothing is certain."""
    turn = streamed(stream()[:kept])
    assert turn.status == "failed"
    assert levels(turn) == ALL
    texts = [event.text for event in turn.events if isinstance(event, Message)]
    wanted = ["One moment.", "Two."]
    assert all(whole.startswith(text) for whole, text in zip(wanted, texts, strict=False))
    assert all(event.input == {"a": 1} for event in turn.events if isinstance(event, ActionCalled))


@pytest.mark.parametrize(
    "end",
    [
        {"type": "error", "code": "server_error", "message": "overloaded", "param": None},
        {
            "type": "response.failed",
            "response": body(
                *DONE, status="failed", usage=None, error={"code": "server_error", "message": "overloaded"}
            ),
        },
    ],
    ids=lambda end: end["type"],
)
def test_an_error_in_the_middle_of_a_stream(end: dict[str, Any]) -> None:
    """What had come is kept, the error is an event, and the turn failed; likewise where the SDK raises it."""
    for turn in (streamed(stream(end)), converter.to_turn(stream(end))):
        assert turn.events[:3] == converter.to_turn(create(body(*DONE))).events
        assert isinstance(turn.events[3], ErrorEvent)
        assert "overloaded" in turn.events[3].message
        assert turn.status == "failed"
        assert "usage" in levels(turn)
    lost = at_once(converter.to_turn_stream(later(stream()[:4], ConnectionError("reset"))))
    assert (lost.events, lost.status, levels(lost)) == (said("One "), "failed", ALL)


def test_an_error_instead_of_a_response() -> None:
    """An error in the place of a response fails the turn with its own words."""
    turn = converter.to_turn({"error": {"message": "no credits", "code": 402}})
    assert turn.events == (ErrorEvent(message="no credits"),)
    assert (turn.status, levels(turn)) == ("failed", {"usage": "partial"})


WORDS = [
    *("object", "response", "status", "completed", "output", "usage", "type", "id", "call_id", "name", "arguments"),
    *("message", "content", "text", "output_text", "reasoning", "summary", "function_call", "function_call_output"),
    *("mcp_call", "error", "mcp_approval_request", "approve", "role", "response.completed", "tool_search_output"),
    *("response.output_item.done", "item", "output_index", "delta", "response.output_text.delta", "shell_call_output"),
]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(max_size=5)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=6)
)
ITEM = st.builds(
    lambda kind, rest: {**rest, "type": kind}, st.sampled_from(WORDS), st.dictionaries(st.sampled_from(WORDS), JSON)
)
RESPONSE = st.builds(lambda items, usage: body(*items, usage=usage), st.lists(ITEM | JSON, max_size=3), JSON)


@pytest.mark.slow
@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(JSON | ITEM | RESPONSE, max_size=4), st.booleans())
def test_nothing_is_raised(given_items: list[Any], structured: bool) -> None:
    """Whatever JSON comes, there is a turn."""
    assert isinstance(converter.to_turn(given_items, structured=structured), Turn)
    at_once(converter.to_turn_stream(later(given_items)))
