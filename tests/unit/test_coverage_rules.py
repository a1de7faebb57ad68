"""How evidence coverage decides an assertion: not seen never counts as did not happen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from niceeval import EvalContext, Price
from niceeval.adapter import (
    Compaction,
    Coverage,
    EvidenceCoverage,
    StreamEvent,
    Turn,
    UnknownEvent,
    Usage,
    complete_evidence_coverage,
)
from tests.unit.drive_harness import (
    RECEIVERS,
    Ran,
    agent,
    assess,
    calls,
    request,
    result,
    run_eval,
    says,
    subagent,
    tool,
    turn,
    waiting,
)

LEVELS = ("complete", "partial", "unavailable")


class Rule(NamedTuple):
    """One line of the table: what is asked of which turn, and the outcome where the channel is complete and is not."""

    channel: str
    say: Callable[[Any], object]
    turn: Turn
    complete: str
    incomplete: str


def _calls_of(*names: str) -> Turn:
    return turn(*[event for number, name in enumerate(names) for event in tool(f"c{number}", name, {"city": "Rome"})])


A = _calls_of("a")
AAB = _calls_of("a", "a", "b")
NOTHING = turn()
SKILL = turn(*tool("c", "load_skill", {"skill": "pdf"}))
HELPER = turn(*subagent("s", "helper", "done"))
BROKEN_TOOL = turn(*tool("c", "a", status="failed"))
BROKEN_HELPER = turn(*subagent("s", "helper", status="failed"))
REPLY = turn(says("21 degrees"))
THOUGHT = turn(Compaction())
ASKS = waiting(request("r1"))

POSITIVE = [
    ("actions", lambda on: on.called_tool("a"), A, NOTHING),
    ("actions", lambda on: on.called_tool("a", input={"city": "Rome"}, status="completed"), A, _calls_of("b")),
    ("actions", lambda on: on.tool_order(["a", "b"]), AAB, _calls_of("b", "a")),
    ("actions", lambda on: on.loaded_skill("pdf"), SKILL, A),
    ("actions", lambda on: on.called_subagent("helper"), HELPER, A),
    ("messages", lambda on: on.message_includes("21"), REPLY, turn(says("no"))),
    ("events", lambda on: on.event("compaction"), THOUGHT, REPLY),
    ("events", lambda on: on.event_order(["message", "compaction"]), turn(says("a"), Compaction()), THOUGHT),
]
NEGATIVE = [
    ("actions", lambda on: on.not_called_tool("a"), _calls_of("b"), A),
    ("actions", lambda on: on.used_no_tools(), NOTHING, A),
    ("actions", lambda on: on.no_failed_actions(), A, BROKEN_TOOL),
    ("actions", lambda on: on.no_failed_actions(), HELPER, BROKEN_HELPER),
    ("events", lambda on: on.not_event("compaction"), REPLY, THOUGHT),
]
BOUNDS = [
    ("actions", lambda on: on.max_tool_calls(2), A, AAB),
    ("usage", lambda on: on.max_tokens(15), NOTHING, turn(usage=Usage(input_tokens=11, output_tokens=5))),
    ("usage", lambda on: on.max_cost(0.25), NOTHING, turn(usage=Usage(cost_usd=0.26))),
]
STATES = [
    ("status", lambda on: on.succeeded(), NOTHING, turn(status="failed")),
    ("status", lambda on: on.parked(), ASKS, NOTHING),
    ("events", lambda on: on.parked(), ASKS, NOTHING),
]
CALLABLES = [
    ("actions", lambda on: on.called_tool("a", count=lambda n: n < 2), A, AAB),
    ("actions", lambda on: on.called_subagent("helper", count=lambda n: n == 1), HELPER, NOTHING),
    ("events", lambda on: on.event("compaction", count=lambda n: n == 0), REPLY, THOUGHT),
    ("events", lambda on: on.events_satisfy("short", lambda events: len(events) < 2), NOTHING, REPLY),
]
EXACT = [
    Rule("actions", lambda on: on.called_tool("a", count=1), A, "passed", "unavailable"),
    Rule("actions", lambda on: on.called_tool("a", count=1), NOTHING, "failed", "unavailable"),
    Rule("actions", lambda on: on.called_tool("a", count=1), AAB, "failed", "failed"),
    Rule("actions", lambda on: on.called_tool("a", count=0), NOTHING, "passed", "unavailable"),
    Rule("actions", lambda on: on.called_tool("a", count=0), A, "failed", "failed"),
    Rule("actions", lambda on: on.called_subagent("helper", count=1), HELPER, "passed", "unavailable"),
    Rule("actions", lambda on: on.called_subagent("helper", count=0), HELPER, "failed", "failed"),
    Rule("events", lambda on: on.event("message", count=1), REPLY, "passed", "unavailable"),
    Rule("events", lambda on: on.event("message", count=2), REPLY, "failed", "unavailable"),
    Rule("events", lambda on: on.event("message", count=0), REPLY, "failed", "failed"),
]
RULES = [
    *(Rule(channel, say, found, "passed", "passed") for channel, say, found, _ in POSITIVE),
    *(Rule(channel, say, absent, "failed", "unavailable") for channel, say, _, absent in POSITIVE),
    *(
        Rule(channel, say, good, "passed", "unavailable")
        for channel, say, good, _ in [*NEGATIVE, *BOUNDS, *STATES, *CALLABLES]
    ),
    *(
        Rule(channel, say, bad, "failed", "unavailable")
        for channel, say, _, bad in [*NEGATIVE, *BOUNDS, *STATES, *CALLABLES]
    ),
    *EXACT,
]


def coverage_with(channel: str, level: str, reason: str = "the API hides it") -> EvidenceCoverage:
    """Everything complete but one channel."""
    if level == "complete":
        return complete_evidence_coverage
    return EvidenceCoverage.complete_except(**{channel: getattr(Coverage, level)(reason)})


def check_rule(ran: Ran, rule: Rule, level: str) -> None:
    """The outcome is the table's, and an unavailable one says why and makes the attempt errored."""
    expected = rule.complete if level == "complete" else rule.incomplete
    assert ran.only.outcome == expected
    assert ran.result.outcome == {"unavailable": "errored"}.get(expected, expected)
    assert ran.only.passed is (expected == "passed")
    if expected == "unavailable":
        assert ran.only.score == 0
        assert ran.only.reason is not None
        assert (ran.only.reason.code, ran.only.reason.channel) == (f"coverage-{level}", rule.channel)
        assert "the API hides it" in ran.only.reason.message
    else:
        assert ran.only.reason is None


