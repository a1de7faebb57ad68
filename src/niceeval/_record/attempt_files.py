"""One attempt's files: written into a hidden folder that is renamed into place, so that it appears whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from niceeval._record.layout import HIDDEN
from niceeval._record.sync import sync_folder

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def write_new_file(path: str, data: bytes, *, durable: bool) -> None:
    """Write a file that must not exist yet. Raises OSError."""
    descriptor = os.open(path, _FLAGS, 0o666)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)


class FolderWriter:
    """Makes attempt folders inside one run folder. Used by one thread."""

    def __init__(self, run_folder: str, *, durable: bool) -> None:
        self.run_folder = run_folder
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
            self._write(parent, name, files, links)

    def _write(self, parent: str, name: str, files: Sequence[tuple[str, bytes]], links: Sequence[str]) -> None:
        self._ensure(parent)
        base = f"{self.run_folder}/{parent}" if parent else self.run_folder
        hidden = f"{base}/{HIDDEN}{name}"
        os.mkdir(hidden)
        try:
            for file, data in files:
                write_new_file(f"{hidden}/{file}", data, durable=self._durable)
            for path in links:
                _link(path, f"{hidden}/{os.path.basename(path)}")
            if self._durable:
                sync_folder(hidden)
            os.rename(hidden, f"{base}/{name}")
        except OSError:
            shutil.rmtree(hidden, ignore_errors=True)
            raise
        if self._durable:
            sync_folder(base)

    def _ensure(self, parent: str) -> None:
        """Make the parent folders, each once."""
        if not parent or parent in self._known:
            return
        above = parent.rpartition("/")[0]
        self._ensure(above)
        try:
            os.mkdir(f"{self.run_folder}/{parent}")
        except FileExistsError:
            pass
        else:
            if self._durable:
                sync_folder(f"{self.run_folder}/{above}" if above else self.run_folder)
        self._known.add(parent)
