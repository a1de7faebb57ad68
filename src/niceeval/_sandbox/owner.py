"""Whose a sandbox is: which process, of which machine, so that a later one can tell whether that process is gone.

A process id says nothing by itself: ids are given again, and two containers that share an engine have the same ones.
The host is therefore a digest of what tells one process table from another, and the process is told by when it started.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
from dataclasses import dataclass

_PARTS = 3
_START_FIELD = 19
"""Where `/proc/PID/stat` says when a process started, counted after the name in brackets."""


@dataclass(frozen=True, slots=True)
class Owner:
    """`host` is 16 hexadecimal digits; `started` is the kernel's own count, empty where it does not say."""

    host: str
    pid: int
    started: str

    def __str__(self) -> str:
        return f"{self.host}.{self.pid}.{self.started}"

    @property
    def is_gone(self) -> bool:
        """Whether it is certain that the process has ended: it was on this host, and is there no more."""
        if self.host != host_id():
            return False
        if not _is_running(self.pid):
            return True
        now = _started(self.pid)
        return bool(self.started and now) and now != self.started

    @property
    def is_living(self) -> bool:
        """Whether it is certain that it still runs."""
        return self.host == host_id() and not self.is_gone


def this_owner() -> Owner:
    """The process that asks."""
    pid = os.getpid()
    return Owner(host_id(), pid, _started(pid))


def parse_owner(text: str) -> Owner | None:
    """An owner as it stands in a label; None for what is none."""
    parts = text.split(".")
    if len(parts) != _PARTS or not parts[1].isdecimal() or len(parts[1]) > 10:
        return None
    return Owner(parts[0], int(parts[1]), parts[2])


@functools.cache
def host_id() -> str:
    """What tells this machine's process table from every other, since it was started."""
    said = [platform.node(), _text("/etc/machine-id"), _text("/proc/sys/kernel/random/boot_id"), _namespace()]
    return hashlib.sha256("\0".join(said).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(200).strip()
    except OSError:
        return ""


def _is_running(pid: int) -> bool:
    if pid <= 0:
        return False
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        # One that is dead and not waited for by its parent has a number still, and runs nothing.
        return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        # It is there, and another user's.
        return True
    return True


def _started(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[_START_FIELD].decode("ascii", "replace")
    except (OSError, IndexError):
        return ""
