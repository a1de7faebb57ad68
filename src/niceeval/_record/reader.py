"""Opening results: a results folder, one run, or a `summary.json`."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from niceeval._base.errors import ResultsError
from niceeval._record.artifacts import read_file, unreadable
from niceeval._record.attempt import Attempt
from niceeval._record.layout import HIDDEN, RESULT, RESULTS_FOLDER, SUMMARY, is_inside, is_run_name
from niceeval._record.locators import Locators
from niceeval._record.rows import decode_row
from niceeval._record.runs import Run, Skipped, read_run_folder, read_summary, result_folders


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One experiment in one run. `missing_evals` are those that other runs have of it and this one has not."""

    experiment_id: str
    run: Run
    attempts: tuple[Attempt, ...]
    missing_evals: tuple[str, ...] = ()


class Results:
    """What was found at a path: `runs` newest first, and `skipped`, what was not read and why."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs: tuple[Run, ...] = ()
        self.skipped: tuple[Skipped, ...] = ()
        self.locators = Locators(lambda: self.attempts)

    @cached_property
    def attempts(self) -> tuple[Attempt, ...]:
        """Every attempt once, newest run first: one that later runs carried on counts as one."""
        once: dict[tuple[str | None, str, int, str], Attempt] = {}
        for run in self.runs:
            for attempt in run.attempts:
                once.setdefault(attempt.identity, attempt)
        return tuple(once.values())

    @cached_property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """Each experiment of each run, newest run first, experiments by id."""
        evals: dict[str, set[str]] = defaultdict(set)
        for run in self.runs:
            for attempt in run.attempts:
                evals[experiment_name(attempt)].add(attempt.eval_id)
        return tuple(_snapshots(self.runs, evals))

    def find(self, locator: str) -> Attempt:
        """The attempt of a locator, or of a unique start of one (four characters or more, any case).

        Raises ResultsError (`unknown-locator`, `ambiguous-locator`).
        """
        return self.locators.find(locator, str(self.path))


def experiment_name(attempt: Attempt) -> str:
    """The experiment's id; for results of a run without experiments, the agent's name."""
    return attempt.experiment_id or attempt.agent


def _snapshots(runs: Iterable[Run], evals: dict[str, set[str]]) -> Iterable[Snapshot]:
    for run in runs:
        parts: dict[str, list[Attempt]] = defaultdict(list)
        for attempt in run.attempts:
            parts[experiment_name(attempt)].append(attempt)
        for name in sorted(parts):
            missing = evals[name] - {attempt.eval_id for attempt in parts[name]}
            yield Snapshot(
                experiment_id=name, run=run, attempts=tuple(parts[name]), missing_evals=tuple(sorted(missing))
            )


def latest_per_experiment(results: Results) -> tuple[Snapshot, ...]:
    """The newest snapshot of each experiment, by id. Its `missing_evals` say what it covers less than history does."""
    latest: dict[str, Snapshot] = {}
    for snapshot in results.snapshots:
        latest.setdefault(snapshot.experiment_id, snapshot)
    return tuple(latest[name] for name in sorted(latest))


def open_results(path: str | os.PathLike[str]) -> Results:
    """Read a results folder (`.niceeval`, or a project that has one), a run folder, or a `summary.json`.

    Attempts come as slim rows; their files are read when they are asked for. In a folder, what is of another version,
    broken or foreign is listed in `skipped`. Raises ResultsError: `no-results`, `not-results`, `unreadable`, and
    `incompatible` for a single run of another version.
    """
    place = Path(path)
    results = Results(place)
    if not place.exists():
        raise ResultsError("no-results", path=str(place))
    if place.is_file():
        read = read_summary(place, results.locators)
        return _single(results, read.run, read.skipped)
    if not _children(place) and (place / RESULTS_FOLDER).is_dir():
        return open_results(place / RESULTS_FOLDER)
    if _is_run(place):
        read = read_run_folder(place, results.locators, expected=is_run_name(place.name))
        return _single(results, read.run, read.skipped)
    return _folder(results, place)


def _is_run(folder: Path) -> bool:
    if (folder / SUMMARY).is_file() or is_run_name(folder.name):
        return True
    return not _children(folder) and next(result_folders(folder), None) is not None


def _children(folder: Path) -> list[str]:
    """The folders in a results folder that are runs, by their names or by their summaries."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(HIDDEN)]
    except OSError as error:
        raise unreadable(str(folder), error.strerror or error) from error
    return sorted(name for name in names if is_run_name(name) or (folder / name / SUMMARY).is_file())


def _folder(results: Results, folder: Path) -> Results:
    runs: list[Run] = []
    skipped: list[Skipped] = []
    for name in _children(folder):
        read = read_run_folder(folder / name, results.locators, expected=True)
        skipped += read.skipped
        if read.run is not None:
            runs.append(read.run)
    if not runs and not skipped:
        raise ResultsError("no-results", path=str(folder))
    results.runs = tuple(sorted(runs, key=lambda run: run.order, reverse=True))
    results.skipped = tuple(skipped)
    return results


def runs_newest_first(folder: Path, on_skipped: Callable[[Skipped], None] = lambda _: None) -> Iterator[Run]:
    """The runs of a results folder, each read when it is asked for; what cannot be read goes to `on_skipped`."""
    if not folder.is_dir():
        return
    locators = Locators(lambda: ())
    for name in reversed(_children(folder)):
        read = read_run_folder(folder / name, locators, expected=True)
        for skipped in read.skipped:
            on_skipped(skipped)
        if read.run is not None:
            yield read.run


def complete_runs(folder: Path) -> frozenset[str]:
    """The names of the runs of a results folder that have ended."""
    if not folder.is_dir():
        return frozenset()
    return frozenset(name for name in _children(folder) if (folder / name / SUMMARY).is_file())


def stored_attempt(run_folder: Path, place: str) -> Attempt:
    """One attempt of a run, by its folder in it. Raises ResultsError (`unreadable`)."""
    shown = f"{run_folder.name}/{place}/{RESULT}"
    if not is_inside(place):
        raise unreadable(shown, "it leads out of the run folder")
    try:
        row = decode_row(read_file(run_folder / place / RESULT, shown))
    except (ValueError, RecursionError) as error:
        raise unreadable(shown, error) from error
    row = msgspec.structs.replace(row, artifacts_dir=place)
    return Attempt(row, run_folder.name, run_folder, Locators(lambda: ()))


def _single(results: Results, run: Run | None, skipped: tuple[Skipped, ...]) -> Results:
    if run is None:
        raise _error(results.path, skipped)
    results.runs = (run,)
    results.skipped = skipped
    return results


def _error(path: Path, skipped: tuple[Skipped, ...]) -> ResultsError:
    if not skipped:
        return ResultsError("no-results", path=str(path))
    first = skipped[0]
    if first.kind == "not-ours":
        return ResultsError("not-results", path=str(path))
    if first.kind == "incompatible":
        command = first.command or ""
        return ResultsError("incompatible", path=str(path), schema=first.schema, version=first.version, command=command)
    return unreadable(first.path, first.problem)
