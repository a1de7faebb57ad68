"""What a sandbox's commands left running, found by a variable that all of them have: for when no supervisor answers.

A supervisor finds its tree by parents, and finds all of it. Where one was itself killed, as by a command that kills its
own parent, or by the kernel for memory, this is what remains.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator

MARKER = "NICEEVAL_SANDBOX"
"""The variable that every command has: the sandbox's id, a dot, and the command's number."""
ROUNDS = 200
"""How often it is looked again: one may start another while it is being killed."""


def kill_marked(prefix: str) -> None:
    """Kill every process whose marker begins with `prefix`, until there is none."""
    for _ in range(ROUNDS):
        found = [pid for pid in _marked(f"{MARKER}={prefix}") if pid != os.getpid()]
        if not found:
            return
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
        time.sleep(0.01)


def _marked(text: str) -> Iterator[int]:
    if not os.path.isdir("/proc/self"):
        yield from _marked_by_ps(text)
        return
    for name in os.listdir("/proc"):
        if name.isdigit():
            # One that has ended meanwhile, or is somebody else's, cannot be read; one that has ended has no variables.
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if any(part.startswith(text.encode()) for part in file.read().split(b"\0")):
                    yield int(name)


def _marked_by_ps(text: str) -> Iterator[int]:
    listing = subprocess.run(["ps", "-axEww", "-o", "pid=,command="], capture_output=True, check=False).stdout
    for line in listing.decode("utf-8", "replace").splitlines():
        pid, _, rest = line.strip().partition(" ")
        if pid.isdigit() and f" {text}" in rest:
            yield int(pid)
