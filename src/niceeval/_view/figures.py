"""What a snapshot comes to: counts of evals and attempts, and means over the attempts whose figures are known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from niceeval._base.terminal import money, tokens
from niceeval._model.result import Verdict
from niceeval._record.attempt import Attempt

_FOLD: tuple[Verdict, ...] = ("passed", "failed", "errored", "skipped")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFigures:
    """`judged` attempts and evals are those passed, failed or errored. Means are None where no attempt's is known.

    `cost_unknown` counts attempts, among those that ran, whose cost nobody knows.
    """

    evals: int
    evals_passed: int
    evals_judged: int
    passed: int
    failed: int
    errored: int
    skipped: int
    mean_ms: float | None
    mean_tokens: float | None
    mean_cost: float | None
    cost_unknown: int

    @property
    def judged(self) -> int:
        return self.passed + self.failed + self.errored

    def evals_said(self) -> str:
        """`12/14 (86%)`, or `skipped` where no eval was judged."""
        if not self.evals_judged:
            return "skipped"
        return f"{self.evals_passed}/{self.evals_judged} ({_percent(self.evals_passed, self.evals_judged)}%)"

    def tokens_said(self) -> str:
        """`61k`, or `unknown`."""
        return "unknown" if self.mean_tokens is None else tokens(self.mean_tokens)

    def cost_said(self) -> str:
        """`$0.38`, with how many attempts it leaves out, or `unknown`."""
        if self.mean_cost is None:
            return "unknown"
        return money(self.mean_cost) + (f" ({self.cost_unknown} unknown)" if self.cost_unknown else "")


def figures_of(attempts: Sequence[Attempt]) -> SnapshotFigures:
    """The figures of some attempts of one experiment. Skipped attempts count as skipped only."""
    outcomes: dict[str, set[Verdict]] = defaultdict(set)
    for attempt in attempts:
        outcomes[attempt.eval_id].add(attempt.outcome)
    folded = [next(verdict for verdict in _FOLD if verdict in seen) for seen in outcomes.values()]
    counts = {verdict: sum(attempt.outcome == verdict for attempt in attempts) for verdict in _FOLD}
    ran = [attempt for attempt in attempts if attempt.outcome != "skipped"]
    costs = [cost for attempt in ran if (cost := attempt.estimated_cost_usd) is not None]
    return SnapshotFigures(
        evals=len(outcomes),
        evals_passed=folded.count("passed"),
        evals_judged=len(folded) - folded.count("skipped"),
        passed=counts["passed"],
        failed=counts["failed"],
        errored=counts["errored"],
        skipped=counts["skipped"],
        mean_ms=_mean(attempt.duration_ms for attempt in ran),
        mean_tokens=_mean(used for attempt in ran if (used := _tokens(attempt)) is not None),
        mean_cost=_mean(costs),
        cost_unknown=len(ran) - len(costs),
    )


def _tokens(attempt: Attempt) -> int | None:
    return None if attempt.usage is None else attempt.usage.total_tokens


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return sum(known) / len(known) if known else None


def _percent(part: int, whole: int) -> int:
    """Rounded, but 0 and 100 are kept for none and all."""
    return min(max(round(100 * part / whole), int(part > 0)), 99) if part < whole else 100
