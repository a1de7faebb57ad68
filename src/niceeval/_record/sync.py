"""Getting what was written onto the medium, in groups: once a second at most, off the writer's thread."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable

INTERVAL = 1.0
"""Seconds between two group syncs."""


def _syncfs() -> Callable[[int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    return function if callable(function) else None


_SYNCFS = _syncfs()


def sync_file_system(folder: str) -> None:
    """Sync the file system that holds `folder` (all of them where the platform knows no narrower call).

    Windows has neither; there only `durable` writes are synced.
    """
    if _SYNCFS is None:
        if hasattr(os, "sync"):
            os.sync()
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _SYNCFS(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: str) -> None:
    """Sync a folder's own entries; nothing on platforms that cannot open folders."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class GroupSync:
    """Syncs a folder's file system about once a second while there is something new."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._dirty = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="niceeval-sync", daemon=True)
        self._thread.start()

    def touched(self) -> None:
        """Something was written."""
        if not self._dirty.is_set():
            self._dirty.set()

    def close(self) -> None:
        """Stop, after a last sync when something is not synced yet. Raises OSError where that fails."""
        self._stop.set()
        self._dirty.set()
        self._thread.join()
        sync_file_system(self._folder)

    def _loop(self) -> None:
        while True:
            self._dirty.wait()
            if self._stop.wait(INTERVAL):
                return
            self._dirty.clear()
            try:
                sync_file_system(self._folder)
            except OSError:
                # The folder is gone or unreadable: the next write reports it, and close() syncs once more and raises.
                self._dirty.set()
