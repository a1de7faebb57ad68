"""One reporter's way of being told: a thread and a queue of its own, and an end that nobody has to wait for."""

from __future__ import annotations

import asyncio
import inspect
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from types import FrameType
from typing import Any

import msgspec

from niceeval._base.errors import NiceevalError
from niceeval._base.forks import leave_copy, own_pid
from niceeval._base.plain_text import clean_text, type_name
from niceeval._model.result import AttemptResult
from niceeval._model.run_events import (
    EarlyExit,
    EvalComplete,
    EvalStart,
    LiveEvent,
    Progress,
    RunFinished,
    RunNotice,
    RunSaved,
    RunStart,
)
from niceeval._record.encode import Redact, encode, record_without_secrets
from niceeval._reporters.protocol import Reporter

PROGRESS_KEPT = 100
"""Events waiting for a reporter beyond which it is told no progress."""

_FRAMES = 3
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_ASYNCIO = os.path.dirname(asyncio.__file__) + os.sep


class Lane:
    """Calls one reporter, one event after another, on a daemon thread that begins with the first event.

    `evals` narrows what it is told to those evals (and to the frame of the run around them). A reporter that raises is
    left out from then on, and `say` is told so once; `failure` is what it raised. A result's texts pass `redact` first,
    where there is one.
    """

    def __init__(
        self,
        reporter: Reporter,
        *,
        redact: Redact | None,
        say: Callable[[RunNotice], None],
        evals: frozenset[str] | None = None,
    ) -> None:
        self.name = type_name(reporter)
        self._reporter = reporter
        self._redact = redact
        self._say = say
        self._evals = evals
        self._wants_progress = bool(getattr(reporter, "wants_progress", False))
        self._queue: queue.SimpleQueue[LiveEvent | None] = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._runner: asyncio.Runner | None = None
        self._left_out = False
        self._over = threading.Event()
        self._busy_since: float | None = None
        self._pid = own_pid()
        self.failure: BaseException | None = None

    @property
    def wants_progress(self) -> bool:
        """Whether its reporter asked for progress."""
        return self._wants_progress

    @property
    def backlog(self) -> int:
        """Events that wait."""
        return self._queue.qsize()

    @property
    def over(self) -> bool:
        """Whether nothing more will be done here: it came to its end, or was abandoned."""
        return self._over.is_set()

    def put(self, event: LiveEvent) -> None:
        """Hand an event on, where it concerns this reporter. Never waits."""
        if self._left_out or not self._concerns(event):
            return
        if isinstance(event, Progress) and self.backlog > PROGRESS_KEPT:
            return
        self._queue.put(event)
        if self._thread is None:
            self._start()

    def finish(self) -> None:
        """No event will come after those that wait."""
        self._queue.put(None)
        if self._thread is None:
            self._start()

    def wait(self, seconds: float | None) -> bool:
        """Wait for the end; whether it came."""
        return self._over.wait(seconds)

    def held_for(self, now: float) -> float:
        """Seconds that the reporter has been at one event (by `time.monotonic`)."""
        since = self._busy_since
        return 0.0 if since is None or self.over else now - since

    def abandon(self) -> None:
        """Do not wait for it any longer, and say so: what its thread still does has no effect."""
        held = self.held_for(time.monotonic())
        at_one = f" and has been at one event for {held:.0f}s{self._where()}" if held >= 1 else ""
        message = f"reporter {self.name} did not come to an end{at_one}; it was left behind"
        self._left_out = True
        self.failure = TimeoutError("it did not come to an end")
        self._over.set()
        self._say(RunNotice(code="reporter-stuck", level="error", message=message))

    def _concerns(self, event: LiveEvent) -> bool:
        if isinstance(event, Progress) and not self._wants_progress:
            return False
        if self._evals is None:
            return True
        match event:
            case EvalStart() | EvalComplete() | Progress():
                return event.key.eval_id in self._evals
            case EarlyExit():
                return event.eval_id in self._evals
            case RunStart() | RunSaved() | RunFinished():
                return True
            case _:
                return False

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._work, name=f"niceeval-reporter-{self.name}", daemon=True)
                self._thread = thread
                thread.start()

    def _work(self) -> None:
        while (event := self._queue.get()) is not None:
            if not self._left_out:
                self._call(self._reporter.handle, _without_secrets(event, self._redact))
        if not self._over.is_set():
            self._end()
            self._over.set()

    def _end(self) -> None:
        close = getattr(self._reporter, "close", None)
        if callable(close):
            self._call(close)
        if self._runner is not None:
            self._call(self._runner.close)

    def _call(self, function: Callable[..., Awaitable[None] | None], *args: Any) -> None:
        self._busy_since = time.monotonic()
        try:
            outcome = function(*args)
            if inspect.isawaitable(outcome):
                self._loop().run(_awaited(outcome))
            leave_copy(self._pid)
        except BaseException as error:  # noqa: BLE001 - the thread is a guest's: a SystemExit ends nothing but itself
            leave_copy(self._pid, error)
            self._raised(error)
        finally:
            self._busy_since = None

    def _loop(self) -> asyncio.Runner:
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner

    def _raised(self, error: BaseException) -> None:
        if self._left_out:
            return
        self._left_out = True
        self.failure = error
        if isinstance(error, NiceevalError):
            # One of ours, or said in our way: it names what to mend, and no line of code would help with that.
            self._say(RunNotice(code=error.code, level="error", message=f"reporter {self.name}: {error.message()}"))
            return
        text, _ = clean_text(f"{type_name(error)}: {_text_of(error)}", 300)
        where = _places(reversed(traceback.extract_tb(error.__traceback__)))
        message = f"reporter {self.name} raised {text}{where}; it is told nothing more"
        self._say(RunNotice(code="reporter-failed", level="error", message=message))

    def _where(self) -> str:
        """Where its thread is now."""
        ident = None if self._thread is None else self._thread.ident
        frame: FrameType | None = None if ident is None else sys._current_frames().get(ident)
        return "" if frame is None else _places(reversed(traceback.extract_stack(frame)))


async def _awaited(outcome: Awaitable[None]) -> None:
    await outcome


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - a guest's __str__ may raise anything; the text says so
        return f"(its text raises {type_name(broken)})"


def _places(frames: Iterable[traceback.FrameSummary]) -> str:
    """` at a.py:3, called from b.py:8`: the innermost of the guest's own frames, or of any where it has none."""
    every = list(frames)
    own = [frame for frame in every if not _is_foreign(frame.filename)] or every
    said = [f"{frame.filename}:{frame.lineno}" for frame in own[:_FRAMES]]
    return f" at {', called from '.join(said)}" if said else ""


def _is_foreign(file: str) -> bool:
    return file.startswith((_PACKAGE, _ASYNCIO, "<"))


def _without_secrets(event: LiveEvent, redact: Redact | None) -> LiveEvent:
    if redact is None or not isinstance(event, EvalComplete):
        return event
    data = encode(event.result)
    clean = record_without_secrets(data, redact)
    if clean is data:
        return event
    return replace(event, result=msgspec.json.decode(clean, type=AttemptResult))
