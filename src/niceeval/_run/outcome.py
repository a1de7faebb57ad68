"""What a run comes to: counts of attempts, the fold per (experiment, eval), and its status.

`Tally` keeps a small row per finished attempt at most: memory must not grow with results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Literal

from niceeval._base.errors import NiceevalError
from niceeval._model.result import AttemptResult, Verdict
from niceeval._model.run_events import RunFinished
from niceeval._model.usage import Usage, add_usage
from niceeval._model.verdict import fold_attempts
from niceeval._plan.plan import RunPlan

Status = Literal["passed", "failed", "errored", "incomplete", "interrupted"]


class Tally:
    """Counts as attempts finish."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self._problems: list[NiceevalError] = list(plan.problems)
        self._counts: Counter[Verdict] = Counter()
        self._pairs: dict[tuple[str, str], set[Verdict]] = {}
        self._usage: Usage | None = None
        self._cost: Decimal | None = Decimal(0)

    def problem(self, problem: NiceevalError) -> None:
        """Something that makes the run incomplete."""
        self._problems.append(problem)

    def add(self, result: AttemptResult) -> None:
        """An attempt was sealed."""
        self._counts[result.outcome] += 1
        self._pairs.setdefault((result.experiment_id or "", result.id), set()).add(result.outcome)
        if result.usage is not None:
            self._usage = result.usage if self._usage is None else add_usage([self._usage, result.usage])
        if result.estimated_cost_usd is None:
            self._cost = None if result.has_events else self._cost
        elif self._cost is not None:
            self._cost += Decimal(str(result.estimated_cost_usd))

    def count(self, verdict: Verdict) -> int:
        """Attempts with this verdict."""
        return self._counts[verdict]

    def usage(self) -> Usage | None:
        """The sum over the attempts that reported any."""
        return self._usage

    def cost(self) -> float | None:
        """The sum of the costs; None where an attempt that sent anything has none, or nothing was sent."""
        return float(self._cost) if self._cost else None

    def common_model(self) -> str | None:
        """The model, where all experiments share it."""
        models = {experiment.model for experiment in self._plan.experiments}
        return models.pop() if len(models) == 1 else None

    def finished(
        self,
        *,
        exit_code: Callable[[Status], int],
        interrupted: bool,
        not_started: int,
        cancelled: int,
        duration_ms: int,
    ) -> RunFinished:
        """The run's last event."""
        status = self._status(interrupted, not_started)
        return RunFinished(
            status=status,
            exit_code=exit_code(status),
            planned=len(self._plan.attempts),
            passed=self.count("passed"),
            failed=self.count("failed"),
            errored=self.count("errored"),
            skipped=self.count("skipped"),
            not_started=not_started,
            cancelled=cancelled,
            duration_ms=duration_ms,
            usage=self.usage(),
            estimated_cost_usd=self.cost(),
            problems=tuple(self._problems),
        )

    def _status(self, interrupted: bool, not_started: int) -> Status:
        if interrupted:
            return "interrupted"
        folded = [fold_attempts(verdicts) for verdicts in self._pairs.values()]
        if "failed" in folded:
            return "failed"
        if "errored" in folded:
            return "errored"
        return "incomplete" if not_started or self._problems else "passed"
