"""Which attempt starts next: plan order, one limit per experiment, and what takes attempts away again.

Attempts leave in four ways: they start; early exit makes them unnecessary (cancelled); a stop, a failed setup, a fatal
error or a budget keeps them from starting (not started, by reason); or another invocation has taken them, and they are
put off until it has stored them or let them go.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import takewhile
from typing import Literal, TypeAlias

from niceeval._discover.specs import ExperimentSpec
from niceeval._model.result import Verdict
from niceeval._plan.plan import AttemptPlan, RunPlan
from niceeval._run.budget import Budget
from niceeval._run.spending import Spending

EvalKey: TypeAlias = tuple[str, str]
"""Experiment id and eval id."""

BUDGET = "budget"
UNENFORCEABLE = "budget-unenforceable"
INTERRUPTED = "interrupted"
BROKE = "niceeval broke"
SETUP_FAILED = "experiment setup failed"
SANDBOX_FAILED = "no sandbox"


@dataclass(slots=True, kw_only=True)
class Lane:
    """One experiment's attempts. `entered` says that it was begun, its setup first, so that its teardown is due.

    `again` are attempts that were put off and may be tried once more; they go before `pending`.
    """

    experiment: ExperimentSpec
    pending: deque[AttemptPlan] = field(default_factory=deque)
    again: deque[AttemptPlan] = field(default_factory=deque)
    put_off: list[AttemptPlan] = field(default_factory=list)
    running: int = 0
    state: Literal["new", "setting-up", "ready", "failed"] = "new"
    entered: bool = False
    torn_down: bool = False
    budget: Budget | None = None

    @property
    def full(self) -> bool:
        limit = self.experiment.max_concurrency
        return limit is not None and self.running >= limit

    @property
    def waiting(self) -> bool:
        """Whether an attempt could be taken, as far as this lane's queue is concerned."""
        return bool(self.again or self.pending)

    @property
    def over(self) -> bool:
        return not self.waiting and not self.put_off and self.running == 0


@dataclass(frozen=True, slots=True)
class OverBudget:
    """A budget that lets nothing more start: the lane's own, or (None) the run's; what it held back, by experiment."""

    lane: Lane | None
    budget: Budget
    not_started: Mapping[str, int]


