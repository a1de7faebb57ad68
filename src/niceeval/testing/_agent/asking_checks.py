"""Checks of human in the loop: asking, being answered by request id, and being refused."""

from __future__ import annotations

from collections.abc import Sequence

from niceeval._drive.faults import Fault
from niceeval._model.events import InputRequest
from niceeval.testing._agent.call_checks import asked_events
from niceeval.testing._agent.check import (
    Answer,
    absent,
    check,
    ended_early,
    failed,
    failed_by,
    not_checked,
    passed,
)
from niceeval.testing._agent.drives import Call, Drive, asked
from niceeval.testing._agent.evidence import Evidence
from niceeval.testing._agent.report import EventRef
from niceeval.testing._agent.turn_checks import start_of

APPROVAL = '"a text for which it stops and asks"'
_OPTIONS = 'give Probes(approval=Approval(text=..., approve="...", reject="...")) with option ids that it offers'


@check("asks", "an agent that asks waits, and each question can be told apart and answered")
def asks(evidence: Evidence) -> Answer:
    drive = evidence.get("approve")
    if drive is None:
        return absent(evidence, "approval", APPROVAL)
    if not drive.lines[0]:
        assert drive.fault is not None
        return failed_by(drive.fault, drive.fault.next_step or "return the waiting turn; do not wait inside send")
    requests = asked(drive.lines[0][0])
    if not requests:
        return failed(
            f"the turn does not wait: its status is {drive.lines[0][0].status}",
            'return status="waiting" with one InputRequested per open question; or give another Probes(approval=...)',
            [start_of(drive, drive.lines[0][0])],
        )
    problems = [problem for request in requests if (problem := _hard_to_answer(request))]
    return failed("; ".join(problems), "see InputRequest", asked_events(drive)[:3]) if problems else passed()


def _hard_to_answer(request: InputRequest) -> str | None:
    ids = [option.id for option in request.options or ()]
    if len(set(ids)) < len(ids):
        return f"{request.id} offers the same option id twice ({', '.join(ids)})"
    if request.options is not None and not ids:
        return f"{request.id} has an empty list of options: leave it out where any text is an answer"
    if not (request.prompt or request.display or request.action):
        return f"{request.id} says nothing about what it asks: give prompt, display or action"
    return None


@check("resumes", "an approval lets the agent go on")
def resumes(evidence: Evidence) -> Answer:
    drive = evidence.get("approve")
    blocked = _blocked(evidence, drive)
    if blocked is not None or drive is None:
        return blocked or absent(evidence, "approval", APPROVAL)
    if drive.fault is not None:
        return failed_by(drive.fault, drive.fault.next_step or "find the paused work by ctx.session and request_id")
    calls = drive.waiting_calls(drive.lines[0][0])
    refused = [call for call in calls if call.status == "rejected"]
    if refused:
        return failed(
            f"{_named(refused)} is rejected, although it was approved",
            "look at response.option_id (or response.text), not at input.text alone",
            _refs(drive, refused),
        )
    lost = [call for call in calls if call.status == "unknown"]
    if lost and not asked(drive.lines[0][-1]) and evidence.declared("actions").level == "complete":
        return failed(
            f"{_named(lost)} has no result, although it was approved",
            "add the ActionResult with the call_id of the turn before, or declare actions partial",
            _refs(drive, lost),
        )
    return passed()


@check("refusal-rejected", "a refusal is `rejected`: no failure, and nothing was done")
def refusal_rejected(evidence: Evidence) -> Answer:
    drive = evidence.get("refuse")
    if drive is None:
        return _blocked(evidence, evidence.get("approve")) or _not_asked(evidence)
    if drive.fault is not None:
        return _ended_by(drive.fault, "a refusal is an answer like any other")
    if len(drive.lines[0]) < 2:
        return not_checked("this time it did not ask", "give a text for which it always asks")
    calls = drive.waiting_calls(drive.lines[0][0])
    if not calls:
        return not_checked(
            "no call waits for the answer", "emit ActionCalled for what needs approval, before its InputRequested"
        )
    if all(call.status == "unknown" for call in calls) and evidence.declared("actions").level != "complete":
        return not_checked("no result is shown for what was refused")
    wrong = [call for call in calls if call.status != "rejected"]
    next = 'close the call with ActionResult(call_id=..., status="rejected"), and let the turn be completed'
    if wrong:
        return failed(f"{_named(wrong)} is {wrong[0].status} after the refusal", next, _refs(drive, wrong))
    if drive.lines[0][1].status == "failed":
        return failed("the turn after the refusal is failed", next, [start_of(drive, drive.lines[0][1])])
    return passed()


