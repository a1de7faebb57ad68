"""Checks of conversation lines: they remember, they know nothing of one another, and they may run at the same time."""

from __future__ import annotations

from collections.abc import Iterator

from niceeval._drive.turn import assistant_text
from niceeval._evidence.scope import TurnRecord
from niceeval._model.matcher import as_matcher
from niceeval.testing._agent.check import (
    Answer,
    absent,
    check,
    ended_early,
    failed,
    failed_at,
    failed_by,
    not_checked,
    passed,
)
from niceeval.testing._agent.drives import Drive
from niceeval.testing._agent.evidence import Evidence
from niceeval.testing._agent.report import EventRef
from niceeval.testing._agent.turn_checks import start_of

MEMORY = '("My city is Oslo.", "Which city is mine?", includes("Oslo"))'
_KEEP = "keep the conversation on ctx.session (its id, or a SessionSlot), never on the adapter or in a global"


@check("remembers", "a conversation line remembers what was said on it")
def remembers(evidence: Evidence) -> Answer:
    drive = evidence.get("memory")
    if drive is None:
        return absent(evidence, "memory", MEMORY)
    if drive.fault is not None:
        return failed_by(drive.fault, drive.fault.next_step or "a second send on a line continues the conversation")
    answer = drive.lines[0][1]
    if _recalled(evidence, answer):
        return passed()
    return failed(
        f"the second turn says {_shown(answer)}",
        "send ctx.session.id where it is there, and capture it from the answer; or keep the history in a SessionSlot",
        [start_of(drive, answer)],
    )


@check("fresh-line", "a new conversation line knows nothing of another one")
def fresh_line(evidence: Evidence) -> Answer:
    drive = evidence.get("memory")
    if drive is None:
        return absent(evidence, "memory", MEMORY)
    if drive.fault is not None:
        return ended_early(drive, "remembers")
    answer = drive.lines[1][0]
    if _recalled(evidence, answer):
        return failed(
            f"it was told to another line, and this one says {_shown(answer)}", _KEEP, [start_of(drive, answer)]
        )
    return passed()


@check("lines-apart", "two lines that take turns at the same time keep to their own conversations")
def lines_apart(evidence: Evidence) -> Answer:
    drive = evidence.get("interleaved")
    if drive is None:
        return absent(evidence, "memory", MEMORY)
    if drive.fault is not None:
        return failed_by(drive.fault, drive.fault.next_step or _KEEP)
    told, other = drive.lines[0][1], drive.lines[1][1]
    if _recalled(evidence, other):
        return failed(f"what one line was told, the other one says: {_shown(other)}", _KEEP, [start_of(drive, other)])
    if not _recalled(evidence, told) and _remembers_alone(evidence):
        return failed(f"alone it remembers; beside another line it says {_shown(told)}", _KEEP, [start_of(drive, told)])
    return passed() if _recalled(evidence, told) else not_checked("it does not remember", "repair remembers first")


def _remembers_alone(evidence: Evidence) -> bool:
    drive = evidence.get("memory")
    return drive is not None and drive.fault is None and _recalled(evidence, drive.lines[0][1])


def _recalled(evidence: Evidence, turn: TurnRecord) -> bool:
    assert evidence.probes.memory is not None
    return as_matcher(evidence.probes.memory[2])(assistant_text(turn))


def _shown(turn: TurnRecord) -> str:
    text = assistant_text(turn)
    return repr(text if len(text) <= 120 else text[:120] + "…")


@check("session-ids", "each line has a session id of its own, and keeps it")
def session_ids(evidence: Evidence) -> Answer:
    if evidence.broken:
        return absent(evidence, "hello", '"..."')
    noted = list(_ids(evidence))
    if not noted:
        return not_checked(
            "ctx.session.id is never set",
            "ctx.session.capture(id) where the server has one; otherwise there is nothing to do",
        )
    problems: list[tuple[EventRef, str]] = []
    lines: dict[tuple[str, int], str] = {}
    owners: dict[str, tuple[str, int]] = {}
    for drive, line, id in noted:
        key, ref = (drive.name, line), EventRef(drive.name, 0)
        if lines.setdefault(key, id) != id:
            problems.append((ref, f"a line's id changes from {lines[key]} to {id}"))
        if owners.setdefault(id, key) != key:
            problems.append((ref, f"two lines have the id {id}"))
    if problems:
        return failed_at(
            problems, "ctx.session.capture(the id that the server gives a new conversation); never assign it"
        )
    return passed()


def _ids(evidence: Evidence) -> Iterator[tuple[Drive, int, str]]:
    for drive in evidence.drives.values():
        for line, id in drive.notes.session_ids:
            yield drive, line, id


@check("parallel-sends", "several attempts may send at the same time")
def parallel_sends(evidence: Evidence) -> Answer:
    drives = evidence.named("parallel-")
    if not drives:
        return absent(evidence, "hello", '"..."')
    faults = [drive.fault for drive in drives if drive.fault is not None]
    if faults:
        answer = failed_by(faults[0], faults[0].next_step or _KEEP)
        return failed(f"{len(faults)} of {len(drives)} sends failed: {answer.seen}", answer.next)
    return passed()


SESSION_CHECKS = (remembers, fresh_line, lines_apart, session_ids, parallel_sends)
