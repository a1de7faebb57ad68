"""Locks on files, held by a process and given back by the system when it ends, however it ends."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int, wait: bool) -> bool:
        os.lseek(descriptor, 0, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int, wait: bool) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextlib.contextmanager
def locked(descriptor: int) -> Iterator[None]:
    """Hold the lock of an open file for the length of a block; waits for it."""
    _lock(descriptor, wait=True)
    try:
        yield
    finally:
        _unlock(descriptor)


def try_lock(descriptor: int) -> bool:
    """Take the lock of an open file for as long as it stays open; False where another holds it."""
    return _lock(descriptor, wait=False)
