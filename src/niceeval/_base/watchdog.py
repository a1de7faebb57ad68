"""A watch over the event loop: who blocked it, where, and a way out of a block that would never end.

One thread posts a beat to the loop several times a second. A beat that does not come back means that somebody's code
holds the loop; the thread then reads the main thread's stack and names the guest and the line. A guest that blocks
beyond its own limit is interrupted by a signal whose handler raises in the guest's frame (where the platform has
`pthread_kill`); time that others blocked is excused from everybody's limit.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

from niceeval._base.callsite import is_ours

INTERVAL = 0.25
"""Seconds between two beats."""
THRESHOLD = 1.0
"""Seconds without a beat from which the loop counts as blocked."""


class LoopBlocked(BaseException):
    """Raised in a guest's frame that has blocked the event loop beyond its limit."""


@dataclass(slots=True)
class Block:
    """One time the loop was blocked: by whose guest (None where unknown), where, and for how many seconds."""

    label: str | None
    where: str
    seconds: float


@dataclass(slots=True)
class _Guest:
    label: str
    deadline: float | None


class LoopWatch:
    """Watches the running loop from a daemon thread between `start` and `stop`."""

    def __init__(self, on_block: Callable[[Block], None], on_stuck: Callable[[Block], None]) -> None:
        self._on_block = on_block
        self._on_stuck = on_stuck
        self._guests: dict[asyncio.Task[Any], _Guest] = {}
        self._blocked: dict[str | None, float] = {}
        self._stop = threading.Event()
        self._beat_sent = 0.0
        self._beat_due = False
        self._seen: Block | None = None
        self._interrupting = False
        self._main = threading.main_thread().ident or 0
        self._signal = getattr(signal, "SIGUSR2", None)

    def start(self) -> None:
        """Begin to watch the running loop. Must be called on the main thread for interruption to work."""
        self._loop = asyncio.get_running_loop()
        self._on_main = threading.current_thread() is threading.main_thread()
        if self._signal is not None and self._on_main:
            self._previous = signal.signal(self._signal, self._raise_in_guest)
        self._thread = threading.Thread(target=self._watch, name="niceeval-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the watch and put the signal handler back."""
        self._stop.set()
        self._thread.join(timeout=2 * INTERVAL)
        if self._signal is not None and self._on_main:
            signal.signal(self._signal, self._previous)

    def entered(self, task: asyncio.Task[Any], label: str, deadline: float | None) -> None:
        """A guest's task begins; it must be over at `deadline` (monotonic)."""
        self._guests[task] = _Guest(label, deadline)

    def left(self, task: asyncio.Task[Any]) -> None:
        """A guest's task is no longer waited for."""
        self._guests.pop(task, None)

    def blocked_by_others(self, label: str) -> float:
        """Seconds in which the loop was blocked by anybody but `label`'s guests, so far."""
        return sum(seconds for who, seconds in self._blocked.items() if who != label) if self._blocked else 0.0

    def is_stuck(self) -> bool:
        """Whether the loop has been blocked for longer than the threshold right now."""
        return self._beat_due and time.monotonic() - self._beat_sent > THRESHOLD

    def interrupt(self) -> None:
        """Raise in the frame that blocks the loop; for a signal handler that runs on the main thread."""
        raise LoopBlocked("interrupted while it blocked the event loop")

    def _beat(self) -> None:
        self._beat_due = False
        block, self._seen = self._seen, None
        self._interrupting = False
        if block is not None:
            block.seconds = time.monotonic() - self._beat_sent
            self._blocked[block.label] = self._blocked.get(block.label, 0.0) + block.seconds
            self._on_block(block)

    def _watch(self) -> None:
        while not self._stop.wait(INTERVAL):
            if not self._beat_due:
                self._beat_sent = time.monotonic()
                self._beat_due = True
                try:
                    self._loop.call_soon_threadsafe(self._beat)
                except RuntimeError:  # the loop is closed: nothing left to watch
                    return
            elif (silent := time.monotonic() - self._beat_sent) > THRESHOLD:
                self._look(silent)

    def _look(self, silent: float) -> None:
        guest = self._current_guest()
        if self._seen is None:
            self._seen = Block(guest.label if guest else None, self._where(), silent)
        deadline = (
            guest.deadline
            if guest
            else max((g.deadline for g in list(self._guests.values()) if g.deadline is not None), default=None)
        )
        if deadline is None or time.monotonic() < deadline:
            return
        if time.monotonic() > deadline + 10 * THRESHOLD:
            self._seen.seconds = silent
            self._on_stuck(self._seen)
        elif self._signal is not None and self._on_main:
            self._interrupting = True
            signal.pthread_kill(self._main, self._signal)

    def _current_guest(self) -> _Guest | None:
        task = asyncio.current_task(self._loop)
        return None if task is None else self._guests.get(task)

    def _where(self) -> str:
        frame: FrameType | None = sys._current_frames().get(self._main)
        if frame is None:
            return "unknown"
        innermost = frame
        while frame is not None and not _is_project_code(frame.f_code.co_filename):
            frame = frame.f_back
        chosen = frame or innermost
        return f"{chosen.f_code.co_filename}:{chosen.f_lineno} in {chosen.f_code.co_name}"

    def _raise_in_guest(self, signum: int, frame: FrameType | None) -> None:
        # Between the watchdog's look and this handler the block may have ended by itself.
        if self._interrupting and self._beat_due and frame is not None and _has_guest_frame(frame):
            self._interrupting = False
            raise LoopBlocked("the event loop was blocked beyond the attempt's timeout")


_STDLIB = sys.base_prefix


def _is_project_code(filename: str) -> bool:
    return not (is_ours(filename) or filename.startswith((_STDLIB, "<")) or "site-packages" in filename)


def _has_guest_frame(frame: FrameType | None) -> bool:
    while frame is not None:
        if not is_ours(frame.f_code.co_filename) and not frame.f_code.co_filename.startswith((_STDLIB, "<")):
            return True
        frame = frame.f_back
    return False
