"""Anthropic messages as turns: the objects of the real SDK, whole and streamed, and tool loops that the client runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    Compaction,
    ErrorEvent,
    Message,
    Thinking,
    Turn,
    Usage,
)
from niceeval.converters import anthropic_messages as converter
from tests.unit.sdk_clients import anthropic_client, async_anthropic_client, at_once, later, typed_frames

pytest.importorskip("anthropic", reason="the SDK is not installed: pip install 'niceeval[anthropic]'")

USAGE = {"input_tokens": 100, "output_tokens": 20}
ASK: dict[str, Any] = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "q"}]}


def body(*content: dict[str, Any], reason: str | None = "end_turn", number: int = 1, **more: Any) -> dict[str, Any]:
    head = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m"}
    return {**head, "content": list(content), "stop_reason": reason, "usage": USAGE, **more}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def use(id: str, name: str, given: Any, kind: str = "tool_use", **more: Any) -> dict[str, Any]:
    return {"type": kind, "id": id, "name": name, "input": given, **more}


def results(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def result(id: str, content: Any = "3", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def create(*bodies: Any) -> Any:
    """What the SDK makes of one message."""
    return anthropic_client(*bodies).messages.create(**ASK)


def levels(turn: Turn) -> dict[str, str]:
    return {channel: coverage.level for channel, coverage in (turn.evidence_coverage or {}).items()}


def said(*texts: str) -> tuple[Message, ...]:
    return tuple(Message(role="assistant", text=one) for one in texts)


def test_a_message_is_a_completed_turn() -> None:
    """Success: what was said, thought and used, in its order; nothing is missing."""
    thought = {"type": "thinking", "thinking": "Norway.", "signature": "s"}
    turn = converter.to_turn(create(body(thought, text("Bergen."))))
    assert turn.events == (Thinking(text="Norway."), *said("Bergen."))
    assert turn == Turn(events=turn.events, usage=Usage(input_tokens=100, output_tokens=20, requests=1))
    hidden = converter.to_turn(create(body({"type": "redacted_thinking", "data": "x"}, text("Bergen."))))
    assert levels(hidden) == {"events": "partial"}


def test_a_tool_loop_is_one_turn() -> None:
    """Parallel calls in the order of the text around them, results by id, a failure as `is_error` says, and what a
    human refused as the caller says. The message that goes back to the model is not said again."""
    calls = [use(f"t{n}", "pay", {"n": n}) for n in (1, 2, 3)]
    first = create(body(text("I pay."), *calls, text("And wait."), reason="tool_use"))
    back = {"role": "assistant", "content": first.content}
    answers = results(
        result("t2", "no money", is_error=True), result("t1", [text("paid")]), result("t3", "No.", is_error=True)
    )
    last = create(body(text("One is paid."), number=2))
    turn = converter.to_turn([ASK["messages"][0], first, back, answers, last], rejected=["t3"])
    assert turn.events == (
        *said("I pay."),
        *(ActionCalled(call_id=f"t{n}", name="pay", input={"n": n}) for n in (1, 2, 3)),
        *said("And wait."),
        ActionResult(call_id="t2", status="failed", output="no money"),
        ActionResult(call_id="t1", status="completed", output="paid"),
        ActionResult(call_id="t3", status="rejected", output="No."),
        *said("One is paid."),
    )
    assert turn.usage == Usage(input_tokens=200, output_tokens=40, requests=2)
    assert (turn.status, turn.evidence_coverage) == ("completed", None)


def test_calls_without_results_are_open() -> None:
    """A result is in the message that the client sends next: without it, only the actions are partial."""
    one = create(body(use("t1", "add", {"a": 1}), reason="tool_use"))
    last = create(body(text("Four."), number=2))
    for loop in (one, [one, last], [results(result("t9")), one, results(result("t1")), last]):
        turn = converter.to_turn(loop)
        assert (turn.status, levels(turn)) == ("completed", {"actions": "partial"})
    for given_results in ([result("t1")], [results(result("t1"))]):
        assert converter.to_turn(one, tool_results=given_results).evidence_coverage is None


def test_the_tool_runner_of_the_sdk() -> None:
    """Its loop gives the answers only; the results are there where they are asked for in the loop."""
    from anthropic import beta_tool

    @beta_tool
    def add(a: int, b: int) -> str:
        """Add."""
        if b == 0:
            raise ValueError("nothing to add")
        return str(a + b)

    bodies = [
        body(use("t1", "add", {"a": 1, "b": 2}), use("t2", "add", {"a": 1, "b": 0}), reason="tool_use"),
        body(text("Three."), number=2),
    ]

    def run(ask: bool) -> Turn:
        runner = anthropic_client(*bodies).beta.messages.tool_runner(tools=[add], **ASK)
        loop: list[Any] = []
        for answer in runner:
            loop.append(answer)
            sent = runner.generate_tool_call_response() if ask else None
            loop += [] if sent is None else [sent]
        return converter.to_turn(loop)

    whole = run(ask=True)
    found = [(event.call_id, event.status) for event in whole.events if isinstance(event, ActionResult)]
    assert found == [("t1", "completed"), ("t2", "failed")]
    assert (whole.evidence_coverage, whole.events[-1:]) == (None, said("Three."))
    assert levels(run(ask=False)) == {"actions": "partial"}


@pytest.mark.parametrize(
    ("call", "done", "name", "tool", "status"),
    [
        (
            use("s1", "web_search", {"query": "cups"}, "server_tool_use"),
            {"type": "web_search_tool_result", "content": [{"type": "web_search_result", "title": "Cups"}]},
            "web_search",
            "web_search",
            "completed",
        ),
        (
            use("s1", "web_fetch", {"url": "http://x"}, "server_tool_use"),
            {
                "type": "web_fetch_tool_result",
                "content": {"type": "web_fetch_tool_result_error", "error_code": "url_not_accessible"},
            },
            "web_fetch",
            "web_fetch",
            "failed",
        ),
        (
            use("s1", "bash_code_execution", {"command": "make"}, "server_tool_use"),
            {
                "type": "bash_code_execution_tool_result",
                "content": {"type": "bash_code_execution_result", "return_code": 2, "stdout": "", "stderr": "no rule"},
            },
            "bash_code_execution",
            "shell",
            "failed",
        ),
        (
            use("s1", "text_editor_code_execution", {"command": "view"}, "server_tool_use"),
            {
                "type": "text_editor_code_execution_tool_result",
                "content": {"type": "text_editor_code_execution_view_result", "content": "x"},
            },
            "text_editor_code_execution",
            "file_read",
            "completed",
        ),
        (
            use("s1", "read", {"path": "a"}, "mcp_tool_use", server_name="files"),
            {"type": "mcp_tool_result", "is_error": True, "content": [text("no such file")]},
            "mcp__files__read",
            None,
            "failed",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_tools_that_the_service_runs(
    call: dict[str, Any], done: dict[str, Any], name: str, tool: str | None, status: str
) -> None:
    """Call and result are blocks of one message, and the result says how it went; a plain client takes blocks that it
    does not know for texts, and only their type counts."""
    turn = converter.to_turn(create(body(call, {"tool_use_id": "s1", **done}, text("Done."))))
    called, ended = turn.events[:2]
    assert isinstance(called, ActionCalled)
    assert isinstance(ended, ActionResult)
    assert (called.call_id, called.name, called.tool, called.input) == ("s1", name, tool, call["input"])
    assert (ended.call_id, ended.status) == ("s1", status)
    assert turn.events[2:] == said("Done.")
    assert turn.evidence_coverage is None


def test_blocks_of_unknown_kinds() -> None:
    """A block that is not known lowers the coverage, whatever class the SDK gives it; a compaction is an event."""
    told = converter.collected(create(body({"type": "brand_new", "text": "x"}, text("Hi."))))
    assert told.turn.events == said("Hi.")
    assert levels(told.turn) == {"events": "partial", "actions": "partial", "messages": "partial"}
    compacted = converter.to_turn(create(body({"type": "compaction", "content": "So far."}, text("Hi."))))
    assert (compacted.events, compacted.evidence_coverage) == ((Compaction(), *said("Hi.")), None)


def test_an_empty_answer() -> None:
    """Nothing was said, and that is certain."""
    turn = converter.to_turn(create(body()))
    assert (turn.events, turn.status, turn.evidence_coverage) == ((), "completed", None)


def test_content_in_parts() -> None:
    """A text that citations split is one message; a picture in a result is described and not kept."""
    assert converter.to_turn(create(body(text("A "), text("cat.")))).events == said("A cat.")
    one = create(body(use("t1", "look", {}), reason="tool_use"))
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw"}}
    turn = converter.to_turn([one, results(result("t1", [text("here"), picture]))])
    done = turn.events[1]
    assert isinstance(done, ActionResult)
    assert done.output == [
        text("here"),
        {"type": "image", "source": {"kind": "binary", "base64_chars": 6, "media_type": "image/png"}},
    ]


def test_structured_output() -> None:
    """The last text is the data, parsed by the SDK or not; what is no JSON is no data, and says so."""
    from pydantic import BaseModel

    class City(BaseModel):
        name: str

    answer = body(text('{"name": "Bergen"}'))
    parsed = anthropic_client(answer).messages.parse(output_format=City, **ASK)
    assert converter.to_turn(parsed, structured=True).data == {"name": "Bergen"}
    assert converter.to_turn(create(answer), structured=True).data == {"name": "Bergen"}
    assert converter.to_turn(create(answer)).data is None
    told = converter.collected(create(body(text("Bergen"))), structured=True)
    assert (told.turn.data, [one.code for one in told.diagnostics]) == (None, ["output-not-json"])


def test_cached_and_reasoning_tokens() -> None:
    """Cached tokens stand beside the input here, and are taken as they are; reasoning is a part of the output."""
    usage = {
        **USAGE,
        "cache_read_input_tokens": 60,
        "cache_creation_input_tokens": 10,
        "output_tokens_details": {"thinking_tokens": 15},
    }
    assert converter.to_turn(create(body(usage=usage))).usage == Usage(
        input_tokens=100,
        output_tokens=20,
        cache_read_tokens=60,
        cache_write_tokens=10,
        reasoning_tokens=15,
        requests=1,
    )
    parts = [{"type": "compaction", "input_tokens": 7, "output_tokens": 3}, {"type": "message", **USAGE}]
    compacted = converter.to_turn(create(body(usage={**USAGE, "iterations": parts})))
    assert compacted.usage == Usage(input_tokens=107, output_tokens=23, requests=2)
    none = converter.to_turn(create(body(usage=None)))
    assert (none.usage, levels(none)) == (None, {"usage": "partial"})


ALL = dict.fromkeys(("events", "actions", "messages", "usage", "status"), "partial")


@pytest.mark.parametrize(
    ("reason", "status", "lowered"),
    [
        ("stop_sequence", "completed", {}),
        ("max_tokens", "failed", {}),
        ("model_context_window_exceeded", "failed", {}),
        ("refusal", "failed", {}),
        ("pause_turn", "completed", ALL),
        ("brand_new", "completed", {"status": "partial"}),
        (None, "failed", ALL),
    ],
)
def test_how_a_message_ends(reason: str | None, status: str, lowered: dict[str, str]) -> None:
    """An answer that was cut short failed; a pause is no end, and no question to a human either."""
    turn = converter.to_turn(create(body(text("x"), reason=reason)))
    assert (turn.status, levels(turn)) == (status, lowered)


def test_a_pause_goes_on() -> None:
    """What a paused answer began is closed by the message after it."""
    paused = create(body(use("s1", "web_search", {}, "server_tool_use"), reason="pause_turn"))
    done = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    turn = converter.to_turn([paused, create(body(done, text("Cups."), number=2))])
    assert [type(event) for event in turn.events] == [ActionCalled, ActionResult, Message]
    assert (turn.status, turn.evidence_coverage) == ("completed", None)


def test_a_refusal_of_the_model() -> None:
    """A refusal may come without a word; its explanation is kept."""
    details = {"type": "refusal", "category": "cyber", "explanation": "It is not safe."}
    told = converter.collected(create(body(reason="refusal", stop_details=details)))
    assert (told.turn.events, told.turn.status) == ((), "failed")
    assert "It is not safe." in next(one.message for one in told.diagnostics if one.code == "model-refused")


def test_half_a_call_is_none() -> None:
    """A call at the end of an answer that the limit cut may lack some of its input: it was not made."""
    cut = converter.to_turn(create(body(text("I"), use("t1", "add", {"a": 1}), reason="max_tokens")))
    assert (cut.events, levels(cut)) == (said("I"), {"events": "partial", "actions": "partial"})


DONE = [{"type": "thinking", "thinking": "Add.", "signature": "s"}, text("One moment."), use("t1", "add", {"a": 1})]
DELTAS: dict[str, Callable[[Any], list[dict[str, Any]]]] = {
    "thinking": lambda block: [
        *({"type": "thinking_delta", "thinking": half} for half in (block["thinking"][:2], block["thinking"][2:])),
        {"type": "signature_delta", "signature": "s"},
    ],
    "text": lambda block: [{"type": "text_delta", "text": half} for half in (block["text"][:4], block["text"][4:])],
    "tool_use": lambda block: [
        {"type": "input_json_delta", "partial_json": half}
        for half in ("", json.dumps(block["input"])[:4], json.dumps(block["input"])[4:])
    ],
}
EMPTY = {"thinking": {"thinking": "", "signature": ""}, "text": {"text": ""}, "tool_use": {"input": {}}}


def stream(reason: str = "tool_use", number: int = 1, *blocks: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a streamed message: the input's tokens at its start, the output's in total at its end."""
    start = body(
        reason=None, number=number, usage={"input_tokens": 100, "cache_read_input_tokens": 40, "output_tokens": 1}
    )
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(blocks or DONE):
        at = {"index": index}
        events.append({"type": "content_block_start", **at, "content_block": {**block, **EMPTY[block["type"]]}})
        events += [{"type": "content_block_delta", **at, "delta": delta} for delta in DELTAS[block["type"]](block)]
        events.append({"type": "content_block_stop", **at})
    end = {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": 20},
    }
    return [*events, end, {"type": "message_stop"}]


