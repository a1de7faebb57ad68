"""The attempts of one run, decided from the project and the command line before anything starts."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from niceeval._base.errors import NiceevalError, SelectionError
from niceeval._discover.select import (
    dead_prefixes,
    evals_of,
    experiments_matching,
    idle_problems,
    idle_warning,
    narrow,
    tagged_or_raise,
)
from niceeval._discover.specs import ConfigSpec, EvalSpec, ExperimentSpec, Project, sandbox_of

if TYPE_CHECKING:
    from niceeval._plan.carry import Decision
    from niceeval._plan.identity import Identity

DEFAULT_TIMEOUT = 600.0
"""Seconds an attempt may take where nothing says otherwise."""
DEFAULT_CONCURRENCY = 10
"""Attempts at the same time where nothing says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPlan:
    """One attempt to make: `attempt` counts from 0, `timeout` is in seconds, `index` is its place in the plan."""

    index: int
    eval: EvalSpec
    experiment: ExperimentSpec
    attempt: int
    timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What earlier results were like when the plan was decided.

    `since`: when this invocation began; `complete`: runs that had ended; `unknown`: experiments whose agent could not
    say its version, so that nothing of them is carried.
    """

    since: str
    complete: frozenset[str]
    unknown: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """One run: attempts in the order of experiment, eval, attempt.

    `experiments` are those with attempts; their `runs` and `early_exit` are already those of the command line, their
    `sandbox` and `max_concurrency` are resolved, and their `timeout` is what an eval without its own gets. `budget` is
    the whole run's, in US dollars. `problems` make the run incomplete, `warnings` do not. `versions` (experiment id ->
    its agent's version), `identities`, `decisions` and `looked` (None where nothing was looked up) are filled in by
    `with_carry`.
    """

    root: Path
    config: ConfigSpec
    attempts: tuple[AttemptPlan, ...]
    experiments: tuple[ExperimentSpec, ...]
    concurrency: int
    strict: bool
    title: str
    budget: float | None = None
    problems: tuple[NiceevalError, ...] = ()
    warnings: tuple[NiceevalError, ...] = ()
    secrets: frozenset[str] = frozenset()
    versions: Mapping[str, str] = field(default_factory=dict)
    identities: Mapping[tuple[str, str], Identity] = field(default_factory=dict)
    decisions: Mapping[int, Decision] = field(default_factory=dict)
    looked: Looked | None = None

    def decision(self, attempt: AttemptPlan) -> Decision | None:
        """What was decided about an attempt; None where nothing was looked up."""
        return self.decisions.get(attempt.index)


def make_plan(
    project: Project,
    *,
    selector: str | None = None,
    eval_prefixes: Sequence[str] = (),
    tag: str | None = None,
    runs: int | None = None,
    early_exit: bool | None = None,
    max_concurrency: int | None = None,
    timeout: float | None = None,
    budget: float | None = None,
    strict: bool = False,
) -> RunPlan:
    """Expand experiment x eval x runs; a value of the command line wins over the project's, None leaves it.

    Raises SelectionError where the command line asks for what does not exist (`unknown-experiment`,
    `eval-as-experiment`, `nothing-selected`, `no-experiments`) or cannot be (`usage`), where asserts are out
    (`python-optimized`), and the problem with `niceeval_config.py` where there is one: a run with other limits and
    prices than its author set is not started.
    """
    _require_asserts()
    _require_sensible(runs, max_concurrency, timeout, budget)
    if project.config_problem is not None:
        raise project.config_problem
    selected = [
        _resolved(experiment, project.config, runs, early_exit, timeout, max_concurrency)
        for experiment in experiments_matching(project, selector)
    ]
    evals = narrow(project, eval_prefixes, tag, selected)
    runnable, blocked = _without_missing_sandbox(selected)
    attempts, failed = _expand(runnable, evals, timeout)
    with_attempts = {attempt.experiment.id for attempt in attempts}
    dead = [problem for experiment in runnable for problem in dead_prefixes(project, experiment)]
    problems = (*project.problems, *blocked, *dead, *failed)
    idle = [experiment for experiment in runnable if experiment.id not in with_attempts]
    if not attempts and not problems:
        raise _nothing(project, idle)
    narrowed = bool(eval_prefixes) or tag is not None
    if not narrowed:
        problems = (*problems, *idle_problems(project, idle, [*dead, *failed]))
    return RunPlan(
        root=project.root,
        config=project.config,
        attempts=attempts,
        experiments=tuple(experiment for experiment in runnable if experiment.id in with_attempts),
        concurrency=max_concurrency or project.config.max_concurrency or _default_concurrency(runnable),
        strict=strict,
        budget=budget,
        title=selector or project.config.name or "every experiment",
        problems=problems,
        warnings=(*project.warnings, *([idle_warning(idle)] if narrowed and idle and attempts else ())),
        secrets=project.secrets,
    )


def _require_asserts() -> None:
    """Python without `assert` would let checks pass that fail, in every module that an eval imports."""
    if sys.flags.optimize:
        raise SelectionError("python-optimized")


def _require_sensible(
    runs: int | None, max_concurrency: int | None, timeout: float | None, budget: float | None
) -> None:
    if runs is not None and runs < 1:
        raise _usage(f"--runs is {runs}; an eval runs at least once")
    if max_concurrency is not None and max_concurrency < 1:
        raise _usage(f"--max-concurrency is {max_concurrency}; one attempt at a time is the least")
    if timeout is not None and not 0 < timeout < float("inf"):
        raise _usage(f"--timeout is {timeout:g}; it is a positive number of seconds")
    if budget is not None and not 0 < budget < float("inf"):
        raise _usage(f"--budget is {budget:g}; it is a positive amount of US dollars")


def _usage(problem: str) -> SelectionError:
    return SelectionError("usage", problem=problem, command="niceeval exp --help")


def _resolved(
    experiment: ExperimentSpec,
    config: ConfigSpec,
    runs: int | None,
    early_exit: bool | None,
    timeout: float | None,
    max_concurrency: int | None,
) -> ExperimentSpec:
    sandbox = sandbox_of(experiment, config)
    limit = experiment.max_concurrency
    if limit is None and sandbox is not None and not (max_concurrency or config.max_concurrency):
        limit = sandbox.recommended_concurrency
    return replace(
        experiment,
        runs=experiment.runs if runs is None else runs,
        early_exit=experiment.early_exit if early_exit is None else early_exit,
        timeout=_first(timeout, experiment.timeout, config.timeout, DEFAULT_TIMEOUT),
        sandbox=sandbox,
        max_concurrency=limit,
    )


def _default_concurrency(experiments: Sequence[ExperimentSpec]) -> int:
    """Where nobody says: the usual number, or more where a sandbox backend recommends more for its experiment."""
    recommended = [one.sandbox.recommended_concurrency for one in experiments if one.sandbox is not None]
    return max([DEFAULT_CONCURRENCY, *recommended])


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)


def _without_missing_sandbox(
    experiments: Sequence[ExperimentSpec],
) -> tuple[list[ExperimentSpec], list[NiceevalError]]:
    runnable, problems = [], []
    for experiment in experiments:
        if experiment.agent.kind == "sandbox" and experiment.sandbox is None:
            problems.append(NiceevalError("sandbox-not-set", place=experiment.place, agent=experiment.agent.name))
        else:
            runnable.append(experiment)
    return runnable, problems


def _expand(
    experiments: Sequence[ExperimentSpec], evals: Sequence[EvalSpec], timeout: float | None
) -> tuple[tuple[AttemptPlan, ...], list[NiceevalError]]:
    attempts: list[AttemptPlan] = []
    problems: list[NiceevalError] = []
    for experiment in experiments:
        try:
            chosen = evals_of(experiment, evals)
        except NiceevalError as error:
            problems.append(error)
            continue
        for spec in chosen:
            limit = _first(timeout, spec.timeout, experiment.timeout)
            for number in range(experiment.runs):
                attempts.append(
                    AttemptPlan(index=len(attempts), eval=spec, experiment=experiment, attempt=number, timeout=limit)
                )
    return tuple(attempts), problems


def _nothing(project: Project, experiments: Sequence[ExperimentSpec]) -> SelectionError:
    tagged_or_raise(project, None)
    names = ", ".join(experiment.id for experiment in experiments[:3])
    return SelectionError("nothing-selected", problem=f"no eval is left for {names}")
