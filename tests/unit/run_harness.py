"""Whole runs in process: evals and experiments given as values, the real runner, real files, every event.

ran = run_plan_of(tmp_path, plan_of(tmp_path, [an_experiment(agent(...), budget=10)], evals={"a": function}))
ran.finished.not_started
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from niceeval import EvalContext, Price
from niceeval._base.errors import Place
from niceeval._cli.exit_codes import code_of
from niceeval._discover.specs import ConfigSpec, EvalSpec, ExperimentSpec
from niceeval._drive.retrying import Backoff
from niceeval._model.result import AttemptResult
from niceeval._model.run_events import EvalComplete, EvalStart, LiveEvent, RunFinished
from niceeval._plan.plan import AttemptPlan, RunPlan
from niceeval._record.writer import RunWriter
from niceeval._run.limits import Limits
from niceeval._run.outside import Outside, RunHandle
from niceeval._run.run import run_plan
from niceeval._run.sandboxes import Keep
from niceeval.adapter import Agent

E = TypeVar("E")
EvalFunction = Callable[[EvalContext], Awaitable[None]]

QUICK = Limits(grace=0.5, backoff=Backoff(first=0.001, longest=0.002))
"""Limits and waits that a test can wait for."""


async def sends_once(t: EvalContext) -> None:
    """The shortest eval that costs something."""
    await t.send("go")


def an_experiment(agent: Agent, *, id: str = "local", **fields: Any) -> ExperimentSpec:
    """An experiment with this agent; without early exit unless it is asked for."""
    path = f"experiments/{id}.py"
    given = {"early_exit": False, "model": "acme-1", "runs": 1, **fields}
    return ExperimentSpec(id=id, path=path, place=Place(path, 9, 5), agent=agent, **given)


def plan_of(
    root: Path,
    experiments: Sequence[ExperimentSpec],
    evals: Mapping[str, EvalFunction] | None = None,
    *,
    concurrency: int = 4,
    budget: float | None = None,
    timeout: float = 20.0,
    pricing: Mapping[str, Price] | None = None,
) -> RunPlan:
    """Every eval under every experiment, in plan order."""
    specs = [_spec(root, id, function) for id, function in (evals or {"one": sends_once}).items()]
    attempts: list[AttemptPlan] = []
    for experiment in experiments:
        for spec in specs:
            for number in range(experiment.runs):
                attempts.append(
                    AttemptPlan(index=len(attempts), eval=spec, experiment=experiment, attempt=number, timeout=timeout)
                )
    return RunPlan(
        root=root,
        config=ConfigSpec(pricing=dict(pricing or {})),
        attempts=tuple(attempts),
        experiments=tuple(experiments),
        concurrency=concurrency,
        strict=False,
        title="test",
        budget=budget,
    )


def _spec(root: Path, id: str, function: EvalFunction) -> EvalSpec:
    path = f"evals/{id}_eval.py"
    return EvalSpec(id=id, base=id, function=function, file=root / path, path=path, line=1, column=1)


@dataclass(frozen=True)
class RanPlan:
    """A run that is over, by what it said."""

    events: Sequence[LiveEvent]
    finished: RunFinished

    def all(self, kind: type[E]) -> list[E]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def started(self) -> int:
        """Attempts that left the queue."""
        return len(self.all(EvalStart))

    @property
    def results(self) -> list[AttemptResult]:
        """What was sealed, in the order it was."""
        return [event.result for event in self.all(EvalComplete)]

    @property
    def accounted(self) -> bool:
        """Whether finished, not started and cancelled attempts are all that were planned."""
        end = self.finished
        done = end.passed + end.failed + end.errored + end.skipped
        return done + end.not_started + end.cancelled == end.planned


def run_plan_of(
    root: Path,
    plan: RunPlan,
    *,
    limits: Limits = QUICK,
    on_event: Callable[[LiveEvent, RunHandle], None] = lambda event, handle: None,
    keep: Keep | None = None,
) -> RanPlan:
    """Run the plan to its end. `on_event` sees each event as it comes, and may interrupt the run."""
    events: list[LiveEvent] = []
    handle = RunHandle()

    def emit(event: LiveEvent) -> None:
        events.append(event)
        on_event(event, handle)

    writer = RunWriter(root / ".niceeval", root=root, redact=str)
    outside = Outside(emit=emit, live=True, exit_code=code_of, leave=_leave, limits=limits, keep_sandboxes=keep)
    try:
        finished = asyncio.run(run_plan(plan, writer, outside, handle))
    finally:
        writer.close()
    return RanPlan(events=events, finished=finished)


def _leave(why: str) -> None:
    raise AssertionError(why)
