"""The boundary that everything an adapter returns passes: used, said and downgraded, or refused as malformed."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from niceeval._base.errors import AdapterError
from niceeval._evidence.normalise import NormalTurn, TurnLimits, normalise_turn
from niceeval._model.events import encode_events
from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    Compaction,
    Coverage,
    ErrorEvent,
    EvidenceCoverage,
    InputOption,
    InputRequest,
    InputRequested,
    Message,
    SubagentCalled,
    SubagentCompleted,
    Thinking,
    Turn,
    UnknownEvent,
    Usage,
    complete_evidence_coverage,
)
from tests.unit.drive_harness import agent, run_eval, turn

PARTIAL_DATA = Coverage.partial("half")


def through(
    value: object, *, wants_data: bool = False, limits: TurnLimits | None = None, **worse: Coverage
) -> NormalTurn:
    """What the boundary makes of it, for an agent that declares everything complete but `worse`."""
    return normalise_turn(
        value,
        agent="bot",
        declared=EvidenceCoverage.complete_except(**worse),
        wants_data=wants_data,
        limits=limits or TurnLimits(),
    )


def with_events(*events: Any, **fields: Any) -> Turn:
    """A turn with usage, so that nothing but its events can be remarked on."""
    return Turn(events=list(events), usage=Usage(), **fields)


def lowered(normal: NormalTurn) -> set[str]:
    """The channels that became worse."""
    return {channel for channel, _ in normal.downgrades}


def codes(normal: NormalTurn) -> list[str]:
    """The diagnostics' codes."""
    return [diagnostic.code for diagnostic in normal.diagnostics]


def message(text: Any, role: Any = "assistant") -> Message:
    """A message that may not be one."""
    return Message(role=role, text=text)


def requested(id: str, **fields: Any) -> InputRequested:
    """A question."""
    return InputRequested(request=InputRequest(id=id, **fields))


def deep(levels: int) -> Any:
    """A list in a list in a list."""
    value: Any = "end"
    for _ in range(levels):
        value = [value]
    return value


def cyclic() -> Any:
    """A mapping that holds itself."""
    value: dict[str, Any] = {"n": 1}
    value["self"] = value
    return value


class Odd:
    """An object of the adapter's own."""


# Refused ----------------------------------------------------------------------------------------------------------

