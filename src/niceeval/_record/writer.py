"""Writing a run: one thread owns the disk, an attempt appears whole, `summary.json` comes last."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import msgspec

from niceeval._base.errors import ResultsError
from niceeval._base.forks import leave_copy, own_pid
from niceeval._model.diff import StoredDiff
from niceeval._model.judgement import StoredJudgement
from niceeval._model.o11y import O11ySummary
from niceeval._model.result import AttemptResult, LogLine, RunSummary, SourceFile
from niceeval._record import disk, layout
from niceeval._record.artifacts import unreadable
from niceeval._record.attempt_files import FolderWriter
from niceeval._record.encode import (
    INDEX_FROM_BYTES,
    Redact,
    encode,
    events_index,
    record_without_secrets,
    without_secrets,
)
from niceeval._record.layout import FolderKey
from niceeval._record.liveness import hold, let_go
from niceeval._record.summary import write_summary
from niceeval._record.sync import GroupSync

QUEUE_LIMIT = 1024
"""Sealed attempts waiting for the disk; beyond it `submit` waits too, so that memory stays bounded."""

AttemptName: TypeAlias = tuple[str, str, str, str | None, int]
"""Experiment id, eval id, agent, model, attempt (from 0): what an attempt's folder is named after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedAttempt:
    """An attempt that will not change any more. `index` is its place in discovery order; `events` is a JSON array."""

    index: int
    result: AttemptResult
    events: bytes | None = None
    sources: tuple[SourceFile, ...] = ()
    o11y: O11ySummary | None = None
    logs: tuple[LogLine, ...] = ()
    diff: StoredDiff | None = None
    judgements: tuple[StoredJudgement, ...] = ()


def cannot_write(path: str, error: OSError) -> ResultsError:
    """The error of a write that the system refused."""
    return ResultsError("cannot-write", path=path, problem=error.strerror or type(error).__name__)


