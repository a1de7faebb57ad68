"""Every assertion of the vocabulary: what passes, what fails, what it says it expected, received and saw."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from unittest import mock

import pytest

from niceeval import EvalContext, JsonSchema, Price
from niceeval._model.assertion import AssertionResult
from niceeval.adapter import Compaction, ErrorEvent, Message, StreamEvent, Thinking, Turn, Usage
from tests.unit.drive_harness import (
    RECEIVERS,
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

Say = Callable[[Any], object]

WEATHER: list[StreamEvent] = [
    *tool("c1", "get_weather", {"city": "Queens", "days": [1, 2]}, {"temp": 21.5}),
    *tool("c2", "get_weather", {"city": "Brooklyn"}, "error", "failed"),
    calls("c3", "Bash", {"command": "ls"}, tool="shell"),
    result("c3", None, "rejected"),
]


def row(name: str, say: Say, found: Turn, outcome: str, expected: str, received: str) -> Any:
    """One line of a table, named."""
    return pytest.param(say, found, outcome, expected, received, id=name)


W = turn(*WEATHER)
TALK = turn(says("Hello there"), says("It is 21 °C"))
HELP = turn(*subagent("s1", "researcher", {"found": 3}, url="https://agents.example/r"))
STORY = turn(Thinking(text="hm"), says("a"), ErrorEvent(message="oops"), says("b"), Compaction())

TABLE = [
    # called_tool
    row("called", lambda on: on.called_tool("Bash"), W, "passed", "at least 1 call of Bash", "1 such call"),
    row("canonical", lambda on: on.called_tool("shell"), W, "passed", "at least 1 call of shell", "1 such call"),
    row(
        "not called",
        lambda on: on.called_tool("search"),
        W,
        "failed",
        "at least 1 call of search",
        "0 such calls; called: get_weather, Bash",
    ),
    row("nothing called", lambda on: on.called_tool("x"), turn(), "failed", "at least 1 call of x", "no calls at all"),
    row(
        "input",
        lambda on: on.called_tool("get_weather", input={"city": re.compile("brook", re.I)}),
        W,
        "passed",
        "at least 1 call of get_weather, input.city matches /brook/i",
        "1 such call",
    ),
    row(
        "input, nearest",
        lambda on: on.called_tool("get_weather", input={"city": "Queens", "days": [1]}),
        W,
        "failed",
        'at least 1 call of get_weather, input.city = "Queens", input.days = [1]',
        "0 such calls; nearest #1: input.days has 2 items, not 1",
    ),
    row(
        "output",
        lambda on: on.called_tool("get_weather", output={"temp": pytest.approx(21.5)}),
        W,
        "passed",
        "at least 1 call of get_weather, output.temp == 21.5 ± 2.1e-05",
        "1 such call",
    ),
    row(
        "all for the same call",
        lambda on: on.called_tool("get_weather", input={"city": "Queens"}, status="failed"),
        W,
        "failed",
        'at least 1 call of get_weather, input.city = "Queens", status failed',
        "0 such calls; nearest #1: status completed",
    ),
    row(
        "output of another",
        lambda on: on.called_tool("get_weather", input={"city": "Brooklyn"}, output={"temp": 21.5}),
        W,
        "failed",
        'at least 1 call of get_weather, input.city = "Brooklyn", output.temp = 21.5',
        '0 such calls; nearest #3: output = "error", not an object',
    ),
    row(
        "rejected",
        lambda on: on.called_tool("shell", status="rejected"),
        W,
        "passed",
        "at least 1 call of shell, status rejected",
        "1 such call",
    ),
    row(
        "json null",
        lambda on: on.called_tool("shell", output=None),
        W,
        "passed",
        "at least 1 call of shell, output = null",
        "1 such call",
    ),
    row(
        "exact",
        lambda on: on.called_tool("get_weather", count=2),
        W,
        "passed",
        "2 calls of get_weather",
        "2 such calls",
    ),
    row(
        "too many",
        lambda on: on.called_tool("get_weather", count=1),
        W,
        "failed",
        "1 call of get_weather",
        "2 such calls",
    ),
    row("none", lambda on: on.called_tool("x", count=0), turn(), "passed", "0 calls of x", "no calls at all"),
    row(
        "count decides",
        lambda on: on.called_tool("get_weather", count=_even),
        W,
        "passed",
        "as many calls as _even accepts of get_weather",
        "2 such calls",
    ),
    # not_called_tool
    row(
        "absent",
        lambda on: on.not_called_tool("x"),
        W,
        "passed",
        "no call of x",
        "0 such calls; called: get_weather, Bash",
    ),
    row("present", lambda on: on.not_called_tool("shell"), W, "failed", "no call of shell", "1 such call"),
    row(
        "absent so",
        lambda on: on.not_called_tool("shell", input={"command": re.compile("rm")}),
        W,
        "passed",
        "no call of shell, input.command matches /rm/",
        '0 such calls; nearest #5: input.command = "ls"',
    ),
    # The other assertions on calls
    row(
        "order",
        lambda on: on.tool_order(["get_weather", "shell"]),
        W,
        "passed",
        "get_weather -> shell",
        "get_weather -> get_weather -> Bash",
    ),
    row(
        "wrong order",
        lambda on: on.tool_order(["Bash", "get_weather"]),
        W,
        "failed",
        "Bash -> get_weather",
        "get_weather -> get_weather -> Bash",
    ),
    row(
        "order, twice",
        lambda on: on.tool_order(["Bash", "Bash"]),
        W,
        "failed",
        "Bash -> Bash",
        "get_weather -> get_weather -> Bash",
    ),
    row("no tools", lambda on: on.used_no_tools(), HELP, "passed", "no tool calls", "0 tool calls"),
    row("tools", lambda on: on.used_no_tools(), W, "failed", "no tool calls", "3 tool calls: get_weather, Bash"),
    row(
        "at most",
        lambda on: on.max_tool_calls(3),
        W,
        "passed",
        "at most 3 tool calls",
        "3 tool calls: get_weather, Bash",
    ),
    row("over", lambda on: on.max_tool_calls(1), W, "failed", "at most 1 tool call", "3 tool calls: get_weather, Bash"),
    row(
        "skill",
        lambda on: on.loaded_skill("pdf"),
        turn(*tool("c1", "load_skill", {"skill": "pdf"})),
        "passed",
        'at least 1 call of load_skill, input.skill = "pdf"',
        "1 such call",
    ),
    row(
        "another skill",
        lambda on: on.loaded_skill("pdf"),
        turn(*tool("c1", "load_skill", {"skill": "xls"})),
        "failed",
        'at least 1 call of load_skill, input.skill = "pdf"',
        '0 such calls; nearest #1: input.skill = "xls"',
    ),
    row(
        "subagent",
        lambda on: on.called_subagent(
            "researcher", remote_url=re.compile("agents"), output={"found": 3}, status="completed", count=1
        ),
        HELP,
        "passed",
        "1 call of researcher, output.found = 3, remote_url matches /agents/, status completed",
        "1 such call",
    ),
    row(
        "a tool is no subagent",
        lambda on: on.called_subagent("Bash"),
        W,
        "failed",
        "at least 1 call of Bash",
        "no calls at all",
    ),
    row(
        "a subagent is no tool",
        lambda on: on.called_tool("researcher"),
        HELP,
        "failed",
        "at least 1 call of researcher",
        "no calls at all",
    ),
    row("no failures", lambda on: on.no_failed_actions(), HELP, "passed", "no failed actions", "0 failed actions of 1"),
    row("a failure", lambda on: on.no_failed_actions(), W, "failed", "no failed actions", "1 failed action of 3"),
    row(
        "a failed subagent",
        lambda on: on.no_failed_actions(),
        turn(*subagent("s1", "r", status="failed")),
        "failed",
        "no failed actions",
        "1 failed action of 1",
    ),
    # Messages and events
    row(
        "said",
        lambda on: on.message_includes("Hello"),
        TALK,
        "passed",
        "an assistant message with 'Hello'",
        "Hello there",
    ),
    row(
        "said so",
        lambda on: on.message_includes(re.compile(r"\d+ °C$")),
        TALK,
        "passed",
        r"an assistant message with /\d+ °C$/",
        "It is 21 °C",
    ),
    row(
        "not said",
        lambda on: on.message_includes("Bye"),
        TALK,
        "failed",
        "an assistant message with 'Bye'",
        "It is 21 °C",
    ),
    row(
        "each message alone",
        lambda on: on.message_includes(re.compile("there.*It", re.S)),
        TALK,
        "failed",
        "an assistant message with /there.*It/",
        "It is 21 °C",
    ),
    row(
        "never the user's text",
        lambda on: on.message_includes("go"),
        turn(Message(role="user", text="go on")),
        "failed",
        "an assistant message with 'go'",
        "no assistant message",
    ),
    row("event", lambda on: on.event("error"), STORY, "passed", "at least 1 event of type error", "1 such event"),
    row(
        "assistant only",
        lambda on: on.event("message", count=2),
        STORY,
        "passed",
        "2 events of type message",
        "2 such events",
    ),
    row(
        "no event",
        lambda on: on.event("compaction"),
        W,
        "failed",
        "at least 1 event of type compaction",
        "0 such events",
    ),
    row("event absent", lambda on: on.not_event("error"), TALK, "passed", "no event of type error", "0 such events"),
    row(
        "event there", lambda on: on.not_event("thinking"), STORY, "failed", "no event of type thinking", "1 such event"
    ),
    row(
        "the user's message is none",
        lambda on: on.not_event("message"),
        W,
        "passed",
        "no event of type message",
        "0 such events",
    ),
    row(
        "event order",
        lambda on: on.event_order(["message", "message", "compaction"]),
        STORY,
        "passed",
        "message -> message -> compaction",
        "message -> thinking -> message -> error -> message -> compaction",
    ),
    row(
        "wrong event order",
        lambda on: on.event_order(["error", "thinking"]),
        STORY,
        "failed",
        "error -> thinking",
        "message -> thinking -> message -> error -> message -> compaction",
    ),
    row(
        "satisfy",
        lambda on: on.events_satisfy("ends well", lambda events: isinstance(events[-1], Compaction)),
        STORY,
        "passed",
        "ends well",
        "6 events, true",
    ),
    row(
        "do not satisfy",
        lambda on: on.events_satisfy("is short", lambda events: len(events) < 3),
        STORY,
        "failed",
        "is short",
        "6 events, false",
    ),
    # State
    row("completed", lambda on: on.succeeded(), TALK, "passed", "completed", "completed"),
    row("failed", lambda on: on.succeeded(), turn(status="failed"), "failed", "completed", "failed"),
    row("waits", lambda on: on.succeeded(), waiting(request("r1")), "failed", "completed", "waiting"),
    row("parked", lambda on: on.parked(), waiting(request("r1")), "passed", "waiting for a human", "waiting"),
    row("not parked", lambda on: on.parked(), TALK, "failed", "waiting for a human", "completed"),
    # Usage
    row("tokens", lambda on: on.max_tokens(15), turn(), "passed", "at most 15 tokens", "15 tokens"),
    row("too many tokens", lambda on: on.max_tokens(14), turn(), "failed", "at most 14 tokens", "15 tokens"),
    row(
        "cached tokens",
        lambda on: on.max_tokens(2),
        turn(usage=Usage(input_tokens=1, output_tokens=1, cache_read_tokens=99, cache_write_tokens=99)),
        "passed",
        "at most 2 tokens",
        "2 tokens",
    ),
    row("cost", lambda on: on.max_cost(Decimal("0.25")), turn(), "passed", "at most $0.25", "$0.25"),
    row("too dear", lambda on: on.max_cost(0.2), turn(), "failed", "at most $0.2", "$0.25"),
]


def _even(count: int) -> bool:
    return count % 2 == 0


@pytest.mark.parametrize("receiver", RECEIVERS)
@pytest.mark.parametrize(("say", "found", "outcome", "expected", "received"), TABLE)
def test_an_assertion_on_every_receiver(
    say: Say, found: Turn, outcome: str, expected: str, received: str, receiver: str
) -> None:
    """The outcome, and both sides of it as text."""
    entry = assess(receiver, say, found).only
    assert (entry.outcome, entry.expected, entry.received) == (outcome, expected, received)
    assert (entry.severity, entry.score, entry.reason) == ("gate", float(outcome == "passed"), None)


REFERENCES: list[tuple[Say, Turn, list[tuple[int, str | None]], str | None]] = [
    (
        lambda on: on.called_tool("shell"),
        W,
        [(5, "c3"), (6, "c3")],
        "#5 action.called Bash (c3) · #6 rejected",
    ),
    (
        lambda on: on.called_tool("get_weather", status="rejected"),
        W,
        [(1, "c1"), (2, "c1"), (3, "c2"), (4, "c2")],
        "#1 action.called get_weather (c1) · #2 completed · #3 action.called get_weather (c2) · #4 failed",
    ),
    (lambda on: on.not_called_tool("shell"), W, [(5, "c3"), (6, "c3")], "#5 action.called Bash (c3) · #6 rejected"),
    (lambda on: on.max_tool_calls(2), W, [(5, "c3"), (6, "c3")], "#5 action.called Bash (c3) · #6 rejected"),
    (lambda on: on.no_failed_actions(), W, [(3, "c2"), (4, "c2")], "#3 action.called get_weather (c2) · #4 failed"),
    (
        lambda on: on.called_subagent("researcher"),
        HELP,
        [(1, "s1"), (2, "s1")],
        "#1 subagent.called researcher (s1) · #2 completed",
    ),
    (lambda on: on.message_includes("21"), TALK, [(2, None)], "#2 message"),
    (lambda on: on.message_includes("nope"), TALK, [(1, None), (2, None)], None),
    (lambda on: on.event("error"), STORY, [(3, None)], "#3 error"),
    (lambda on: on.not_event("thinking"), STORY, [(1, None)], "#1 thinking"),
    (lambda on: on.event_order(["thinking", "error"]), STORY, [(1, None), (3, None)], "#1 thinking · #3 error"),
    (lambda on: on.parked(), waiting(request("r1")), [(1, None)], None),
    (lambda on: on.succeeded(), turn(says("a"), status="failed"), [(1, None)], None),
]


@pytest.mark.parametrize(("say", "found", "references", "evidence"), REFERENCES)
def test_evidence_points_into_the_stored_events(
    say: Say, found: Turn, references: list[tuple[int, str | None]], evidence: str | None
) -> None:
    """By index (the user's message is #0) and call id."""
    ran = assess("turn", say, found)
    assert [(ref.event, ref.call_id) for ref in ran.only.evidence_refs] == references
    assert ran.only.evidence == evidence
    for ref in ran.only.evidence_refs:
        assert ran.events[ref.event].get("callId") == ref.call_id


def test_indices_are_the_attempts_not_the_turns() -> None:
    """A second turn of another session goes on counting."""

    async def case(t: EvalContext) -> None:
        await t.send("go")
        (await t.new_session().send("go")).called_tool("b")

    ran = run_eval(case, agent(turn(*tool("c1", "a")), turn(*tool("c1", "b"))))
    assert [ref.event for ref in ran.only.evidence_refs] == [4, 5]
    assert ran.events[4]["name"] == "b"


def test_a_failed_turns_last_error_is_the_detail_of_succeeded() -> None:
    """It says more than the word."""
    entry = assess("t", lambda on: on.succeeded(), turn(ErrorEvent(message="context too long"), status="failed")).only
    assert entry.detail == "context too long"


def _after(*turns: Turn) -> Callable[[Say], AssertionResult]:
    def on_t(say: Say) -> AssertionResult:
        return assess("t", say, *turns).only

    return on_t


@pytest.mark.parametrize(
    ("turns", "succeeds", "parks", "received"),
    [
        ([turn(), turn()], "passed", "failed", "2 turns completed"),
        ([waiting(request("r")), turn()], "passed", "failed", "turn 1 waiting"),
        ([turn(), waiting(request("r"))], "failed", "passed", "turn 2 waiting"),
        ([turn(status="failed"), turn()], "failed", "failed", "turn 1 failed"),
    ],
)
def test_the_state_of_several_turns(turns: list[Turn], succeeds: str, parks: str, received: str) -> None:
    """No turn failed and the last is completed; the last waits."""
    assert _after(*turns)(lambda on: on.succeeded()).outcome == succeeds
    assert _after(*turns)(lambda on: on.parked()).outcome == parks
    assert _after(*turns)(lambda on: on.succeeded()).received == received


def test_every_sessions_last_turn_has_to_be_completed() -> None:
    """One that was left waiting is not a success of the whole, though of the other line."""

    async def case(t: EvalContext) -> None:
        side = t.new_session()
        await side.send("go")
        await t.send("go")
        t.succeeded()
        t.parked()
        side.parked()

    assert run_eval(case, agent(waiting(request("r")), turn())).outcomes == ["failed", "failed", "passed"]


def test_t_sees_all_sessions_a_session_its_own_a_turn_itself() -> None:
    """The receiver decides the scope, and `t` answers when the function has returned."""

    async def case(t: EvalContext) -> None:
        t.called_tool("late")
        first = await t.send("go")
        side = t.new_session()
        await side.send("go")
        side.not_called_tool("late")
        await side.send("go")
        side.called_tool("late")
        first.not_called_tool("b")
        t.called_tool("b")
        t.tool_order(["a", "b", "late"])

    steps = [turn(*tool("c1", "a")), turn(*tool("c1", "b")), turn(*tool("c2", "late"))]
    assert run_eval(case, agent(*steps)).outcomes == ["passed"] * 6


def test_usage_is_summed_over_the_scope() -> None:
    """Tokens and exact money."""

    async def case(t: EvalContext) -> None:
        for _ in range(3):
            last = await t.send("go")
        t.max_tokens(30)
        t.max_cost(0.3)
        t.max_cost(0.29)
        last.max_cost(0.1)

    ran = run_eval(case, agent(turn(usage=Usage(input_tokens=6, output_tokens=4, cost_usd=0.1))))
    assert ran.outcomes == ["passed", "passed", "failed", "passed"]
    assert ran.result.assertions[1].received == "$0.3"


def test_a_price_of_the_configuration_makes_a_cost() -> None:
    """Where none was measured; a pattern may name the model."""
    pricing = {"acme/*": Price(input_per_mtok=3, output_per_mtok=15)}
    found = turn(usage=Usage(input_tokens=1_000, output_tokens=100))
    ran = assess("t", lambda on: on.max_cost(0.0045), found, model="acme/one", pricing=pricing)
    assert (ran.only.outcome, ran.only.received) == ("passed", "$0.0045")
    assert ran.result.estimated_cost_usd == 0.0045


OUTPUTS: list[tuple[Say, Any, str, str, str]] = [
    (lambda on: on.output_equals({"n": 1}), {"n": 1.0}, "passed", '{"n":1}', '{"n":1.0}'),
    (lambda on: on.output_equals({"n": 1}), {"n": 1, "m": 2}, "failed", '{"n":1}', '{"n":1,"m":2}'),
    (lambda on: on.output_equals({"n": mock.ANY}), {"n": "x"}, "passed", "{'n': <ANY>}", '{"n":"x"}'),
    (lambda on: on.output_equals([True]), [1], "failed", "[true]", "[1]"),
    (lambda on: on.output_matches(dict[str, int]), {"n": 1}, "passed", "dict", "it fits"),
    (
        lambda on: on.output_matches(dict[str, int]),
        {"n": "x"},
        "failed",
        "dict",
        "Expected `int`, got `str` - at `$[...]`",
    ),
    (lambda on: on.output_matches(JsonSchema({"required": ["m"]})), {"m": 1}, "passed", "JsonSchema", "it fits"),
    (
        lambda on: on.output_matches(JsonSchema({"title": "Rep", "required": ["m"]})),
        {"n": 1},
        "failed",
        "Rep",
        "'m' is a required property - at `$`",
    ),
]


@pytest.mark.parametrize(("say", "data", "outcome", "expected", "received"), OUTPUTS)
def test_a_turns_structured_answer(say: Say, data: Any, outcome: str, expected: str, received: str) -> None:
    """It is judged as it came, by value or by a form."""
    entry = assess("turn", say, turn(data=data), output=JsonSchema({})).only
    assert entry.outcome == outcome
    assert entry.received == received
    assert entry.expected == expected or "ANY" in expected


BAD_ARGUMENTS: list[tuple[Say, str, str]] = [
    (lambda on: on.called_tool(""), "bad-argument", "called_tool: name is ''"),
    (lambda on: on.called_tool(3), "bad-argument", "called_tool: name is 3"),
    (lambda on: on.called_tool("a", count=-1), "bad-argument", "called_tool: count is -1"),
    (lambda on: on.called_tool("a", count=True), "bad-argument", "called_tool: count is True"),
    (lambda on: on.called_tool("a", count="2"), "bad-argument", "called_tool: count is '2'"),
    (lambda on: on.called_tool("a", status="done"), "bad-argument", "called_tool: status is 'done'"),
    (lambda on: on.not_called_tool("a", status="unknown"), "bad-argument", "not_called_tool: status is 'unknown'"),
    (lambda on: on.called_subagent(None), "bad-argument", "called_subagent: name is None"),
    (lambda on: on.tool_order("a"), "bad-argument", "tool_order: the list is 'a'"),
    (lambda on: on.tool_order([]), "bad-argument", "tool_order: the list is []"),
    (lambda on: on.tool_order(["a", 1]), "bad-argument", "tool_order: a name is 1"),
    (lambda on: on.max_tool_calls(-1), "bad-argument", "max_tool_calls: limit is -1"),
    (lambda on: on.max_tool_calls(1.5), "bad-argument", "max_tool_calls: limit is 1.5"),
    (lambda on: on.max_tokens("9"), "bad-argument", "max_tokens: limit is '9'"),
    (lambda on: on.max_cost(-1), "bad-argument", "max_cost: usd is -1"),
    (lambda on: on.max_cost(float("nan")), "bad-argument", "max_cost: usd is nan"),
    (lambda on: on.max_cost(Decimal("NaN")), "bad-argument", "max_cost: usd is Decimal('NaN')"),
    (lambda on: on.message_includes(""), "bad-argument", "message_includes: text is ''"),
    (lambda on: on.message_includes(None), "bad-argument", "message_includes: text is None"),
    (lambda on: on.message_includes(re.compile(b"x")), "bad-argument", "message_includes: text is re.compile(b'x')"),
    (lambda on: on.event("mesage"), "bad-argument", 'event: "mesage" is not an event type; "message" is close'),
    (lambda on: on.not_event("tool"), "bad-argument", 'not_event: "tool" is not an event type'),
    (lambda on: on.not_event(["error"]), "bad-argument", "not_event: list is not an event type"),
    (lambda on: on.event_order(["message", "x"]), "bad-argument", 'event_order: "x" is not an event type'),
    (lambda on: on.events_satisfy("l", None), "bad-argument", "events_satisfy: predicate is None"),
]


@pytest.mark.parametrize("receiver", RECEIVERS)
@pytest.mark.parametrize(("say", "code", "message"), BAD_ARGUMENTS)
def test_an_argument_that_means_nothing_is_an_authors_error(say: Say, code: str, message: str, receiver: str) -> None:
    """At the author's line, and nothing is recorded that could pass."""
    ran = assess(receiver, say, W)
    assert ran.result.outcome == "errored"
    assert (ran.error_code, ran.result.assertions) == (code, ())
    assert ran.result.error_info is not None
    assert ran.result.error_info.message == message
    assert ran.result.error_info.loc is not None
    assert ran.result.error_info.loc.startswith("test_vocabulary.py:")
    assert ran.result.error_info.next


def _raises(value: Any) -> bool:
    raise KeyError("n")


async def _late(value: Any) -> bool:
    return True


BAD_CONDITIONS: list[tuple[Say, str]] = [
    (lambda on: on.called_tool("get_weather", input=_raises), "_raises raised KeyError: 'n'"),
    (lambda on: on.not_called_tool("get_weather", output=_raises), "_raises raised KeyError: 'n'"),
    (lambda on: on.called_tool("get_weather", input=str), "the class str is no condition"),
    (lambda on: on.called_tool("get_weather", input=_late), "_late is asynchronous, so its answer is not known"),
    (lambda on: on.called_tool("get_weather", count=_raises), "_raises raised KeyError: 'n'"),
    (lambda on: on.called_tool("get_weather", count=_late), "_late is asynchronous, so its answer is not known"),
    (lambda on: on.event("action.called", count=_late), "_late is asynchronous, so its answer is not known"),
    (lambda on: on.events_satisfy("label", _late), "_late is asynchronous, so its answer is not known"),
    (lambda on: on.events_satisfy("label", _raises), "_raises raised KeyError: 'n'"),
]


@pytest.mark.parametrize("receiver", RECEIVERS)
@pytest.mark.parametrize(("say", "message"), BAD_CONDITIONS)
def test_a_condition_that_gives_no_answer_is_an_authors_error(say: Say, message: str, receiver: str) -> None:
    """Never a mismatch, and never a pass: also where `t` asks it after the function has returned."""
    ran = assess(receiver, say, W)
    assert (ran.result.outcome, ran.error_code) == ("errored", "bad-matcher")
    assert ran.result.error_info is not None
    assert ran.result.error_info.message.startswith(message)
    assert ran.result.error_info.loc is not None
    assert ran.result.error_info.loc.startswith("test_vocabulary.py:")
    for entry in ran.result.assertions:
        assert (receiver, entry.outcome) == ("t", "unavailable")
        assert entry.reason is not None
        assert entry.reason.code == "bad-matcher"


def test_texts_of_any_kind_can_be_stored() -> None:
    """Surrogates and very long texts, in names, groups, labels and what was received."""

    async def case(t: EvalContext) -> None:
        with t.group("g\ud800" * 3_000):
            found = await t.send("a\ud800b")
            found.message_includes("\udfff" * 5_000).label("l\ud800")
            t.check("x\ud800", lambda text: False)

    ran = run_eval(case, agent(turn(says("x" * 10_000))))
    for entry in ran.result.assertions:
        for text in (entry.name, entry.group, entry.expected, entry.received, entry.label or ""):
            assert text is not None
            assert len(text) < 2_100
            text.encode()


def test_names_say_what_was_asked() -> None:
    """A person finds the line by them."""

    async def case(t: EvalContext) -> None:
        found = await t.send("go")
        found.called_tool("a").optional()
        found.event("message")
        found.event_order(["message", "error"])
        found.tool_order(["a", "b"])
        found.message_includes(re.compile("x+"))
        found.message_includes("y" * 80)
        found.max_cost(0.5)

    names = [entry.name for entry in run_eval(case, agent(turn())).result.assertions]
    assert names == [
        'called_tool("a")',
        'event("message")',
        "event_order(['message', 'error'])",
        "tool_order(['a', 'b'])",
        "message_includes(/x+/)",
        f'message_includes("{"y" * 60}…")',
        "max_cost(0.5)",
    ]
