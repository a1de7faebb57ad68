"""Which attempt starts next: plan order, one limit per experiment, and what early exit or a stop takes away."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from niceeval._discover.specs import ExperimentSpec
from niceeval._model.result import Verdict
from niceeval._plan.plan import AttemptPlan, RunPlan

EvalKey: TypeAlias = tuple[str, str]
"""Experiment id and eval id."""


@dataclass(slots=True, kw_only=True)
class Lane:
    """One experiment's attempts. `entered` says that its setup was begun, so that its teardown is due."""

    experiment: ExperimentSpec
    pending: deque[AttemptPlan] = field(default_factory=deque)
    running: int = 0
    state: Literal["new", "setting-up", "ready", "failed"] = "new"
    entered: bool = False
    torn_down: bool = False
    agent_version: str | None = None

    @property
    def full(self) -> bool:
        limit = self.experiment.max_concurrency
        return limit is not None and self.running >= limit

    @property
    def over(self) -> bool:
        return not self.pending and self.running == 0


class Dispatcher:
    """Hands attempts to workers. An experiment at its own limit is passed over, so that it never starves the others."""

    def __init__(self, plan: RunPlan) -> None:
        self.lanes: dict[str, Lane] = {experiment.id: Lane(experiment=experiment) for experiment in plan.experiments}
        for attempt in plan.attempts:
            self.lanes[attempt.experiment.id].pending.append(attempt)
        self.running: dict[int, AttemptPlan] = {}
        self.cancelled: set[int] = set()
        self.not_started = 0
        self.stopped = False
        self._closed: set[EvalKey] = set()
        self._changed = asyncio.Event()

    def take(self) -> AttemptPlan | Lane | None:
        """The next attempt, a lane whose experiment has to be set up first, or None where nothing can start now."""
        for lane in self.lanes.values():
            if not lane.pending or lane.full or lane.state in ("setting-up", "failed"):
                continue
            if lane.state == "new":
                lane.state = "setting-up"
                return lane
            attempt = lane.pending.popleft()
            lane.running += 1
            self.running[attempt.index] = attempt
            return attempt
        return None

    @property
    def exhausted(self) -> bool:
        """Whether nothing will ever be handed out again."""
        return self.stopped or all(not lane.pending for lane in self.lanes.values())

    async def wait(self) -> None:
        """Until something has changed that may let an attempt start."""
        self._changed.clear()
        await self._changed.wait()

    def wake(self) -> None:
        """Something has changed."""
        self._changed.set()

    def finished(self, attempt: AttemptPlan) -> Lane:
        """An attempt has left; its permits are free."""
        lane = self.lanes[attempt.experiment.id]
        lane.running -= 1
        self.running.pop(attempt.index, None)
        self.wake()
        return lane

    def close_eval(self, attempt: AttemptPlan, verdict: Verdict) -> list[AttemptPlan]:
        """Early exit: after a pass or an error, the eval's other attempts under that experiment are not needed.

        Returns them; those that run have to be cancelled by the caller.
        """
        key = (attempt.experiment.id, attempt.eval.id)
        experiment = attempt.experiment
        alone = experiment.runs == 1 or not experiment.early_exit
        if alone or verdict not in ("passed", "errored") or key in self._closed:
            return []
        waiting = _next_of(attempt.eval.id, self.lanes[attempt.experiment.id].pending)
        running = [
            other
            for other in self.running.values()
            if other.index != attempt.index and (other.experiment.id, other.eval.id) == key
        ]
        others = [*waiting, *running]
        if others:
            self._closed.add(key)
            self.cancelled.update(other.index for other in others)
        return others

    def fail_lane(self, lane: Lane) -> int:
        """An experiment cannot run: none of its attempts starts. Returns how many that are."""
        lane.state = "failed"
        return self._drop(lane.pending)

    def stop(self) -> int:
        """Start nothing more. Returns how many attempts will not be started."""
        self.stopped = True
        dropped = sum(self._drop(lane.pending) for lane in self.lanes.values())
        self.wake()
        return dropped

    def _drop(self, pending: deque[AttemptPlan]) -> int:
        dropped = len(pending)
        pending.clear()
        self.not_started += dropped
        return dropped


def _next_of(eval_id: str, pending: deque[AttemptPlan]) -> list[AttemptPlan]:
    """Take away what waits of an eval that was started: attempts start in plan order, so its others come next."""
    taken: list[AttemptPlan] = []
    while pending and pending[0].eval.id == eval_id:
        taken.append(pending.popleft())
    return taken


def attempt_numbers(attempts: Iterable[AttemptPlan]) -> tuple[int, ...]:
    """Their attempt numbers, in order."""
    return tuple(sorted(attempt.attempt for attempt in attempts))
