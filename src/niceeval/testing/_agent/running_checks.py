"""Checks of what surrounds a turn: files, structured output, odd contexts, hooks, cancellation, the event loop."""

from __future__ import annotations

import base64

import msgspec

from niceeval._drive.structured import output_form
from niceeval._model.events import encode_events
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
from niceeval.testing._agent.evidence import Evidence
from niceeval.testing._agent.report import EventRef
from niceeval.testing._agent.turn_checks import start_of

OUTPUT = '("What is the weather in Oslo?", Weather)'
_PIECE = 48
"""Characters of base64 text in a row that nobody says by chance."""


@check("files-taken", "a file is used, left aside or refused by agent-input, and its bytes are not in the events")
def files_taken(evidence: Evidence) -> Answer:
    drive = evidence.get("file")
    if drive is None:
        return absent(evidence, "file", "InputFile(...)")
    if drive.fault is not None and drive.fault.code == "agent-input":
        return passed()
    if drive.fault is not None:
        return failed_by(drive.fault, drive.fault.next_step or "leave input.files aside where the agent takes none")
    told = _pieces(evidence.probes.attached().data)
    leaks = [
        (EventRef(drive.name, index), "the file's content is in an event")
        for turn in drive.turns
        for index, event in turn.events
        if any(piece in encode_events([event]).decode() for piece in told)
    ]
    if leaks:
        return failed_at(leaks, "name the file in the event (filename, size), and leave its content out")
    return passed()


def _pieces(data: bytes) -> list[str]:
    """Stretches of the content's base64 text that show it wherever it was pasted, line breaks or not."""
    text = base64.b64encode(data).decode("ascii")
    return [text[start : start + _PIECE] for start in range(0, max(len(text) - _PIECE + 1, 1), _PIECE)] if text else []


@check("output-given", "a structured answer comes where it was asked for, and fits")
def output_given(evidence: Evidence) -> Answer:
    drive = evidence.get("output")
    if drive is None:
        return absent(evidence, "output", OUTPUT)
    if drive.fault is not None:
        return failed_by(drive.fault, drive.fault.next_step or "hand input.output_schema on, or leave it aside")
    assert evidence.probes.output is not None
    turn = drive.turns[0]
    if turn.data is None:
        next = "set Turn.data, or declare data partial or unavailable"
        return not_promised(evidence, "data") or failed("no data", next, [start_of(drive, turn)])
    try:
        output_form(evidence.probes.output[1]).convert(turn.data)
    except ValueError as error:
        text = isinstance(turn.data, str)
        next = "parse the answer: data is a value, not JSON text" if text else "hand input.output_schema to the agent"
        return failed(f"{error}; it came as {_json(turn.data)}", next, [start_of(drive, turn)])
    return passed()


def _json(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else text[:200] + "…"


@check("flags-tolerated", "a flag that the adapter does not know does no harm")
def flags_tolerated(evidence: Evidence) -> Answer:
    return _plain(evidence, "unknown-flags", "read the flags that are known with ctx.flags.get(name, default)")


@check("model-optional", "an experiment without model and reasoning effort uses the agent's own")
def model_optional(evidence: Evidence) -> Answer:
    name = "no-model" if evidence.get("no-model") else "hello"
    return _plain(evidence, name, "ctx.model and ctx.reasoning_effort may be None: leave them out of the request then")


def _plain(evidence: Evidence, name: str, next: str) -> Answer:
    drive = evidence.get(name)
    if evidence.broken or drive is None:
        return absent(evidence, "hello", '"..."')
    return failed_by(drive.fault, next) if drive.fault is not None else passed()


@check("hooks-run", "setup and teardown run without an error, in every attempt")
def hooks_run(evidence: Evidence) -> Answer:
    if evidence.agent.setup is None and evidence.agent.teardown is None:
        return not_checked("the agent has neither")
    for drive in evidence.drives.values():
        if drive.fault is not None and drive.fault.phase == "setup":
            return failed_by(drive.fault, "setup runs once per attempt, and attempts run at the same time")
        said = [diagnostic.message for diagnostic in drive.diagnostics if diagnostic.code == "teardown-failed"]
        if said:
            return failed(said[0], "teardown runs whenever setup was entered, also after a cancelled send")
    return passed()


@check("attempts-apart", "one attempt's teardown leaves the others alone")
def attempts_apart(evidence: Evidence) -> Answer:
    if evidence.agent.teardown is None:
        return not_checked("the agent has no teardown")
    drives = [drive for name in ("outlives", "torn-down") if (drive := evidence.get(name))]
    if not drives:
        return absent(evidence, "hello", '"..."')
    for drive in drives:
        if drive.fault is not None and drive.fault.phase == "setup":
            return ended_early(drive, "hooks-run")
        if drive.fault is not None:
            return failed_by(drive.fault, "close in teardown only what setup made for this attempt")
    return passed()


SLOW = '"a turn that takes a while"'


@check("cancels", "a cancelled send ends within the grace period")
def cancels(evidence: Evidence) -> Answer:
    interruption = evidence.interruption
    if interruption is None:
        return absent(evidence, "slow", SLOW)
    if interruption.drive.fault is not None and not interruption.hit:
        return failed_by(interruption.drive.fault, "see the line above; other sends came through")
    if not interruption.hit:
        return _too_quick()
    if interruption.drive.driver.scope.abandoned:
        return failed(
            "send went on after it was cancelled, and was abandoned",
            "let CancelledError pass, and clean up in `finally`; a plain function watches ctx.cancelled",
        )
    return passed()


def _too_quick() -> Answer:
    return not_checked("every send was over before it could be cancelled", f"give Probes(slow={SLOW})")


@check("recovers", "after a cancelled send the next attempt works")
def recovers(evidence: Evidence) -> Answer:
    drive = evidence.get("after-cancel")
    if drive is None:
        return (
            absent(evidence, "slow", SLOW)
            if evidence.interruption is None
            else not_checked("nothing was cancelled", "see cancels")
        )
    if drive.fault is not None:
        return failed_by(drive.fault, "release locks and connections in `finally`, so that a cancelled send holds none")
    return passed()


@check("no-late-effects", "nothing of a send goes on when it is over")
def no_late_effects(evidence: Evidence) -> Answer:
    interruption = evidence.interruption
    if interruption is None:
        return absent(evidence, "slow", SLOW)
    if interruption.left and not interruption.drive.driver.scope.abandoned:
        return failed(
            f"after a cancelled send {', '.join(interruption.left[:3])} runs on",
            "cancel the tasks that send has started, and await them, before it ends: an asyncio.TaskGroup does both",
        )
    late = [drive.name for drive in evidence.drives.values() if drive.driver.late]
    if late:
        return failed(
            f"ctx was used after the attempt had ended ({', '.join(late[:3])})", "use ctx only until send returns"
        )
    if interruption.drive.driver.scope.abandoned:
        return not_checked("the cancelled send never ended", "repair cancels first")
    return passed() if interruption.hit else _too_quick()


@check("loop-free", "send never holds the event loop")
def loop_free(evidence: Evidence) -> Answer:
    if evidence.blocks:
        block = evidence.blocks[0]
        return failed(
            f"{block.seconds:.1f}s at {block.where}",
            "use an async client there, or make send a plain function: those run in a thread",
        )
    return absent(evidence, "hello", '"..."') if evidence.broken else passed()


RUNNING_CHECKS = (
    files_taken,
    output_given,
    flags_tolerated,
    model_optional,
    hooks_run,
    attempts_apart,
    cancels,
    recovers,
    no_late_effects,
    loop_free,
)
