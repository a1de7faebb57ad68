"""`niceeval list` and `niceeval exp list`: what was found, and where."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import click

from niceeval._base.errors import NiceevalError, SelectionError
from niceeval._base.places import current_folder
from niceeval._base.redaction import Redactor
from niceeval._base.terminal import Style, cell_width, cut_end, money, pad_end
from niceeval._cli.errors import print_errors
from niceeval._cli.exit_codes import code_after
from niceeval._cli.streams import Streams
from niceeval._discover.project import load_project
from niceeval._discover.select import evals_of, tagged_or_raise
from niceeval._discover.specs import ConfigSpec, EvalSpec, ExperimentSpec, Project, sandbox_of

_DESCRIPTION_CELLS = 40
_ID_CELLS = 48


@click.command("list", add_help_option=False)
@click.option("--tag")
@click.option("--json", "as_json", is_flag=True)
def list_command(tag: str | None, as_json: bool) -> int:
    """The project's evals, with their descriptions, tags and places."""
    project, streams = _opened()
    evals = tagged_or_raise(project, tag)
    if as_json:
        streams.say_json([_eval_json(spec) for spec in evals])
    else:
        groups = [list(group) for _, group in groupby(evals, key=lambda spec: spec.base)]
        rows = [_eval_row(group, streams.out_style) for group in groups]
        streams.say_list(_table(rows), "niceeval list --json")
    return _ended(project.problems, streams)


@click.command("list", add_help_option=False)
@click.option("--json", "as_json", is_flag=True)
def exp_list_command(as_json: bool) -> int:
    """The project's experiments, with their agents, models and how many evals each selects."""
    project, streams = _opened()
    problems = list(project.problems)
    if not project.experiments and not problems:
        raise SelectionError("no-experiments")
    counts = [_selected(experiment, project, problems) for experiment in project.experiments]
    pairs = list(zip(project.experiments, counts, strict=True))
    if as_json:
        streams.say_json([_experiment_json(experiment, count, project.config) for experiment, count in pairs])
    else:
        rows = [_experiment_row(experiment, count, streams.out_style, project.config) for experiment, count in pairs]
        streams.say_list(_table(rows), "niceeval exp list --json")
    return _ended(problems, streams)


def _opened() -> tuple[Project, Streams]:
    project = load_project(current_folder())
    streams = Streams.standard(Redactor(project.secrets))
    print_errors(project.warnings, streams, "warning")
    return project, streams


def _ended(problems: Sequence[NiceevalError], streams: Streams) -> int:
    print_errors(problems, streams)
    return code_after(problems)


def _selected(experiment: ExperimentSpec, project: Project, problems: list[NiceevalError]) -> int | None:
    """How many evals an experiment selects; None, and a problem, where its predicate cannot say."""
    try:
        return len(evals_of(experiment, project.evals))
    except NiceevalError as error:
        problems.append(error)
        return None


def _eval_row(cases: list[EvalSpec], style: Style) -> list[str]:
    first = cases[0]
    place = f"{style.clean(first.path)}:{first.line}"
    tags = "[" + style.clean(" ".join(first.tags)) + "]" if first.tags else ""
    if first.case is None:
        return [_cut(first.id, _ID_CELLS, style), _cut(first.description or "", _DESCRIPTION_CELLS, style), tags, place]
    noun = "case" if len(cases) == 1 else "cases"
    last = f" ... {cases[-1].case}" if len(cases) > 1 else ""
    keys = _cut(f"{first.case}{last}", _DESCRIPTION_CELLS, style)
    return [f"{_cut(first.base, _ID_CELLS, style)} ({len(cases)} {noun})", keys, tags, place]


def _experiment_row(experiment: ExperimentSpec, evals: int | None, style: Style, config: ConfigSpec) -> list[str]:
    spec = sandbox_of(experiment, config)
    count = "evals unknown" if evals is None else f"{evals} eval{'' if evals == 1 else 's'}"
    return [
        _cut(experiment.id, _ID_CELLS, style),
        style.clean(experiment.agent.name),
        style.clean(experiment.model or "-"),
        count,
        f"runs {experiment.runs}",
        "" if experiment.budget is None else f"budget {money(experiment.budget)}",
        "" if spec is None else _cut(spec.shown, _DESCRIPTION_CELLS, style),
        _cut(experiment.description or "", _DESCRIPTION_CELLS, style),
    ]


def _cut(text: str, cells: int, style: Style) -> str:
    # Off a terminal nothing is cut to a width: a log keeps what it is given.
    clean = style.clean(text)
    return clean if style.width is None else cut_end(clean, cells, mark=style.glyphs.ellipsis)


def _table(rows: list[list[str]]) -> list[str]:
    """The rows in columns; a column in which no row has anything is left out."""
    widths = [max(map(cell_width, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(pad_end(cell, width) for cell, width in zip(row, widths, strict=True) if width).rstrip()
        for row in rows
    ]


def _eval_json(spec: EvalSpec) -> dict[str, Any]:
    value = {
        "id": spec.id,
        "path": spec.path,
        "line": spec.line,
        "description": spec.description,
        "tags": list(spec.tags),
        "case": spec.case,
        "timeout": spec.timeout,
    }
    return {name: item for name, item in value.items() if item is not None}


def _experiment_json(experiment: ExperimentSpec, evals: int | None, config: ConfigSpec) -> dict[str, Any]:
    spec = sandbox_of(experiment, config)
    value = {
        "id": experiment.id,
        "path": experiment.path,
        "description": experiment.description,
        "agent": experiment.agent.name,
        "model": experiment.model,
        "reasoningEffort": experiment.reasoning_effort,
        "flags": experiment.flags,
        "labels": experiment.labels,
        "runs": experiment.runs,
        "earlyExit": experiment.early_exit,
        "evals": evals,
        "timeout": experiment.timeout,
        "maxConcurrency": experiment.max_concurrency,
        "budget": experiment.budget,
        "sandbox": None if spec is None else spec.shown,
    }
    return {name: item for name, item in value.items() if item is not None}
