"""One attempt's files: written into a hidden folder that is renamed into place, so that it appears whole."""

from __future__ import annotations

import os
from collections.abc import Sequence

from niceeval._record import disk
from niceeval._record.layout import HIDDEN


class FolderWriter:
    """Makes attempt folders inside one run folder. Used by one thread.

    `unsynced` is the first error of a sync that `durable` asked for and that came too late to take anything back: what
    it was for is in place.
    """

    def __init__(self, run_folder: str, *, durable: bool) -> None:
        self.run_folder = run_folder
        self.unsynced: OSError | None = None
        self._durable = durable
        self._known: set[str] = set()

    def write(self, folder: str, files: Sequence[tuple[str, bytes]], links: Sequence[str] = ()) -> None:
        """Make `folder` (relative, posix) with these files and hard links, or nothing at all. Raises OSError.

        `links` are paths of files that never change any more; where links are not possible they are copied.
        """
        parent, _, name = folder.rpartition("/")
        try:
            self._write(parent, name, files, links)
        except FileNotFoundError:
            # Somebody removed folders that were made before; make them again, once.
            self._known.clear()
            disk.make_folders(self.run_folder)
            self._write(parent, name, files, links)

    def _write(self, parent: str, name: str, files: Sequence[tuple[str, bytes]], links: Sequence[str]) -> None:
        self._ensure(parent)
        base = f"{self.run_folder}/{parent}" if parent else self.run_folder
        hidden = f"{base}/{HIDDEN}{name}"
        _make_hidden(hidden)
        try:
            for file, data in files:
                disk.write_file(f"{hidden}/{file}", data, durable=self._durable)
            for path in links:
                self._link(path, f"{hidden}/{os.path.basename(path)}")
            if self._durable:
                disk.sync_folder(hidden)
            disk.rename(hidden, f"{base}/{name}")
        except BaseException:
            disk.remove_tree(hidden, ignore_errors=True)
            raise
        if self._durable:
            self._sync_entries(base)

    def _link(self, source: str, target: str) -> None:
        try:
            disk.link(source, target)
        except FileNotFoundError:
            raise
        except OSError:  # another file system, or one without links
            disk.copy_file(source, target)
        if self._durable:
            disk.sync_file(target)

    def _ensure(self, parent: str) -> None:
        """Make the parent folders, each once."""
        if not parent or parent in self._known:
            return
        above = parent.rpartition("/")[0]
        self._ensure(above)
        try:
            disk.make_folder(f"{self.run_folder}/{parent}")
        except FileExistsError:
            pass
        else:
            if self._durable:
                self._sync_entries(f"{self.run_folder}/{above}" if above else self.run_folder)
        self._known.add(parent)

    def _sync_entries(self, folder: str) -> None:
        try:
            disk.sync_folder(folder)
        except OSError as error:
            self.unsynced = self.unsynced or error


def _make_hidden(folder: str) -> None:
    try:
        disk.make_folder(folder)
    except FileExistsError:  # left by a write that failed, and could not be removed then
        disk.remove_tree(folder)
        disk.make_folder(folder)
