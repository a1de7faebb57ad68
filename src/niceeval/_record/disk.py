"""What the record does to the file system. Every change to a results folder is one of these operations.

They are always called through this module (`disk.rename(...)`), so that a test can put others in their places: ones
that count, that fail, or that end the process right there. All of them raise OSError.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Callable

OPERATIONS = (
    "make_folder",
    "create",
    "open_to_append",
    "write",
    "sync",
    "close",
    "rename",
    "replace",
    "link",
    "remove",
    "remove_folder",
    "remove_tree",
    "sync_file_system",
)
"""Names of the functions here that change something; the others are made of them."""

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)

# The system's own functions where nothing has to be added: a name of another module costs nothing.
make_folder = os.mkdir
write = os.write
sync = os.fsync
close = os.close
rename = os.rename
replace = os.replace
link = os.link
remove = os.unlink
remove_folder = os.rmdir
remove_tree = shutil.rmtree


def create(path: str) -> int:
    """Open a file that must not exist yet, for writing."""
    return os.open(path, _CREATE, 0o666)


def open_to_append(path: str) -> int:
    """Open a file, made where there is none; every write goes to its end, and it can be read and locked too."""
    return os.open(path, _APPEND, 0o666)


def _syncfs() -> Callable[[int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    return function if callable(function) else None


_SYNCFS = _syncfs()
_NOT_OFFERED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)
"""What some file systems and containers answer to a kind of sync that they do not have."""


def sync_file_system(descriptor: int) -> None:
    """Sync the file system that holds an open file or folder; all of them where the platform knows no narrower call.

    Windows has neither; there only files that are synced one by one are.
    """
    if _SYNCFS is not None:
        if _SYNCFS(descriptor) == 0:
            return
        number = ctypes.get_errno()
        if number not in _NOT_OFFERED:
            raise OSError(number, os.strerror(number))
    if hasattr(os, "sync"):
        os.sync()


def write_all(descriptor: int, data: bytes | bytearray) -> None:
    """Write all of it, also where the system takes it in parts."""
    view = memoryview(data)
    while view:
        view = view[write(descriptor, view) :]


def write_file(path: str, data: bytes, *, durable: bool) -> None:
    """Write a file that must not exist yet; `durable` syncs it."""
    descriptor = create(path)
    try:
        write_all(descriptor, data)
        if durable:
            sync(descriptor)
    finally:
        close(descriptor)


def copy_file(source: str, target: str) -> None:
    """Write what `source` holds to a file that must not exist yet."""
    with open(source, "rb") as file:
        descriptor = create(target)
        try:
            while data := file.read(1 << 20):
                write_all(descriptor, data)
        finally:
            close(descriptor)


def sync_file(path: str) -> None:
    """Sync a file that is complete."""
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: str) -> None:
    """Sync a folder's own entries; nothing where folders cannot be opened, or have no sync of their own."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_OFFERED:
            raise
    finally:
        os.close(descriptor)


def make_folders(path: str) -> None:
    """Make a folder and those above it, where they are missing."""
    try:
        make_folder(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    except FileNotFoundError:
        above = os.path.dirname(path)
        if above in ("", path):
            raise
        make_folders(above)
        with contextlib.suppress(FileExistsError):
            make_folder(path)
