"""A watch over the event loop: who blocked it, where, and a way out of a block that would never end.

One thread posts a beat to the loop several times a second. While a beat does not come back somebody's code holds the
loop; the thread then samples the main thread's stack and charges the time to the guest that runs. A guest that blocks
beyond its own deadline is interrupted by a signal whose handler raises in the guest's frame (where the platform has
`pthread_kill`); time that others blocked is excused from everybody's limit.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from asyncio.events import Handle
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType

from niceeval._base.callsite import is_ours

INTERVAL = 0.25
"""Seconds between two beats, and between two looks at a loop that is blocked."""
THRESHOLD = 1.0
"""Seconds from which a block is reported, and a guest past its deadline is interrupted."""
LAG = 0.05
"""Seconds a beat may be late before they are excused."""
RAISE_EVERY = 0.02
"""Seconds between two attempts to catch a guest in its own code."""
GIVE_UP = 10.0
"""Seconds of interrupting in vain after which the loop counts as lost."""


class LoopBlocked(BaseException):
    """Raised in a guest's frame that has blocked the event loop beyond its limit."""


@dataclass(slots=True)
class Block:
    """The time one guest (None where unknown) held the loop without a break: where, and for how many seconds."""

    label: str | None
    where: str
    seconds: float


@dataclass(slots=True, eq=False)
class Guest:
    """A guest call as the watch knows it. `deadline` is monotonic; `excused_before` was excused before it began."""

    label: str
    deadline: float | None
    excused_before: float


_CURRENT: ContextVar[Guest | None] = ContextVar("niceeval_guest", default=None)
"""The guest whose code runs: what it starts (tasks, callbacks, threads) inherits it."""


def current_label() -> str | None:
    """The label of the guest whose code runs here; None for our own."""
    guest = _CURRENT.get()
    return None if guest is None else guest.label