REFUSED: list[tuple[str, object, str]] = [
    ("no turn", None, "send returned None"),
    ("a text", "hi", "send returned 'hi'"),
    ("a mapping", {"events": [], "status": "completed"}, "send returned a dict"),
    ("a status of its own", with_events(status="done"), "status 'done'"),
    ("no status", with_events(status=None), "status None"),
    (
        "waiting without a request",
        with_events(status="waiting"),
        'status is "waiting", but there is no input.requested',
    ),
    ("events that are none", Turn(events=None), "events is None"),  # type: ignore[arg-type]
    ("events as text", Turn(events="message"), "events is 'message'"),  # type: ignore[arg-type]
    ("one event", Turn(events=message("a")), "events is a Message"),  # type: ignore[arg-type]
    ("one mapping", Turn(events={"type": "message"}), "events is a dict"),  # type: ignore[arg-type]
    ("an event that is none", with_events(message("a"), 3), "events[1] is an int"),
    ("an event class", with_events(Message), "events[0] is a"),
    ("a mapping without type", with_events({"text": "x"}), "events[0] has no text `type`"),
    ("a type that is no text", with_events({"type": 3}), "events[0] has no text `type`"),
    ("text that is none", with_events(message(None)), "events[0].text is None"),
    ("bytes as text", with_events(message(b"x")), "events[0].text is a bytes"),
    ("a role of its own", with_events(message("x", "tool")), "events[0].role is 'tool'"),
    ("no call id", with_events(ActionCalled(call_id=None, name="a", input={})), "events[0].call_id is None"),  # type: ignore[arg-type]
    ("a number as name", with_events(ActionCalled(call_id="c", name=3, input={})), "events[0].name is an int"),  # type: ignore[arg-type]
    ("a status of no result", with_events(ActionResult(call_id="c", status="ok")), "events[0].status is 'ok'"),  # type: ignore[arg-type]
    (
        "a subagent that was rejected",
        with_events(SubagentCompleted(call_id="c", status="rejected")),  # type: ignore[arg-type]
        "events[0].status is 'rejected'",
    ),
    ("a request that is none", with_events(InputRequested(request={"id": "r"})), "events[0].request is a dict"),  # type: ignore[arg-type]
    ("options as texts", with_events(requested("r", options=("yes",))), "events[0].request.options is a tuple"),
    ("an option without id", with_events(requested("r", options=(InputOption(id=1),))), "options[0].id is an int"),  # type: ignore[arg-type]
    ("one id twice", with_events(requested("r"), requested("r"), status="waiting"), "two requests have the same id"),
    ("a mapping with a field missing", with_events({"type": "message", "role": "assistant"}), "events[0] (message): "),
    (
        "a mapping with a wrong field",
        with_events({"type": "message", "role": "tool", "text": ""}),
        "events[0] (message): ",
    ),
    (
        "a mapping in snake case",
        with_events({"type": "action.called", "call_id": "c", "name": "a", "input": 1}),
        "`callId`",
    ),
    ("a known type as unknown", with_events(UnknownEvent("message", {"text": "x"})), "events[0] (message): "),
    ("an unknown event without data", with_events(UnknownEvent("x", None)), "events[0] is None"),  # type: ignore[arg-type]
    ("coverage that is no mapping", with_events(evidence_coverage="partial"), "evidence_coverage is 'partial'"),
    ("coverage of no channel", with_events(evidence_coverage={"tools": PARTIAL_DATA}), "there is no such channel"),
    ("coverage as text", with_events(evidence_coverage={"data": "partial"}), "'partial' is no Coverage"),
    (
        "coverage without reason",
        with_events(evidence_coverage={"data": Coverage("partial", " ")}),
        "partial needs a non-empty reason",
    ),
]


