"""What parsers and converters share: decoding lines, collecting a turn, tool names."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from niceeval import EvalContext
from niceeval._base.errors import AdapterError
from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    Compaction,
    Coverage,
    ErrorEvent,
    EvidenceCoverage,
    InputRequest,
    InputRequested,
    Message,
    SubagentCalled,
    SubagentCompleted,
    Thinking,
    Turn,
    Usage,
    complete_evidence_coverage,
)
from niceeval.turn_building import (
    JsonLines,
    SeenIds,
    ToolNames,
    TurnBuilder,
    amount_of,
    count_of,
    list_of,
    mcp_name,
    mcp_parts,
    object_of,
    text_of,
    value_of,
)
from niceeval.turn_building.builder import MAX_EVENTS, MAX_TEXT_CHARS, MAX_UNKNOWN_KINDS, MAX_VALUE_BYTES
from tests.unit.drive_harness import agent, run_eval

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(), JSON, max_size=3), max_size=6)


def decode(chunks: list[bytes], **how: Any) -> tuple[list[Any], JsonLines]:
    """The objects of some chunks, and the decoder after them."""
    lines = JsonLines(**how)
    found = [one for chunk in chunks for one in lines.feed(chunk)]
    return found + lines.finish(), lines


@PATIENT
@given(OBJECTS, st.sampled_from(["\n", "\r\n", "\n\n", "\n \n"]), st.booleans(), st.booleans())
def test_lines_are_the_same_wherever_the_chunks_end(
    objects: list[dict[str, Any]], end: str, closed: bool, plain: bool
) -> None:
    """Split at every byte, one byte at a time, or in one piece; with any line end, with or without the last one."""
    data = end.join(json.dumps(one, ensure_ascii=plain) for one in objects)
    raw = (data + end * closed).encode("utf-8", "surrogatepass")
    wanted, whole = decode([raw])
    assert wanted == json.loads(json.dumps(objects))
    assert not whole.problems()
    assert decode([raw[place : place + 1] for place in range(len(raw))])[0] == wanted
    for place in range(0, len(raw), len(raw) // 10 + 1):
        assert decode([raw[:place], raw[place:]])[0] == wanted


@PATIENT
@given(st.lists(st.binary(max_size=40), max_size=12), st.integers(1, 7))
def test_any_bytes_decode_to_objects_and_counts(pieces: list[bytes], size: int) -> None:
    """Whatever comes, nothing is raised, and chunk borders change neither the objects nor the counts."""
    raw = b"\n".join(pieces)
    found, whole = decode([raw])
    again, split = decode([raw[start : start + size] for start in range(0, len(raw), size)])
    assert all(isinstance(one, dict) for one in found)
    assert (again, split.problems()) == (found, whole.problems())


BAD_LINES = [
    ("invalid UTF-8", b'{"a":"\xff"}', "invalid_utf8"),
    ("a cut character", b'{"a":"\xc3"}', "invalid_utf8"),
    ("no JSON", b"[debug] starting", "not_json"),
    ("half an object", b'{"a":', "not_json"),
    ("a list", b"[1]", "not_object"),
    ("null", b"null", "not_object"),
    ("too deep", b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not_json"),
    ("a huge number", b"9" * 10_000, "not_json"),
]


@pytest.mark.parametrize(("what", "line", "counted"), BAD_LINES, ids=[what for what, _, _ in BAD_LINES])
def test_a_line_that_cannot_be_read_is_counted_and_the_next_one_is_read(what: str, line: bytes, counted: str) -> None:
    """Every kind of bad line is counted as what it is, and leaves a hole where holes are asked for."""
    raw = b'{"a":1}\n' + line + b'\n{"b":2}\n'
    found, lines = decode([raw])
    assert found == [{"a": 1}, {"b": 2}]
    counts = {name: getattr(lines, name) for name in ("invalid_utf8", "not_json", "not_object", "too_long")}
    assert counts == {**dict.fromkeys(counts, 0), counted: 1}
    assert not lines.cut
    assert len(lines.problems()) == 1
    assert decode([raw], mark_holes=True)[0] == [{"a": 1}, {}, {"b": 2}]


@pytest.mark.parametrize("rest", [b'{"b":', b'{"b":"\xc3', b"{"])
def test_a_last_line_that_is_not_whole_is_cut(rest: bytes) -> None:
    """Only the last line can be cut, and it is not counted as bad besides; a whole one without an end is read."""
    found, lines = decode([b'{"a":1}\n' + rest])
    assert found == [{"a": 1}]
    assert lines.cut
    assert lines.problems() == ("the last line is cut",)
    found, lines = decode([b'{"a":1}\n{"b":2}'])
    assert found == [{"a": 1}, {"b": 2}]
    assert not lines.cut


def test_a_line_over_the_limit_is_skipped_in_bounded_memory() -> None:
    """A line of 40 MB in small chunks is counted, and no more than its limit is ever held."""
    lines = JsonLines(max_line_bytes=1_000)
    chunk = b"x" * 10_000
    tracemalloc.start()
    try:
        lines.feed(b'{"a":"')
        for _ in range(4_000):
            assert lines.feed(chunk) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert lines.feed(b'"}\n{"b":2}\n') == [{"b": 2}]
    assert lines.too_long == 1
    assert peak < 1_000_000
    assert not lines.cut


def test_a_last_line_over_the_limit_is_counted_and_cut() -> None:
    """It has no end, so it is both."""
    found, lines = decode([b"x" * 50], max_line_bytes=10)
    assert (found, lines.too_long, lines.cut) == ([], 1, True)


def test_replacing_keeps_a_damaged_line_and_counts_it() -> None:
    """With `replace_invalid` the text is there with U+FFFD, and the damage is said all the same."""
    found, lines = decode([b'{"a":"x\xffy"}\n'], replace_invalid=True)
    assert found == [{"a": "x\ufffdy"}]
    assert lines.invalid_utf8 == 1


def test_fields_of_the_wrong_shape_are_as_good_as_absent() -> None:
    """No reader raises, and none takes a bool for a number."""
    odd: dict[str, Any] = {"t": 1, "o": [], "l": {}, "n": True, "f": 3.0, "x": float("nan"), "m": -1, "big": 2**70}
    assert (text_of(odd, "t"), object_of(odd, "o"), list_of(odd, "l")) == (None, {}, [])
    assert [count_of(odd, key) for key in "nfxm"] == [None, 3, None, None]
    assert [amount_of(odd, key) for key in ("n", "f", "x", "m", "big")] == [None, 3.0, None, None, None]
    assert value_of(odd, "t", "u") is None
    assert count_of("text", "n") is None


def test_tool_names_are_canonical_or_none() -> None:
    """A name that is mapped is canonical, another has no canonical name, and a slip in the table is an error."""
    names = ToolNames({"Bash": "shell"})
    assert (names.canonical("Bash"), names.canonical("mcp__a__b")) == ("shell", None)
    with pytest.raises(AdapterError, match="terminal"):
        ToolNames({"Bash": "terminal"})


@pytest.mark.parametrize(
    ("name", "parts"),
    [("mcp__git__status", ("git", "status")), ("mcp__a__b__c", ("a", "b__c")), ("mcp__a", None), ("Bash", None)],
)
def test_mcp_names_come_apart_and_together(name: str, parts: tuple[str, str] | None) -> None:
    """The parts of a name make the name again."""
    assert mcp_parts(name) == parts
    if parts:
        assert mcp_name(*parts) == name


def test_seen_ids_are_bounded() -> None:
    """The oldest is forgotten; what has no id is always new."""
    seen = SeenIds(2)
    assert [seen.first(id) for id in ["a", "a", "b", "c", "a", None, None]] == [
        True,
        False,
        True,
        True,
        True,
        True,
        True,
    ]
    assert len(seen) == 2


# The builder --------------------------------------------------------------------------------------------------------


def built(*steps: Any, declared: Any = complete_evidence_coverage) -> Turn:
    """The turn after some steps on a builder."""
    builder = TurnBuilder(declared)
    for step in steps:
        step(builder)
    return builder.build().turn


def levels(turn: Turn) -> dict[str, str]:
    """The levels that a turn lowers its channels to."""
    return {channel: coverage.level for channel, coverage in (turn.evidence_coverage or {}).items()}


def test_events_are_kept_in_their_order_and_pieces_are_joined() -> None:
    """Every kind of event, and texts whose pieces end where something else happens."""
    request = InputRequest(id="q")
    turn = built(
        lambda b: b.text_delta("Let me ", key="m1"),
        lambda b: b.text_delta("look.", key="m1"),
        lambda b: b.text_delta("hm", kind="thinking"),
        lambda b: b.called("c", "Bash", {"command": "ls"}, "shell"),
        lambda b: b.result("c", "notes"),
        lambda b: b.subagent("s", "helper"),
        lambda b: b.subagent_done("s", "done"),
        lambda b: b.text_delta("One", key="m2"),
        lambda b: b.text_delta("Two", key="m3"),
        lambda b: b.thinking("so"),
        lambda b: b.message(""),
        lambda b: b.compaction("full"),
        lambda b: b.error("slow"),
        lambda b: b.error("slow"),
        lambda b: b.requested(request),
    )
    assert list(turn.events) == [
        Message(role="assistant", text="Let me look."),
        Thinking(text="hm"),
        ActionCalled(call_id="c", name="Bash", input={"command": "ls"}, tool="shell"),
        ActionResult(call_id="c", output="notes", status="completed"),
        SubagentCalled(call_id="s", name="helper"),
        SubagentCompleted(call_id="s", output="done", status="completed"),
        Message(role="assistant", text="One"),
        Message(role="assistant", text="Two"),
        Thinking(text="so"),
        Compaction(reason="full"),
        ErrorEvent(message="slow"),
        InputRequested(request=request),
    ]
    assert turn.status == "waiting"
    assert turn.evidence_coverage is None


def test_a_gap_in_a_text_keeps_its_longest_part_and_says_so() -> None:
    """No text is made up over a gap, and no more messages are counted than there were."""
    turn = built(
        lambda b: b.text_delta("ab"),
        lambda b: b.text_gap(),
        lambda b: b.text_delta("longer"),
        lambda b: b.text_gap(),
        lambda b: b.text_delta("c"),
    )
    assert list(turn.events) == [Message(role="assistant", text="longer")]
    assert levels(turn) == {"events": "partial", "messages": "partial"}
    withdrawn = built(
        lambda b: b.text_delta("ab"), lambda b: b.withdraw_texts("disorder"), lambda b: b.message("whole")
    )
    assert list(withdrawn.events) == [Message(role="assistant", text="whole")]
    assert levels(withdrawn) == {"events": "partial", "messages": "partial"}


def test_what_repeats_is_kept_once_and_a_contradiction_is_partial() -> None:
    """The same call and result again are nothing; another tool or outcome under the same id lowers the channels."""
    same = built(*[lambda b: b.called("c", "Bash", 1), lambda b: b.result("c", "x")] * 3)
    assert len(same.events) == 2
    assert levels(same) == {}
    other = built(lambda b: b.called("c", "Bash", 1), lambda b: b.called("c", "Read", 1))
    assert levels(other) == {"events": "partial", "actions": "partial"}
    worse = built(lambda b: b.result("c", "x"), lambda b: b.result("c", "x", "failed"))
    assert levels(worse) == {"events": "partial", "actions": "partial"}


def test_a_failed_call_can_be_amended_and_another_cannot() -> None:
    """A denial that is said at the end makes `failed` into `rejected`; None withdraws the result."""
    turn = built(
        lambda b: [b.result(id, id, "failed") for id in "abc"],
        lambda b: b.result("d", "d"),
        lambda b: [b.amend("a", "rejected"), b.amend("b", None), b.amend("d", None), b.amend("x", None)],
    )
    found = {event.call_id: event.status for event in turn.events if isinstance(event, ActionResult)}
    assert found == {"a": "rejected", "c": "failed", "d": "completed"}


def test_usage_under_a_key_replaces_what_the_key_said() -> None:
    """Figures without a key add up; those with one are counted once."""
    turn = built(
        lambda b: b.add_usage(Usage(input_tokens=5, output_tokens=1), "m1"),
        lambda b: b.add_usage(Usage(input_tokens=5, output_tokens=9), "m1"),
        lambda b: b.add_usage(Usage(input_tokens=7), "m2"),
        lambda b: b.add_usage(Usage(cost_usd=0.1)),
        lambda b: b.add_usage(Usage(cost_usd=0.2)),
    )
    assert turn.usage == Usage(input_tokens=12, output_tokens=9, cost_usd=0.3)
    assert built().usage is None


def test_downgrades_keep_each_reason_once_and_never_promise_more_than_was_declared() -> None:
    """The worst level holds; a channel that was declared worse keeps its level; too many reasons are counted."""
    declared = EvidenceCoverage.complete_except(usage=Coverage.unavailable("no tokens"))
    turn = built(
        lambda b: [b.partial("actions", "cut"), b.partial("actions", "cut"), b.unavailable("actions", "lost")],
        lambda b: b.partial("usage", "half"),
        lambda b: [b.partial("status", f"reason {number}") for number in range(100)],
        declared=declared,
    )
    coverage = dict(turn.evidence_coverage or {})
    assert coverage["actions"] == Coverage.unavailable("cut; lost")
    assert coverage["usage"] == Coverage.unavailable("half")
    assert (coverage["status"].reason or "").endswith("; and 94 more")
    with pytest.raises(ValueError, match="reason"):
        TurnBuilder(declared).partial("actions", " ")
    with pytest.raises(AdapterError):
        TurnBuilder({"events": Coverage.complete})


def test_unknown_kinds_are_counted_said_once_and_lower_what_they_may_have_carried() -> None:
    """However many there are, what is kept of them is bounded."""
    builder = TurnBuilder(complete_evidence_coverage, unknown_touches=("messages",))
    for number in range(1_000):
        builder.unknown("novel")
        builder.unknown(f"kind {number}" + "x" * 1_000, ("usage",))
    collected = builder.build()
    assert levels(collected.turn) == {"messages": "partial", "usage": "partial"}
    (said,) = collected.diagnostics
    assert said.code == "unknown-lines"
    assert isinstance(said.data, dict)
    assert said.data["novel"] == 1_000
    assert len(said.data) == MAX_UNKNOWN_KINDS + 1
    assert sum(said.data.values()) == 2_000
    assert len(said.message) < 5_000


def test_a_turn_over_the_limits_is_cut_and_says_so() -> None:
    """Too many events, a text and a value that are too large: what is kept is bounded, the rest is partial evidence."""
    many = built(lambda b: [b.message("x") for _ in range(MAX_EVENTS + 5)])
    assert len(many.events) == MAX_EVENTS
    assert levels(many) == dict.fromkeys(("events", "actions", "messages"), "partial")
    long = built(lambda b: b.message("x" * (MAX_TEXT_CHARS + 1)), lambda b: b.text_delta("y" * (MAX_TEXT_CHARS + 9)))
    assert all(len(event.text) == MAX_TEXT_CHARS for event in long.events if isinstance(event, Message))
    assert levels(long) == dict.fromkeys(("events", "messages"), "partial")
    wide = built(lambda b: b.called("c", "n", {"k": ["x" * 1_000] * (MAX_VALUE_BYTES // 500)}))
    assert levels(wide) == dict.fromkeys(("events", "actions"), "partial")
    assert len(json.dumps(wide.events[0].input)) < MAX_VALUE_BYTES * 1.1  # type: ignore[union-attr]


@PATIENT
@given(st.lists(st.tuples(st.sampled_from("mtcrsdexuga"), st.text(max_size=5), JSON), max_size=20))
def test_whatever_is_collected_passes_the_boundary(steps: list[tuple[str, str, Any]]) -> None:
    """A turn that a builder built is never malformed: the attempt that gets it is not errored by it."""
    builder = TurnBuilder(complete_evidence_coverage)
    does: dict[str, Any] = {
        "m": lambda text, value: builder.message(text),
        "t": lambda text, value: builder.text_delta(text, kind="thinking"),
        "c": lambda text, value: builder.called(text, text, value),
        "r": lambda text, value: builder.result(text, value, "failed"),
        "s": lambda text, value: builder.subagent(text, text),
        "d": lambda text, value: builder.subagent_done(text, value),
        "e": lambda text, value: builder.failed(text),
        "x": lambda text, value: builder.text_gap(),
        "u": lambda text, value: builder.unknown(text),
        "g": lambda text, value: builder.text_delta(text),
        "a": lambda text, value: builder.amend(text, None),
    }
    for kind, text, value in steps:
        does[kind](text, value)
    turn = builder.build().turn

    async def case(t: EvalContext) -> None:
        await t.send("go")

    ran = run_eval(case, agent(turn))
    assert ran.error_code is None


def test_diagnostics_reach_the_result() -> None:
    """`Collected.report` sends them, each once, to the context; the result keeps them."""

    async def case(t: EvalContext) -> None:
        await t.send("go")

    def send(_: Any, ctx: Any) -> Turn:
        builder = TurnBuilder(complete_evidence_coverage)
        for _ in range(3):
            builder.diagnostic("rate-limited", "slow down")
        builder.reading(decode([b"\xff\n"])[1], "the stream")
        builder.add_usage(Usage(input_tokens=1))
        return builder.build().report(ctx)

    ran = run_eval(case, agent(send))
    assert ran.diagnostics == ["rate-limited", "transcript-damaged"]


def test_what_an_agent_said_is_an_event_and_what_is_concluded_a_diagnostic() -> None:
    """Both make the turn failed; only the former is evidence of what the agent reported."""
    said = TurnBuilder(complete_evidence_coverage)
    said.failed("API error")
    said.waiting()
    assert said.build().turn == Turn(events=(ErrorEvent(message="API error"),), status="failed")
    concluded = TurnBuilder(complete_evidence_coverage)
    concluded.failed("no result", said=False)
    collected = concluded.build()
    assert collected.turn == Turn(events=(), status="failed")
    assert [one.code for one in collected.diagnostics] == ["turn-ended-badly"]