class RunWriter:
    """Writes one run under `results_dir` (usually `.niceeval` of the project `root`).

    Order of use: `begin`, `reserve`, then `submit` as attempts are sealed, then `finish` (or `close` where no
    summary is to be written). Text passes `redact` on its way to the disk. `durable` syncs each attempt before it
    counts as stored; otherwise the file system is synced about once a second and at the end.
    """

    def __init__(self, results_dir: Path, *, root: Path, redact: Redact, durable: bool = False) -> None:
        self._results_dir = results_dir
        self._root = root
        self._redact = redact
        self._durable = durable
        self._name = ""
        self._folders: dict[FolderKey, str] = {}
        self._stored: list[tuple[int, str]] = []
        self._queue: queue.Queue[Callable[[], None] | None] = queue.Queue(QUEUE_LIMIT)
        self._thread: threading.Thread | None = None
        self._sync: GroupSync | None = None
        self._held = -1
        self._files = FolderWriter("", durable=durable)
        self._pid = own_pid()

    @property
    def name(self) -> str:
        """The run folder's name; empty before `begin`."""
        return self._name

    @property
    def results_dir(self) -> Path:
        """The folder that holds all runs."""
        return self._results_dir

    @property
    def output_dir(self) -> str:
        """The run folder as people and `summary.json` name it: relative to the project's root where it lies there."""
        folder = self._results_dir / self._name
        return folder.relative_to(self._root).as_posix() if folder.is_relative_to(self._root) else folder.as_posix()

    def begin(self) -> None:
        """Make the run folder and start the writer thread. Raises ResultsError (`cannot-write`)."""
        try:
            disk.make_folders(str(self._results_dir))
            self._name = self._make_folder(layout.run_name(datetime.now(UTC)))
            if self._durable:
                disk.sync_folder(str(self._results_dir))
                disk.sync_folder(str(self._results_dir.parent))
        except OSError as error:
            self._release()
            raise cannot_write(str(self._results_dir), error) from error
        self._files = FolderWriter(str(self._results_dir / self._name), durable=self._durable)
        self._sync = GroupSync(self._held)
        self._thread = threading.Thread(target=self._loop, name="niceeval-writer", daemon=True)
        self._thread.start()

    def _make_folder(self, wanted: str) -> str:
        """Make a folder that nobody has, and hold it: nobody deletes it from now on."""
        name, number = wanted, 1
        while True:
            with contextlib.suppress(FileExistsError):
                disk.make_folder(str(self._results_dir / name))
                with contextlib.suppress(FileNotFoundError):  # somebody cleans up at this moment
                    self._held = hold(str(self._results_dir / name))
                    return name
            number += 1
            name = f"{wanted}-{number}"

    def reserve(self, keys: Sequence[AttemptName]) -> None:
        """Decide the folder of every attempt of the run, before the first one is written."""
        self._folders = layout.attempt_folders([FolderKey(*key) for key in keys])

    def artifacts_dir(self, key: AttemptName) -> str:
        """An attempt's folder, relative to the run folder. Raises KeyError for a key that was not reserved."""
        return self._folders[FolderKey(*key)]

    def submit(self, sealed: SealedAttempt) -> Future[None]:
        """Hand an attempt to the writer thread.

        The future is done when the attempt is visible on disk whole; it fails with ResultsError (`cannot-write`)
        where the system refuses, and the run can go on. Waits while `QUEUE_LIMIT` attempts are queued.
        """
        leave_copy(self._pid)
        future: Future[None] = Future()
        folder = sealed.result.artifacts_dir
        self._queue.put(lambda: self._settled(future, folder, lambda: self._write(sealed)))
        return future

    def carry(self, index: int, result: AttemptResult, source: Path) -> Future[None]:
        """Store an attempt of an earlier run again: its `result` as given, its artifacts linked from folder `source`.

        The future is as for `submit`.
        """
        leave_copy(self._pid)
        future: Future[None] = Future()
        self._queue.put(lambda: self._settled(future, result.artifacts_dir, lambda: self._carry(index, result, source)))
        return future

    def finish(self, summary: RunSummary) -> None:
        """Wait for what was submitted, sync, write `summary.json` (results in discovery order), and close.

        Blocks; raises ResultsError (`cannot-write`). Without a summary the run reads as incomplete.
        """
        try:
            self._settle()
            self._write_summary(summary)
        finally:
            self._release()

    def close(self) -> None:
        """Write what was submitted, sync and stop the threads; may be called more than once."""
        try:
            self._settle()
        finally:
            self._release()

    def _settle(self) -> None:
        """Everything that was submitted is on the medium when this returns."""
        leave_copy(self._pid)
        self._stop_thread()
        sync, self._sync = self._sync, None
        if sync is None:
            return
        try:
            sync.close()
            if self._files.unsynced is not None:
                raise self._files.unsynced
        except OSError as error:
            raise cannot_write(self.output_dir, error) from error

    def _write_summary(self, summary: RunSummary) -> None:
        try:
            write_summary(self._files.run_folder, summary, self._in_discovery_order(), self._redact)
        except OSError as error:
            raise cannot_write(f"{self.output_dir}/{layout.SUMMARY}", error) from error

    def _release(self) -> None:
        held, self._held = self._held, -1
        let_go(held)

    def _stop_thread(self) -> None:
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _in_discovery_order(self) -> Iterable[str]:
        return [folder for _, folder in sorted(self._stored)]

    def _loop(self) -> None:
        while (work := self._queue.get()) is not None:
            work()

    def _settled(self, future: Future[None], folder: str, work: Callable[[], None]) -> None:
        """Runs on the writer thread. Whatever goes wrong belongs to the future; the thread goes on."""
        try:
            work()
        except OSError as error:
            future.set_exception(cannot_write(f"{self.output_dir}/{folder}", error))
        except Exception as error:  # noqa: BLE001 - handed to whoever waits for the future
            future.set_exception(error)
        else:
            future.set_result(None)

    def _write(self, sealed: SealedAttempt) -> None:
        folder = sealed.result.artifacts_dir
        self._files.write(folder, self._encoded(sealed))
        self._is_stored(sealed.index, folder)

    def _carry(self, index: int, result: AttemptResult, source: Path) -> None:
        links = _artifacts_in(source)
        missing = _named_by_flags(result) - links.keys()
        if missing:
            raise unreadable(f"{source.name}/{min(missing)}", f"is missing in {source}")
        stored = record_without_secrets(encode(_flagged(result, set(links))), self._redact)
        self._files.write(result.artifacts_dir, [(layout.RESULT, stored)], list(links.values()))
        self._is_stored(index, result.artifacts_dir)

    def _is_stored(self, index: int, folder: str) -> None:
        self._stored.append((index, folder))
        if self._sync is not None:
            self._sync.touched()

    def _encoded(self, sealed: SealedAttempt) -> list[tuple[str, bytes]]:
        """The attempt's files; one without data is left out."""
        files: list[tuple[str, bytes]] = []
        if sealed.events is not None and sealed.events != b"[]":
            files += self._event_files(without_secrets(sealed.events, self._redact))
        if sealed.sources:
            files.append((layout.SOURCES, without_secrets(encode(sealed.sources), self._redact)))
        if sealed.o11y is not None:
            files.append((layout.O11Y, without_secrets(encode(sealed.o11y), self._redact)))
        if sealed.logs:
            files.append((layout.LOGS, without_secrets(encode(sealed.logs), self._redact)))
        if sealed.diff is not None:
            files.append((layout.DIFF, without_secrets(encode(sealed.diff), self._redact)))
        if sealed.judgements:
            files.append((layout.JUDGEMENTS, without_secrets(encode(sealed.judgements), self._redact)))
        written = {name for name, _ in files}
        result = record_without_secrets(encode(_flagged(sealed.result, written)), self._redact)
        files.append((layout.RESULT, result))
        return files

    @staticmethod
    def _event_files(events: bytes) -> list[tuple[str, bytes]]:
        if len(events) <= INDEX_FROM_BYTES:
            return [(layout.EVENTS, events)]
        compact, index = events_index(events)
        return [(layout.EVENTS, compact), (layout.EVENTS_INDEX, index)]