@pytest.mark.parametrize(("value", "problem"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_breaks_the_contract_is_refused(value: object, problem: str) -> None:
    """With the place inside the turn, and what to write instead."""
    with pytest.raises(AdapterError) as caught:
        through(value)
    assert caught.value.code == "turn-malformed"
    assert problem in str(caught.value)
    assert str(caught.value).startswith("bot returned a turn that cannot be used: ")
    assert caught.value.next_step()


def test_a_refused_turn_makes_the_attempt_errored() -> None:
    """At the send's line, and the eval stops there."""

    async def case(t: Any) -> None:
        await t.send("go")
        raise RuntimeError("not reached")

    ran = run_eval(case, agent({"status": "completed"}))
    assert (ran.result.outcome, ran.error_code) == ("errored", "turn-malformed")
    assert ran.result.error_info is not None
    assert (ran.result.error_info.phase, ran.result.error_info.trace) == ("send", None)
    assert ran.result.error_info.loc is not None
    assert ran.result.error_info.loc.startswith("test_boundary.py:")


# Kept and said ----------------------------------------------------------------------------------------------------


def as_input(value: Any) -> ActionCalled:
    """A call with this input."""
    return ActionCalled(call_id="c", name="a", input=value)


KEPT: list[tuple[str, Any, Any, str]] = [
    ("NaN", {"x": float("nan")}, {"x": "NaN"}, 'events[0].input.x: NaN became "NaN"'),
    ("infinity", [float("-inf")], ["-Infinity"], 'events[0].input[0]: -Infinity became "-Infinity"'),
    ("a cycle", cyclic(), {"n": 1, "self": "<cycle>"}, "events[0].input.self: refers to itself"),
    ("keys that are no text", {1: "a", None: "b"}, {"1": "a", "null": "b"}, 'events[0].input: key 1 became "1"'),
    ("keys that meet", {1: "a", "1": "b"}, {"1": "a", "1#2": "b"}, 'two keys become "1"'),
    ("a lone surrogate", "a\ud800b", "a�b", "events[0].input: lone surrogates became U+FFFD"),
    ("a surrogate key", {"\udfff": 1}, {"�": 1}, "a key: lone surrogates became U+FFFD"),
    ("bytes", b"abc", "<bytes 3>", "events[0].input: bytes became text"),
    ("a large integer", 2**70, str(2**70), "an integer beyond 64 bits became text"),
    ("an object", Odd(), None, "Odd became text"),
]


@pytest.mark.parametrize(("given", "kept", "said"), [row[1:] for row in KEPT], ids=[row[0] for row in KEPT])
@pytest.mark.parametrize("as_mapping", [False, True])
def test_a_value_that_is_no_json_is_made_json_and_said(given: Any, kept: Any, said: str, as_mapping: bool) -> None:
    """In a struct and in a mapping alike; the channels it feeds become partial."""
    event: Any = as_input(given)
    if as_mapping:
        event = {"type": "action.called", "callId": "c", "name": "a", "input": given}
    normal = through(with_events(event))
    (found,) = normal.events
    assert isinstance(found, ActionCalled)
    assert kept is None or found.input == kept
    assert codes(normal) == ["turn-normalised"]
    assert said in normal.diagnostics[0].message
    assert {"events", "actions"} <= lowered(normal)
    json.loads(encode_events(normal.events))


@pytest.mark.parametrize("value", [{"a": [1, 2.5, None, True, "x"]}, (1, 2), {"when": "2026-01-01"}, [], "", 0])
def test_clean_values_are_not_remarked_on(value: Any) -> None:
    """A tuple is a list, and that loses nothing."""
    normal = through(with_events(as_input(value)))
    assert (normal.diagnostics, normal.downgrades) == ([], [])


@pytest.mark.parametrize("where", ["input", "output", "request", "data", "unknown", "mapping"])
def test_ten_thousand_levels_are_cut_not_fatal(where: str) -> None:
    """Wherever a value may be."""
    value = deep(10_000)
    events: dict[str, Any] = {
        "input": as_input(value),
        "output": ActionResult(call_id="c", status="completed", output=value),
        "request": requested("r", input=value),
        "unknown": UnknownEvent("x.y", {"v": value}),
        "mapping": {"type": "action.called", "callId": "c", "name": "a", "input": value},
    }
    if where == "data":
        normal = through(Turn(data=value, usage=Usage()), wants_data=True)
        assert lowered(normal) == {"data"}
    else:
        normal = through(with_events(events[where]))
        assert {"events", "actions"} <= lowered(normal)
    assert "deeper than 100 levels" in "".join(diagnostic.message for diagnostic in normal.diagnostics)
    encode_events(normal.events)


def test_texts_are_cleaned_and_cut() -> None:
    """A cut lowers every channel that the events feed; a cleaned surrogate loses nothing that was text."""
    limits = TurnLimits(text_chars=100)
    cut = through(with_events(message("x" * 101)), limits=limits)
    assert isinstance(cut.events[0], Message)
    assert len(cut.events[0].text) == 100
    assert lowered(cut) == {"events", "actions", "messages"}
    assert codes(cut) == ["turn-normalised"]
    cleaned = through(with_events(message("a\ud800")), limits=limits)
    assert cleaned.events == [message("a�")]
    assert (lowered(cleaned), codes(cleaned)) == (set(), ["turn-normalised"])


def test_a_message_cut_in_a_mapping_lowers_messages_too() -> None:
    """What was cut off may have held the text that is looked for."""
    limits = TurnLimits(text_chars=100)
    normal = through(with_events({"type": "message", "role": "assistant", "text": "x" * 101}), limits=limits)
    assert "messages" in lowered(normal)


@pytest.mark.parametrize("first", ["input", "callId"])
def test_a_field_over_the_limit_does_not_take_others_with_it(first: str) -> None:
    """A mapping's fields have their limits to themselves, whatever their order."""
    fields = {"type": "action.called", "input": ["x" * 90] * 9, "callId": "c", "name": "a"}
    event = {first: fields[first], **fields}
    normal = through(with_events(event), limits=TurnLimits(value_bytes=300))
    (found,) = normal.events
    assert isinstance(found, ActionCalled)
    assert (found.call_id, found.name) == ("c", "a")
    assert "actions" in lowered(normal)


def test_mappings_are_the_events_they_say() -> None:
    """All nine types in their JSON form, mixed with structs; unknown fields are left out."""
    given: list[Any] = [
        {"type": "message", "role": "assistant", "text": "a", "more": 1},
        {"type": "action.called", "callId": "c", "name": "t", "input": {"x": 1}, "tool": "shell"},
        {"type": "action.result", "callId": "c", "status": "completed", "output": [1]},
        {"type": "subagent.called", "callId": "s", "name": "h", "remoteUrl": "https://h"},
        {"type": "subagent.completed", "callId": "s", "status": "failed"},
        {"type": "input.requested", "request": {"id": "r", "options": [{"id": "yes", "label": "Yes"}]}},
        {"type": "thinking", "text": "hm"},
        {"type": "compaction"},
        {"type": "error", "message": "oh"},
    ]
    known = [
        message("a"),
        ActionCalled(call_id="c", name="t", input={"x": 1}, tool="shell"),
        ActionResult(call_id="c", status="completed", output=[1]),
        SubagentCalled(call_id="s", name="h", remote_url="https://h"),
        SubagentCompleted(call_id="s", status="failed"),
        requested("r", options=(InputOption(id="yes", label="Yes"),)),
        Thinking(text="hm"),
        Compaction(),
        ErrorEvent(message="oh"),
    ]
    normal = through(with_events(*itertools.chain(*zip(given, [replace_id(k) for k in known], strict=True))))
    assert normal.events[::2] == known
    assert "turn-normalised" not in codes(normal)


def replace_id(event: Any) -> Any:
    """The same event; a request under another id, since ids are unique."""
    return requested("r2") if isinstance(event, InputRequested) else event


@pytest.mark.parametrize("raw", [{"type": "custom.ping", "n": 1}, UnknownEvent("custom.ping", {"n": 1})])
def test_an_unknown_event_is_kept_as_it_came(raw: Any) -> None:
    """`events` become partial, nothing else, and it is said."""
    normal = through(with_events(raw))
    assert normal.events == [UnknownEvent("custom.ping", {"type": "custom.ping", "n": 1})]
    assert (lowered(normal), codes(normal)) == ({"events"}, ["unknown-event"])
    assert json.loads(encode_events(normal.events)) == [{"type": "custom.ping", "n": 1}]


def test_an_unknown_event_of_a_known_type_is_that_event() -> None:
    """Else it would count in `event(...)` without being one."""
    raw = UnknownEvent("message", {"role": "assistant", "text": "hi"})
    normal = through(with_events(raw))
    assert (normal.events, normal.diagnostics) == ([message("hi")], [])


def test_evidence_does_not_change_under_us() -> None:
    """An adapter goes on using what it handed over."""
    value = {"path": ["a"]}
    event: dict[str, Any] = {"type": "custom.x", "v": value}
    normal = through(Turn(events=[as_input(value), event], data=value, usage=Usage()), wants_data=True)
    value["path"].append("b")
    event["type"] = "message"
    assert normal.events[0] == as_input({"path": ["a"]})
    assert normal.events[1] == UnknownEvent("custom.x", {"type": "custom.x", "v": {"path": ["a"]}})
    assert normal.data == {"path": ["a"]}


def test_an_adapters_own_loc_is_dropped() -> None:
    """Places are the runner's to give."""
    from niceeval._model.events import Loc

    found = through(with_events(Message(role="user", text="x", loc=Loc(file="a.py", line=1)))).events
    assert found == [message("x", "user")]


def test_a_generator_of_events_is_a_list() -> None:
    """And one that raises is the adapter's error."""

    def events(fail: bool) -> Iterator[Message]:
        yield message("a")
        if fail:
            raise ConnectionError("stream broke")

    assert len(through(Turn(events=events(False), usage=Usage())).events) == 1  # type: ignore[arg-type]

    async def case(t: Any) -> None:
        await t.send("go")

    ran = run_eval(case, agent(Turn(events=events(True))))  # type: ignore[arg-type]
    assert (ran.error_code, ran.result.error) == ("adapter-error", "ConnectionError: stream broke")


# Usage, data, coverage, requests ------------------------------------------------------------------------------------

BAD_USAGE: list[tuple[Any, str]] = [
    ({"input_tokens": 3}, "usage is a dict, not a Usage"),
    (Usage(input_tokens=-1), "usage.input_tokens is an int, not a count"),
    (Usage(output_tokens=1.5), "usage.output_tokens is a float, not a count"),  # type: ignore[arg-type]
    (Usage(requests=True), "usage.requests is a bool, not a count"),
    (Usage(cache_read_tokens=2**64), "usage.cache_read_tokens is an int, not a count"),
    (Usage(cost_usd=float("nan")), "usage.cost_usd is nan, not an amount"),
    (Usage(cost_usd=-0.1), "usage.cost_usd is -0.1, not an amount"),
    (Usage(cost_usd="0.1"), "usage.cost_usd is '0.1', not an amount"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("usage", "problem"), BAD_USAGE)
def test_usage_that_cannot_be_is_dropped_and_said(usage: Any, problem: str) -> None:
    """It is no reason to lose the turn; it is one not to trust a bound."""
    normal = through(Turn(usage=usage))
    assert (normal.usage, lowered(normal), codes(normal)) == (None, {"usage"}, ["usage-malformed"])
    assert problem in normal.diagnostics[0].message


def test_missing_usage_lowers_a_channel_that_was_promised() -> None:
    """Not one that was declared incomplete anyway."""
    assert lowered(through(Turn())) == {"usage"}
    assert lowered(through(Turn(), usage=Coverage.unavailable("none"))) == set()
    assert lowered(through(Turn(usage=Usage(cost_usd=0)))) == set()


@pytest.mark.parametrize(
    ("declared", "said", "level", "diagnostics"),
    [
        (Coverage.complete, Coverage.complete, None, []),
        (Coverage.complete, Coverage.partial("a"), "partial", []),
        (Coverage.complete, Coverage.unavailable("a"), "unavailable", []),
        (Coverage.partial("b"), Coverage.partial("a"), "partial", []),
        (Coverage.partial("b"), Coverage.unavailable("a"), "unavailable", []),
        (Coverage.partial("b"), Coverage.complete, None, ["coverage-upgrade"]),
        (Coverage.unavailable("b"), Coverage.partial("a"), None, ["coverage-upgrade"]),
        (Coverage.unavailable("b"), Coverage.complete, None, ["coverage-upgrade"]),
    ],
)
def test_a_turn_only_makes_a_channel_worse(
    declared: Coverage, said: Coverage, level: str | None, diagnostics: list[str]
) -> None:
    """An upgrade is said and has no effect."""
    normal = through(with_events(evidence_coverage={"actions": said}), actions=declared)
    assert [coverage.level for _, coverage in normal.downgrades] == ([] if level is None else [level])
    assert codes(normal) == diagnostics


def test_data_are_kept_only_where_they_were_asked_for() -> None:
    """Otherwise dropped, and said."""
    given = Turn(data={"n": 1}, usage=Usage())
    assert through(given, wants_data=True).data == {"n": 1}
    dropped = through(given)
    assert (dropped.data, codes(dropped)) == (None, ["data-without-schema"])


def test_a_request_in_a_turn_that_does_not_wait_is_said() -> None:
    """It is kept as an event; nothing is pending."""
    normal = through(with_events(requested("r")))
    assert (len(normal.events), codes(normal)) == (1, ["requests-without-waiting"])


# Sizes ------------------------------------------------------------------------------------------------------------


def test_more_events_than_the_limit_are_cut() -> None:
    """Also of an endless generator."""
    endless = (message(str(number)) for number in itertools.count())
    normal = through(Turn(events=endless, usage=Usage()), limits=TurnLimits(events=10))  # type: ignore[arg-type]
    assert len(normal.events) == 10
    assert (lowered(normal), codes(normal)) == ({"events", "actions", "messages"}, ["turn-cut"])
    assert "more than 10 events" in normal.diagnostics[0].message
    exactly = through(with_events(*[message("x")] * 10), limits=TurnLimits(events=10))
    assert (len(exactly.events), codes(exactly)) == (10, [])


@pytest.mark.parametrize("kind", ["messages", "inputs", "one text", "one value", "mappings"])
def test_a_hundred_megabytes_are_cut_in_bounded_memory(kind: str) -> None:
    """What is kept, and what is used on the way, stays far below what came."""
    megabyte = "x" * 1_000_000
    events: dict[str, Any] = {
        "messages": [message(megabyte) for _ in range(100)],
        "inputs": [as_input({"text": megabyte[:900_000]}) for _ in range(110)],
        "one text": [message(megabyte * 100)],
        "one value": [as_input([megabyte] * 100)],
        "mappings": [{"type": "message", "role": "assistant", "text": megabyte} for _ in range(100)],
    }
    tracemalloc.start()
    normal = through(with_events(*events[kind]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(encode_events(normal.events)) < 20_000_000
    assert peak < 130_000_000
    assert {"events", "actions"} <= lowered(normal)
    assert normal.diagnostics


def test_an_attempt_keeps_a_bounded_number_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn beyond is kept without its events, and its channels are partial."""
    monkeypatch.setattr("niceeval._drive.log.MAX_EVENTS", 10)

    async def case(t: Any) -> None:
        for _ in range(3):
            last = await t.send("go")
            t.log(len(last.events))
        last.not_event("error")
        last.used_no_tools()

    ran = run_eval(case, agent(turn(*[message("x")] * 4)))
    assert [line.text for line in ran.logs] == ["5", "5", "1"]
    assert ran.outcomes == ["unavailable", "unavailable"]
    assert ran.diagnostics == ["turn-cut"]


# Anything at all ----------------------------------------------------------------------------------------------------

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3)
anything: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(scalars.filter(lambda key: key == key), inner, max_size=3)
        | st.tuples(inner)
    ),
    max_leaves=8,
)
types = st.sampled_from(["message", "action.called", "action.result", "input.requested", "x", "thinking"])
mappings = st.dictionaries(
    st.sampled_from(["type", "text", "role", "callId", "name", "input", "status", "request"]),
    anything | types,
    max_size=6,
)
structs = st.one_of(
    st.builds(Message, role=st.sampled_from(["assistant", "user"]) | anything, text=st.text(max_size=5) | anything),
    st.builds(ActionCalled, call_id=anything, name=anything, input=anything, tool=anything),
    st.builds(ActionResult, call_id=st.text(max_size=2), status=st.just("completed") | anything, output=anything),
    st.builds(InputRequested, request=anything | st.builds(InputRequest, id=anything, input=anything)),
    st.builds(UnknownEvent, st.text(max_size=5) | types | anything, anything | mappings),
)


@settings(max_examples=150, deadline=None)
@given(
    events=st.lists(mappings | structs | anything, max_size=4) | anything,
    status=st.sampled_from(["completed", "failed", "waiting"]) | anything,
    data=anything,
    usage=st.none() | anything | st.builds(Usage, input_tokens=anything, cost_usd=anything),
    coverage=st.none() | anything,
)
def test_whatever_is_returned_is_stored_or_refused(
    events: Any, status: Any, data: Any, usage: Any, coverage: Any
) -> None:
    """And nothing else can happen."""
    value = Turn(events=events, status=status, data=data, usage=usage, evidence_coverage=coverage)
    try:
        normal = through(value, wants_data=True)
    except AdapterError as error:
        refused = error.code
        assert refused == "turn-malformed"
        return
    stored = json.loads(encode_events(normal.events))
    assert all(isinstance(event, Mapping) and isinstance(event["type"], str) for event in stored)
    json.dumps(normal.data, allow_nan=False)
    again = through(replace(value, events=normal.events, data=normal.data, usage=normal.usage), wants_data=True)
    assert again.events == normal.events
    assert again.data == normal.data


def test_the_default_coverage_of_these_tests_is_complete() -> None:
    """So that every downgrade seen here is the boundary's."""
    assert EvidenceCoverage.complete_except() == complete_evidence_coverage
