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
from typing import Any

Job = tuple[contextvars.Context, Callable[[], Any], "asyncio.Future[Any]"]


class DaemonThreads:
    """Runs plain functions off the loop, at most `limit` at a time, abandoned ones not counted; more wait."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[Job] = deque()
        self._lock = threading.Lock()
        self._available = threading.Condition(self._lock)
        self._idle = 0
        self._threads = 0

    def submit(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Start `function` with a copy of the current context; its outcome arrives on the running loop."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.append((contextvars.copy_context(), function, future))
            if self._idle >= len(self._waiting):
                self._available.notify()
            elif self._threads < self._limit:
                self._threads += 1
                threading.Thread(target=self._work, name="niceeval-guest", daemon=True).start()
        return future

    def abandon(self) -> None:
        """One running function will not be waited for any longer: its thread no longer counts against the limit."""
        with self._lock:
            self._limit += 1

    def _work(self) -> None:
        while True:
            with self._lock:
                while not self._waiting:
                    self._idle += 1
                    self._available.wait()
                    self._idle -= 1
                context, function, future = self._waiting.popleft()
            _run_job(context, function, future)
            del context, function, future


def _run_job(context: contextvars.Context, function: Callable[[], Any], future: asyncio.Future[Any]) -> None:
    loop = future.get_loop()
    try:
        value = context.run(function)
    except BaseException as error:  # the thread belongs to a guest: whatever it raises is its outcome
        _deliver(loop, future, error=error)
    else:
        _deliver(loop, future, value=value)


def _deliver(
    loop: asyncio.AbstractEventLoop,
    future: asyncio.Future[Any],
    *,
    value: Any = None,
    error: BaseException | None = None,
) -> None:
    def settle() -> None:
        if future.done():
            return
        if error is None:
            future.set_result((value, None))
        else:
            future.set_result((None, error))

    if not loop.is_closed():
        loop.call_soon_threadsafe(settle)
