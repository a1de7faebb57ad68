"""The record's operations on the file system, counted, refused, or the last ones of their process.

As a script: `failing_disk.py HOW NUMBER COMMAND...` runs `niceeval COMMAND...` and kills the process at an operation;
with HOW `audit` it says which changes to a results folder the interpreter saw, and which did not come from them.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

from niceeval._cli.main import entry
from niceeval._record import disk, sync

How: TypeAlias = Literal["before", "after", "torn"]
"""Where in an operation the process ends; `torn` is a write of which half was done."""


class Operation(NamedTuple):
    """What was done, and to which kind of file."""

    name: str
    kind: str


Act: TypeAlias = Callable[[int, Operation, Callable[[], Any], tuple[Any, ...]], Any]
"""Given number (from 0), operation, the real call and its arguments: does it, or something else."""


class FailingDisk:
    """Stands in for the operations of `disk`; every call goes to `act`."""

    def __init__(self, act: Act) -> None:
        self.seen: list[Operation] = []
        self.inside = threading.local()
        self._act = act
        self._lock = threading.Lock()
        self._real = {name: getattr(disk, name) for name in disk.OPERATIONS}

    def install(self) -> None:
        """Take the operations' places. No group sync comes in between: it would follow the clock."""
        sync.INTERVAL = 1000.0
        for name, real in self._real.items():
            setattr(disk, name, self._stand_in(name, real))

    def uninstall(self) -> None:
        """Give the operations their places back."""
        sync.INTERVAL = 1.0
        for name, real in self._real.items():
            setattr(disk, name, real)

    def _stand_in(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def stand_in(*given: Any, **options: Any) -> Any:
            operation = Operation(name, kind_of(name, given[0]))
            with self._lock:
                number = len(self.seen)
                self.seen.append(operation)
            self.inside.operation = True
            try:
                return self._act(number, operation, lambda: real(*given, **options), given)
            except OSError:
                if not options.get("ignore_errors"):
                    raise
            finally:
                self.inside.operation = False

        return stand_in


def kind_of(name: str, target: str | int) -> str:
    """What an operation is done to: the name of a file of ours, or what the folder is for."""
    path = os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else str(target)
    folder, _, base = path.rpartition("/")
    if base.endswith(".json") or base == "lock":
        return base
    if base.endswith(".claims"):
        return "claims folder" if base == ".claims" else "claims"
    if base == ".niceeval":
        return "results folder"
    if folder.endswith(".niceeval"):
        return "run folder"
    return "attempt folder" if re.fullmatch(r"(\.tmp-)?a\d+", base) else "parent folder"


@contextmanager
def failing(act: Act) -> Iterator[FailingDisk]:
    """Let `act` have every operation of this process."""
    failing_disk = FailingDisk(act)
    failing_disk.install()
    try:
        yield failing_disk
    finally:
        failing_disk.uninstall()


def just_done(number: int, operation: Operation, real: Callable[[], Any], given: tuple[Any, ...]) -> Any:
    """Every operation does what it is meant to."""
    return real()


def refusing(is_refused: Callable[[int], bool], code: int = errno.ENOSPC) -> Act:
    """Operations for which `is_refused(number)` fail: a write when half of it is done."""

    def act(number: int, operation: Operation, real: Callable[[], Any], given: tuple[Any, ...]) -> Any:
        if not is_refused(number):
            return real()
        if operation.name == "write":
            os.write(given[0], given[1][: len(given[1]) // 2])
        if operation.name == "close":
            real()
        raise OSError(code, os.strerror(code))

    return act


def killing(how: How, wanted: int) -> Act:
    """The process ends at one operation."""

    def act(number: int, operation: Operation, real: Callable[[], Any], given: tuple[Any, ...]) -> Any:
        if number != wanted:
            return real()
        if how == "after":
            real()
        if how == "torn" and operation.name == "write":
            os.write(given[0], given[1][: len(given[1]) // 2])
        _kill()

    return act


def _kill() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nothing survives this")


_CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class Audit:
    """What the interpreter itself reports of changes below `.niceeval`."""

    def __init__(self, failing_disk: FailingDisk) -> None:
        self.inside = 0
        self.outside: list[str] = []
        self._disk = failing_disk

    def hook(self, event: str, given: tuple[Any, ...]) -> None:
        """An audit hook."""
        changes = event in _CHANGES or (event == "open" and isinstance(given[2], int) and given[2] & _WRITING)
        if not changes:
            return
        if getattr(self._disk.inside, "operation", False):
            self.inside += 1
        elif ".niceeval" in str(given[0]):
            self.outside.append(f"outside {event} {given[0]}")


def _main(how: str, number: int, command: list[str]) -> int:
    if how != "audit":
        FailingDisk(killing(how, number)).install()  # type: ignore[arg-type]
        return entry(command)
    failing_disk = FailingDisk(just_done)
    failing_disk.install()
    audit = Audit(failing_disk)
    sys.addaudithook(audit.hook)
    code = entry(command)
    print(f"inside {audit.inside}", *audit.outside, sep="\n", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
