"""`niceeval show`: the latest snapshot of each experiment, what did not pass, and what could not be read."""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from niceeval._base.errors import ResultsError
from niceeval._base.terminal import Style, age, cell_width, count, cut_end, cut_middle, duration, pad_end
from niceeval._judging.records import CalibrationRecord
from niceeval._record.attempt import Attempt
from niceeval._record.reader import Results, Snapshot, latest_per_experiment
from niceeval._record.runs import Run, Skipped
from niceeval._reporters.deciding import index_entry
from niceeval._view.attempt_page import instant
from niceeval._view.figures import SnapshotFigures, figures_of
from niceeval._view.judged import judged_lines, judged_rates

T = TypeVar("T")

MAX_INDEX = 50
"""Lines of the index of what did not pass; the others are counted."""
MAX_RUNS_NAMED = 3
_ID_CELLS = 40
_WHAT_CELLS = 60
_HEADS = ("evals passed", "attempts", "errored", "mean", "tok", "cost", "when")


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    cells: tuple[str, ...]
    note: str


def overview(
    results: Results,
    style: Style,
    now: datetime,
    *,
    target: str = "",
    calibrations: Sequence[CalibrationRecord] = (),
) -> list[str]:
    """The overview, one item a line. `now` is aware, for ages on a terminal.

    `target` is what `niceeval show` was given for these results (a path; empty for the project's own): the commands
    that are printed name it. `calibrations` are those of the project's judges.
    """
    snapshots = latest_per_experiment(results)
    not_passed = [
        attempt for snapshot in snapshots for attempt in snapshot.attempts if attempt.outcome in ("failed", "errored")
    ]
    # Failures come before errors: what the agent did wrong is asked for first.
    not_passed.sort(key=lambda attempt: attempt.outcome, reverse=True)
    return [
        _head(results, style),
        *_tables(snapshots, style, now),
        *judged_lines(judged_rates(snapshots, calibrations), style),
        *_index(not_passed, style, target),
        *_unfinished([run for run in results.runs if not run.complete], style, target),
        *_skipped(results.skipped, style, target),
        *([f"next: {style.clean(attempt_command(not_passed[0], target))}"] if not_passed else []),
    ]


def attempt_command(attempt: Attempt, target: str) -> str:
    """The command that shows an attempt of the results that `target` names."""
    return (
        f"niceeval show {shlex.quote(os.path.join(target, attempt.locator))}"
        if target
        else (f"niceeval show {attempt.locator}")
    )


def json_command(target: str) -> str:
    """The command that gives the same answer whole."""
    return f"niceeval show {shlex.quote(target)} --json" if target else "niceeval show --json"


def shown_path(path: os.PathLike[str]) -> str:
    """A path as a person in the current folder would name it."""
    try:
        absolute, here = os.path.abspath(path), os.path.abspath(os.curdir)
    except OSError:  # the current folder is not there any more
        return os.fspath(path)
    inside = os.path.commonpath((absolute, here)) == here if os.path.splitdrive(absolute)[0] == "" else False
    return os.path.relpath(absolute, here) if inside else os.fspath(path)


def _head(results: Results, style: Style) -> str:
    where = style.clean(shown_path(results.path))
    if len(results.runs) == 1 and not results.skipped:
        return f"{where}: {_run_line(results.runs[0], style)}"
    counts = [(sum(run.running for run in results.runs), "running")]
    counts += [(sum(not run.complete and not run.running for run in results.runs), "incomplete")]
    counts += [(sum(item.kind == kind for item in results.skipped), kind) for kind in ("incompatible", "unreadable")]
    runs = f"{count(len(results.runs))} run{'' if len(results.runs) == 1 else 's'}, latest per experiment"
    return f"{where}: " + style.joined(runs, *(f"{number} {kind}" for number, kind in counts if number))


def _run_line(run: Run, style: Style) -> str:
    total = f"{count(len(run.attempts))} attempt{'' if len(run.attempts) == 1 else 's'}"
    state = "" if run.complete else "running" if run.running else "incomplete"
    return style.joined(
        style.clean(run.title or ""),
        total,
        style.clean(instant(run.started_at)),
        "interrupted" if run.interrupted else state,
    )


def _tables(snapshots: Sequence[Snapshot], style: Style, now: datetime) -> list[str]:
    """One table per group, with common columns."""
    groups: dict[str, list[_Row]] = defaultdict(list)
    for snapshot in snapshots:
        group, _, name = snapshot.experiment_id.rpartition("/")
        groups[group].append(_row(snapshot, name, style, now))
    if not groups:
        return []
    heads = {group: _fitted(group, style) if group else "experiment" for group in groups}
    rows = [row for group in groups.values() for row in group]
    first = max(max(map(cell_width, heads.values())), max(cell_width(row.name) for row in rows) + 2)
    widths = [max(len(head), *(cell_width(row.cells[at]) for row in rows)) for at, head in enumerate(_HEADS)]
    lines: list[str] = []
    for group in sorted(groups):
        lines.append(_joined_cells(heads[group], _HEADS, first, widths))
        for row in groups[group]:
            lines.append(_joined_cells(f"  {row.name}", row.cells, first, widths))
            lines += [f"    {row.note}"] if row.note else []
    return lines