class Dispatcher:
    """Hands attempts to workers. An experiment at its own limit is passed over, so that it never starves the others."""

    def __init__(self, plan: RunPlan) -> None:
        self.lanes: dict[str, Lane] = {
            experiment.id: Lane(experiment=experiment, budget=_budget(experiment.budget))
            for experiment in plan.experiments
        }
        self.budget = _budget(plan.budget)
        self.running: dict[int, AttemptPlan] = {}
        self.cancelled: set[int] = set()
        self._settling: set[int] = set()
        self.not_started: Counter[str] = Counter()
        self.stopped = False
        self._closed: set[EvalKey] = set()
        self._unneeded: defaultdict[EvalKey, list[AttemptPlan]] = defaultdict(list)
        self._changed = asyncio.Event()
        for attempt in plan.attempts:
            decision = plan.decision(attempt)
            if decision is not None and not decision.needed:
                self.cancelled.add(attempt.index)
                self._unneeded[attempt.experiment.id, attempt.eval.id].append(attempt)
            elif decision is None or decision.carried is None:
                self.lanes[attempt.experiment.id].pending.append(attempt)

    # Handing out ------------------------------------------------------------------------------------------------

    def take(self) -> AttemptPlan | Lane | OverBudget | None:
        """The next attempt; a lane whose experiment has to be set up first; a budget that has just stopped something;
        or None where nothing can start now."""
        over = self._over_budget()
        if over is not None or (self.budget is not None and not self.budget.may_start()):
            return over
        for lane in self.lanes.values():
            if not lane.waiting or lane.full or lane.state in ("setting-up", "failed"):
                continue
            if lane.budget is not None and not lane.budget.may_start():
                continue
            if lane.state == "new":
                lane.state = "setting-up"
                return lane
            return self._started(lane, lane.again.popleft() if lane.again else lane.pending.popleft())
        return None

    def _started(self, lane: Lane, attempt: AttemptPlan) -> AttemptPlan:
        lane.running += 1
        self.running[attempt.index] = attempt
        for budget in (lane.budget, self.budget):
            if budget is not None:
                budget.start(attempt.index)
        return attempt

    @property
    def exhausted(self) -> bool:
        """Whether nothing will ever be handed out again."""
        return self.stopped or all(not lane.waiting and not lane.put_off for lane in self.lanes.values())

    def waiting_in(self, experiments: Collection[str]) -> int:
        """How many attempts of these experiments are still to start."""
        lanes = [lane for lane in self.lanes.values() if lane.experiment.id in experiments and lane.state != "failed"]
        return sum(len(lane.pending) + len(lane.again) for lane in lanes)

    async def wait(self) -> None:
        """Until something has changed that may let an attempt start."""
        self._changed.clear()
        await self._changed.wait()

    def wake(self) -> None:
        """Something has changed."""
        self._changed.set()

    # Coming back ------------------------------------------------------------------------------------------------

    def finished(self, attempt: AttemptPlan, spending: Spending) -> Lane:
        """An attempt has ended: its permits are free."""
        return self._left(attempt, lambda budget: budget.finish(attempt.index, attempt.experiment.id, spending))

    def was_cancelled(self, attempt: AttemptPlan, spending: Spending) -> Lane:
        """An attempt was cut off while it ran; what it cost is known in part at most."""
        self.cancelled.add(attempt.index)
        return self._left(attempt, lambda budget: budget.cancel(attempt.index, spending))

    def broke(self, attempt: AttemptPlan) -> Lane:
        """An attempt was taken, and niceeval itself could not bring it to a result."""
        self.not_started[BROKE] += 1
        return self.came_to_nothing(attempt)

    def came_to_nothing(self, attempt: AttemptPlan) -> Lane:
        """An attempt was taken and not run: another invocation has it, or has stored it."""
        return self._left(attempt, lambda budget: budget.came_to_nothing(attempt.index))

    def settles(self, attempt: AttemptPlan) -> None:
        """An attempt has a result, which is being stored: nothing makes it unnecessary any more."""
        self._settling.add(attempt.index)

    def _left(self, attempt: AttemptPlan, account: Callable[[Budget], None]) -> Lane:
        lane = self.lanes[attempt.experiment.id]
        lane.running -= 1
        self.running.pop(attempt.index, None)
        self._settling.discard(attempt.index)
        for budget in (lane.budget, self.budget):
            if budget is not None:
                account(budget)
        self.wake()
        return lane

    def put_off(self, attempt: AttemptPlan) -> None:
        """Another invocation runs this attempt now: look again later."""
        self.came_to_nothing(attempt).put_off.append(attempt)

    def try_again(self, elsewhere: Callable[[AttemptPlan], Literal["held", "stored"] | None]) -> None:
        """Let attempts that were put off be taken once more, but for those that are still held `elsewhere`.

        Where one of an eval is stored, it comes first: it may make the eval's others unnecessary.
        """
        for lane in self.lanes.values():
            states = [(attempt, elsewhere(attempt)) for attempt in lane.put_off]
            decided = {attempt.eval.id for attempt, state in states if state == "stored"}
            now = [state == "stored" or (state is None and one.eval.id not in decided) for one, state in states]
            if any(now):
                lane.again.extend(one for (one, _), is_now in zip(states, now, strict=True) if is_now)
                lane.put_off = [one for (one, _), is_now in zip(states, now, strict=True) if not is_now]
                self.wake()

    def needed_after_all(self, attempt: AttemptPlan) -> None:
        """An attempt that was to be carried has to be run, and so may be what it made unnecessary."""
        lane = self.lanes[attempt.experiment.id]
        lane.again.append(attempt)
        key = (attempt.experiment.id, attempt.eval.id)
        for other in self._unneeded.pop(key, ()):
            self.cancelled.discard(other.index)
            lane.again.append(other)

    # Taking away ------------------------------------------------------------------------------------------------

    def others_of(self, attempt: AttemptPlan) -> list[AttemptPlan]:
        """The eval's other attempts under that experiment that have not come to a result here: waiting or running."""
        key = (attempt.experiment.id, attempt.eval.id)
        lane = self.lanes[attempt.experiment.id]
        # Attempts start in plan order: what is in `pending` of an eval that was started comes next there.
        waiting = takewhile(lambda other: other.eval.id == attempt.eval.id, lane.pending)
        return [
            other
            for other in (*waiting, *lane.again, *lane.put_off, *self.running.values())
            if (other.experiment.id, other.eval.id) == key and other.index != attempt.index
        ]

    def unneeded_after(self, attempt: AttemptPlan, verdict: Verdict) -> list[AttemptPlan]:
        """Early exit: of the eval's other attempts, those that a pass or an error makes unnecessary."""
        closed = (attempt.experiment.id, attempt.eval.id) in self._closed
        if closed or not exits_early(attempt) or verdict not in ("passed", "errored"):
            return []
        return [other for other in self.others_of(attempt) if other.index not in self._settling]

    def close_eval(self, attempt: AttemptPlan, verdict: Verdict) -> list[AttemptPlan]:
        """Take away what `unneeded_after` names, and return it; what runs of it has to be cancelled by the caller."""
        others = self.unneeded_after(attempt, verdict)
        if others:
            self._closed.add((attempt.experiment.id, attempt.eval.id))
            self.cancelled.update(other.index for other in others)
            lane = self.lanes[attempt.experiment.id]
            while lane.pending and lane.pending[0].eval.id == attempt.eval.id:
                lane.pending.popleft()
            lane.again = deque(other for other in lane.again if other.eval.id != attempt.eval.id)
            lane.put_off = [other for other in lane.put_off if other.eval.id != attempt.eval.id]
        return others

    def drop_eval(self, eval_id: str, experiment_id: str | None, reason: str) -> dict[str, int]:
        """An eval is doomed, under one experiment or all: none of its attempts starts. How many, by experiment."""
        lanes = [lane for lane in self.lanes.values() if experiment_id in (None, lane.experiment.id)]
        return self._drop_each(lanes, reason, lambda attempt: attempt.eval.id == eval_id)

    def fail_lane(self, lane: Lane, reason: str) -> int:
        """An experiment cannot run: none of its attempts starts. Returns how many that are."""
        lane.state = "failed"
        return self._drop(lane, reason)

    def stop(self) -> int:
        """Start nothing more. Returns how many attempts will not be started."""
        self.stopped = True
        dropped = sum(self._drop(lane, INTERRUPTED) for lane in self.lanes.values())
        self.wake()
        return dropped

    def _over_budget(self) -> OverBudget | None:
        """A budget under which nothing more will start; an experiment's own before the run's, which has less to say."""
        run = self.budget
        if run is not None and run.unenforceable is not None and run.exhausted:
            return self._hold_back(None, run)
        for lane in self.lanes.values():
            if lane.waiting and lane.budget is not None and lane.budget.exhausted:
                return self._hold_back(lane, lane.budget)
        return self._hold_back(None, run) if run is not None and run.exhausted else None

    def _hold_back(self, lane: Lane | None, budget: Budget) -> OverBudget | None:
        lanes = list(self.lanes.values()) if lane is None else [lane]
        dropped = self._drop_each(lanes, BUDGET if budget.unenforceable is None else UNENFORCEABLE)
        return OverBudget(lane, budget, dropped) if dropped else None

    def _drop_each(
        self, lanes: Iterable[Lane], reason: str, which: Callable[[AttemptPlan], bool] = lambda _: True
    ) -> dict[str, int]:
        counts = {lane.experiment.id: self._drop(lane, reason, which) for lane in lanes}
        return {experiment_id: count for experiment_id, count in counts.items() if count}

    def _drop(self, lane: Lane, reason: str, which: Callable[[AttemptPlan], bool] = lambda _: True) -> int:
        dropped = 0
        for queue in (lane.pending, lane.again, lane.put_off):
            kept = [attempt for attempt in queue if not which(attempt)]
            dropped += len(queue) - len(kept)
            queue.clear()
            queue.extend(kept)
        self.not_started[reason] += dropped
        return dropped


def _budget(limit: float | None) -> Budget | None:
    # Through text: 0.1 means 0.1, not the binary fraction next to it.
    return None if limit is None else Budget(Fraction(str(limit)))


def exits_early(attempt: AttemptPlan) -> bool:
    """Whether the attempt's outcome may make others unnecessary, or theirs this one."""
    return attempt.experiment.early_exit and attempt.experiment.runs > 1


def attempt_numbers(attempts: Iterable[AttemptPlan]) -> tuple[int, ...]:
    """Their attempt numbers, in order."""
    return tuple(sorted(attempt.attempt for attempt in attempts))