@check("answers-by-request", "answers belong to the requests they name, in whatever order they come")
def answers_by_request(evidence: Evidence) -> Answer:
    drive = evidence.get("reversed")
    if drive is None:
        return _blocked(evidence, evidence.get("approve")) or not_checked(
            "it asks one question at a time",
            "give a Probes(approval=...) with two open questions, where it can have them",
        )
    if drive.fault is not None:
        return _ended_by(drive.fault, "find each response by its request_id")
    first, *others = asked(drive.lines[0][0])
    calls = drive.waiting_calls(drive.lines[0][0])
    refused = _call_of(first, calls)
    approved = [call for request in others if (call := _call_of(request, calls))]
    if refused is None or len(approved) < len(others):
        return not_checked(
            "it cannot be seen which call a request is about",
            "set action and input of the InputRequest as those of the call",
        )
    mixed_up = [call for call in approved if call.status == "rejected"]
    if refused.status == "completed" or mixed_up:
        return failed(
            f"{refused.call_id} was refused and is {refused.status}; {_named(approved)} was approved and is "
            + approved[0].status,
            "find each response by its request_id, never by its place",
            _refs(drive, [refused, *approved]),
        )
    return passed()


def _call_of(request: InputRequest, calls: Sequence[Call]) -> Call | None:
    found = [call for call in calls if call.name == request.action and getattr(call, "input", None) == request.input]
    return found[0] if len(found) == 1 else None


@check("questions-apart", "two lines that wait at the same time each get their own answer")
def questions_apart(evidence: Evidence) -> Answer:
    drive = evidence.get("crossed")
    if drive is None:
        return _blocked(evidence, evidence.get("approve")) or _not_asked(evidence)
    next = "keep the paused work on ctx.session, under its request id"
    if drive.fault is not None:
        return _ended_by(drive.fault, next)
    if any(len(line) < 2 for line in drive.lines):
        return not_checked("this time it did not ask on both lines", "give a text for which it always asks")
    refused, approved = (drive.waiting_calls(line[0]) for line in drive.lines)
    if not refused or not approved:
        return not_checked("no call waits for the answers", "see refusal-rejected")
    wrong = [call for call in approved if call.status == "rejected"]
    wrong += [call for call in refused if call.status == "completed"]
    if evidence.declared("actions").level == "complete":
        wrong += [call for call in (*approved, *refused) if call.status == "unknown"]
    if wrong:
        return failed(
            f"{_named(refused)} was refused and is {refused[0].status}; on the other line {_named(approved)} was"
            f" approved and is {approved[0].status}",
            next,
            _refs(drive, [*refused, *approved]),
        )
    return passed()


@check("moves-on", "a plain text while questions are open drops them")
def moves_on(evidence: Evidence) -> Answer:
    drive = evidence.get("moved-on")
    if drive is None:
        return _blocked(evidence, evidence.get("approve")) or _not_asked(evidence)
    if drive.fault is not None:
        return failed_by(drive.fault, drive.fault.next_step or "a send without responses lets what is open lapse")
    still = [request.id for request in asked(drive.lines[0][1])]
    old = {request.id for request in asked(drive.lines[0][0])}
    if old & set(still):
        return failed(
            f"after another text it still waits for {', '.join(still)}",
            "a send without responses lets what is open lapse",
            [start_of(drive, drive.lines[0][1])],
        )
    return passed()


def _blocked(evidence: Evidence, approve: Drive | None) -> Answer | None:
    """Why nothing can be said about answers: no probe, no question, or no answer that the agent offers."""
    if approve is None:
        return absent(evidence, "approval", APPROVAL)
    if not approve.lines[0] or not asked(approve.lines[0][0]):
        return not_checked("it does not ask", "see asks")
    if approve.fault is not None and approve.fault.code == "unknown-option":
        return _ended_by(approve.fault, "")
    return None


def _ended_by(fault: Fault, next: str) -> Answer:
    """A scenario that ended in an error, which is the probe's where the agent does not offer its answer."""
    if fault.code == "unknown-option":
        return not_checked(fault.message, _OPTIONS)
    return failed_by(fault, fault.next_step or next)


def _not_asked(evidence: Evidence) -> Answer:
    approve = evidence.get("approve")
    assert approve is not None
    return ended_early(approve, "resumes")


def _named(calls: Sequence[Call]) -> str:
    return ", ".join(f"{call.call_id} ({call.name})" for call in calls[:3])


def _refs(drive: Drive, calls: Sequence[Call]) -> list[EventRef]:
    events = [index for call in calls for index in (call.event, call.result_event) if index is not None]
    return [EventRef(drive.name, index) for index in events[:6]]


ASKING_CHECKS = (asks, resumes, refusal_rejected, answers_by_request, questions_apart, moves_on)