def _joined_cells(first: str, cells: Iterable[str], width: int, widths: Sequence[int]) -> str:
    padded = [pad_end(cell, cells_wide) for cell, cells_wide in zip(cells, widths, strict=True)]
    return "  ".join([pad_end(first, width), *padded]).rstrip()


def _fitted(text: str, style: Style) -> str:
    clean = style.clean(text)
    return clean if style.width is None else cut_middle(clean, _ID_CELLS, mark=style.glyphs.ellipsis)


def _row(snapshot: Snapshot, name: str, style: Style, now: datetime) -> _Row:
    figures = figures_of(snapshot.attempts)
    missing = len(snapshot.missing_evals)
    note = f"covers {figures.evals} of the {figures.evals + missing} evals that its runs have had" if missing else ""
    return _Row(_fitted(name, style), (*_measured(figures), _when(snapshot.run, style, now)), note)


def _measured(figures: SnapshotFigures) -> tuple[str, ...]:
    return (
        figures.evals_said(),
        f"{figures.passed}/{figures.judged}" if figures.judged else "-",
        str(figures.errored) if figures.judged else "-",
        "-" if figures.mean_ms is None else duration(figures.mean_ms),
        figures.tokens_said(),
        figures.cost_said(),
    )


def _when(run: Run, style: Style, now: datetime) -> str:
    """An age on a terminal, an instant in a log."""
    try:
        started = datetime.fromisoformat(run.started_at)
    except ValueError:
        return style.clean(run.started_at)
    if style.width is None or started.tzinfo is None:
        return style.clean(instant(run.started_at))
    passed = (now - started.astimezone(UTC)).total_seconds()
    return age(passed) if passed >= 0 else style.clean(instant(run.started_at))


def _index(attempts: Sequence[Attempt], style: Style, target: str) -> list[str]:
    if not attempts:
        return []
    lines = ["not passed", *_aligned([_index_cells(attempt, style) for attempt in attempts[:MAX_INDEX]])]
    more = len(attempts) - MAX_INDEX
    return [*lines, f"  + {count(more)} more: {style.clean(json_command(target))}"] if more > 0 else lines


def _index_cells(attempt: Attempt, style: Style) -> tuple[str, str, str, str]:
    experiment = attempt.experiment_id or attempt.agent
    mark = style.symbol("failed" if attempt.outcome == "failed" else "errored")
    return (
        f"{mark} {_fitted(attempt.eval_id, style)}",
        _fitted(experiment.rsplit("/", 1)[-1], style),
        cut_end(_what(attempt, style), _WHAT_CELLS, mark=style.glyphs.ellipsis),
        attempt.locator,
    )


def _what(attempt: Attempt, style: Style) -> str:
    try:
        entry = index_entry(attempt.experiment_id or "", attempt.result())
    except ResultsError as error:
        return style.clean(f"unreadable: {error.fields['problem']}")
    return style.clean(entry.what)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(cell_width(row[at]) for row in rows) for at in range(len(rows[0]))]
    return ["  " + "  ".join(map(pad_end, row, widths)).rstrip() for row in rows]


def _unfinished(runs: Sequence[Run], style: Style, target: str) -> list[str]:
    more = f"more incomplete runs: {style.clean(json_command(target))}"
    return _some(runs, lambda run: _unfinished_lines(run, style), more)


def _unfinished_lines(run: Run, style: Style) -> list[str]:
    total = f"{count(len(run.attempts))} attempt{'' if len(run.attempts) == 1 else 's'}"
    if run.running:
        return [f"running       {style.clean(run.name)}  {total} up to now"]
    return [
        f"incomplete    {style.clean(run.name)}  {total}, no summary.json (killed)",
        f"  next: {style.clean(again(run))}",
    ]


def again(run: Run) -> str:
    """The command that runs what a run ran: its experiment, its group, or everything."""
    ids = {attempt.experiment_id for attempt in run.attempts}
    if len(ids) == 1 and (only := next(iter(ids))):
        return f"niceeval exp {shlex.quote(only)}"
    groups = {(experiment or "").rpartition("/")[0] for experiment in ids}
    group = groups.pop() if len(groups) == 1 else ""
    return f"niceeval exp {shlex.quote(group)}" if group else "niceeval exp"


def _skipped(skipped: Sequence[Skipped], style: Style, target: str) -> list[str]:
    more = f"more that could not be read: {style.clean(json_command(target))}"
    known = [item for item in skipped if item.kind != "not-ours"]
    return _some(known, lambda item: _skipped_lines(item, style), more)


def _skipped_lines(item: Skipped, style: Style) -> list[str]:
    line = f"{item.kind:<12}  {style.clean(item.path)}  {style.clean(item.problem)}"
    return [line, f"  next: {style.clean(item.command)}"] if item.command else [line]


def _some(items: Sequence[T], lines: Callable[[T], list[str]], more: str) -> list[str]:
    found = [line for item in items[:MAX_RUNS_NAMED] for line in lines(item)]
    left = len(items) - MAX_RUNS_NAMED
    return [*found, f"+ {count(left)} {more}"] if left > 0 else found
