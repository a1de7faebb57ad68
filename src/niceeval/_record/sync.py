"""Getting what was written onto the medium, in groups: once a second at most, off the writer's thread."""

from __future__ import annotations

import threading

from niceeval._record import disk

INTERVAL = 1.0
"""Seconds between two group syncs."""


class GroupSync:
    """Syncs the file system of an open folder about once a second while there is something new.

    A descriptor of -1 stands for a folder that cannot be opened; nothing is synced then.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._failed: OSError | None = None
        self._dirty = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="niceeval-sync", daemon=True)
        self._thread.start()

    def touched(self) -> None:
        """Something was written."""
        if not self._dirty.is_set():
            self._dirty.set()

    def close(self) -> None:
        """Stop, after a last sync. Raises OSError where that, or one before it, failed."""
        self._stop.set()
        self._dirty.set()
        self._thread.join()
        self._sync()
        if self._failed is not None:
            raise self._failed

    def _loop(self) -> None:
        while True:
            self._dirty.wait()
            if self._stop.wait(INTERVAL):
                return
            self._dirty.clear()
            self._sync()

    def _sync(self) -> None:
        # The system says once that something was lost, and the next sync succeeds: the first error is kept.
        try:
            if self._descriptor != -1:
                disk.sync_file_system(self._descriptor)
        except OSError as error:
            self._failed = self._failed or error
