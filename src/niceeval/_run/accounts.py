"""What a run says of itself: the first event, where a budget stands, and the head of `summary.json`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Literal

from niceeval._base.arguments import argument_place
from niceeval._base.clock import utc_text
from niceeval._base.errors import NiceevalError
from niceeval._model.result import FORMAT, SCHEMA_VERSION, Producer, RunSummary
from niceeval._model.run_events import BudgetExceeded, EarlyExit, ExperimentOutline, RunStart
from niceeval._plan.plan import RunPlan
from niceeval._record.writer import RunWriter
from niceeval._run.dispatch import Dispatcher, Lane, OverBudget
from niceeval._run.outcome import Tally
from niceeval._version import __version__


def run_start(plan: RunPlan, writer: RunWriter) -> RunStart:
    """The event that opens a run."""
    attempts: dict[str, int] = {}
    evals: dict[str, set[str]] = {}
    for attempt in plan.attempts:
        attempts[attempt.experiment.id] = attempts.get(attempt.experiment.id, 0) + 1
        evals.setdefault(attempt.experiment.id, set()).add(attempt.eval.id)
    return RunStart(
        run=writer.name,
        title=plan.title,
        planned=len(plan.attempts),
        concurrency=plan.concurrency,
        experiments=tuple(
            ExperimentOutline(
                id=experiment.id,
                agent=experiment.agent.name,
                model=experiment.model,
                evals=len(evals[experiment.id]),
                runs=experiment.runs,
                early_exit=experiment.early_exit,
                timeout=experiment.timeout or 0.0,
                attempts=attempts[experiment.id],
                budget=experiment.budget,
                agent_version=plan.versions.get(experiment.id),
            )
            for experiment in plan.experiments
        ),
        problems=plan.problems,
        carried=sum(decision.carried is not None for decision in plan.decisions.values()),
        budget=plan.budget,
        root=str(plan.root),
        folder=str(plan.root / writer.output_dir),
    )


def budget_exceeded(over: OverBudget, lanes: Mapping[str, Lane]) -> BudgetExceeded:
    """The event that says why a budget lets nothing more start."""
    budget, why = over.budget, over.budget.unenforceable
    error = None
    if why is not None:
        place = lanes[why.experiment_id].experiment.place
        if over.lane is not None:
            place = argument_place(place, "budget")
        error = NiceevalError("budget-unenforceable", place=place, problem=why.gap.problem, fix=why.gap.fix)
    return BudgetExceeded(
        experiment_id=None if over.lane is None else over.lane.experiment.id,
        budget=float(budget.limit),
        spent=float(budget.spent),
        reserved=float(budget.mean or 0),
        not_started=sum(over.not_started.values()),
        error=error,
        by_experiment=tuple(over.not_started.items()),
    )


def unneeded(plan: RunPlan, cancelled: Collection[int]) -> Iterator[EarlyExit]:
    """What results of earlier runs make unnecessary before anything starts, an eval at a time.

    `cancelled` are the indices of those for which that still holds.
    """
    left: dict[tuple[str, str], list[int]] = {}
    passed: set[tuple[str, str]] = set()
    for attempt in plan.attempts:
        pair, decision = (attempt.experiment.id, attempt.eval.id), plan.decision(attempt)
        if decision is not None and attempt.index in cancelled:
            left.setdefault(pair, []).append(attempt.attempt)
        elif decision is not None and decision.carried is not None and decision.carried.outcome == "passed":
            passed.add(pair)
    for (experiment_id, eval_id), attempts in left.items():
        after: Literal["passed", "errored"] = "passed" if (experiment_id, eval_id) in passed else "errored"
        yield EarlyExit(experiment_id=experiment_id, eval_id=eval_id, after=after, cancelled=tuple(attempts))


def run_summary(
    plan: RunPlan,
    writer: RunWriter,
    tally: Tally,
    dispatch: Dispatcher,
    *,
    started_at: str,
    duration_ms: int,
    interrupted: bool,
) -> RunSummary:
    """The head of `summary.json`; counts, usage and cost cover every result in it, carried ones too."""
    return RunSummary(
        format=FORMAT,
        schema_version=SCHEMA_VERSION,
        producer=Producer(name="niceeval", version=__version__, runtime="python"),
        name=plan.config.name,
        agent=plan.experiments[0].agent.name if plan.experiments else "",
        model=_common_model(plan),
        started_at=started_at,
        completed_at=utc_text(),
        passed=tally.stored_count("passed"),
        failed=tally.stored_count("failed"),
        skipped=tally.stored_count("skipped"),
        errored=tally.stored_count("errored"),
        duration_ms=duration_ms,
        usage=tally.stored.usage,
        estimated_cost_usd=tally.stored.cost,
        judge_usage=tally.stored.judge_usage,
        judge_cost_usd=tally.stored.judge_cost,
        output_dir=writer.output_dir,
        interrupted=interrupted,
        not_started=dispatch.not_started.total(),
        cancelled=len(dispatch.cancelled),
        carried=tally.carried,
        not_stored=tally.not_stored.total(),
    )


def _common_model(plan: RunPlan) -> str | None:
    models = {experiment.model for experiment in plan.experiments}
    return models.pop() if len(models) == 1 else None