def streamed(events: list[dict[str, Any]]) -> Turn:
    """The turn of what the SDK's asynchronous stream gives of these events."""

    async def run() -> Turn:
        client = async_anthropic_client(typed_frames(events))
        return await converter.to_turn_stream(await client.messages.create(stream=True, **ASK))

    return asyncio.run(run())


def test_a_stream_is_what_the_message_would_have_been() -> None:
    """The SDK's raw events, those of its helper, a plain iterator and dicts: one turn, and no text twice."""
    usage = {**USAGE, "cache_read_input_tokens": 40}
    turn = converter.to_turn(create(body(*DONE, reason="tool_use", usage=usage)))
    assert streamed(stream()) == turn

    async def helper() -> Turn:
        client = async_anthropic_client(typed_frames(stream()))
        async with client.messages.stream(**ASK) as events:
            return await converter.to_turn_stream(events)

    assert asyncio.run(helper()) == turn
    raw = anthropic_client(typed_frames(stream())).messages.create(stream=True, **ASK)
    assert converter.to_turn(raw) == turn
    assert at_once(converter.to_turn_stream(later(stream()))) == turn


def test_a_streamed_tool_loop() -> None:
    """Streams and the messages between them, one after the other."""
    turn = converter.to_turn([*stream(), results(result("t1", "3")), *stream("end_turn", 2, text("It is three."))])
    assert turn.events[-2:] == (ActionResult(call_id="t1", status="completed", output="3"), *said("It is three."))
    assert turn.usage == Usage(input_tokens=200, cache_read_tokens=80, output_tokens=40, requests=2)
    assert turn.evidence_coverage is None


