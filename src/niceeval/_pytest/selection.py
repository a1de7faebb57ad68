"""What a run of pytest is about: the project of the given paths, its evals, and the plan of the given experiments."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from niceeval._base.catalogue import current_language
from niceeval._base.errors import NiceevalError, SelectionError
from niceeval._base.redaction import Redactor, secret_values
from niceeval._base.terminal import Style
from niceeval._cli.errors import Label, error_lines
from niceeval._discover.project import find_root, load_project
from niceeval._discover.select import experiments_matching, under
from niceeval._discover.specs import EvalSpec, ExperimentSpec, Project
from niceeval._plan.plan import RunPlan, make_plan


@dataclass(slots=True)
class EvalsOfFile:
    """One file of evals/: the evals that run, each under one experiment, and what is wrong with the file, as text."""

    pairs: list[tuple[EvalSpec, ExperimentSpec]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Selection:
    """The plan of everything that could be collected, and the files of evals/ by their absolute path."""

    plan: RunPlan
    files: dict[Path, EvalsOfFile]


def select(config: pytest.Config) -> Selection:
    """Load the project and plan it. Raises pytest.UsageError for whatever has to be put right before anything runs."""
    try:
        project = load_project(_root(config), note_reads=True)
        plan = _plan(project, config)
    except NiceevalError as error:
        raise usage_error([error], Redactor(secret_values(os.environ, {}))) from error
    problems = [problem for problem in plan.problems if problem not in _elsewhere(project, _selectors(config))]
    if problems:
        raise usage_error(problems, Redactor(plan.secrets))
    return Selection(replace(plan, problems=()), _files(project, plan))


def restricted(plan: RunPlan, pairs: Iterable[tuple[str, str]]) -> RunPlan:
    """The plan of some of its (experiment id, eval id) pairs."""
    wanted = set(pairs)
    kept = [attempt for attempt in plan.attempts if (attempt.experiment.id, attempt.eval.id) in wanted]
    running = {attempt.experiment.id for attempt in kept}
    return replace(
        plan,
        attempts=tuple(replace(attempt, index=index) for index, attempt in enumerate(kept)),
        experiments=tuple(experiment for experiment in plan.experiments if experiment.id in running),
    )


def usage_error(errors: Sequence[NiceevalError], redact: Redactor) -> pytest.UsageError:
    """The errors as pytest's own kind, which ends the session before anything runs."""
    return pytest.UsageError("\n".join(text_of(error, redact) for error in errors))


def text_of(error: NiceevalError, redact: Redactor, label: Label = "error") -> str:
    """An error, or a warning, in plain text, as the command line shows it."""
    return "\n".join(error_lines(error, Style(redact=redact), current_language(), label))


def _selectors(config: pytest.Config) -> list[str]:
    return list(dict.fromkeys(config.getoption("niceeval_experiment")))


def _root(config: pytest.Config) -> Path:
    """The root of the project that the paths on the command line lie in."""
    found: dict[Path, str] = {}
    for argument in config.args:
        path = config.invocation_params.dir / argument.partition("::")[0]
        try:
            found.setdefault(find_root(path.parent if path.is_file() else path), argument)
        except SelectionError:
            continue
    if len(found) > 1:
        places = ", ".join(found.values())
        raise pytest.UsageError(f"{places} belong to different projects; run pytest once for each")
    if not found:
        raise SelectionError("no-project")
    return next(iter(found))


def _plan(project: Project, config: pytest.Config) -> RunPlan:
    selectors = _selectors(config)
    chosen = {one.id: one for selector in selectors for one in experiments_matching(project, selector)}
    # Narrowed down here, since a plan takes one selector and a session may name several.
    narrowed = replace(project, experiments=tuple(one for one in project.experiments if one.id in chosen))
    plan = make_plan(
        narrowed,
        runs=config.getoption("niceeval_runs"),
        max_concurrency=config.getoption("niceeval_max_concurrency"),
        timeout=config.getoption("niceeval_timeout"),
        strict=config.getoption("niceeval_strict"),
    )
    return replace(plan, title=", ".join(selectors))


def _elsewhere(project: Project, selectors: Sequence[str]) -> list[NiceevalError]:
    """Problems that do not concern the session as a whole: with files of evals/, and with other experiments."""
    return [
        problem
        for problem, file in zip(project.problems, project.problem_files, strict=True)
        if file.startswith("evals/") or not _concerns(file, selectors)
    ]


def _concerns(file: str, selectors: Sequence[str]) -> bool:
    if not file.startswith("experiments/"):
        return True
    id = file.removeprefix("experiments/").removesuffix(".py")
    return any(under(id, selector.rstrip("/")) or under(selector.rstrip("/"), id) for selector in selectors)


def _files(project: Project, plan: RunPlan) -> dict[Path, EvalsOfFile]:
    redact = Redactor(project.secrets)
    files: dict[Path, EvalsOfFile] = {spec.file: EvalsOfFile() for spec in project.evals}
    for problem, file in zip(project.problems, project.problem_files, strict=True):
        if file.startswith("evals/"):
            files.setdefault(project.root / file, EvalsOfFile()).problems.append(text_of(problem, redact))
    position = {spec.id: index for index, spec in enumerate(project.evals)}
    first = [attempt for attempt in plan.attempts if attempt.attempt == 0]
    # The plan goes by experiment; a file reads better with all of an eval's experiments side by side.
    for attempt in sorted(first, key=lambda attempt: position[attempt.eval.id]):
        files[attempt.eval.file].pairs.append((attempt.eval, attempt.experiment))
    return files
