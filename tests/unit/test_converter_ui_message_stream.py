"""The AI SDK's UI message stream, as frames of its versions, into turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from niceeval.adapter import Turn, derive_facts
from niceeval.converters import ui_message_stream as ui

Frame = dict[str, Any]


def text(value: str, id: str = "0", kind: str = "text") -> list[Frame]:
    return [
        {"type": f"{kind}-start", "id": id},
        {"type": f"{kind}-delta", "id": id, "delta": value},
        {"type": f"{kind}-end", "id": id},
    ]


def call(id: str = "c1", name: str = "look", **input: Any) -> list[Frame]:
    return [
        {"type": "tool-input-start", "toolCallId": id, "toolName": name},
        {"type": "tool-input-delta", "toolCallId": id, "inputTextDelta": "{}"},
        {"type": "tool-input-available", "toolCallId": id, "toolName": name, "input": input},
    ]


def gave(output: Any, id: str = "c1", **more: Any) -> Frame:
    return {"type": "tool-output-available", "toolCallId": id, "output": output, **more}


def whole(*frames: Frame, finish: str | None = "stop") -> list[str | Frame]:
    ending: Frame = {"type": "finish"} if finish is None else {"type": "finish", "finishReason": finish}
    return [
        {"type": "start", "messageId": "m1"},
        {"type": "start-step"},
        *frames,
        {"type": "finish-step"},
        ending,
        "[DONE]",
    ]


STEP: list[Frame] = [{"type": "finish-step"}, {"type": "start-step"}]
BAD_INPUT: Frame = {
    "type": "tool-input-error",
    "toolCallId": "c1",
    "toolName": "look",
    "input": {"whe": 3},
    "errorText": "no such argument",
    "dynamic": True,
}
MASKED: Frame = {"type": "tool-output-error", "toolCallId": "c1", "errorText": "An error occurred."}
ASKED: Frame = {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1"}

TURNS: Mapping[str, tuple[list[str | Frame], list[str], str]] = {
    "success": (whole(*text("Hello."), finish=None), ["Message(Hello.)"], "completed"),
    "a text where it began": (
        whole(text("x")[0], *call(where="a"), gave("ok"), *text("I look.")[1:], *STEP, *text("Fine.")),
        ["Message(I look.)", "ActionCalled(look)", "ActionResult(completed)", "Message(Fine.)"],
        "completed",
    ),
    "ids that come again in each step": (
        whole(*text("One."), *STEP, *text("Two.")),
        ["Message(One.)", "Message(Two.)"],
        "completed",
    ),
    "texts that come together": (
        whole(
            {"type": "text-start", "id": "a"},
            {"type": "text-start", "id": "b"},
            {"type": "text-delta", "id": "a", "delta": "A"},
            {"type": "text-delta", "id": "b", "delta": "B"},
            {"type": "text-delta", "id": "a", "delta": "a"},
            {"type": "text-end", "id": "b"},
            {"type": "text-end", "id": "a"},
        ),
        ["Message(Aa)", "Message(B)"],
        "completed",
    ),
    "tool failure": (
        whole(*call(where="a"), {**MASKED, "errorText": "not there"}),
        ["ActionCalled(look)", "ActionResult(failed)"],
        "completed",
    ),
    "a wrong input, version 6": (
        whole(BAD_INPUT, MASKED, *STEP, *text("Sorry.")),
        ["ActionCalled(look)", "ActionResult(failed)", "Message(Sorry.)"],
        "completed",
    ),
    "a wrong input, version 7": (
        whole(BAD_INPUT, *STEP, *text("Sorry.")),
        ["ActionCalled(look)", "ActionResult(failed)", "Message(Sorry.)"],
        "completed",
    ),
    "outputs before the last one": (
        whole(*call(where="a"), gave("half", preliminary=True), gave("all")),
        ["ActionCalled(look)", "ActionResult(completed)"],
        "completed",
    ),
    "parallel tools": (
        whole(*call(where="a"), *call("c2", where="b"), gave("B", "c2"), gave("A")),
        ["ActionCalled(look)", "ActionCalled(look)", "ActionResult(completed)", "ActionResult(completed)"],
        "completed",
    ),
    "an approval": (
        whole(*call(where="a"), ASKED, finish="tool-calls"),
        ["ActionCalled(look)", "InputRequested(look)"],
        "waiting",
    ),
    "a refusal": (
        whole({"type": "tool-output-denied", "toolCallId": "c1"}, *text("As you like.")),
        ["ActionResult(rejected)", "Message(As you like.)"],
        "completed",
    ),
    "empty answer": (whole(), [], "completed"),
    "reasoning": (
        whole(*text("Hmm.", kind="reasoning"), *text("Yes.")),
        ["Thinking(Hmm.)", "Message(Yes.)"],
        "completed",
    ),
    "an error that ends like a success": (
        whole(*text("I"), {"type": "error", "errorText": "overloaded"}),
        ["Message(I)", "ErrorEvent(overloaded)"],
        "failed",
    ),
    "an error at once": (
        [{"type": "start"}, {"type": "error", "errorText": "overloaded"}, "[DONE]"],
        ["ErrorEvent(overloaded)"],
        "failed",
    ),
    "an abort": (
        [{"type": "start"}, {"type": "abort", "reason": "too slow"}, "[DONE]"],
        ["ErrorEvent(the turn was aborted: too slow)"],
        "failed",
    ),
    "too many tokens": (whole(*text("And so"), finish="length"), ["Message(And so)"], "failed"),
    "a filter": (whole(finish="content-filter"), [], "failed"),
    "an error that is not named": (whole(finish="error"), [], "failed"),
}


def shown(turn: Turn) -> list[str]:
    return [f"{type(event).__name__}({_word(event)})" for event in turn.events]


def _word(event: Any) -> str:
    for field in ("text", "name", "status", "message"):
        if hasattr(event, field):
            return str(getattr(event, field))
    return str(event.request.action)


@pytest.mark.parametrize(("frames", "events", "status"), TURNS.values(), ids=TURNS.keys())
def test_streams(frames: list[str | Frame], events: list[str], status: str) -> None:
    """Each stream gives its events in their order, and nothing is missing of it."""
    turn = ui.to_turn(frames)
    assert (shown(turn), turn.status, turn.evidence_coverage) == (events, status, None)


def test_what_a_call_came_to() -> None:
    """Inputs, outputs and the texts of errors belong to their calls."""
    calls = derive_facts(ui.to_turn(TURNS["parallel tools"][0]).events).tool_calls
    assert [(one.input, one.output) for one in calls] == [({"where": "a"}, "A"), ({"where": "b"}, "B")]
    (wrong,) = derive_facts(ui.to_turn(TURNS["a wrong input, version 6"][0]).events).tool_calls
    assert (wrong.input, wrong.output, wrong.status) == ({"whe": 3}, "no such argument", "failed")
    (shown_output,) = derive_facts(ui.to_turn(TURNS["outputs before the last one"][0]).events).tool_calls
    assert shown_output.output == "all"


def test_a_stream_that_goes_on() -> None:
    """After an approval the stream may announce the call again, or not: it is of the turn before, and made once."""
    announced = whole(call(where="a")[2], gave("ok"))
    plain = whole(gave("ok"))
    for frames in (announced, plain):
        assert shown(ui.to_turn(frames, open_calls=["c1"])) == ["ActionResult(completed)"]


USAGES: Mapping[str, tuple[Frame, tuple[int | None, ...]]] = {
    "version 7": (
        {
            "totalUsage": {
                "inputTokens": 100,
                "inputTokenDetails": {"noCacheTokens": 60, "cacheReadTokens": 30, "cacheWriteTokens": 10},
                "outputTokens": 20,
                "outputTokenDetails": {"textTokens": 15, "reasoningTokens": 5},
            }
        },
        (60, 20, 30, 10, 5),
    ),
    "version 6": (
        {"usage": {"inputTokens": 100, "outputTokens": 20, "cachedInputTokens": 30, "reasoningTokens": 5}},
        (70, 20, 30, None, 5),
    ),
    "nothing inside": ({"usage": {"inputTokens": 100, "outputTokens": 20}}, (100, 20, None, None, None)),
}


@pytest.mark.parametrize(("metadata", "buckets"), USAGES.values(), ids=USAGES.keys())
def test_usage_in_the_metadata(metadata: Frame, buckets: tuple[int | None, ...]) -> None:
    """Tokens that an app puts into the metadata are in buckets that exclude each other."""
    frames = [{"type": "start"}, {"type": "finish", "messageMetadata": metadata}, "[DONE]"]
    usage = ui.to_turn(frames).usage
    assert usage is not None
    assert buckets == (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
    )


def levels(turn: Turn) -> dict[str, str]:
    return {channel: found.level for channel, found in (turn.evidence_coverage or {}).items()}


ALL = dict.fromkeys(("events", "actions", "messages", "usage", "status"), "partial")
MISSING: Mapping[str, tuple[list[str | Frame], dict[str, str]]] = {
    "no end": (whole(*text("Hello."))[:-1], ALL),
    "nothing": ([], ALL),
    "a text without an end": (whole(*text("Hello.")[:2]), {"events": "partial", "messages": "partial"}),
    "a call that was never made": (whole(*call()[:2]), {"events": "partial", "actions": "partial"}),
    "a frame of a kind that is new": (
        whole({"type": "hologram"}),
        {"events": "partial", "actions": "partial", "messages": "partial"},
    ),
    "a tool frame that is new": (
        whole({"type": "tool-output-moved", "toolCallId": "c1"}),
        {"events": "partial", "actions": "partial", "messages": "partial"},
    ),
    "what is no JSON": (["{", *whole()], {**ALL, "usage": ""}),
    "a file in the answer": (
        whole({"type": "file", "url": "data:,", "mediaType": "image/png"}),
        {"messages": "partial"},
    ),
    "parts that an app defines": (whole({"type": "data-weather", "data": {"sun": 1}}), {}),
}


@pytest.mark.parametrize(("frames", "lowered"), MISSING.values(), ids=MISSING.keys())
def test_what_is_missing(frames: list[str | Frame], lowered: dict[str, str]) -> None:
    """What could not be read, or has no end, lowers the channels that it may have carried evidence for."""
    assert levels(ui.to_turn(frames)) == {channel: level for channel, level in lowered.items() if level}


@pytest.mark.parametrize("frames", [row[0] for row in TURNS.values()], ids=TURNS.keys())
def test_a_cut_anywhere(frames: list[str | Frame]) -> None:
    """A stream that was cut, wherever, is a failed turn, says nothing for certain, and makes nothing up."""
    whole_events = shown(ui.to_turn(frames))
    for length in range(len(frames)):
        turn = ui.to_turn(frames[:length])
        assert (turn.status, {**ALL, **levels(turn)}) == ("failed", levels(turn)), length
        calls = [event for event in shown(turn) if not event.startswith(("Message", "Thinking"))]
        assert all(event in whole_events for event in calls), length


def test_a_tool_that_the_client_runs() -> None:
    """A call without a result is a lost one or one of the client's tools: the picture is the same, and it is said."""
    result = ui.collected(whole(*call(), finish="tool-calls"))
    assert [said.code for said in result.diagnostics] == ["client-tool"]
    assert derive_facts(result.turn.events).tool_calls[0].status == "unknown"


