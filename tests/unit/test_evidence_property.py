"""Over any streams, coverages and assertions: worse evidence never changes an answer, it only takes it away."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from niceeval import EvalContext, JsonSchema, Price
from niceeval._evidence.normalise import channels_of
from niceeval._model.assertion import AssertionResult
from niceeval._model.coverage import CHANNELS, Channel
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
    StreamEvent,
    SubagentCalled,
    SubagentCompleted,
    Thinking,
    Turn,
    UnknownEvent,
    Usage,
)
from tests.unit.drive_harness import agent, run_eval

PARTIAL, UNAVAILABLE = Coverage.partial("cut"), Coverage.unavailable("gone")
PRICING = {"m": Price(input_per_mtok=1, output_per_mtok=2)}


@dataclass(frozen=True)
class Played:
    """One turn of a session, and what it declares to be worse."""

    session: int
    turn: Turn
    worse: Mapping[Channel, Coverage]


# Streams ------------------------------------------------------------------------------------------------------------

ids = st.sampled_from([f"c{number}" for number in range(8)])
names = st.sampled_from(["a", "a", "b", "load_skill"])
values: st.SearchStrategy[Any] = st.sampled_from([None, 1, "x", {"k": 1}, {"k": "x", "skill": "pdf"}])
texts = st.sampled_from(["go", "yes", "no x"])
events: st.SearchStrategy[StreamEvent] = st.one_of(
    st.builds(ActionCalled, call_id=ids, name=names, input=values, tool=st.sampled_from([None, "shell"])),
    st.builds(ActionResult, call_id=ids, status=st.sampled_from(["completed", "failed", "rejected"]), output=values),
    st.builds(SubagentCalled, call_id=ids, name=names, remote_url=st.sampled_from([None, "https://x"])),
    st.builds(SubagentCompleted, call_id=ids, status=st.sampled_from(["completed", "failed"]), output=values),
    st.builds(Message, role=st.sampled_from(["assistant", "user"]), text=texts),
    st.sampled_from(
        [
            Thinking(text="hm"),
            Compaction(),
            ErrorEvent(message="oh"),
            InputRequested(request=InputRequest(id="r")),
            UnknownEvent("custom.x", {"type": "custom.x"}),
        ]
    ),
)
usages = st.builds(
    Usage,
    input_tokens=st.sampled_from([None, 1, 4]),
    output_tokens=st.sampled_from([None, 1, 4]),
    cost_usd=st.sampled_from([None, 0.1, 0.5]),
)
worse_channels = st.dictionaries(st.sampled_from(CHANNELS), st.sampled_from([PARTIAL, UNAVAILABLE]), max_size=2)


def _requests_apart(found: list[StreamEvent], waiting: bool) -> list[StreamEvent]:
    """Requests of one turn have ids of their own, and a turn that waits has one at least."""
    apart: list[StreamEvent] = []
    for event in found:
        if isinstance(event, InputRequested):
            event = InputRequested(request=InputRequest(id=f"r{len(apart)}"))
        apart.append(event)
    if waiting and not any(isinstance(event, InputRequested) for event in apart):
        apart.append(InputRequested(request=InputRequest(id="r-last")))
    return apart


# A call and its result, which single events seldom are.
pairs: st.SearchStrategy[list[StreamEvent]] = st.builds(
    lambda call_id, name, status: [
        ActionCalled(call_id=call_id, name=name, input={"k": 1}),
        ActionResult(call_id=call_id, status=status, output={"k": 1}),
    ],
    ids,
    names,
    st.sampled_from(["completed", "failed"]),
)
chunks = st.lists(pairs | pairs | events.map(lambda event: [event]), min_size=1, max_size=6).map(
    lambda found: [*itertools.chain(*found)]
)


@st.composite
def played_turns(draw: st.DrawFn) -> Played:
    status = draw(st.sampled_from(["completed", "waiting", "failed"]))
    found = _requests_apart(draw(chunks), status == "waiting")
    turn = Turn(
        events=found,
        status=status,  # type: ignore[arg-type]
        usage=draw(st.none() | usages),
        data=draw(st.sampled_from([1, 1, {"k": 1}, None])),
    )
    return Played(draw(st.sampled_from([0, 0, 1])), turn, draw(st.just({}) | worse_channels))


def with_unique_ids(turns: list[Played]) -> list[Played]:
    """The turns without the calls and results that would use an id of their session a second time."""
    seen: set[tuple[int, type, str]] = set()
    tidy = []
    for played in turns:
        kept = []
        for event in played.turn.events:
            call_id = getattr(event, "call_id", None)
            if call_id is not None:
                key = (played.session, type(event), call_id)
                if key in seen:
                    continue
                seen.add(key)
            kept.append(event)
        tidy.append(replace(played, turn=replace(played.turn, events=kept)))
    return tidy


wild_streams = st.lists(played_turns(), min_size=1, max_size=4)
streams = wild_streams.map(with_unique_ids)


@st.composite
def degraded_from(draw: st.DrawFn, turns: list[Played]) -> list[Played]:
    """The same turns with some evidence lost, each loss declared on the channels it feeds."""
    return [_degrade(draw, played) for played in turns]


def _degrade(draw: st.DrawFn, played: Played) -> Played:
    turn = played.turn
    needed = next((event for event in turn.events if isinstance(event, InputRequested)), None)
    kept: list[Any] = []
    lost: set[Channel] = set()
    for event in turn.events:
        if draw(st.integers(0, 2)) or (turn.status == "waiting" and event is needed):
            kept.append(event)
        else:
            lost.update(channels_of(event))  # type: ignore[arg-type]
    usage, data = turn.usage, turn.data
    if draw(st.booleans()):
        usage = draw(st.none() | st.just(Usage(input_tokens=1, output_tokens=1, cost_usd=0.1)))
        lost.add("usage")
    if draw(st.booleans()):
        data = None
        lost.add("data")
    worse = {**draw(worse_channels), **{channel: draw(st.sampled_from([PARTIAL, UNAVAILABLE])) for channel in lost}}
    for channel, coverage in played.worse.items():
        worse[channel] = UNAVAILABLE if UNAVAILABLE in (coverage, worse.get(channel)) else PARTIAL
    return Played(played.session, replace(turn, events=kept, usage=usage, data=data), worse)


# Assertions ---------------------------------------------------------------------------------------------------------

conditions = st.sampled_from([1, None, {"k": 1}, {}, re.compile("x"), lambda value: value is None, [1]])
counts: st.SearchStrategy[Any] = st.sampled_from([None, None, 0, 1, 2, lambda n: n == 0, lambda n: n > 1])
statuses = st.sampled_from([None, "completed", "failed", "rejected", "pending"])
tool_names = st.sampled_from(["a", "b", "shell", "load_skill"])
kinds = st.sampled_from(["message", "action.called", "action.result", "input.requested", "error", "compaction"])


def call(method: str, *arguments: st.SearchStrategy[Any], **named: st.SearchStrategy[Any]) -> Any:
    """A call of one assertion with drawn arguments; an optional one is left out half of the time."""
    optional = st.fixed_dictionaries({}, optional=named)
    return st.tuples(st.tuples(*arguments), optional).map(lambda drawn: Assertion(method, *drawn))


@dataclass(frozen=True)
class Assertion:
    """One call of the vocabulary."""

    method: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]

    def on(self, receiver: Any) -> object:
        return getattr(receiver, self.method)(*self.arguments, **self.named)


scoped: st.SearchStrategy[Assertion] = st.one_of(
    call("called_tool", tool_names, input=conditions, output=conditions, status=statuses, count=counts),
    call("not_called_tool", tool_names, input=conditions, output=conditions, status=statuses),
    call("called_subagent", names, remote_url=conditions, output=conditions, status=statuses, count=counts),
    call("tool_order", st.lists(tool_names, min_size=1, max_size=3)),
    call("loaded_skill", st.sampled_from(["pdf", "other"])),
    call("max_tool_calls", st.integers(0, 3)),
    call("used_no_tools"),
    call("no_failed_actions"),
    call("succeeded"),
    call("parked"),
    call("message_includes", st.sampled_from(["x", "yes", re.compile("^n")])),
    call("event", kinds, count=counts),
    call("not_event", kinds),
    call("event_order", st.lists(kinds, min_size=1, max_size=3)),
    call("events_satisfy", st.just("any"), st.sampled_from([lambda e: len(e) < 2, lambda e: len(e) > 2])),
    call("max_tokens", st.sampled_from([0, 5, 100])),
    call("max_cost", st.sampled_from([0, 0.3, Decimal(10)])),
)
of_a_turn: st.SearchStrategy[Assertion] = st.one_of(
    call("output_equals", st.sampled_from([1, {"k": 1}, None])),
    call("output_matches", st.sampled_from([int, dict[str, int]])),
)


BATTERY = [
    *(Assertion("called_tool", ("a",), {"status": status}) for status in ("completed", "failed", "pending")),
    *(Assertion("called_tool", ("a",), {"count": count}) for count in (0, 1, 2, lambda n: n == 0)),
    Assertion("called_tool", ("a",), {"input": {"k": 1}, "output": {"k": 1}}),
    Assertion("called_tool", ("a",), {"output": {"k": 1}, "count": 1}),
    Assertion("not_called_tool", ("a",), {}),
    *(Assertion("not_called_tool", ("a",), {"status": status}) for status in ("completed", "failed", "pending")),
    Assertion("called_subagent", ("a",), {}),
    Assertion("tool_order", (["a", "b"],), {}),
    Assertion("max_tool_calls", (1,), {}),
    Assertion("used_no_tools", (), {}),
    Assertion("no_failed_actions", (), {}),
    Assertion("succeeded", (), {}),
    Assertion("parked", (), {}),
    Assertion("message_includes", ("x",), {}),
    *(Assertion("event", ("message",), {"count": count}) for count in (None, 0, 1)),
    Assertion("not_event", ("message",), {}),
    Assertion("event_order", (["action.called", "message"],), {}),
    Assertion("events_satisfy", ("short", lambda events: len(events) < 3), {}),
    Assertion("max_tokens", (4,), {}),
    Assertion("max_cost", (0.2,), {}),
]
"""Asked of every stream, besides what is drawn."""


# Playing ------------------------------------------------------------------------------------------------------------

ANYTHING = JsonSchema({})


def outcomes(
    turns: list[Played], declared: EvidenceCoverage, assertions: list[Assertion]
) -> list[tuple[str, AssertionResult]]:
    """Every assertion, as text, on every receiver that takes it, after these turns."""
    asked: list[str] = []

    async def case(t: EvalContext) -> None:
        lines: list[Any] = [t, t.new_session()]
        handles = [await lines[played.session].send("go", output=ANYTHING) for played in turns]
        second = t.new_session()
        for receiver in [*handles, lines[1], second, t]:
            for assertion in assertions:
                if hasattr(receiver, assertion.method):
                    asked.append(f"{assertion} on {receiver!r}")
                    assertion.on(receiver)

    steps = [replace(played.turn, evidence_coverage=dict(played.worse.items())) for played in turns]
    ran = run_eval(case, agent(*steps, coverage=declared), model="m", pricing=PRICING)
    assert ran.error_code is None, ran.result.error_info
    entries = [entry for entry in ran.result.assertions if entry.name != "output schema"]
    for entry in entries:
        assert (entry.outcome == "unavailable") == (entry.reason is not None)
    return list(zip(asked, entries, strict=True))


def compared(
    turns: list[Played], degraded: list[Played], declared: EvidenceCoverage, assertions: list[Assertion]
) -> Iterator[tuple[str, str, str]]:
    """Each question with its outcome on the whole evidence and on what is left of it."""
    whole, less = outcomes(turns, declared, assertions), outcomes(degraded, declared, assertions)
    for (question, before), (_, after) in zip(whole, less, strict=True):
        yield question, before.outcome, after.outcome


coverages = st.one_of(st.just({}), worse_channels).map(
    lambda worse: EvidenceCoverage.complete_except(**{str(channel): said for channel, said in worse.items()})
)
SETTINGS = settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def _drawn(data: st.DataObject, turns: list[Played]) -> tuple[list[Played], list[Assertion]]:
    asked = data.draw(st.lists(scoped | of_a_turn, min_size=3, max_size=3), "assertions")
    return data.draw(degraded_from(turns), "degraded"), [*BATTERY, *asked]


@pytest.mark.slow
@SETTINGS
@given(turns=streams, declared=coverages, data=st.data())
def test_worse_evidence_only_takes_answers_away(
    turns: list[Played], declared: EvidenceCoverage, data: st.DataObject
) -> None:
    """Where call ids are unique: whatever is lost and declared, an outcome stays or becomes unavailable."""
    for question, before, after in compared(turns, *_arguments(data, turns, declared)):
        assert after in (before, "unavailable"), (question, before, after)


@pytest.mark.slow
@SETTINGS
@given(turns=wild_streams, declared=coverages, data=st.data())
def test_worse_evidence_never_turns_an_answer_round(
    turns: list[Played], declared: EvidenceCoverage, data: st.DataObject
) -> None:
    """Also where an agent uses a call id for several calls: no pass becomes a failure, no failure a pass."""
    for question, before, after in compared(turns, *_arguments(data, turns, declared)):
        assert {before, after} != {"passed", "failed"}, (question, before, after)


def _arguments(
    data: st.DataObject, turns: list[Played], declared: EvidenceCoverage
) -> tuple[list[Played], EvidenceCoverage, list[Assertion]]:
    degraded, assertions = _drawn(data, turns)
    return degraded, declared, assertions


_CHANNEL: Mapping[str, Channel] = {
    "message_includes": "messages",
    "event": "events",
    "not_event": "events",
    "event_order": "events",
    "events_satisfy": "events",
    "max_tokens": "usage",
    "max_cost": "usage",
    "succeeded": "status",
    "parked": "events",
    "output_equals": "data",
    "output_matches": "data",
}


@pytest.mark.slow
@SETTINGS
@given(
    assertions=st.lists(scoped | of_a_turn, min_size=1, max_size=5),
    level=st.sampled_from([PARTIAL, UNAVAILABLE]),
    by_turn=st.booleans(),
)
def test_nothing_passes_on_an_empty_stream_whose_channel_is_not_complete(
    assertions: list[Assertion], level: Coverage, by_turn: bool
) -> None:
    """Neither where the agent says so nor where the turn does."""
    worse: dict[Channel, Coverage] = {_CHANNEL.get(asked.method, "actions"): level for asked in assertions}
    declared = EvidenceCoverage.complete_except(
        **({} if by_turn else {str(channel): said for channel, said in worse.items()})
    )
    for question, entry in outcomes([Played(0, Turn(), worse if by_turn else {})], declared, assertions):
        assert entry.outcome == "unavailable", question


@pytest.mark.parametrize("method", ["used_no_tools", "no_failed_actions", "succeeded"])
def test_the_comparison_finds_a_loss_that_was_not_declared(method: str) -> None:
    """The property could fail."""
    bad = Turn(events=[ActionCalled(call_id="c", name="a", input=None), ActionResult(call_id="c", status="failed")])
    whole = [Played(0, replace(bad, status="failed", data=1), {})]
    less = [Played(0, Turn(data=1), {})]
    found = list(compared(whole, less, EvidenceCoverage.complete_except(), [Assertion(method, (), {})]))
    assert ("failed", "passed") in [(before, after) for _, before, after in found]
