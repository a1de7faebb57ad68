"""The way out of the process where a guest may hold on to it: its threads, its exit handlers, the event loop."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from niceeval._base.clock import utc_text

LAST_WAIT = 2.0
"""Seconds that what is left of guests has at the very end, before the process leaves without it."""


_LEFT: list[object] = []
_process_is_ours = False
_began = ""


def own_the_process() -> None:
    """This process exists for one command: it may be ended. Without it, nothing here ends a program that embeds us."""
    global _began, _process_is_ours
    _began, _process_is_ours = utc_text(), True


def process_began() -> str | None:
    """About when this process began, as UTC text; None for one that does not exist for one command."""
    return _began if _process_is_ours else None


def hold(tasks: Iterable[object]) -> None:
    """Keep what guests will not let go of: taking it apart would run their code once more."""
    _LEFT.extend(tasks)


def release() -> None:
    """Nothing is held any more."""
    _LEFT.clear()


def leave(code: int) -> NoReturn:
    """End the process with this code, also where a guest's thread would hold it for ever."""
    # The code is decided, and what is left takes moments: an impatient Ctrl-C must not turn it into another one.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if _LEFT:
        leave_at_once(code, wait=LAST_WAIT)
    _leave_in(LAST_WAIT, code)
    sys.exit(code)


def leave_at_once(code: int, *, wait: float = 0.2) -> NoReturn:
    """End the process now. What is buffered is written where that takes less than `wait` seconds."""
    _leave_in(wait, code)
    flush()
    os._exit(code)


@contextmanager
def no_longer_than(seconds: float, code: int) -> Iterator[None]:
    """The process leaves with this code where the body takes longer; a process that is not ours waits."""
    done = _leave_in(seconds, code) if _process_is_ours else threading.Event()
    try:
        yield
    finally:
        done.set()


def flush() -> None:
    """Write what the standard streams hold."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, RuntimeError):
            # A closed pipe: nobody is left to read. Or a signal handler on top of a write to the same stream.
            continue


def _leave_in(seconds: float, code: int) -> threading.Event:
    # A daemon thread goes on while the interpreter waits for the others: it is the one that can still say "enough".
    done = threading.Event()

    def wait() -> None:
        if done.wait(seconds):
            return
        threading.Thread(target=flush, name="niceeval-flush", daemon=True).start()
        time.sleep(0.1)
        os._exit(code)

    threading.Thread(target=wait, name="niceeval-exit", daemon=True).start()
    return done
