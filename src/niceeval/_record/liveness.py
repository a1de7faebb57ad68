"""Which run folders are being written: their writers hold a lock on them, wherever they are moved meanwhile.

The lock is on the folder itself, so it needs no room on the disk, and a copy of the folder does not have it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from niceeval._base.file_lock import is_locked, lock_for_good
from niceeval._record.claims import live_runs

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_held: set[int] = set()


def hold(folder: str) -> int:
    """Open a run folder and lock it until `let_go`; -1 where folders cannot be opened (Windows).

    Raises FileNotFoundError where it is gone by then, and other OSErrors. On file systems without locks it is open, and
    only the claims say that it is being written.
    """
    if os.name == "nt":
        return -1
    descriptor = os.open(folder, _FOLDER)
    try:
        with contextlib.suppress(TimeoutError, OSError):
            lock_for_good(descriptor)
        if not os.path.samestat(os.fstat(descriptor), os.stat(folder)):
            raise FileNotFoundError(folder)
    except OSError:
        os.close(descriptor)
        raise
    _held.add(descriptor)
    return descriptor


def let_go(descriptor: int) -> None:
    """Close what `hold` has opened."""
    if descriptor in _held:
        _held.discard(descriptor)
        os.close(descriptor)


def being_written(folder: Path) -> bool:
    """Whether the writer of a run folder lives."""
    return _is_held(folder) or folder.name in live_runs(folder.parent)


def _is_held(folder: Path) -> bool:
    if os.name == "nt":
        return False
    try:
        descriptor = os.open(folder, _FOLDER)
    except OSError:
        return False
    try:
        return is_locked(descriptor)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _let_go_in_child() -> None:
    # A process that a guest has forked may outlive this one; it writes nothing, and must not seem to.
    while _held:
        with contextlib.suppress(OSError):
            os.close(_held.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)
