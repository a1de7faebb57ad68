"""One run folder read back: with its summary, or without one from the results it holds."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from niceeval._base.errors import ResultsError
from niceeval._model.result import FORMAT, SCHEMA_VERSION
from niceeval._record.artifacts import read_file, unreadable
from niceeval._record.attempt import Attempt
from niceeval._record.layout import HIDDEN, RESULT, SUMMARY, is_inside
from niceeval._record.liveness import being_written
from niceeval._record.locators import Locators
from niceeval._record.rows import AttemptRow, ProducerRow, SummaryRow, decode_row, decode_rows, decode_summary

SkipKind: TypeAlias = Literal["incompatible", "unreadable", "not-ours"]

_VERSION = re.compile(r"[0-9][0-9A-Za-z.+-]{0,39}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Something in a results folder that was not read, and why.

    Of a run of another version (`incompatible`): its `schema`, the `version` that wrote it, the `command` to open it.
    """

    kind: SkipKind
    path: str
    problem: str
    schema: str = ""
    version: str = ""
    command: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A stored run. `complete` is false where it has no `summary.json`: it was killed, or is still `running`.

    `resumable`: the next run of its experiments goes on with it, since it did not end, or could not store all that it
    ran. Then all that it holds stands, whatever came out.
    """

    name: str
    path: Path
    complete: bool
    title: str | None
    started_at: str
    completed_at: str | None
    interrupted: bool
    attempts: tuple[Attempt, ...]
    running: bool = False
    resumable: bool = False

    @property
    def order(self) -> tuple[str, str]:
        """Sorts runs by when they started."""
        return ("".join(char for char in self.started_at if char.isdigit())[:17], self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    run: Run | None
    skipped: tuple[Skipped, ...] = ()


def read_run_folder(folder: Path, locators: Locators, *, expected: bool) -> _Read:
    """A run folder. `expected` says that the folder is a run's, even where nothing was stored in it yet."""
    if os.path.lexists(folder / SUMMARY):
        read = read_summary(folder / SUMMARY, locators)
        if read.run is not None or not any(item.kind == "unreadable" for item in read.skipped):
            return read
        if not os.path.lexists(folder):  # deleted at this moment
            return _Read(run=None)
        rest = _read_results(folder, locators, expected=False)
        return _Read(run=rest.run, skipped=read.skipped + rest.skipped)
    return _read_results(folder, locators, expected=expected)


def read_summary(path: Path, locators: Locators) -> _Read:
    """A `summary.json`; what is another version's or not ours comes back as skipped."""
    folder = path.parent
    shown = f"{folder.name}/{path.name}"
    try:
        summary = decode_summary(read_file(path, shown))
    except ResultsError as error:
        return _unreadable(shown, error.fields["problem"])
    except (ValueError, RecursionError) as error:
        return _unreadable(shown, error)
    if not _is_ours(summary):
        return _Read(run=None, skipped=(Skipped(kind="not-ours", path=shown, problem="niceeval did not write it"),))
    if summary.schema_version != SCHEMA_VERSION:
        return _Read(run=None, skipped=(_incompatible(summary, folder),))
    return _from_summary(summary, folder, shown, locators)


def _is_ours(summary: SummaryRow) -> bool:
    if summary.format is None:
        return isinstance(summary.results, msgspec.Raw) and isinstance(summary.started_at, str)
    return bool(summary.format == FORMAT)


def _from_summary(summary: SummaryRow, folder: Path, shown: str, locators: Locators) -> _Read:
    results = summary.results if isinstance(summary.results, msgspec.Raw) else msgspec.Raw(b"[]")
    try:
        rows, problems = decode_rows(results)
    except (ValueError, RecursionError) as error:
        return _unreadable(shown, error)
    started = summary.started_at if isinstance(summary.started_at, str) else _time_of(folder.name)
    completed = summary.completed_at if isinstance(summary.completed_at, str) else None
    run = Run(
        name=folder.name,
        path=folder,
        complete=True,
        title=_title(summary.name),
        started_at=started,
        completed_at=completed,
        interrupted=summary.interrupted is True,
        resumable=isinstance(summary.not_stored, int) and summary.not_stored > 0,
        attempts=_attempts(rows, folder, locators),
    )
    return _Read(run=run, skipped=tuple(_skip(shown, problem) for problem in [*problems, *_escaping(rows)]))


def _escaping(rows: list[AttemptRow]) -> list[str]:
    return [
        f"artifactsDir of {row.id} leads out of the run folder"
        for row in rows
        if row.artifacts_dir and not is_inside(row.artifacts_dir)
    ]