def test_a_question_of_a_stream_that_was_cut() -> None:
    """A question that was open when the stream broke off does not make the turn wait."""
    turn = ui.to_turn(whole(*call(), ASKED)[:-1])
    assert (turn.status, levels(turn)) == ("failed", ALL)


def test_a_stream_that_raises() -> None:
    """Frames that are read as they come give the same turn; one that raises keeps what has come."""

    async def frames(*, broken: bool) -> AsyncIterator[str | Frame]:
        for frame in TURNS["success"][0]:
            if broken and frame == "[DONE]":
                raise ConnectionError("reset")
            yield frame

    whole_turn = asyncio.run(ui.to_turn_stream(frames(broken=False)))
    assert whole_turn == ui.to_turn(TURNS["success"][0])
    turn = asyncio.run(ui.to_turn_stream(frames(broken=True)))
    assert (shown(turn), turn.status, levels(turn)) == (["Message(Hello.)"], "failed", ALL)


def test_a_stream_without_an_end_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a stream that goes on and on, what came first is kept, and the rest is not read."""
    monkeypatch.setattr(ui, "MAX_STREAM_CHARS", 1_000)
    read = 0

    async def frames() -> AsyncIterator[str]:
        nonlocal read
        while True:
            read += 1
            yield '{"type":"text-delta","id":"0","delta":"and on "}'

    turn = asyncio.run(ui.to_turn_stream(frames()))
    assert (turn.status, levels(turn), read < 50) == ("failed", ALL, True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KINDS = st.sampled_from(
    sorted({str(frame["type"]) for frames, _, _ in TURNS.values() for frame in frames if isinstance(frame, dict)})
)
FIELDS = ["id", "delta", "toolCallId", "toolName", "input", "output", "errorText", "messageMetadata", "approvalId"]


@given(st.lists(st.text(max_size=5) | st.builds(lambda kind, more: {**more, "type": kind}, KINDS, st.dictionaries(
    st.sampled_from(FIELDS), JSON, max_size=4)), max_size=8))  # fmt: skip
def test_whatever_a_server_sends(frames: list[str | Frame]) -> None:
    """No stream raises, and one without its end is never whole."""
    turn = ui.to_turn(frames)
    if ui.DONE not in [frame.strip() for frame in frames if isinstance(frame, str)]:
        assert turn.status == "failed"
        assert levels(turn)["actions"] == "partial"


def test_situations() -> None:
    """What the protocol can show of a run is said for each of the ten situations."""
    assert list(ui.situations) == [
        "success",
        "tool failure",
        "refusal by a human",
        "parallel tools",
        "nested agent",
        "empty answer",
        "multi-part content",
        "structured output",
        "cached and reasoning tokens",
        "error mid-stream",
    ]
    assert all(ui.situations.values())
