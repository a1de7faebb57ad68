"""Locks on files, held by a process and given back by the system when it ends, however it ends."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator

PATIENCE = 10.0
"""Seconds after which a lock that is only ever held for a moment counts as stuck (its holder was stopped, say)."""
_FIRST_WAIT, _LONGEST_WAIT = 0.0005, 0.02

if sys.platform == "win32":
    import msvcrt

    # Locks are mandatory there: the byte lies far behind the data, which others have to read.
    _BYTE = 0x3FFF_0000

    def _lock(descriptor: int) -> bool:
        os.lseek(descriptor, _BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, _BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

    _share = _lock

else:
    import fcntl

    def _lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _share(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextlib.contextmanager
def locked(descriptor: int, *, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the lock of an open file for the length of a block. Waits for it; raises TimeoutError after `patience`."""
    lock_for_good(descriptor, patience=patience)
    try:
        yield
    finally:
        _unlock(descriptor)


def lock_for_good(descriptor: int, *, patience: float = PATIENCE) -> None:
    """Take the lock of an open file for as long as it stays open. Waits as `locked` does."""
    until, wait = time.monotonic() + patience, _FIRST_WAIT
    while not _lock(descriptor):
        if time.monotonic() > until:
            raise TimeoutError("another process holds the lock and does not let it go")
        time.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT)


def is_locked(descriptor: int) -> bool:
    """Whether another holds the lock of an open file. Those who ask at the same time do not see each other."""
    if not _share(descriptor):
        return True
    _unlock(descriptor)
    return False


def try_lock(descriptor: int) -> bool:
    """Take the lock of an open file for as long as it stays open; False where another holds it."""
    return _lock(descriptor)