@pytest.mark.parametrize("kept", range(len(stream()) - 2))
def test_a_cut_stream_says_so(kept: int) -> None:
    """The SDK raises nothing where a stream is cut: what came is kept, half a call is none, and nothing is certain."""
    turn = streamed(stream()[:kept])
    assert (turn.status, levels(turn)) == ("failed", ALL)
    texts = [event.text for event in turn.events if isinstance(event, (Message, Thinking))]
    assert all(whole.startswith(text) for whole, text in zip(["Add.", "One moment."], texts, strict=False))
    assert all(event.input == {"a": 1} for event in turn.events if isinstance(event, ActionCalled))


def test_what_the_sdk_makes_of_a_cut_stream_is_no_answer() -> None:
    """Its final message has half a call and no reason to end."""
    with anthropic_client(typed_frames(stream()[:13])).messages.stream(**ASK) as events:
        for _ in events:
            pass
        final = events.get_final_message()
    assert [block.type for block in final.content] == ["thinking", "text", "tool_use"]
    turn = converter.to_turn(final)
    assert [type(event) for event in turn.events] == [Thinking, Message]
    assert (turn.status, levels(turn)) == ("failed", ALL)


def test_blocks_of_the_beta_client() -> None:
    """The beta client knows blocks that the plain one does not; both come to the same turn."""
    call = use("m1", "read", {"path": "a"}, "mcp_tool_use", server_name="files")
    done = {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": False, "content": [text("x")]}
    answer = body(call, done, {"type": "compaction", "content": "So far."}, text("Done."))
    beta = anthropic_client(answer).beta.messages.create(**ASK)
    assert beta.content[0].type == "mcp_tool_use"
    assert type(beta.content[0]) is not type(create(answer).content[0])
    assert converter.to_turn(beta) == converter.to_turn(create(answer)) == converter.to_turn(answer)


def test_an_error_in_the_middle_of_a_stream() -> None:
    """The SDK raises what the server says: what had come is kept, the error is an event, and the turn failed."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    for turn in (streamed([*stream()[:9], error]), converter.to_turn([*stream()[:9], error])):
        assert turn.events[:2] == (Thinking(text="Add."), *said("One "))
        assert isinstance(turn.events[2], ErrorEvent)
        assert "Overloaded" in turn.events[2].message
        assert (turn.status, levels(turn)) == ("failed", ALL)
    lost = at_once(converter.to_turn_stream(later(stream()[:9], ConnectionError("reset"))))
    assert (lost.events, lost.status, levels(lost)) == ((Thinking(text="Add."), *said("One ")), "failed", ALL)
    instead = converter.to_turn(error)
    assert instead.events == (ErrorEvent(message="Overloaded"),)
    assert (instead.status, levels(instead)) == ("failed", {"usage": "partial"})


WORDS = [
    *("type", "message", "role", "assistant", "user", "content", "text", "tool_use", "tool_result", "id", "name"),
    *("input", "tool_use_id", "is_error", "stop_reason", "end_turn", "usage", "input_tokens", "thinking", "delta"),
    *("message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "index"),
    *("content_block", "partial_json", "error", "source", "data", "max_tokens", "web_search_tool_result"),
]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(max_size=5)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=6)
)
BLOCK = st.builds(
    lambda kind, rest: {**rest, "type": kind}, st.sampled_from(WORDS), st.dictionaries(st.sampled_from(WORDS), JSON)
)
MESSAGE = st.builds(
    lambda role, content, reason: {"role": role, "content": content, "stop_reason": reason},
    st.sampled_from(["assistant", "user"]),
    st.lists(BLOCK | JSON, max_size=3) | JSON,
    JSON,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(JSON | BLOCK | MESSAGE, max_size=4), st.booleans())
def test_nothing_is_raised(given_items: list[Any], structured: bool) -> None:
    """Whatever JSON comes, there is a turn."""
    assert isinstance(converter.to_turn(given_items, structured=structured), Turn)
    at_once(converter.to_turn_stream(later(given_items)))
