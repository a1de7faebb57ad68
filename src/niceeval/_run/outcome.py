"""What a run comes to: counts of attempts, the fold per (experiment, eval), and its status.

`Tally` keeps a small row per finished attempt at most: memory must not grow with results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Literal

from niceeval._base.errors import NiceevalError
from niceeval._model.result import AttemptResult, Verdict
from niceeval._model.run_events import RunFinished
from niceeval._model.usage import Usage, add_usage
from niceeval._model.verdict import fold_attempts
from niceeval._plan.plan import RunPlan

Status = Literal["passed", "failed", "errored", "incomplete", "interrupted"]


class Sum:
    """Usage and cost of several attempts."""

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.judge_usage: Usage | None = None
        self._judge_cost = Decimal(0)
        self._judge_known = True
        self._cost = Decimal(0)
        self._known = True

    def add(self, result: AttemptResult) -> None:
        """One attempt more. One that sent anything and has no cost makes the sum unknown."""
        if result.usage is not None:
            self.usage = result.usage if self.usage is None else add_usage([self.usage, result.usage])
        if result.estimated_cost_usd is not None:
            self._cost += Decimal(str(result.estimated_cost_usd))
        elif result.has_events:
            self._known = False
        if result.judge_usage is not None:
            self.judge_usage = add_usage([*([self.judge_usage] if self.judge_usage else []), result.judge_usage])
            self._judge_known = self._judge_known and result.judge_cost_usd is not None
            self._judge_cost += Decimal(str(result.judge_cost_usd or 0))

    @property
    def judge_cost(self) -> float | None:
        """US dollars that judging cost; None where some of it is not known, or nothing was judged."""
        return float(self._judge_cost) if self._judge_known and self.judge_usage is not None else None

    @property
    def cost(self) -> float | None:
        """US dollars; None where some of it is not known, or nothing was spent."""
        return float(self._cost) if self._known and self._cost else None


class Tally:
    """Counts as attempts finish. `own` sums what this run itself sent, `stored` what it holds, carried ones too.

    `not_stored` are the outcomes of attempts that the disk did not take.
    """

    def __init__(self, plan: RunPlan) -> None:
        self._planned = len(plan.attempts)
        self._problems: list[NiceevalError] = list(plan.problems)
        self._counts: Counter[Verdict] = Counter()
        self._pairs: dict[tuple[str, str], set[Verdict]] = {}
        self.own = Sum()
        self.stored = Sum()
        self.not_stored: Counter[Verdict] = Counter()
        self.carried = 0

    def problem(self, problem: NiceevalError) -> None:
        """Something that makes the run incomplete."""
        self._problems.append(problem)

    def add(self, result: AttemptResult, *, stored: bool = True) -> None:
        """An attempt was sealed, or taken over."""
        self._counts[result.outcome] += 1
        self._pairs.setdefault((result.experiment_id or "", result.id), set()).add(result.outcome)
        if stored:
            self.stored.add(result)
        else:
            self.not_stored[result.outcome] += 1
        if result.carried_from is None:
            self.own.add(result)
        else:
            self.carried += 1

    def count(self, verdict: Verdict) -> int:
        """Attempts with this verdict."""
        return self._counts[verdict]

    def stored_count(self, verdict: Verdict) -> int:
        """Attempts with this verdict that the run holds."""
        return self._counts[verdict] - self.not_stored[verdict]

    def finished(
        self,
        *,
        exit_code: Callable[[Status], int],
        interrupted: bool,
        not_started: Mapping[str, int],
        cancelled: int,
        duration_ms: int,
    ) -> RunFinished:
        """The run's last event; `not_started` counts by reason."""
        why = tuple((reason, count) for reason, count in not_started.items() if count)
        status = self._status(interrupted, bool(why))
        return RunFinished(
            status=status,
            exit_code=exit_code(status),
            planned=self._planned,
            passed=self.count("passed"),
            failed=self.count("failed"),
            errored=self.count("errored"),
            skipped=self.count("skipped"),
            not_started=sum(count for _, count in why),
            not_started_why=why,
            cancelled=cancelled,
            carried=self.carried,
            duration_ms=duration_ms,
            usage=self.own.usage,
            estimated_cost_usd=self.own.cost,
            judge_usage=self.own.judge_usage,
            judge_cost_usd=self.own.judge_cost,
            problems=tuple(self._problems),
        )

    def _status(self, interrupted: bool, not_started: bool) -> Status:
        if interrupted:
            return "interrupted"
        folded = [fold_attempts(verdicts) for verdicts in self._pairs.values()]
        if "failed" in folded:
            return "failed"
        if "errored" in folded:
            return "errored"
        return "incomplete" if not_started or self._problems else "passed"
