"""How long a run still takes: said only where the finished attempts carry it."""

from __future__ import annotations

import math
from decimal import Decimal

from niceeval._reporters.figures import Figures
from niceeval._reporters.state import Experiment, RunState

_FEWEST = 5
_SHARE = 0.2
_RENEWED_EVERY = 5.0
_OVERRUN = 1.5


class Eta:
    """The figure of the board's third line, renewed every 5 s and withdrawn for good once it is overrun by half."""

    def __init__(self) -> None:
        self._at = -math.inf
        self._text = ""
        self._deadline = math.inf

    def text(self, state: RunState, now: float) -> str:
        """`~6 min left`, `at most 6 min left`, or nothing."""
        if now - self._at >= _RENEWED_EVERY or state.interrupted:
            self._at = now
            self._text = self._renewed(state, now)
        return self._text

    def _renewed(self, state: RunState, now: float) -> str:
        if not _can_be_said(state) or now > self._deadline:
            return ""
        left = _seconds_left(state, now)
        if self._deadline == math.inf:
            self._deadline = now + left * _OVERRUN
        word = "at most " if _may_be_shorter(state) else "~"
        return f"{word}{rounded(left)} left"


def rounded(seconds: float) -> str:
    """One figure: `40 s` `90 s` `6 min` `2 h`."""
    if seconds < 180:
        return f"{max(round(seconds / 10) * 10, 10)} s" if seconds >= 7.5 else "5 s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    halves = round(seconds / 1800)
    return f"{halves // 2} h" if halves % 2 == 0 else f"{halves / 2:.1f} h"


def _can_be_said(state: RunState) -> bool:
    done, to_run = state.ran, state.expected - state.carried
    if state.interrupted or done < _FEWEST or done < _SHARE * to_run or done >= to_run or _budget_may_stop(state):
        return False
    return all(experiment.ran for experiment in _unfinished(state))


def _budget_may_stop(state: RunState) -> bool:
    """Whether a budget is likely to end something before it has finished."""
    budget = None if state.start is None else state.start.budget
    scopes = [(experiment.outline.budget, experiment.figures, experiment.left) for experiment in _unfinished(state)]
    return any(_passes(*scope) for scope in [(budget, state.figures, state.expected - state.counts.finished), *scopes])


def _passes(budget: float | None, figures: Figures, left: int) -> bool:
    if budget is None:
        return False
    more = figures.expected_cost(left + figures.attempts - figures.with_cost)
    return more is None or figures.cost + more > Decimal(str(budget))


def _unfinished(state: RunState) -> list[Experiment]:
    return [experiment for experiment in state.experiments.values() if experiment.left]


def _seconds_left(state: RunState, now: float) -> float:
    """The work that is left, shared by as many attempts as have run side by side so far."""
    means = {
        experiment.outline.id: experiment.wall / experiment.ran
        for experiment in state.experiments.values()
        if experiment.ran
    }
    started = [
        max(means.get(running.key.experiment_id, 0.0) - (now - running.started), 0.0)
        for running in state.running.values()
    ]
    queued = sum(
        max(experiment.left - experiment.running, 0) * means[experiment.outline.id] for experiment in _unfinished(state)
    )
    return max((sum(started) + queued) / max(state.peak, 1), max(started, default=0.0))


def _may_be_shorter(state: RunState) -> bool:
    return any(experiment.outline.early_exit and experiment.outline.runs > 1 for experiment in _unfinished(state))
