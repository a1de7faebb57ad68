"""Claims: which attempts the invocations that are alive have taken, so that two of them never run the same one.

Every invocation appends to a file of its own in `.niceeval/.claims/` and reads what the others append: `+ key folder`
taken, to be stored in that folder of its run, `= key folder` stored there, `- key` given up. Taking is done under one
lock. An invocation holds a lock on its own file while it lives; when that lock is free, or its process is gone, what it
took and did not store is free again. What an invocation said that had ended before this one began does not count: its
results are history.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from niceeval._base.file_lock import is_locked, lock_for_good, locked
from niceeval._record import disk
from niceeval._record.layout import RESULT, is_inside

FOLDER = ".claims"
_LOCK = "lock"
_ENDING = ".claims"
_TRIES = 5
"""How often the lock is opened anew when somebody takes it away at the same moment."""


@dataclass(frozen=True, slots=True)
class Held:
    """Another invocation has taken the attempt and has not stored it yet."""

    run: str


@dataclass(frozen=True, slots=True)
class Stored:
    """Another invocation has stored the attempt: in `folder` of the run `run`."""

    run: str
    folder: str


@dataclass(slots=True)
class _Other:
    """What was read of another invocation's file."""

    path: Path
    run: str
    pid: int
    offset: int = 0
    rest: bytes = b""
    taken: dict[str, str] = field(default_factory=dict)
    stored: dict[str, str] = field(default_factory=dict)

    def read(self) -> None:
        """Take in what was appended since the last time."""
        try:
            if os.stat(self.path).st_size <= self.offset:
                return
            with open(self.path, "rb") as file:
                file.seek(self.offset)
                data = file.read()
        except FileNotFoundError:
            return
        self.offset += len(data)
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            self._apply(line.decode("utf-8", "replace"))

    def _apply(self, line: str) -> None:
        mark, _, said = line.partition(" ")
        key, _, folder = said.partition(" ")
        if mark == "+":
            self.taken[key] = folder
        elif mark == "=":
            self.taken.pop(key, None)
            self.stored[key] = folder
        elif mark == "-":
            self.taken.pop(key, None)

    def alive(self) -> bool:
        """Whether its process still runs and holds its file."""
        if not _process_exists(self.pid):
            return False
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            return is_locked(descriptor)
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        """Take its file away."""
        with contextlib.suppress(FileNotFoundError):
            disk.remove(str(self.path))


def live_runs(results_dir: Path) -> frozenset[str]:
    """The names of the runs of a results folder that are under way."""
    try:
        return frozenset(other.run for other in _all(results_dir / FOLDER) if other.alive())
    except OSError:
        return frozenset()


def forget_ended(results_dir: Path) -> None:
    """Take away what invocations have said that have ended, where nobody is left who may need it. Raises OSError."""
    folder = results_dir / FOLDER
    if not os.path.lexists(folder / _LOCK):
        return
    with _turn(folder) as lock:
        others = list(_all(folder))
        if not any(other.alive() for other in others):
            for other in others:
                other.remove()
            disk.remove(str(folder / _LOCK))
            with contextlib.suppress(OSError):  # something else lies in it
                disk.remove_folder(str(folder))
    os.close(lock)


@contextlib.contextmanager
def _turn(folder: Path) -> Iterator[int]:
    """Hold the lock of a claims folder, which is made where there is none; the descriptor stays open."""
    for _ in range(_TRIES):
        disk.make_folders(str(folder))
        try:
            descriptor = disk.open_to_append(str(folder / _LOCK))
        except FileNotFoundError:
            continue
        with locked(descriptor):
            # Whoever cleans up may have taken it away before it was ours.
            if _is_at(descriptor, folder / _LOCK):
                yield descriptor
                return
        os.close(descriptor)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder / _LOCK))


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _all(folder: Path) -> Iterator[_Other]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.name.endswith(_ENDING)]
    except FileNotFoundError:
        return
    for name in names:
        run, _, pid = name.removesuffix(_ENDING).rpartition(".")
        if run and pid.isdigit():
            yield _Other(folder / name, run, int(pid))


