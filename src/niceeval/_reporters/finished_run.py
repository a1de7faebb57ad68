"""A run that is over, as the reports of it see it: its evals one at a time, read back from the disk."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TextIO

from niceeval._base.errors import ResultsError
from niceeval._model.result import AttemptResult, Verdict
from niceeval._model.run_events import EvalComplete, LiveEvent, RunFinished, RunSaved, RunStart
from niceeval._model.verdict import fold_attempts
from niceeval._record.stored import stored_results


@dataclass(frozen=True, slots=True)
class EvalAttempts:
    """One eval under one experiment, with the attempts that finished."""

    experiment_id: str
    eval_id: str
    results: tuple[AttemptResult, ...]

    @property
    def verdict(self) -> Verdict:
        """The fold of its attempts: any passed, else failed, errored, skipped."""
        return fold_attempts(result.outcome for result in self.results) or "skipped"

    @property
    def deciding(self) -> AttemptResult:
        """The first attempt that ended as the eval did."""
        return next(result for result in self.results if result.outcome == self.verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """Frame and end of a run. `saved` is None where its summary could not be written, or nothing was run."""

    start: RunStart
    finished: RunFinished
    saved: RunSaved | None
    told: frozenset[tuple[str, str]]

    def results(self) -> Iterator[AttemptResult]:
        """The attempts that the reporter was told of, in discovery order. Raises ResultsError (`unreadable`)."""
        if not self.start.folder:
            return
        for result in stored_results(self.start.folder):
            if (result.experiment_id or "", result.id) in self.told:
                yield result

    def evals(self) -> Iterator[EvalAttempts]:
        """The same, an eval at a time."""
        for (experiment_id, eval_id), results in groupby(self.results(), _pair_of):
            yield EvalAttempts(experiment_id, eval_id, tuple(results))


def _pair_of(result: AttemptResult) -> tuple[str, str]:
    return result.experiment_id or "", result.id


@dataclass(slots=True)
class RunFrame:
    """Folds a run's frame from its events: small, however many attempts there are."""

    start: RunStart | None = None
    saved: RunSaved | None = None
    told: set[tuple[str, str]] = field(default_factory=set)

    def apply(self, event: LiveEvent) -> FinishedRun | None:
        """Note an event; at the last one, what the run was."""
        match event:
            case RunStart():
                self.start, self.saved, self.told = event, None, set()
            case EvalComplete() if event.stored:
                self.told.add((event.key.experiment_id, event.key.eval_id))
            case RunSaved():
                self.saved = event
            case RunFinished() if self.start is not None:
                told = frozenset(self.told)
                return FinishedRun(start=self.start, finished=event, saved=self.saved, told=told)
            case _:
                pass
        return None


class FileReport(ABC):
    """A reporter that writes one file when the run is over.

    A relative `path` is taken from the project's root. The file of an earlier run is removed when a run starts, so
    that what is there is always the last run's; it appears whole.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._frame = RunFrame()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def handle(self, event: LiveEvent) -> None:
        """Take note; write the file at the end. Raises ResultsError (`cannot-write`, `unreadable`)."""
        run = self._frame.apply(event)
        if isinstance(event, RunStart):
            self.require_writable(event.root)
            self._target(event.root).unlink(missing_ok=True)
        if run is not None:
            with _whole_file(self._target(run.start.root)) as file:
                self.write(run, file)

    def require_writable(self, root: str) -> None:
        """Make the folder. Raises ResultsError (`cannot-write`) where no file can be written there."""
        target = self._target(root)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_dir():
                raise IsADirectoryError(21, "it is a folder")
            if not os.access(target.parent, os.W_OK):
                raise PermissionError(13, "its folder may not be written to")
        except OSError as error:
            raise _cannot_write(target, error) from error

    @abstractmethod
    def write(self, run: FinishedRun, file: TextIO) -> None:
        """Write the report."""

    def _target(self, root: str) -> Path:
        return Path(root) / self.path


@contextmanager
def _whole_file(target: Path) -> Iterator[TextIO]:
    """A file that takes its name when it is complete, and is gone where it does not come to that."""
    hidden = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with hidden.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            yield file
        os.replace(hidden, target)
    except OSError as error:
        raise _cannot_write(target, error) from error
    finally:
        hidden.unlink(missing_ok=True)


def _cannot_write(target: Path, error: OSError) -> ResultsError:
    return ResultsError("cannot-write", path=str(target), problem=error.strerror or type(error).__name__)
