"""Human in the loop: finding the question that is meant, and answering each one exactly once."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from niceeval import EvalContext
from niceeval.adapter import (
    Coverage,
    EvidenceCoverage,
    InputOption,
    InputRequest,
    InputResponse,
    Turn,
    complete_evidence_coverage,
)
from tests.unit.drive_harness import Ran, Script, agent, request, run_eval, says, turn, waiting

APPROVE = InputRequest(
    id="r1",
    action="delete_file",
    input={"path": "/tmp/a", "force": True},
    prompt="Delete the file?",
    display="rm /tmp/a",
    options=(InputOption(id="approve", label="Yes"), InputOption(id="deny")),
)
NAME = InputRequest(id="r2", prompt="Which name?")
BOTH = waiting(APPROVE, NAME)

MATCHING: list[tuple[dict[str, Any], str | None]] = [
    ({"id": "r1"}, "r1"),
    ({"id": "r2"}, "r2"),
    ({"action": "delete_file"}, "r1"),
    ({"input": {"path": re.compile("^/tmp")}}, "r1"),
    ({"input": {"force": lambda value: value is True}}, "r1"),
    ({"prompt": "name"}, "r2"),
    ({"prompt": re.compile("file.$")}, "r1"),
    ({"prompt": lambda text: text.endswith("name?")}, "r2"),
    ({"display": "rm "}, "r1"),
    ({"option_ids": ["approve"]}, "r1"),
    ({"option_ids": ["deny", "approve"], "id": "r1"}, "r1"),
    ({}, None),
    ({"id": "r3"}, None),
    ({"prompt": "e"}, None),
    ({"action": "delete"}, None),
    ({"option_ids": ["approve", "later"]}, None),
    ({"id": "r2", "option_ids": ["approve"]}, None),
    ({"id": "r2", "display": ""}, None),
    ({"input": {"path": "/tmp"}}, None),
]


def hitl(function: Callable[[EvalContext], Awaitable[None]], *steps: Any, coverage: Any = None) -> tuple[Ran, Script]:
    """Run an eval against these steps."""
    script = agent(*steps, coverage=coverage or complete_evidence_coverage)
    return run_eval(function, script), script


@pytest.mark.parametrize(("conditions", "found"), MATCHING)
def test_exactly_one_pending_request_has_to_match(conditions: dict[str, Any], found: str | None) -> None:
    """Every condition holds for it; none or several is a failed gate that stops the eval."""
    got: list[str] = []

    async def case(t: EvalContext) -> None:
        await t.send("go")
        got.append(t.require_input_request(**conditions).id)

    ran, _ = hitl(case, BOTH)
    assert got == ([] if found is None else [found])
    assert ran.only.name == "require_input_request"
    assert ran.result.outcome == ("failed" if found is None else "passed")
    assert ran.error_code is None
    assert [ref.event for ref in ran.only.evidence_refs] == [1, 2]


def test_what_was_wanted_and_what_is_pending_are_said() -> None:
    """With the options, and how many match."""

    async def none(t: EvalContext) -> None:
        await t.send("go")
        t.require_input_request(id="x", action="a", prompt=re.compile("p"), input={"n": 1}, option_ids=["yes"])

    async def several(t: EvalContext) -> None:
        await t.send("go")
        t.require_input_request(prompt="e")

    async def nothing(t: EvalContext) -> None:
        await t.send("go")
        t.require_input_request()

    only = hitl(none, BOTH)[0].only
    assert only.expected == 'exactly one pending request with id "x", action a, prompt /p/, input.n = 1, options yes'
    assert only.received == "r1 (delete_file) [approve, deny], r2"
    assert hitl(several, BOTH)[0].only.received == "2 match: r1 (delete_file) [approve, deny], r2"
    assert hitl(nothing, turn())[0].only.received == "no pending request"


@pytest.mark.parametrize("level", ["partial", "unavailable"])
@pytest.mark.parametrize("step", [turn(), BOTH])
def test_a_question_may_have_been_missed_where_events_are_not_complete(level: str, step: Turn) -> None:
    """Then it is unavailable, and still stops the eval."""
    reached: list[str] = []

    async def case(t: EvalContext) -> None:
        await t.send("go")
        t.require_input_request(id="r9")
        reached.append("after")

    coverage = EvidenceCoverage.complete_except(events=getattr(Coverage, level)("polled"))
    ran, _ = hitl(case, step, coverage=coverage)
    assert (reached, ran.result.outcome, ran.only.outcome) == ([], "errored", "unavailable")
    assert ran.only.reason is not None
    assert (ran.only.reason.code, ran.only.reason.channel) == (f"coverage-{level}", "events")


def test_a_question_that_was_seen_is_evidence() -> None:
    """Whatever the channel says."""

    async def case(t: EvalContext) -> None:
        await t.send("go")
        t.require_input_request(id="r1")

    coverage = EvidenceCoverage.complete_except(events=Coverage.partial("polled"))
    assert hitl(case, BOTH, coverage=coverage)[0].outcomes == ["passed"]


def test_nothing_is_pending_before_anything_was_sent() -> None:
    """A failed gate: there is no question."""

    async def case(t: EvalContext) -> None:
        t.require_input_request()

    ran = hitl(case)[0]
    assert (ran.result.outcome, ran.only.received) == ("failed", "no pending request")


def test_a_condition_that_gives_no_answer_is_an_authors_error() -> None:
    """At its line, also inside `except Exception`."""

    async def case(t: EvalContext) -> None:
        await t.send("go")
        with contextlib.suppress(Exception):
            t.require_input_request(input=lambda value: value["no such key"])
        raise AssertionError("not reached")

    ran, _ = hitl(case, BOTH)
    assert (ran.result.outcome, ran.error_code, ran.result.assertions) == ("errored", "bad-matcher", ())


def test_option_ids_are_a_list() -> None:
    """A text would be taken for its letters."""

    async def case(t: EvalContext) -> None:
        await t.send("go")
        t.require_input_request(option_ids="approve")

    assert hitl(case, BOTH)[0].error_code == "bad-argument"


# Answers ----------------------------------------------------------------------------------------------------------

Respond = Callable[[EvalContext], Awaitable[Any]]
ONE = waiting(APPROVE)
FREE = waiting(NAME)
ANSWERS: list[tuple[str, Turn, Respond, list[tuple[str, str | None, str | None]], str]] = [
    ("option", ONE, lambda t: t.respond("approve"), [("r1", "approve", None)], "approve"),
    ("chosen", ONE, lambda t: t.respond(APPROVE.choose("deny")), [("r1", "deny", None)], "deny"),
    ("text to options", ONE, lambda t: t.respond(text="not now"), [("r1", None, "not now")], "not now"),
    ("bare text", FREE, lambda t: t.respond("Ada"), [("r2", None, "Ada")], "Ada"),
    ("empty text", FREE, lambda t: t.respond(""), [("r2", None, "")], ""),
    ("text", FREE, lambda t: t.respond(text="Ada"), [("r2", None, "Ada")], "Ada"),
    ("reply", FREE, lambda t: t.respond(NAME.reply("Ada")), [("r2", None, "Ada")], "Ada"),
    (
        "both, in the requests' order",
        BOTH,
        lambda t: t.respond(NAME.reply("Ada"), APPROVE.choose("approve")),
        [("r1", "approve", None), ("r2", None, "Ada")],
        "approve\nAda",
    ),
    (
        "all",
        waiting(request("a", "yes", "no"), request("b", "yes")),
        lambda t: t.respond_all("yes"),
        [("a", "yes", None), ("b", "yes", None)],
        "yes\nyes",
    ),
]


@pytest.mark.parametrize(
    ("step", "respond", "responses", "text"), [row[1:] for row in ANSWERS], ids=[r[0] for r in ANSWERS]
)
def test_an_answer_reaches_the_agent(
    step: Turn, respond: Respond, responses: list[tuple[str, str | None, str | None]], text: str
) -> None:
    """One response a request, the text beside it; the next turn comes back."""
    got: list[str] = []

    async def case(t: EvalContext) -> None:
        await t.send("go")
        got.append((await respond(t)).message)

    ran, script = hitl(case, step, turn(says("done")))
    answered = script.inputs[1]
    assert [(r.request_id, r.option_id, r.text) for r in answered.responses] == responses
    assert (answered.text, answered.files, answered.output_schema) == (text, (), None)
    assert (got, ran.result.outcome) == (["done"], "passed")
    assert script.contexts[0].session is script.contexts[1].session


BAD_ANSWERS: list[tuple[str, Turn, Callable[[EvalContext], Any], str, str]] = [
    (
        "unknown option",
        ONE,
        lambda t: t.respond("aprove"),
        "unknown-option",
        'request r1 has no option "aprove"; it has approve, deny',
    ),
    (
        "unknown choice",
        ONE,
        lambda t: t.respond(InputResponse(request_id="r1", option_id="x")),
        "unknown-option",
        'request r1 has no option "x"; it has approve, deny',
    ),
    (
        "option where there is none",
        FREE,
        lambda t: t.respond_all("yes"),
        "unknown-option",
        'request r2 has no option "yes"; it has no options: reply with text',
    ),
    (
        "not every one has it",
        BOTH,
        lambda t: t.respond_all("approve"),
        "unknown-option",
        'request r2 has no option "approve"; it has no options: reply with text',
    ),
    ("missing", BOTH, lambda t: t.respond(APPROVE.choose("deny")), "bad-response", "no answer for r2"),
    ("none", ONE, lambda t: t.respond(), "bad-response", "no answer is given; pending: r1"),
    (
        "double",
        ONE,
        lambda t: t.respond("deny", APPROVE.choose("approve")),
        "bad-response",
        "request r1 is answered twice",
    ),
    ("option and text", ONE, lambda t: t.respond("deny", text="x"), "bad-response", "request r1 is answered twice"),
    (
        "not pending",
        ONE,
        lambda t: t.respond(NAME.reply("Ada")),
        "bad-response",
        "request r2 is not pending; pending: r1",
    ),
    (
        "bare text for several",
        BOTH,
        lambda t: t.respond("approve"),
        "bad-response",
        "2 requests are pending (r1, r2)",
    ),
    ("no answer at all", ONE, lambda t: t.respond(3), "bad-response", "3 is no answer"),  # type: ignore[arg-type]
    (
        "neither option nor text",
        ONE,
        lambda t: t.respond(InputResponse(request_id="r1")),
        "bad-response",
        "the answer to request r1 is not exactly one option or one text",
    ),
    (
        "both option and text",
        ONE,
        lambda t: t.respond(InputResponse(request_id="r1", option_id="deny", text="x")),
        "bad-response",
        "the answer to request r1 is not exactly one option or one text",
    ),
    (
        "text that is none",
        FREE,
        lambda t: t.respond(text=3),  # type: ignore[arg-type]
        "bad-response",
        "the answer to request r2 is not exactly one option or one text",
    ),
    (
        "nothing pending",
        turn(),
        lambda t: t.respond("yes"),
        "bad-response",
        "nothing is pending: the last turn of this session does not wait",
    ),
    (
        "nothing pending for all",
        turn(),
        lambda t: t.respond_all("yes"),
        "bad-response",
        "nothing is pending: the last turn of this session does not wait",
    ),
]


@pytest.mark.parametrize(
    ("step", "respond", "code", "message"), [row[1:] for row in BAD_ANSWERS], ids=[r[0] for r in BAD_ANSWERS]
)
def test_a_wrong_answer_is_an_authors_error(
    step: Turn, respond: Callable[[EvalContext], Any], code: str, message: str
) -> None:
    """At the line of the call, and nothing is sent."""

    async def case(t: EvalContext) -> None:
        await t.send("go")
        await respond(t)

    ran, script = hitl(case, step, turn())
    assert (ran.result.outcome, ran.error_code, len(script.inputs)) == ("errored", code, 1)
    assert ran.result.error_info is not None
    assert ran.result.error_info.message == message
    assert ran.result.error_info.next
    assert ran.result.error_info.loc is not None
    assert ran.result.error_info.loc.startswith("test_hitl.py:")


def test_choosing_an_option_that_is_not_offered_names_those_that_are() -> None:
    """Already where the answer is made."""

    async def case(t: EvalContext) -> None:
        await t.send("go")
        t.require_input_request().choose("aprove")

    ran, _ = hitl(case, ONE)
    assert ran.error_code == "unknown-option"
    assert ran.result.error_info is not None
    assert ran.result.error_info.next == 'request.choose("approve")'


# Which turn's ---------------------------------------------------------------------------------------------------


def test_a_send_drops_what_is_pending() -> None:
    """It is allowed; afterwards nothing is left to answer."""

    async def case(t: EvalContext) -> None:
        await t.send("go")
        await t.send("never mind")
        await t.respond("approve")

    ran, script = hitl(case, ONE, turn())
    assert (ran.error_code, [input.text for input in script.inputs]) == ("bad-response", ["go", "never mind"])
    assert script.inputs[1].responses == ()


def test_pending_are_those_of_the_latest_turn_only() -> None:
    """An answered question does not come back."""

    async def case(t: EvalContext) -> None:
        await t.send("go")
        await t.respond("approve")
        t.require_input_request(id="r2")
        await t.respond("Ada")
        t.succeeded()

    ran, _ = hitl(case, ONE, FREE, turn())
    assert ran.outcomes == ["passed", "passed"]


def test_each_session_has_its_own_questions() -> None:
    """`t` answers the main line's."""

    async def case(t: EvalContext) -> None:
        side = t.new_session()
        await t.send("go")
        await side.send("go")
        t.require_input_request(id="r1")
        side.require_input_request(id="r2")
        await side.respond("Ada")
        await t.respond("deny")

    ran, script = hitl(case, ONE, FREE, turn())
    assert ran.result.outcome == "passed"
    assert [response.request_id for input in script.inputs for response in input.responses] == ["r2", "r1"]


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_questions_of_a_turn_that_does_not_wait_are_not_pending(status: str) -> None:
    """They are kept as events, and said."""
    from niceeval.adapter import InputRequested

    async def case(t: EvalContext) -> None:
        await t.send("go")
        t.event("input.requested", count=1)
        t.require_input_request()

    ran, _ = hitl(case, turn(InputRequested(request=NAME), status=status))
    assert ran.outcomes == ["passed", "failed"]
    assert ran.diagnostics == ["requests-without-waiting"]


def test_an_answer_that_is_not_awaited_is_an_authors_error() -> None:
    """As for a send."""

    async def case(t: EvalContext) -> None:
        await t.send("go")
        t.respond("approve")

    ran, script = hitl(case, ONE)
    assert (ran.error_code, len(script.inputs)) == ("send-not-awaited", 1)
    assert ran.result.error_info is not None
    assert "t.respond(...)" in ran.result.error_info.message
