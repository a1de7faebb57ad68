"""Daemon threads for guests that are plain functions: reused, limited, and never waited for at exit.

The default executor's threads are shared with everybody, few, and joined when the interpreter leaves: a guest that
never returns would hold the process.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from niceeval._base.forks import leave_copy, own_pid


@dataclass(slots=True, eq=False)
class Job:
    """One function handed to the threads. `future` gives (value, None) or (None, error) on the loop it came from."""

    function: Callable[[], Any]
    context: contextvars.Context
    future: asyncio.Future[tuple[Any, BaseException | None]]
    state: Literal["waiting", "running", "over", "given up"] = "waiting"


class DaemonThreads:
    """Runs plain functions off the loop, at most `limit` at a time, those that were given up not counted."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._idle = 0
        self._threads = 0
        self._closed = False

    def submit(self, function: Callable[[], Any]) -> Job:
        """Start `function` with a copy of the current context, or queue it; its outcome arrives on the running loop."""
        job = Job(function, contextvars.copy_context(), asyncio.get_running_loop().create_future())
        with self._changed:
            self._waiting.append(job)
            if self._idle >= len(self._waiting):
                self._changed.notify()
            else:
                self._start()
        return job

    def give_up(self, job: Job) -> bool:
        """Nobody waits for this job any longer. Returns whether it runs still.

        One that has not begun never will; one that runs keeps its thread to itself, and another may start in its
        place.
        """
        with self._changed:
            if job.state == "waiting":
                self._waiting.remove(job)
            runs = job.state == "running"
            job.state = "given up"
            if runs:
                self._threads -= 1
                if self._waiting:
                    self._start()
            return runs

    def close(self) -> None:
        """Let the threads end that have nothing to do."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _start(self) -> None:
        if self._threads < self._limit:
            threading.Thread(target=self._work, name="niceeval-guest", daemon=True).start()
            self._threads += 1

    def _work(self) -> None:
        while (job := self._next()) is not None:
            outcome = _outcome_of(job)
            # It is over before anybody can hear of its outcome, and ask whether it runs still.
            with self._changed:
                given_up = job.state == "given up"
                if not given_up:
                    job.state = "over"
            _deliver(job, outcome)
            if given_up:
                return
            del job, outcome

    def _next(self) -> Job | None:
        with self._changed:
            while not self._waiting:
                if self._closed:
                    return None
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            job = self._waiting.popleft()
            job.state = "running"
            return job


def _outcome_of(job: Job) -> tuple[Any, BaseException | None]:
    pid = own_pid()
    try:
        outcome: tuple[Any, BaseException | None] = (job.context.run(job.function), None)
    except BaseException as error:
        outcome = (None, error)
    leave_copy(pid, outcome[1])
    return outcome


def _deliver(job: Job, outcome: tuple[Any, BaseException | None]) -> None:
    def deliver() -> None:
        if not job.future.done():
            job.future.set_result(outcome)

    try:
        job.future.get_loop().call_soon_threadsafe(deliver)
    except RuntimeError:
        # The loop is closed: the run has ended without this guest.
        return
