"""Checks of tool and subagent calls: pairing, order, ids, and what they say of themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from niceeval._evidence.facts import IndexedEvent, ToolCall
from niceeval._model.events import (
    CANONICAL_TOOLS,
    ActionCalled,
    ActionResult,
    InputRequested,
    SubagentCalled,
    SubagentCompleted,
)
from niceeval.testing._agent.check import (
    Answer,
    absent,
    check,
    ended_early,
    failed,
    failed_at,
    failed_by,
    not_checked,
    not_promised,
    passed,
)
from niceeval.testing._agent.drives import Call, Drive
from niceeval.testing._agent.evidence import Evidence
from niceeval.testing._agent.report import EventRef
from niceeval.testing._agent.turn_checks import start_of

ASKING = ("approve", "refuse", "crossed", "moved-on", "reversed")
TOOL = '"a text that makes it call a tool"'
FAILING = '"a text that makes it call a tool that fails"'


@check("tool-seen", "a tool call is in the events, and its success is `completed`")
def tool_seen(evidence: Evidence) -> Answer:
    return _called(evidence, "tool", "tool", TOOL, "completed", "a result of a tool that worked has this status")


@check("tool-failure-seen", "a tool that failed has the status `failed`, and the turn comes back all the same")
def tool_failure_seen(evidence: Evidence) -> Answer:
    next = "a tool's own failure is an ActionResult with this status; it is neither an exception nor a success"
    return _called(evidence, "failing-tool", "failing_tool", FAILING, "failed", next)


def _called(evidence: Evidence, scenario: str, probe: str, example: str, status: str, next: str) -> Answer:
    drive = evidence.get(scenario)
    if drive is None:
        return absent(evidence, probe, example)
    if drive.fault is not None:
        return failed_by(drive.fault, drive.fault.next_step or next)
    calls = drive.calls()
    if any(call.status == status for call in calls):
        return passed()
    unpromised = not_promised(evidence, "actions")
    if calls:
        statuses = ", ".join(sorted({call.status for call in calls}))
        refs = [EventRef(drive.name, call.event) for call in calls[:3]]
        # A call whose result is not shown at all says nothing about statuses where that is declared.
        open_only = unpromised is not None and statuses == "unknown"
        return (
            not_checked("no result is shown") if open_only else failed(f"no {status} call, but {statuses}", next, refs)
        )
    if unpromised is not None:
        return unpromised
    return failed(
        "no call came, although actions is declared complete",
        f"add ActionCalled and ActionResult, or declare actions partial; or give another Probes({probe}=...)",
        [start_of(drive, turn) for turn in drive.turns],
    )


@check("calls-have-results", "every call has a result, unless its turn waits")
def calls_have_results(evidence: Evidence) -> Answer:
    if not _any_call(evidence):
        return _no_call(evidence)
    unpromised = not_promised(evidence, "actions")
    if unpromised is not None:
        return unpromised
    open_calls = [
        (EventRef(drive.name, call.event), f"{call.call_id} ({call.name}) has no result")
        for drive, call in _settled_calls(evidence)
        if call.status == "unknown" and _promised(drive, call)
    ]
    if open_calls:
        return failed_at(open_calls, "add the result with the same call_id, or declare actions partial")
    return passed()


@check("results-have-calls", "every result comes after the call of its id, once")
def results_have_calls(evidence: Evidence) -> Answer:
    if not _any_call(evidence):
        return _no_call(evidence)
    complete = evidence.declared("actions").level == "complete"
    problems = [
        (EventRef(drive.name, stray.event), stray.problem)
        for drive in evidence.drives.values()
        for number in range(len(drive.lines))
        for stray in _strays(drive, number)
        if complete or stray.wrong_order
    ]
    if problems:
        return failed_at(problems, "emit events as they happened, each result with the call_id of its call")
    return passed()


@dataclass(frozen=True, slots=True)
class _Stray:
    event: int
    problem: str
    wrong_order: bool


def _strays(drive: Drive, line: int) -> Iterator[_Stray]:
    """The results that closed no call."""
    events: list[IndexedEvent] = [event for turn in drive.lines[line] for event in turn.events]
    closed = {call.result_event for call in drive.calls(line)}
    made = {event.call_id: index for index, event in events if isinstance(event, (ActionCalled, SubagentCalled))}
    for index, event in events:
        if isinstance(event, (ActionResult, SubagentCompleted)) and index not in closed:
            called = made.get(event.call_id)
            if called is None:
                yield _Stray(index, f"a result for {event.call_id}, which was never called", False)
            elif called > index:
                yield _Stray(index, f"the result of {event.call_id} comes before its call", True)
            else:
                yield _Stray(index, f"a second result for {event.call_id}", True)


@check("call-ids-unique", "a call id is used once in a conversation line")
def call_ids_unique(evidence: Evidence) -> Answer:
    if not _any_call(evidence):
        return _no_call(evidence)
    problems = [problem for drive in evidence.drives.values() for problem in _repeated_ids(drive)]
    if problems:
        return failed_at(
            problems, "use the protocol's own ids; where it has none, keep a counter on the session (a SessionSlot)"
        )
    return passed()


def _repeated_ids(drive: Drive) -> Iterator[tuple[EventRef, str]]:
    for number in range(len(drive.lines)):
        seen: set[tuple[bool, str]] = set()
        for call in drive.calls(number):
            key = (isinstance(call, ToolCall), call.call_id)
            if key in seen:
                yield EventRef(drive.name, call.event), f"{call.call_id} is used again"
            seen.add(key)


@check("inputs-parsed", "a call's input is a value, not JSON text")
def inputs_parsed(evidence: Evidence) -> Answer:
    if not _any_call(evidence):
        return _no_call(evidence)
    problems = [
        (EventRef(drive.name, index), f"the input of {event.name} is JSON in a string")
        for drive, index, event in _called_events(evidence)
        if isinstance(event.input, str) and _is_json_container(event.input)
    ]
    return (
        failed_at(problems, "input=json.loads(arguments), so that conditions can look inside") if problems else passed()
    )


def _is_json_container(text: str) -> bool:
    try:
        return isinstance(json.loads(text), (dict, list))
    except (ValueError, RecursionError):
        return False


@check("tool-names", "`tool` is one of the canonical names, or left out")
def tool_names(evidence: Evidence) -> Answer:
    if not _any_call(evidence):
        return _no_call(evidence)
    problems = [
        (EventRef(drive.name, index), f"{event.name} says tool={event.tool!r}")
        for drive, index, event in _called_events(evidence)
        if event.tool is not None and event.tool not in CANONICAL_TOOLS
    ]
    if problems:
        names = ", ".join(sorted(CANONICAL_TOOLS))
        return failed_at(problems, f"`name` is the agent's own; `tool` is one of {names}, or None")
    return passed()


def _called_events(evidence: Evidence) -> Iterator[tuple[Drive, int, ActionCalled]]:
    for drive, turn in evidence.turns():
        for index, event in turn.events:
            if isinstance(event, ActionCalled):
                yield drive, index, event


def _settled_calls(evidence: Evidence) -> Iterator[tuple[Drive, Call]]:
    """The calls of scenarios that came to their end; what becomes of a call that was asked about has its own checks."""
    for drive in evidence.drives.values():
        if drive.fault is None and drive.name not in ASKING:
            for number in range(len(drive.lines)):
                yield from ((drive, call) for call in drive.calls(number))


def _promised(drive: Drive, call: Call) -> bool:
    """Whether the turn that made the call left `actions` as they are declared."""
    turn = next((turn for turn in drive.turns if turn.number == call.turn), None)
    return turn is not None and turn.coverage["actions"][0] == "complete"


def _any_call(evidence: Evidence) -> bool:
    kinds = (ActionCalled, ActionResult, SubagentCalled, SubagentCompleted)
    return any(isinstance(event, kinds) for _, turn in evidence.turns() for _, event in turn.events)


def _no_call(evidence: Evidence) -> Answer:
    drive = evidence.get("tool")
    if drive is None:
        return absent(evidence, "tool", TOOL)
    return ended_early(drive, "tool-seen") if drive.fault else not_checked("no call came", "see tool-seen")


def asked_events(drive: Drive) -> list[EventRef]:
    """The requests of a scenario."""
    return [
        EventRef(drive.name, index)
        for turn in drive.turns
        for index, event in turn.events
        if isinstance(event, InputRequested)
    ]


CALL_CHECKS = (
    tool_seen,
    tool_failure_seen,
    calls_have_results,
    results_have_calls,
    call_ids_unique,
    inputs_parsed,
    tool_names,
)