class LoopWatch:
    """Watches the running loop from a daemon thread between `start` and `stop`."""

    def __init__(self, on_block: Callable[[Block], None], on_stuck: Callable[[Block], None]) -> None:
        self._on_block = on_block
        self._on_stuck = on_stuck
        self._blocked: dict[str | None, float] = {}
        self._stop = threading.Event()
        self._beat_sent = 0.0
        self._beat_due = False
        self._looked = 0.0
        self._seen: dict[str | None, Block] = {}
        self._last: Block | None = None
        self._raising_since: float | None = None
        self._raised_at = 0.0
        self._hurry = False
        self._main = threading.main_thread().ident or 0
        self._signal = getattr(signal, "SIGUSR2", None)

    def start(self) -> None:
        """Begin to watch the running loop. Must be called on the main thread for interruption to work."""
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        self._can_raise = self._signal is not None and self._watched == self._main
        if self._can_raise:
            self._previous = signal.signal(self._signal, self._raise_in_guest)  # type: ignore[arg-type]
        self._thread = threading.Thread(target=self._watch, name="niceeval-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the watch and put the signal handler back."""
        self._stop.set()
        # No signal may be on its way once the handler is gone: without one it would end the process.
        self._thread.join()
        if self._can_raise:
            signal.signal(self._signal, self._previous)  # type: ignore[arg-type]

    def entered(self, label: str, deadline: float | None) -> Guest:
        """The current task is a guest's from here on; it must be over at `deadline` (monotonic)."""
        guest = Guest(label, deadline, self.blocked_by_others(label))
        _CURRENT.set(guest)
        return guest

    def closing(self, guest: Guest, until: float) -> None:
        """A guest was cancelled; it must be over at `until`, whatever was excused before."""
        guest.deadline, guest.excused_before = until, self.blocked_by_others(guest.label)

    def blocked_by_others(self, label: str) -> float:
        """Seconds in which the loop was blocked by anybody but `label`'s guests, so far."""
        return sum(seconds for who, seconds in self._blocked.items() if who != label) if self._blocked else 0.0

    def hurry(self) -> None:
        """From here on no guest may hold the loop, whatever its deadline: the run is being interrupted."""
        self._hurry = True

    # On the loop ------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        self._beat_due = False
        self._raising_since = None
        seen, self._seen, last, self._last = self._seen, {}, self._last, None
        now = time.monotonic()
        if last is None:
            # Too short to have been looked at: whoever it was, it is excused from everybody's limit.
            if now - self._beat_sent > LAG:
                self._charge_limits(None, now - self._beat_sent)
            return
        last.seconds += now - self._looked
        for block in seen.values():
            # The beat was sent up to an interval after the block had begun.
            self._charge_limits(block.label, block.seconds + INTERVAL)
            if block.seconds > THRESHOLD:
                self._on_block(block)

    def _charge_limits(self, label: str | None, seconds: float) -> None:
        self._blocked[label] = self._blocked.get(label, 0.0) + seconds

    # On the watching thread -------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._stop.wait(self._pause()):
            if self._beat_due:
                self._look()
                continue
            self._beat_sent = self._looked = time.monotonic()
            self._beat_due = True
            try:
                self._loop.call_soon_threadsafe(self._beat)
            except RuntimeError:  # the loop is closed: nothing left to watch
                return

    def _pause(self) -> float:
        raising = self._raising_since is not None and time.monotonic() - self._raised_at > INTERVAL
        return RAISE_EVERY if raising else INTERVAL

    def _look(self) -> None:
        stack = list(_step_frames(sys._current_frames().get(self._watched)))
        guest = _guest_of(stack)
        now = time.monotonic()
        block = self._charge(guest, stack, now - self._looked)
        self._looked = now
        if guest is None or block.seconds < (INTERVAL if self._hurry else THRESHOLD) or not self._overdue(guest, now):
            return
        if self._raising_since is None:
            self._raising_since = now
        elif now - self._raising_since > GIVE_UP:
            self._on_stuck(block)
        if self._can_raise and not self._stop.is_set():
            signal.pthread_kill(self._main, self._signal)  # type: ignore[arg-type]

    def _charge(self, guest: Guest | None, stack: list[FrameType], seconds: float) -> Block:
        label = guest.label if guest else None
        block = self._seen.get(label)
        if block is None:
            block = self._seen[label] = Block(label, _where(stack), 0.0)
        block.seconds += seconds
        self._last = block
        return block

    def _overdue(self, guest: Guest, now: float) -> bool:
        if self._hurry:
            return True
        if guest.deadline is None:
            return False
        return now > guest.deadline + self.blocked_by_others(guest.label) - guest.excused_before

    # In the signal handler --------------------------------------------------------------------------------------

    def _raise_in_guest(self, signum: int, frame: FrameType | None) -> None:
        # Between the look and this handler the block may have ended by itself, or our own code may have the loop.
        since, now = self._raising_since, time.monotonic()
        if since is None or not self._beat_due or now - self._raised_at < INTERVAL:
            return
        frames = list(_step_frames(frame))
        if _guest_of(frames) is not None and _is_in_guest(frames, anywhere=now - since > THRESHOLD):
            self._raised_at = now
            raise LoopBlocked("the event loop was blocked beyond the attempt's timeout")


_STDLIB = os.path.dirname(os.__file__) + os.sep
_STEP = Handle._run.__code__


def _step_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """The frames of the loop's present step, innermost first; the last one is asyncio's own. None between steps."""
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        if frame.f_code is _STEP:
            yield from frames
            return
        frame = frame.f_back


def _guest_of(stack: list[FrameType]) -> Guest | None:
    # A step that is just ending has no handle any more.
    handle = stack[-1].f_locals.get("self") if stack else None
    guest: Guest | None = None if handle is None else handle._context.get(_CURRENT)
    return guest


def _is_in_guest(stack: list[FrameType], *, anywhere: bool) -> bool:
    """Whether the guest's own code runs, or, with `anywhere`, something it has called, ours included."""
    for frame in stack:
        file = frame.f_code.co_filename
        if is_ours(file):
            if not anywhere:
                return False
        elif not _is_library(file):
            return True
    return False


def _where(stack: list[FrameType]) -> str:
    chosen = next((frame for frame in stack if _is_project_code(frame.f_code.co_filename)), None)
    chosen = chosen or next(iter(stack), None)
    if chosen is None:
        return "unknown"
    return f"{chosen.f_code.co_filename}:{chosen.f_lineno} in {chosen.f_code.co_name}"


def _is_project_code(filename: str) -> bool:
    return not (is_ours(filename) or _is_library(filename) or "site-packages" in filename)


def _is_library(filename: str) -> bool:
    return filename.startswith((_STDLIB, "<"))
