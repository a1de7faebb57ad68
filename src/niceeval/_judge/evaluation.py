"""What evaluating one assertion gives, before severity and line decide its outcome."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from niceeval._model.assertion import EvidenceRef, UnavailableReason
from niceeval._model.events import (
    ActionCalled,
    ActionResult,
    StreamEvent,
    SubagentCalled,
    SubagentCompleted,
    event_type,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """`score` lies in [0, 1]; `graded` says it may lie between. With a `reason` there is no answer and no score."""

    score: float = 0.0
    graded: bool = False
    expected: str | None = None
    received: str | None = None
    detail: str | None = None
    evidence: str | None = None
    refs: tuple[EvidenceRef, ...] = ()
    reason: UnavailableReason | None = None


SHOWN_EVIDENCE = 8
"""References kept for one assertion; the first ones say the most."""


def refs_of(indexed: Iterable[tuple[int, str | None]]) -> tuple[EvidenceRef, ...]:
    """References from (event index, call id)."""
    refs: list[EvidenceRef] = []
    for event, call_id in indexed:
        if len(refs) == SHOWN_EVIDENCE:
            break
        refs.append(EvidenceRef(event=event, call_id=call_id))
    return tuple(refs)


def event_line(index: int, event: StreamEvent) -> str:
    """One event as evidence text: `#4 action.called get_weather (call_1)`."""
    head = f"#{index} {event_type(event)}"
    if isinstance(event, (ActionCalled, SubagentCalled)):
        return f"{head} {event.name} ({event.call_id})"
    if isinstance(event, (ActionResult, SubagentCompleted)):
        return f"{head} {event.status} ({event.call_id})"
    return head


def plural(count: int, noun: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
