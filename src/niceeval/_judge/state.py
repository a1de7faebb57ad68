"""Assertions on a scope's state, its cost, and a turn's structured data (channels `status`, `usage`, `data`)."""

from __future__ import annotations

from decimal import Decimal

from niceeval._base.plain_text import shorten
from niceeval._evidence.scope import Scope, TurnRecord
from niceeval._judge.availability import incomplete
from niceeval._judge.evaluation import Evaluation, plural, refs_of
from niceeval._model.assertion import EvidenceRef, UnavailableReason
from niceeval._model.events import ErrorEvent, InputRequested
from niceeval._model.usage import Usage


def succeeded(scope: Scope) -> Evaluation:
    """No turn of the scope failed, and each session's last turn is completed."""
    reason = incomplete(scope, "status")
    failed = [turn for turn in scope.turns if turn.status == "failed"]
    open_lines = [status for status in scope.last_status if status != "completed"]
    return Evaluation(
        score=0.0 if failed or open_lines or reason else 1.0,
        expected="completed",
        received=_statuses(scope),
        detail=_first_error(failed),
        refs=tuple(ref for turn in failed for ref in _turn_end(turn)),
        reason=reason,
    )


def parked(scope: Scope) -> Evaluation:
    """The scope's last turn waits for a human."""
    reason = incomplete(scope, "status", "events")
    waits = bool(scope.turns) and scope.turns[-1].status == "waiting"
    asked = [(index, None) for index, event in scope.events if isinstance(event, InputRequested)]
    return Evaluation(
        score=1.0 if waits and reason is None else 0.0,
        expected="waiting for a human",
        received=_statuses(scope),
        refs=refs_of(asked),
        reason=reason,
    )


def max_tokens(scope: Scope, limit: int) -> Evaluation:
    """Input plus output tokens of the scope, cache buckets not counted."""
    usage = scope.usage
    total = None if usage is None else usage.total_tokens
    reason = incomplete(scope, "usage")
    if reason is None and any(not _counted(turn.usage) for turn in scope.turns):
        reason = UnavailableReason(
            code="coverage-partial", channel="usage", message="a turn did not report both input and output tokens"
        )
    return Evaluation(
        score=1.0 if reason is None and total is not None and total <= limit else 0.0,
        expected=f"at most {limit:,} tokens",
        received="unknown" if total is None else f"{total:,} tokens" + (" or more" if reason else ""),
        reason=reason,
    )


def max_cost(scope: Scope, limit: Decimal) -> Evaluation:
    """What the scope cost: measured first, else priced; never 0 where it is not known."""
    known = [turn.cost for turn in scope.turns if turn.cost is not None]
    total = sum(known, Decimal(0))
    reason = incomplete(scope, "usage")
    if reason is None:
        gap = next((turn.cost_gap for turn in scope.turns if turn.cost is None), None)
        if gap is not None:
            reason = UnavailableReason(code="no-price", channel="usage", message=gap.problem)
    return Evaluation(
        score=1.0 if reason is None and total <= limit else 0.0,
        expected=f"at most ${limit}",
        received=f"${total}" + (" or more" if reason else "") if known else "unknown",
        reason=reason,
    )


def output(scope: Scope, judged: Evaluation) -> Evaluation:
    """`output_equals`, `output_matches`: data that arrived is judged; "none came" needs a complete channel."""
    turn = scope.turns[-1] if scope.turns else None
    if turn is not None and turn.data is not None:
        return judged
    return Evaluation(
        score=0.0,
        expected=judged.expected,
        received="no data",
        reason=incomplete(scope, "data"),
    )


def _counted(usage: Usage | None) -> bool:
    return usage is not None and usage.input_tokens is not None and usage.output_tokens is not None


def _statuses(scope: Scope) -> str:
    if not scope.turns:
        return "no turn"
    if len(scope.turns) == 1:
        return scope.turns[0].status
    unfinished = [f"turn {turn.number + 1} {turn.status}" for turn in scope.turns if turn.status != "completed"]
    return ", ".join(unfinished[:5]) or f"{plural(len(scope.turns), 'turn')} completed"


def _first_error(turns: list[TurnRecord]) -> str | None:
    for turn in turns:
        for _, event in reversed(turn.events):
            if isinstance(event, ErrorEvent):
                return shorten(event.message, 500)
    return None


def _turn_end(turn: TurnRecord) -> tuple[EvidenceRef, ...]:
    return refs_of((index, None) for index, event in turn.events[-1:] or ())
