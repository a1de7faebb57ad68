"""What a converter may call complete: the ones that are here stand, and one that lies in any way is found out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    AdapterError,
    Coverage,
    EvidenceCoverage,
    Message,
    StreamEvent,
    Thinking,
    Turn,
    Usage,
    complete_evidence_coverage,
)
from niceeval.converters import anthropic_messages, openai_chat, openai_responses
from niceeval.testing import ConverterSample, Report, check_converter

HAPPENED: tuple[StreamEvent, ...] = (
    Thinking(text="Where?"),
    Message(role="assistant", text="I look."),
    ActionCalled(call_id="1", name="stock", input={"item": "cup"}),
    ActionCalled(call_id="2", name="price", input={"item": "cup"}),
    ActionResult(call_id="1", status="completed", output="3"),
    ActionResult(call_id="2", status="failed", output="no price"),
    Message(role="assistant", text="Three are left."),
)
USED = Usage(input_tokens=150, output_tokens=30, cache_read_tokens=50, requests=2)


def anthropic(*, stream: bool) -> ConverterSample:
    first = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Where?", "signature": "s"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t1", "name": "stock", "input": {"item": "cup"}},
            {"type": "tool_use", "id": "t2", "name": "price", "input": {"item": "cup"}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 100, "output_tokens": 20},
    }
    results = {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "3"},
            {"type": "tool_result", "tool_use_id": "t2", "content": "no price", "is_error": True},
        ],
    }
    usage = {"input_tokens": 50, "cache_read_input_tokens": 50, "output_tokens": 10}
    last = {"id": "msg_2", "type": "message", "role": "assistant", "stop_reason": "end_turn", "usage": usage}
    said = {"type": "text", "text": "Three are left."}
    loop = [first, results, {**last, "content": [said]}]
    if not stream:
        return ConverterSample(name="loop", value=loop, events=HAPPENED, usage=USED)
    frames = [
        {
            "type": "message_start",
            "message": {**last, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}},
        },
        {"type": "content_block_start", "index": 0, "content_block": {**said, "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Three "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "are left."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 10}},
        {"type": "message_stop"},
    ]
    used = Usage(input_tokens=50, cache_read_tokens=50, output_tokens=10, requests=1)
    return ConverterSample(name="stream", value=frames, events=HAPPENED[-1:], usage=used, stream=True)


def responses(*, stream: bool) -> ConverterSample:
    def call(id: str, name: str) -> dict[str, Any]:
        made = {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name}
        return {**made, "arguments": '{"item": "cup"}', "status": "completed"}

    def message(number: int, text: str) -> dict[str, Any]:
        parts = [{"type": "output_text", "text": text, "annotations": []}]
        return {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": parts}

    thought = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Where?"}]}
    items = [thought, message(1, "I look."), call("c1", "stock"), call("c2", "price")]
    usage = {"input_tokens": 100, "output_tokens": 20}
    first = {"id": "resp_1", "object": "response", "status": "completed", "output": items, "usage": usage}
    outputs = [
        {"type": "function_call_output", "call_id": "c1", "output": "3"},
        {"type": "function_call_output", "call_id": "c2", "output": "no price"},
    ]
    later = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 50}, "output_tokens": 10}
    last = {**first, "id": "resp_2", "output": [message(2, "Three are left.")], "usage": later}
    if not stream:
        return ConverterSample(name="loop", value=[first, *outputs, last], events=HAPPENED, usage=USED)
    frames: list[dict[str, Any]] = [{"type": "response.created", "response": {**last, "status": "in_progress"}}]
    for part in ("Three ", "are left."):
        at = {"output_index": 0, "content_index": 0}
        frames.append({"type": "response.output_text.delta", **at, "delta": part})
    frames.append({"type": "response.output_item.done", "output_index": 0, "item": message(2, "Three are left.")})
    frames.append({"type": "response.completed", "response": last})
    used = Usage(input_tokens=50, cache_read_tokens=50, output_tokens=10, requests=1)
    return ConverterSample(name="stream", value=frames, events=HAPPENED[-1:], usage=used, stream=True)


def chat(*, stream: bool) -> ConverterSample:
    def call(id: str, name: str) -> dict[str, Any]:
        return {"id": id, "type": "function", "function": {"name": name, "arguments": '{"item": "cup"}'}}

    def completion(number: int, message: dict[str, Any], reason: str, usage: dict[str, Any]) -> dict[str, Any]:
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
        return {"id": f"chatcmpl-{number}", "object": "chat.completion", "choices": [choice], "usage": usage}

    calls = {"content": "I look.", "reasoning": "Where?", "tool_calls": [call("c1", "stock"), call("c2", "price")]}
    later = {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 50}, "completion_tokens": 10}
    value = [
        completion(1, calls, "tool_calls", {"prompt_tokens": 100, "completion_tokens": 20}),
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
        {"role": "tool", "tool_call_id": "c2", "content": "no price"},
        completion(2, {"content": "Three are left."}, "stop", later),
    ]
    if not stream:
        return ConverterSample(name="loop", value=value, events=HAPPENED, usage=USED)

    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    frames = [
        *(chunk({"content": part}) for part in ("Three ", "are left.")),
        chunk({}, "stop"),
        {"object": "chat.completion.chunk", "choices": [], "usage": later},
    ]
    used = Usage(input_tokens=50, cache_read_tokens=50, output_tokens=10, requests=1)
    return ConverterSample(name="stream", value=frames, events=HAPPENED[-1:], usage=used, stream=True)


def anthropic_turn(value: Any) -> Turn:
    return anthropic_messages.to_turn(value)


CONVERTERS: Mapping[str, tuple[Callable[[Any], Turn], EvidenceCoverage, Callable[..., ConverterSample]]] = {
    "anthropic_messages": (anthropic_turn, anthropic_messages.coverage, anthropic),
    "openai_responses": (
        lambda value: openai_responses.to_turn(value, failed=["c2"]),
        openai_responses.coverage,
        responses,
    ),
    "openai_chat": (lambda value: openai_chat.to_turn(value, failed=["c2"]), openai_chat.coverage, chat),
}


@pytest.mark.parametrize("name", CONVERTERS)
def test_the_converters_claim_what_they_may(name: str) -> None:
    """Whole, cut and changed in every way, they never call more complete than is there."""
    convert, coverage, sample = CONVERTERS[name]
    samples = [sample(stream=False), sample(stream=True)]
    report = check_converter(convert, samples, coverage=coverage, name=name)
    report.raise_for_failures()
    claimed = [channel for channel, said in coverage.items() if said.level == "complete" and channel != "data"]
    assert [f"complete-{channel}" for channel in claimed] == [
        finding.check for finding in report.passed if finding.check.startswith("complete-")
    ]
    assert report["complete-data"].seen == "no sample says anything of data"


def lies(change: Callable[[Turn], Turn], coverage: EvidenceCoverage = complete_evidence_coverage) -> Report:
    samples = [anthropic(stream=False), anthropic(stream=True)]
    return check_converter(lambda value: change(anthropic_turn(value)), samples, coverage=coverage, name="liar")


def without(turn: Turn, kind: type) -> Turn:
    return replace(turn, events=tuple(event for event in turn.events if not isinstance(event, kind)))


def never_lowers(turn: Turn) -> Turn:
    return replace(turn, evidence_coverage=None)


def lowers(turn: Turn, *channels: str) -> Turn:
    lowered: Any = {channel: Coverage.partial("it is not all there") for channel in channels}
    return replace(turn, evidence_coverage={**(turn.evidence_coverage or {}), **lowered})


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        (lambda turn: without(turn, ActionResult), {"complete-events", "complete-actions"}),
        (lambda turn: without(turn, ActionCalled), {"complete-events", "complete-actions"}),
        (lambda turn: without(turn, Thinking), {"complete-events"}),
        (lambda turn: without(turn, Message), {"complete-events", "complete-messages"}),
        (lambda turn: replace(turn, usage=None), {"complete-usage"}),
        (lambda turn: replace(turn, usage=replace_usage(turn)), {"complete-usage"}),
        (lambda turn: replace(turn, status="completed"), set()),
        (
            lambda turn: replace(turn, events=tuple(reversed(turn.events))),
            {"complete-events", "complete-actions", "complete-messages"},
        ),
        (
            never_lowers,
            {"complete-events", "complete-actions", "complete-messages", "complete-usage", "complete-status"},
        ),
    ],
    ids=[
        "no results",
        "no calls",
        "no thoughts",
        "no texts",
        "no usage",
        "half usage",
        "honest",
        "order",
        "never lowers",
    ],
)
def test_a_converter_that_claims_more_is_found_out(change: Callable[[Turn], Turn], failing: set[str]) -> None:
    """What is lost, out of order or cut, and called complete all the same, fails on exactly these channels."""
    report = lies(change)
    assert {finding.check for finding in report.failed} == failing
    for finding in report.failed:
        assert finding.seen
        assert finding.next


def replace_usage(turn: Turn) -> Usage | None:
    return None if turn.usage is None else Usage(input_tokens=turn.usage.input_tokens, requests=turn.usage.requests)


def test_what_is_lost_and_said_so_is_honest() -> None:
    """A converter that has no results and lowers the actions, in each turn or from the start, is left alone."""
    coverage = EvidenceCoverage.complete_except(
        actions=Coverage.partial("results are not shown"), events=Coverage.partial("results are not shown")
    )
    lies(lambda turn: without(turn, ActionResult), coverage).raise_for_failures()
    lies(lambda turn: lowers(without(turn, ActionResult), "actions", "events")).raise_for_failures()


def test_what_might_be_called_complete_is_said() -> None:
    """Where a converter promises less than it shows, that is a remark and no failure."""
    report = lies(lambda turn: lowers(turn, "messages", "events"))
    report.raise_for_failures()
    assert "all of it was there" in report["complete-messages"].seen
    lossy = lies(lambda turn: lowers(without(turn, Message), "messages", "events"))
    assert "all of it was there" not in lossy["complete-messages"].seen


def test_inventions_upgrades_and_exceptions_are_found_out() -> None:
    """What did not happen, a coverage better than declared, and a converter that raises."""
    more = Message(role="assistant", text="Anything else?")
    report = lies(lambda turn: replace(turn, events=(*turn.events, more)))
    assert "Anything else?" in report["invents-nothing"].seen
    report = lies(
        lambda turn: replace(turn, evidence_coverage={"usage": Coverage.complete}),
        EvidenceCoverage.complete_except(usage=Coverage.unavailable("it is not said")),
    )
    assert "usage is complete, declared unavailable" in report["only-lowers"].seen

    def strict(value: Any) -> Turn:
        return anthropic_turn([item for item in value if item["type"] or item["role"]])

    report = check_converter(strict, [anthropic(stream=False)], coverage=anthropic_messages.coverage)
    assert "KeyError" in report["survives"].seen
    assert str(report).startswith("converter test_inventions_upgrades_and_exceptions_are_found_out.<locals>.strict:")
    with pytest.raises(AssertionError, match="KeyError"):
        report.raise_for_failures()
    with pytest.raises(AdapterError, match="no sample"):
        check_converter(anthropic_turn, [], coverage=anthropic_messages.coverage)


def test_unknown_items_have_to_lower_what_their_list_feeds() -> None:
    """A converter that skips what it does not know fails on the channels that items of this list are evidence for."""

    def skips(value: Any) -> Turn:
        known = [item for item in value if item.get("role") in ("assistant", "user")]
        blocks = [
            {**item, "content": [block for block in item["content"] if not block["type"].startswith("niceeval")]}
            for item in known
        ]
        return anthropic_turn(blocks)

    report = check_converter(skips, [anthropic(stream=False)], coverage=anthropic_messages.coverage)
    assert {finding.check for finding in report.failed} == {"complete-events", "complete-actions", "complete-messages"}
    assert "unknown kind" in report["complete-actions"].seen
