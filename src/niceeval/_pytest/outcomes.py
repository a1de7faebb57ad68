"""What became of each eval under each experiment, folded from the events of the run."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TypeAlias

from niceeval._base.errors import NiceevalError
from niceeval._base.terminal import money
from niceeval._model.result import AttemptResult, Verdict
from niceeval._model.run_events import (
    BudgetExceeded,
    EarlyExit,
    EvalComplete,
    EvalStart,
    ExperimentFailed,
    Interrupted,
    LiveEvent,
    NotStarted,
    RunFinished,
    RunNotice,
    RunSaved,
    RunStart,
)
from niceeval._model.verdict import fold_attempts
from niceeval._plan.plan import RunPlan

PairKey: TypeAlias = tuple[str, str]
"""Experiment id and eval id."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """One eval under one experiment. `expected` attempts have finished or still can; `running` are attempt numbers.

    `decided` says that nothing more will come of it. Where no attempt came to a result, `problem` or `why` says why.
    """

    experiment_id: str
    eval_id: str
    runs: int
    expected: int
    results: list[AttemptResult] = field(default_factory=list)
    running: set[int] = field(default_factory=set)
    problem: NiceevalError | None = None
    why: str = "not started: the run ended before that"
    decided: bool = False

    @property
    def verdict(self) -> Verdict | None:
        """The fold of its attempts; `errored` where none could start, None where nothing is known."""
        return "errored" if self.problem is not None else fold_attempts(result.outcome for result in self.results)

    @property
    def seconds(self) -> float:
        """The time its attempts took, added up."""
        return sum(result.duration_ms for result in self.results) / 1000

    def ended_as(self, verdict: Verdict) -> list[AttemptResult]:
        """Its attempts with this verdict, by number."""
        found = [result for result in self.results if result.outcome == verdict]
        return sorted(found, key=lambda result: result.attempt)


class Outcomes:
    """The fold. `fresh` holds the pairs that were decided and not looked at yet."""

    def __init__(self, plan: RunPlan) -> None:
        self.by_pair: dict[PairKey, Outcome] = {}
        for attempt in plan.attempts:
            key = (attempt.experiment.id, attempt.eval.id)
            outcome = self.by_pair.setdefault(
                key, Outcome(experiment_id=key[0], eval_id=key[1], runs=attempt.experiment.runs, expected=0)
            )
            outcome.expected += 1
        self.fresh: deque[PairKey] = deque()
        self.folder = ""
        self.saved: str | None = None
        self.finished: RunFinished | None = None
        self.interrupted = False
        self.notices: list[RunNotice] = []

    @property
    def all_decided(self) -> bool:
        """Whether nothing more will come of any eval: what is left of the run is to put away what it used."""
        return all(outcome.decided for outcome in self.by_pair.values())

    def handle(self, event: LiveEvent) -> None:
        """Fold one event in."""
        match event:
            case EvalStart():
                self.by_pair[event.key.experiment_id, event.key.eval_id].running.add(event.key.attempt)
            case EvalComplete():
                self._completed(event)
            case EarlyExit():
                self._not_needed(event)
            case ExperimentFailed():
                self._stopped(event.experiment_id, None, problem=event.error)
            case NotStarted():
                self._stopped(event.experiment_id, event.eval_id, why=f"not started: {event.code}: {event.message}")
            case BudgetExceeded():
                self._stopped(event.experiment_id, None, problem=event.error, why=_budget(event))
            case _:
                self._note(event)

    def close(self, problem: NiceevalError | None = None) -> None:
        """Nothing more will come: what is still open is decided by what there is, or by the problem that ended it."""
        for outcome in self.by_pair.values():
            if not outcome.decided:
                outcome.problem = None if outcome.results else problem or outcome.problem
                if outcome.running:
                    outcome.why = "started, and came to no result: the notices at the end say why"
                self._decide(outcome)

    def _note(self, event: LiveEvent) -> None:
        match event:
            case RunNotice():
                self.notices.append(event)
            case Interrupted():
                self.interrupted = True
            case RunStart():
                self.folder = event.folder
            case RunSaved():
                self.saved = event.output_dir
            case RunFinished():
                self.finished = event
            case _:
                pass

    def _completed(self, event: EvalComplete) -> None:
        outcome = self.by_pair[event.key.experiment_id, event.key.eval_id]
        outcome.results.append(event.result)
        outcome.running.discard(event.key.attempt)
        self._decide_if_over(outcome)

    def _not_needed(self, event: EarlyExit) -> None:
        outcome = self.by_pair[event.experiment_id, event.eval_id]
        outcome.expected -= len(event.cancelled)
        outcome.running.difference_update(event.cancelled)
        self._decide_if_over(outcome)

    def _stopped(
        self, experiment_id: str | None, eval_id: str | None, *, problem: NiceevalError | None = None, why: str = ""
    ) -> None:
        """No further attempt of these starts; None stands for any experiment or eval."""
        for (experiment, eval), outcome in self.by_pair.items():
            if outcome.decided or experiment_id not in (None, experiment) or eval_id not in (None, eval):
                continue
            outcome.expected = len(outcome.results) + len(outcome.running)
            if outcome.expected == 0:
                outcome.problem, outcome.why = problem, why
            self._decide_if_over(outcome)

    def _decide_if_over(self, outcome: Outcome) -> None:
        if not outcome.decided and len(outcome.results) >= outcome.expected:
            self._decide(outcome)

    def _decide(self, outcome: Outcome) -> None:
        outcome.decided = True
        self.fresh.append((outcome.experiment_id, outcome.eval_id))


def _budget(event: BudgetExceeded) -> str:
    return f"not started: the budget of {money(event.budget)} lets no further attempt start"