@pytest.mark.parametrize("receiver", RECEIVERS)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rule", RULES)
def test_the_table_holds_for_what_the_agent_declares(rule: Rule, level: str, receiver: str) -> None:
    """Every row, at every level, for every receiver."""
    ran = assess(receiver, rule.say, rule.turn, coverage=coverage_with(rule.channel, level))
    check_rule(ran, rule, level)


@pytest.mark.parametrize("receiver", RECEIVERS)
@pytest.mark.parametrize("level", ["partial", "unavailable"])
@pytest.mark.parametrize("rule", RULES)
def test_the_table_holds_for_a_turn_that_makes_it_worse(rule: Rule, level: str, receiver: str) -> None:
    """A turn's own downgrade decides as the agent's declaration does."""
    worse = {rule.channel: getattr(Coverage, level)("the API hides it")}
    degraded = Turn(events=rule.turn.events, status=rule.turn.status, usage=rule.turn.usage, evidence_coverage=worse)
    check_rule(assess(receiver, rule.say, degraded), rule, level)


@pytest.mark.parametrize("rule", RULES)
def test_other_channels_do_not_matter(rule: Rule) -> None:
    """An assertion asks its own channels only."""
    asked = {rule.channel, "events"} if rule.turn is ASKS or "parked" in rule.say.__code__.co_names else {rule.channel}
    asked |= {"status"} if "parked" in rule.say.__code__.co_names else set()
    # Calls and messages are events too: see the test below.
    asked |= {"actions", "messages"} if rule.channel == "events" else set()
    others = {
        channel: Coverage.unavailable("the API hides it")
        for channel in ("events", "actions", "messages", "usage", "status", "data")
        if channel not in asked
    }
    ran = assess("turn", rule.say, rule.turn, coverage=EvidenceCoverage.complete_except(**others))
    assert ran.only.outcome == rule.complete


