"""What a check is, and what it can answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from niceeval._drive.faults import Fault
from niceeval._model.coverage import Channel
from niceeval.testing._agent.drives import Drive
from niceeval.testing._agent.evidence import Evidence
from niceeval.testing._agent.report import EventRef, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A check's answer: `seen` is what it is based on, `next` what to do about it."""

    outcome: Outcome
    seen: str = ""
    next: str = ""
    refs: tuple[EventRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One question about an adapter: a stable id, and the sentence that is true where it passed."""

    id: str
    says: str
    judge: Callable[[Evidence], Answer]


def check(id: str, says: str) -> Callable[[Callable[[Evidence], Answer]], Check]:
    """Makes a function of the evidence a check."""
    return lambda judge: Check(id=id, says=says, judge=judge)


def passed(seen: str = "", next: str = "") -> Answer:
    """It holds; `seen` and `next` may add a remark."""
    return Answer(outcome="passed", seen=seen, next=next)


def failed(seen: str, next: str, refs: Sequence[EventRef] = ()) -> Answer:
    """It does not hold."""
    return Answer(outcome="failed", seen=seen, next=next, refs=tuple(refs))


def not_checked(why: str, next: str = "") -> Answer:
    """It could not be found out."""
    return Answer(outcome="not checked", seen=why, next=next)


def failed_at(problems: Sequence[tuple[EventRef, str]], next: str) -> Answer:
    """It does not hold at these places; the first few are told, and what is alike once."""
    first: dict[str, EventRef] = {}
    for ref, text in problems:
        first.setdefault(text, ref)
    problems = [(ref, text) for text, ref in first.items()]
    told = "; ".join(text for _, text in problems[:3])
    more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
    return failed(told + more, next, [ref for ref, _ in problems[:3]])


def failed_by(fault: Fault, next: str) -> Answer:
    """A scenario ended in an error; the user's innermost frame says where."""
    frames = [line for line in (fault.trace or "").splitlines() if not line.startswith(" ")]
    where = f" (at {frames[-1]})" if frames else ""
    return failed(f"{fault.code}: {fault.message}{where}", next)


def absent(evidence: Evidence, probe: str, example: str) -> Answer:
    """The scenario was not run: no probe for it, or nothing works at all."""
    if evidence.broken:
        return not_checked("a plain text does not come through yet", "repair turn-accepted first")
    return not_checked(f"no {probe} probe was given", f"give Probes({probe}={example})")


def ended_early(drive: Drive, owner: str) -> Answer:
    """The scenario ended in an error that another check tells."""
    code = drive.fault.code if drive.fault else "no error"
    return not_checked(f"the scenario {drive.name} ended early ({code})", f"repair {owner} first")


def not_promised(evidence: Evidence, channel: Channel) -> Answer | None:
    """Why a channel cannot be held to a promise, where it makes none."""
    said = evidence.declared(channel)
    if said.level == "complete":
        return None
    return not_checked(f"{channel} is declared {said.level}: {said.reason}")