class Claims:
    """This invocation's claims. `open` before the first attempt, `close` at the end. Raises OSError throughout."""

    def __init__(self, results_dir: Path, run: str) -> None:
        self._folder = results_dir / FOLDER
        self._run = run
        self._own = self._folder / f"{run}.{os.getpid()}{_ENDING}"
        self._others: dict[str, _Other] = {}
        self._ended: set[str] = set()
        self._lock = -1
        self._file = -1

    def open(self) -> None:
        """Make the file that says this invocation is alive."""
        with _turn(self._folder) as self._lock:
            self._find_others()
            ended = {name for name, other in self._others.items() if not other.alive()}
            if len(ended) == len(self._others):
                # Nobody is left who could still need what they said.
                for other in self._others.values():
                    other.remove()
            for name in ended:
                del self._others[name]
            self._ended = ended
            self._file = disk.open_to_append(str(self._own))
            lock_for_good(self._file)

    def close(self) -> None:
        """Take the files away where nobody needs them; what was stored is found in the runs from now on."""
        if self._file != -1:
            self._remove_files()
        for descriptor in (self._file, self._lock):
            if descriptor != -1:
                os.close(descriptor)
        self._file = self._lock = -1

    def _remove_files(self) -> None:
        with contextlib.suppress(OSError), locked(self._lock):
            self._ended.clear()
            self._find_others()
            if not any(other.alive() for other in self._others.values()):
                for other in self._others.values():
                    other.remove()
                disk.remove(str(self._own))

    def take(self, key: str, folder: str, *, forced: bool = False) -> Held | Stored | None:
        """Take an attempt: None where it is ours now, else who has it. `forced` takes it whoever has it.

        `folder` is where it will be stored, relative to the run.
        """
        with locked(self._lock):
            found = None if forced else self._look(key)
            if found is None:
                self._say(f"+ {key} {folder}")
            return found

    def stored(self, key: str, folder: str) -> None:
        """The attempt is on disk, in `folder` of this run."""
        self._say(f"= {key} {folder}")

    def give_up(self, key: str) -> None:
        """The attempt was not finished and is free again."""
        self._say(f"- {key}")

    def refresh(self) -> None:
        """Take in what the others have said and done; `held` and `is_stored` answer from it."""
        self._find_others()
        for other in self._others.values():
            other.read()
            if other.taken and not other.alive():
                self._bury(other)

    def held(self, key: str) -> bool:
        """Whether, as far as `refresh` saw, another invocation is busy with the attempt."""
        return any(key in other.taken for other in self._others.values())

    def is_stored(self, key: str) -> bool:
        """Whether, as far as `refresh` saw, another invocation has stored the attempt."""
        return any(key in other.stored for other in self._others.values())

    def _look(self, key: str) -> Held | Stored | None:
        self._find_others()
        held: Held | None = None
        for other in self._others.values():
            other.read()
            if key in other.taken and not other.alive():
                self._bury(other)
            if key in other.stored:
                return Stored(other.run, other.stored[key])
            if key in other.taken:
                held = Held(other.run)
        return held

    def _bury(self, other: _Other) -> None:
        """What a dead one had taken is free, but for what it stored just before it ended, whether it said so or not."""
        other.read()
        run = self._folder.parent / other.run
        for key, folder in other.taken.items():
            if is_inside(folder) and (run / folder / RESULT).is_file():
                other.stored[key] = folder
        other.taken.clear()

    def _find_others(self) -> None:
        for other in _all(self._folder):
            name = other.path.name
            if name not in self._others and name not in self._ended and name != self._own.name:
                self._others[name] = other

    def _say(self, line: str) -> None:
        disk.write_all(self._file, f"{line}\n".encode())


def _process_exists(pid: int) -> bool:
    if os.name == "nt":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