def _attempts(rows: list[AttemptRow], folder: Path, locators: Locators) -> tuple[Attempt, ...]:
    return tuple(Attempt(row, folder.name, folder, locators) for row in rows)


def _title(name: Any) -> str | None:
    """The run's name; where it is a map of locales, the English one or else the first."""
    if isinstance(name, dict):
        name = name.get("en") or next((text for text in name.values() if isinstance(text, str)), None)
    return name if isinstance(name, str) else None


def _incompatible(summary: SummaryRow, folder: Path) -> Skipped:
    producer = _producer(summary.producer)
    tool = "uvx" if producer.runtime is not None else "npx"
    package = f"niceeval@{producer.version}" if _VERSION.fullmatch(producer.version) else "niceeval"
    return Skipped(
        kind="incompatible",
        path=folder.name,
        problem=f"schemaVersion {summary.schema_version} by niceeval {producer.version or '(unknown version)'}",
        schema=str(summary.schema_version),
        version=producer.version or "(unknown version)",
        command=f"{tool} {package} view {shlex.quote(str(folder))}",
    )


def _producer(value: Any) -> ProducerRow:
    try:
        return msgspec.convert(value, ProducerRow)
    except msgspec.ValidationError:
        return ProducerRow()


def _skip(path: str, problem: object) -> Skipped:
    return Skipped(kind="unreadable", path=path, problem=str(problem))


def _unreadable(path: str, problem: object) -> _Read:
    return _Read(run=None, skipped=(_skip(path, problem),))


def _read_results(folder: Path, locators: Locators, *, expected: bool) -> _Read:
    """An unfinished run, from the `result.json` files in it."""
    rows: list[AttemptRow] = []
    skipped: list[Skipped] = []

    def cannot_be_read(error: ResultsError) -> None:
        skipped.append(_skip(str(error.fields["path"]), error.fields["problem"]))

    for place in result_folders(folder, cannot_be_read):
        shown = f"{folder.name}/{place}/{RESULT}"
        try:
            row = decode_row(read_file(folder / place / RESULT, shown))
        except ResultsError as error:
            if os.path.lexists(folder / place / RESULT):
                cannot_be_read(error)
        except (ValueError, RecursionError) as error:
            skipped.append(_skip(shown, error))
        else:
            # Where it lies is known; what it says about that is not needed.
            rows.append(msgspec.structs.replace(row, artifacts_dir=place))
    if not os.path.lexists(folder):  # deleted at this moment
        return _Read(run=None)
    if not rows and not expected:
        return _Read(run=None, skipped=tuple(skipped))
    rows.sort(key=lambda row: (row.experiment_id or "", row.id, row.attempt))
    run = Run(
        name=folder.name,
        path=folder,
        complete=False,
        title=None,
        started_at=min((row.started_at for row in rows), default=_time_of(folder.name)),
        completed_at=None,
        interrupted=False,
        running=being_written(folder),
        resumable=True,
        attempts=_attempts(rows, folder, locators),
    )
    return _Read(run=run, skipped=tuple(skipped))


def _raised(error: ResultsError) -> None:
    raise error


def result_folders(folder: Path, cannot_be_read: Callable[[ResultsError], None] = _raised) -> Iterator[str]:
    """The folders below `folder` (relative, posix) that hold a `result.json`. Links are not followed.

    What is deleted meanwhile is left out; other folders that cannot be read are handed to `cannot_be_read`.
    """
    waiting = [""]
    while waiting:
        place = waiting.pop()
        try:
            with os.scandir(folder / place) as entries:
                found = list(entries)
        except OSError as error:
            if not (place and isinstance(error, FileNotFoundError)):
                cannot_be_read(unreadable(f"{folder.name}/{place}", error.strerror or error))
            continue
        if place and any(entry.name == RESULT and entry.is_file(follow_symlinks=False) for entry in found):
            yield place
            continue
        waiting += [
            f"{place}/{entry.name}" if place else entry.name
            for entry in found
            if not entry.name.startswith(HIDDEN) and entry.is_dir(follow_symlinks=False)
        ]


def _time_of(name: str) -> str:
    """A run folder's name as the time it stands for; the name itself where it stands for none."""
    found = re.match(r"(\d{4}-\d{2}-\d{2})T(\d{2})-(\d{2})-(\d{2})-(\d{3})Z", name)
    return f"{found[1]}T{found[2]}:{found[3]}:{found[4]}.{found[5]}Z" if found else name