def _artifacts_in(folder: Path) -> dict[str, str]:
    """The files beside a stored result: name -> path. Raises ResultsError (`unreadable`)."""
    try:
        with os.scandir(folder) as entries:
            return {
                entry.name: entry.path
                for entry in entries
                if entry.name in layout.ARTIFACTS and entry.is_file(follow_symlinks=False)
            }
    except OSError as error:
        raise unreadable(str(folder), error.strerror or error) from error


def _named_by_flags(result: AttemptResult) -> set[str]:
    """The files that a result says lie beside it."""
    flags = {
        layout.EVENTS: result.has_events,
        layout.SOURCES: result.has_sources,
        layout.O11Y: result.has_o11y,
        layout.LOGS: result.has_logs,
        layout.DIFF: result.has_diff,
        layout.JUDGEMENTS: result.has_judgements,
    }
    return {name for name, has in flags.items() if has}


def _flagged(result: AttemptResult, written: set[str]) -> AttemptResult:
    """The result with `has...` flags that say what lies beside it."""
    if _named_by_flags(result) == written & (layout.ARTIFACTS - {layout.EVENTS_INDEX}):
        return result
    return msgspec.structs.replace(
        result,
        has_events=layout.EVENTS in written,
        has_sources=layout.SOURCES in written,
        has_o11y=layout.O11Y in written,
        has_logs=layout.LOGS in written,
        has_diff=layout.DIFF in written,
        has_judgements=layout.JUDGEMENTS in written,
    )
