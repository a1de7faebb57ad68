"""Checks of conversation lines: they remember, they know nothing of one another, and they may run at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from niceeval._drive.turn import assistant_text
from niceeval._evidence.scope import TurnRecord
from niceeval._model.events import ActionCalled, Message, encode_events
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
from niceeval.testing._agent.probes import marker
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


@check("replies-apart", "sends at the same time each get their own reply")
def replies_apart(evidence: Evidence) -> Answer:
    drives = evidence.named("parallel-")
    if not drives:
        return absent(evidence, "hello", '"..."')
    broken = next((drive for drive in drives if drive.fault is not None), None)
    if broken is not None:
        return ended_early(broken, "parallel-sends")
    problems = [
        (start_of(drive, drive.turns[0]), problem) for drive in drives if (problem := _mixed_up(evidence, drive))
    ]
    if problems:
        return failed_at(problems, "find each reply by its own request, never by a queue or a field that sends share")
    if not any(_is_own(drive) for drive in drives):
        return not_checked(
            "nothing in the replies tells them apart", 'give Probes(tool="a text that makes it call a tool")'
        )
    return passed()


def _mixed_up(evidence: Evidence, drive: Drive) -> str | None:
    """What shows that a reply belongs to another one of the texts that were sent at the same time."""
    said = encode_events([event for _, event in drive.turns[0].events[1:]]).decode()
    others = [
        name for number in range(len(evidence.named("parallel-"))) if (name := marker(number)) != _asked_for(drive)
    ]
    foreign = next((name for name in others if name in said), None)
    if foreign is not None:
        return f"the reply has {foreign}, which another send asked for"
    alone, plain = evidence.get("tool"), evidence.get("hello")
    tools = set() if alone is None or alone.fault is not None else {call.name for call in alone.calls()}
    called = {call.name for call in drive.calls()}
    if _asked_for(drive) is None:
        return "alone this text leads to a call; beside other sends it does not" if tools and not called else None
    tools -= {call.name for call in plain.calls()} if plain is not None else set()
    unasked = sorted(tools & called)
    return f"a plain text leads to a call of {unasked[0]}, which another send asked for" if unasked else None


def _asked_for(drive: Drive) -> str | None:
    """The word that the text of a send at the same time asks for; None for the one that asks for a tool."""
    name = marker(int(drive.name.removeprefix("parallel-")))
    return name if name in _text(drive.turns[0]) else None


def _is_own(drive: Drive) -> bool:
    wanted = _asked_for(drive)
    return bool(drive.calls()) if wanted is None else wanted in assistant_text(drive.turns[0])


@check("turns-new", "a turn holds what is new: nothing of the turn before comes again")
def turns_new(evidence: Evidence) -> Answer:
    if evidence.broken:
        return absent(evidence, "hello", '"..."')
    again = [
        (start_of(drive, later), f"the turn begins with {what} of the turn before")
        for drive in evidence.drives.values()
        if drive.name in ("hello", "memory", "interleaved", "after-tool")
        for line in drive.lines
        for earlier, later in pairwise(line)
        if (what := _repeated(earlier, later))
    ]
    if again:
        return failed_at(again, "keep how far the conversation was read (on ctx.session), and return only what follows")
    return passed()


def _repeated(earlier: TurnRecord, later: TurnRecord) -> str | None:
    """What of a turn comes again at the beginning of the next one.

    The same answer alone may be given twice, and the same text may well lead to the same calls.
    """
    before, after = _messages(earlier), _messages(later)
    if before and len(after) > len(before) and after[: len(before)] == before:
        return "the messages"
    calls = _called(earlier)
    if calls and _called(later)[: len(calls)] == calls and _text(earlier) != _text(later):
        return "the calls"
    return None


def _messages(turn: TurnRecord) -> list[str]:
    return [event.text for _, event in turn.events if isinstance(event, Message) and event.role == "assistant"]


def _called(turn: TurnRecord) -> list[tuple[str, object]]:
    return [(event.name, event.input) for _, event in turn.events if isinstance(event, ActionCalled)]


def _text(turn: TurnRecord) -> str:
    first = turn.events[0][1]
    assert isinstance(first, Message)
    return first.text


SESSION_CHECKS = (remembers, fresh_line, lines_apart, turns_new, session_ids, parallel_sends, replies_apart)