FED = [
    ("actions", lambda on: on.not_event("action.called")),
    ("actions", lambda on: on.event("action.result")),
    ("actions", lambda on: on.not_event("subagent.called")),
    ("actions", lambda on: on.event_order(["thinking", "action.called"])),
    ("messages", lambda on: on.event("message", count=7)),
    ("messages", lambda on: on.events_satisfy("few", lambda events: len(events) < 2)),
]


@pytest.mark.parametrize(("channel", "say"), FED)
def test_an_event_that_another_channel_hides_proves_nothing_by_its_absence(
    channel: str, say: Callable[[Any], object]
) -> None:
    """An agent that declares `events` complete and `actions` not cannot have shown every `action.called`."""
    coverage = EvidenceCoverage.complete_except(**{channel: Coverage.partial("the API hides some")})
    ran = assess("turn", say, turn(), coverage=coverage)
    assert ran.only.outcome == "unavailable"
    assert ran.only.reason is not None
    assert ran.only.reason.channel == channel


OUTPUT_RULES = [
    (lambda on: on.output_equals({"n": 1}), {"n": 1}, "passed", "passed"),
    (lambda on: on.output_equals({"n": 1}), {"n": 2}, "failed", "failed"),
    (lambda on: on.output_equals({"n": 1}), None, "failed", "unavailable"),
    (lambda on: on.output_matches(dict[str, int]), {"n": 1}, "passed", "passed"),
    (lambda on: on.output_matches(dict[str, str]), {"n": 1}, "failed", "failed"),
    (lambda on: on.output_matches(dict[str, int]), None, "failed", "unavailable"),
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("say", "data", "complete", "incomplete"), OUTPUT_RULES)
def test_data_that_arrived_is_judged_and_missing_data_needs_a_complete_channel(
    say: Callable[[Any], object], data: Any, complete: str, incomplete: str, level: str
) -> None:
    """`output_equals` and `output_matches`, on a turn only."""
    ran = assess("turn", say, turn(data=data), coverage=coverage_with("data", level), output=dict[str, int])
    assert ran.result.assertions[-1].outcome == (complete if level == "complete" else incomplete)


@pytest.mark.parametrize("receiver", ["t", "session"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rule", RULES)
def test_a_scope_without_a_turn_answers_nothing(rule: Rule, level: str, receiver: str) -> None:
    """Also where the agent promises everything: nothing was sent."""
    ran = assess(receiver, rule.say, coverage=coverage_with(rule.channel, level))
    assert ran.only.outcome == "unavailable"
    assert ran.only.reason is not None
    assert (ran.only.reason.code, ran.only.reason.channel) == ("no-turn", None)
    assert ran.result.outcome == "errored"


@pytest.mark.parametrize("rule", RULES)
def test_another_sessions_turns_are_not_this_sessions(rule: Rule) -> None:
    """A session that was opened and not used answers nothing, whatever the main one did."""

    async def case(t: EvalContext) -> None:
        await t.send("go")
        rule.say(t.new_session())

    ran = run_eval(case, agent(rule.turn))
    assert ran.only.reason is not None
    assert ran.only.reason.code == "no-turn"


@pytest.mark.parametrize("receiver", RECEIVERS)
@pytest.mark.parametrize(("channel", "say", "good", "bad"), NEGATIVE)
def test_a_counterexample_that_was_seen_is_kept_although_the_answer_is_unavailable(
    channel: str, say: Callable[[Any], object], good: Turn, bad: Turn, receiver: str
) -> None:
    """It is shown first: it is the evidence there is."""
    entry = assess(receiver, say, bad, coverage=coverage_with(channel, "partial")).only
    assert entry.outcome == "unavailable"
    assert entry.evidence is not None
    assert entry.evidence_refs[0].event == 1


# Merging ------------------------------------------------------------------------------------------------------------


def _downgraded(**worse: Coverage) -> Turn:
    return turn(evidence_coverage=worse)


def test_a_scope_takes_the_worst_of_its_turns_and_keeps_every_reason() -> None:
    """The agent's reason first, then the turns' in their order, each once."""
    script = agent(
        _downgraded(actions=Coverage.unavailable("stream broke")),
        _downgraded(actions=Coverage.partial("page 2 missing")),
        _downgraded(actions=Coverage.partial("page 2 missing")),
        coverage=coverage_with("actions", "partial", "beta API"),
    )

    async def case(t: EvalContext) -> None:
        for _ in range(3):
            await t.send("go")
        t.used_no_tools()

    ran = run_eval(case, script)
    assert ran.only.reason is not None
    assert ran.only.reason.code == "coverage-unavailable"
    assert ran.only.reason.message == "actions is unavailable: beta API; stream broke; page 2 missing"
    assert ran.result.coverage is not None
    stored = ran.result.coverage["actions"]
    assert (stored.status, stored.reasons) == ("unavailable", ("beta API", "stream broke", "page 2 missing"))


def test_a_downgrade_is_that_turns_alone() -> None:
    """Other turns answer as before; their session and `t` do not."""

    async def case(t: EvalContext) -> None:
        first = await t.send("go")
        second = await t.send("go")
        first.used_no_tools()
        second.used_no_tools()
        t.used_no_tools()

    ran = run_eval(case, agent(_downgraded(actions=Coverage.partial("gap")), turn()))
    assert ran.outcomes == ["unavailable", "passed", "unavailable"]


def test_sessions_are_merged_for_t_only() -> None:
    """`t` sees the worst of all sessions, a session its own."""

    async def case(t: EvalContext) -> None:
        await t.send("go")
        other = t.new_session()
        await other.send("go")
        other.used_no_tools()
        t.used_no_tools()

    ran = run_eval(case, agent(_downgraded(actions=Coverage.partial("gap")), turn()))
    assert ran.outcomes == ["passed", "unavailable"]


@pytest.mark.parametrize("declared", ["partial", "unavailable"])
def test_a_turn_cannot_make_a_channel_better(declared: str) -> None:
    """The attempt to is a diagnostic, and the agent's declaration holds."""
    ran = assess(
        "turn",
        lambda on: on.used_no_tools(),
        _downgraded(actions=Coverage.complete),
        coverage=coverage_with("actions", declared, "declared"),
    )
    assert ran.only.reason is not None
    assert ran.only.reason.code == f"coverage-{declared}"
    assert ran.diagnostics == ["coverage-upgrade"]
    assert ran.result.diagnostics[0].turn == 0


def test_a_turn_that_says_what_the_agent_said_is_no_upgrade() -> None:
    """The same level again is not remarked on."""
    ran = assess("turn", lambda on: on.used_no_tools(), _downgraded(actions=Coverage.complete))
    assert (ran.outcomes, ran.diagnostics) == (["passed"], [])


@pytest.mark.parametrize("receiver", RECEIVERS)
@pytest.mark.parametrize("bound", ["max_tokens", "max_cost"])
def test_a_turn_without_usage_is_no_proof_of_a_bound(receiver: str, bound: str) -> None:
    """An agent that claims complete usage, and a turn that has none: downgraded by the runner."""
    ran = assess(receiver, lambda on: getattr(on, bound)(1_000), turn(usage=None))
    assert ran.only.reason is not None
    assert (ran.only.reason.code, ran.only.reason.channel) == ("coverage-partial", "usage")
    assert "a turn came without usage" in ran.only.reason.message


@pytest.mark.parametrize("usage", [Usage(input_tokens=3), Usage(output_tokens=3), Usage(cost_usd=0.1)])
def test_half_a_token_count_is_no_proof_of_a_bound(usage: Usage) -> None:
    """What a protocol does not give is unknown and never 0."""
    ran = assess("turn", lambda on: on.max_tokens(1_000), turn(usage=usage))
    assert ran.only.reason is not None
    assert (ran.only.reason.code, ran.only.reason.channel) == ("coverage-partial", "usage")


@pytest.mark.parametrize(
    ("usage", "pricing", "code"),
    [
        (Usage(cost_usd=0.2), {}, None),
        (Usage(input_tokens=10, output_tokens=10), {"m": Price(input_per_mtok=1, output_per_mtok=1)}, None),
        (Usage(input_tokens=10, output_tokens=10), {"other": Price(input_per_mtok=1, output_per_mtok=1)}, "no-price"),
        (Usage(input_tokens=10, output_tokens=10), {}, "no-price"),
        (Usage(input_tokens=10), {"m": Price(input_per_mtok=1, output_per_mtok=1)}, "no-price"),
        (
            Usage(input_tokens=1, output_tokens=1, cache_read_tokens=1),
            {"m": Price(input_per_mtok=1, output_per_mtok=1)},
            "no-price",
        ),
    ],
)
@pytest.mark.parametrize("receiver", RECEIVERS)
def test_a_cost_that_is_not_known_is_unavailable(
    usage: Usage, pricing: dict[str, Price], code: str | None, receiver: str
) -> None:
    """Measured first, then the project's prices; never 0."""
    ran = assess(receiver, lambda on: on.max_cost(1), turn(usage=usage), model="m", pricing=pricing)
    assert (ran.only.reason.code if ran.only.reason else None) == code
    assert ran.only.outcome == ("passed" if code is None else "unavailable")


def test_one_turn_of_unknown_cost_makes_the_sum_unknown() -> None:
    """The known part is a lower bound and is shown as one."""
    ran = assess("t", lambda on: on.max_cost(1), turn(), turn(usage=Usage(input_tokens=1, output_tokens=1)))
    assert ran.only.outcome == "unavailable"
    assert ran.only.received == "$0.25 or more"


# What the events themselves give away ---------------------------------------------------------------------------


def test_an_unknown_event_type_lowers_events_alone() -> None:
    """It is kept as it came, and said."""
    odd = turn(UnknownEvent("telemetry.blip", {"type": "telemetry.blip", "n": 1}))

    async def case(t: EvalContext) -> None:
        found = await t.send("go")
        found.used_no_tools()
        found.not_event("compaction")

    ran = run_eval(case, agent(odd))
    assert ran.outcomes == ["passed", "unavailable"]
    assert ran.events[1] == {"type": "telemetry.blip", "n": 1}
    assert ran.diagnostics == ["unknown-event"]


BROKEN_PAIRS: list[tuple[str, list[StreamEvent], str, bool]] = [
    ("no result", [calls("c1", "a")], "c1 (a) has no result (turn 1)", False),
    ("no subagent result", subagent("c1", "a")[:1], "c1 (a) has no result (turn 1)", False),
    ("no call", [result("c9")], "a result for call c9, which was never made (turn 1)", True),
    ("no subagent call", subagent("c9", "a")[1:], "a result for call c9, which was never made (turn 1)", True),
    ("result first", [result("c1"), calls("c1", "a")], "c1 (a) has no result (turn 1)", True),
    (
        "two results",
        [*tool("c1", "a"), result("c1", status="failed")],
        "call c1 has more than one result; the first counts (turn 1)",
        True,
    ),
    ("id again", [*tool("c1", "a"), *tool("c1", "b")], "call id c1 is used more than once (turn 1)", True),
]


@pytest.mark.parametrize("receiver", RECEIVERS)
@pytest.mark.parametrize(("what", "events", "reason", "violates"), BROKEN_PAIRS, ids=[row[0] for row in BROKEN_PAIRS])
def test_calls_that_cannot_be_paired_lower_actions(
    what: str, events: list[StreamEvent], reason: str, violates: bool, receiver: str
) -> None:
    """The reason names the call and the turn; what breaks the contract is a diagnostic as well."""
    ran = assess(receiver, lambda on: on.not_called_tool("zzz"), turn(*events))
    assert ran.only.reason is not None
    assert ran.only.reason.code == "coverage-partial"
    assert reason in ran.only.reason.message
    assert ran.result.coverage is not None
    assert reason in ran.result.coverage["actions"].reasons
    assert ("call-pairing" in ran.diagnostics) is violates


def test_an_unpaired_call_lowers_no_other_channel() -> None:
    """Messages and events are what they are."""
    ran = assess("turn", lambda on: on.not_event("compaction"), turn(calls("c1", "a")))
    assert ran.outcomes == ["passed"]


def test_the_first_of_two_results_counts() -> None:
    """A later one does not change what is known."""

    async def case(t: EvalContext) -> None:
        found = await t.send("go")
        found.called_tool("a", status="completed", output="first")
        found.called_tool("a", status="failed")

    ran = run_eval(case, agent(turn(*tool("c1", "a", output="first"), result("c1", "second", "failed"))))
    assert ran.outcomes == ["passed", "unavailable"]


def test_a_result_of_which_several_calls_are_open_counts_for_none() -> None:
    """To guess would pass an assertion on the wrong call."""
    events: list[StreamEvent] = [calls("c1", "a"), calls("c1", "b"), result("c1", status="failed"), result("c1")]

    async def case(t: EvalContext) -> None:
        found = await t.send("go")
        for name in ("a", "b"):
            found.called_tool(name)
            found.called_tool(name, status="failed")
            found.called_tool(name, status="completed")

    ran = run_eval(case, agent(turn(*events)))
    assert ran.outcomes == ["passed", "unavailable", "unavailable"] * 2


def test_an_id_that_is_used_again_after_its_result_pairs_in_order() -> None:
    """At most one call of the id is open at any time, so nothing has to be guessed; absence is still not provable."""

    async def case(t: EvalContext) -> None:
        found = await t.send("go")
        found.called_tool("a", output=1)
        found.called_tool("b", output=2)
        found.not_called_tool("c")

    ran = run_eval(case, agent(turn(*tool("c1", "a", output=1), *tool("c1", "b", output=2))))
    assert ran.outcomes == ["passed", "passed", "unavailable"]


@pytest.mark.parametrize("say", [lambda on: on.called_tool("a", status="pending")])
def test_a_call_without_a_result_is_pending_while_its_turn_waits(say: Callable[[Any], object]) -> None:
    """It is answered for every receiver, and `actions` stay complete."""
    for receiver in RECEIVERS:
        ran = assess(receiver, say, waiting(request("r1"), events=(calls("c1", "a"),)))
        assert (receiver, ran.outcomes) == (receiver, ["passed"])
        assert ran.result.coverage is not None
        assert ran.result.coverage["actions"].status == "complete"


@pytest.mark.parametrize("level", ["partial", "unavailable"])
def test_no_call_is_pending_where_its_result_may_have_been_missed(level: str) -> None:
    """ "Still waiting" is an absence, and an absence needs a complete channel."""
    ran = assess(
        "turn",
        lambda on: on.called_tool("a", status="pending"),
        waiting(request("r1"), events=(calls("c1", "a"),)),
        coverage=coverage_with("actions", level),
    )
    assert ran.outcomes == ["unavailable"]


def test_a_result_closes_the_call_of_the_turn_that_waited() -> None:
    """The call belongs to the turn that made it, which answers with what became of it."""

    async def case(t: EvalContext) -> None:
        asked = await t.send("go")
        asked.called_tool("a", status="pending")
        answered = await t.respond("yes")
        asked.called_tool("a", status="completed", output="done")
        asked.no_failed_actions()
        answered.not_called_tool("a")
        t.called_tool("a", count=1)

    script = agent(waiting(request("r1", "yes"), events=(calls("c1", "a"),)), turn(result("c1", "done")))
    ran = run_eval(case, script)
    assert ran.outcomes == ["passed"] * 5


def test_a_call_whose_turn_no_longer_waits_is_unknown() -> None:
    """A send that drops the question leaves a call of which nothing is known."""

    async def case(t: EvalContext) -> None:
        asked = await t.send("go")
        await t.send("never mind")
        for status in ("pending", "completed", "failed", "rejected"):
            asked.called_tool("a", status=status)
        asked.called_tool("a")

    ran = run_eval(case, agent(waiting(request("r1", "yes"), events=(calls("c1", "a"),)), turn()))
    assert ran.outcomes == [*["unavailable"] * 4, "passed"]


def test_ids_of_different_sessions_never_meet() -> None:
    """The same id in another session is another call."""

    async def case(t: EvalContext) -> None:
        await t.send("go")
        other = t.new_session()
        await other.send("go")
        t.called_tool("a", status="completed", output=1, count=1)
        t.called_tool("b", status="failed", output=2, count=1)
        other.not_called_tool("a")

    ran = run_eval(case, agent(turn(*tool("c1", "a", output=1)), turn(*tool("c1", "b", output=2, status="failed"))))
    assert ran.outcomes == ["passed"] * 3


def test_another_sessions_result_closes_nothing() -> None:
    """Both sessions' actions are downgraded instead."""

    async def case(t: EvalContext) -> None:
        await t.send("go")
        await t.new_session().send("go")
        t.called_tool("a", status="completed")

    ran = run_eval(case, agent(turn(calls("c1", "a")), turn(result("c1"))))
    assert ran.outcomes == ["unavailable"]
    assert ran.result.coverage is not None
    assert len(ran.result.coverage["actions"].reasons) == 2


@pytest.mark.parametrize("receiver", RECEIVERS)
def test_a_refusal_is_no_failure(receiver: str) -> None:
    """`rejected` is a human's decision."""
    refused = turn(*tool("c1", "a", status="rejected"))
    assert assess(receiver, lambda on: on.no_failed_actions(), refused).outcomes == ["passed"]
    assert assess(receiver, lambda on: on.called_tool("a", status="failed"), refused).outcomes == ["failed"]
    assert assess(receiver, lambda on: on.called_tool("a", status="rejected"), refused).outcomes == ["passed"]


def test_an_unavailable_entry_that_is_optional_leaves_the_verdict_alone() -> None:
    """It stays visible with its reason."""
    ran = assess("turn", lambda on: on.used_no_tools().optional(), turn(), coverage=coverage_with("actions", "partial"))
    assert ran.result.outcome == "passed"
    assert (ran.only.outcome, ran.only.optional) == ("unavailable", True)
    assert ran.only.reason is not None


def test_values_read_by_hand_follow_no_channel() -> None:
    """They are the author's own material."""

    async def case(t: EvalContext) -> None:
        found = await t.send("go")
        t.check(found.message, lambda text: text == "hi")
        t.check(len(found.tool_calls), lambda count: count == 0)

    nothing = {
        channel: Coverage.unavailable("why") for channel in ("events", "actions", "messages", "usage", "status", "data")
    }
    ran = run_eval(case, agent(turn(says("hi")), coverage=EvidenceCoverage.complete_except(**nothing)))
    assert (ran.outcomes, ran.result.outcome) == (["passed", "passed"], "passed")


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.incomplete == "unavailable"])
def test_a_turn_that_has_not_ended_proves_nothing(rule: Rule) -> None:
    """A session that is asked while its send is still running has seen nothing of it."""
    release = asyncio.Event

    async def case(t: EvalContext) -> None:
        gate = release()

        async def slow(input: Any, ctx: Any) -> Turn:
            await gate.wait()
            return rule.turn

        steps.append(slow)
        session = t.new_session()
        running = asyncio.ensure_future(session.send("go"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        rule.say(session)
        gate.set()
        await running
        rule.say(session)

    steps: list[Any] = []
    ran = run_eval(case, agent(lambda input, ctx: steps[0](input, ctx)))
    assert ran.outcomes == ["unavailable", rule.complete]


def test_a_send_that_failed_lowers_every_channel() -> None:
    """What the agent did in it was not seen, so nothing is proved by the turns that were."""

    async def case(t: EvalContext) -> None:
        t.used_no_tools()
        t.not_event("error")
        t.succeeded()
        t.max_tokens(100)
        await t.send("go")
        await t.send("go")

    ran = run_eval(case, agent(turn(), RuntimeError("502")))
    assert ran.outcomes == ["unavailable"] * 4
    assert ran.result.outcome == "errored"
    assert ran.error_code == "adapter-error"
