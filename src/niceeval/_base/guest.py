"""The guest boundary: the only place that calls other people's code.

Adapters, eval functions, hooks and reporters are guests. Each call runs as its own asyncio task with a limit; when the
limit passes, the task is cancelled and given a grace period, and a guest that still runs is abandoned: a reference is
kept, nobody waits for it, and what it does later has no effect. Plain functions run on daemon threads; what decides
between the two is the result, not the signature.

Neither a task group nor `asyncio.timeout` can do this: both wait for ever for a guest that swallows cancellation.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from niceeval._base.threads import DaemonThreads
from niceeval._base.watchdog import LoopWatch

GRACE = 5.0
"""Seconds a cancelled guest has to come to an end before it is abandoned."""

_SETTLE = 0.25
"""Seconds an outer call waits beyond the grace, so that an inner one is abandoned, and named, first."""


class GuestTimeout(Exception):
    """A guest was still running when its limit passed. `abandoned` says that it ignored the cancellation as well."""

    def __init__(self, name: str, limit: float, abandoned: bool) -> None:
        super().__init__(f"{name} ran longer than {limit:g}s")
        self.name = name
        self.limit = limit
        self.abandoned = abandoned


class GuestCancelledItself(Exception):
    """A guest ended with CancelledError although nobody had cancelled it."""


@dataclass(slots=True)
class _Raised:
    error: BaseException


@dataclass(slots=True)
class GuestHost:
    """What all guests of a run share. `abandoned` keeps the tasks that nobody waits for any more."""

    threads: DaemonThreads
    watch: LoopWatch | None = None
    grace: float = GRACE
    abandoned: set[asyncio.Task[Any]] = field(default_factory=set)


class GuestScope:
    """The guest calls that belong together (an attempt's, an experiment's hooks): one label, one end when closing."""

    __slots__ = ("_close_by", "_deadline", "abandoned", "host", "label")

    def __init__(self, host: GuestHost, label: str) -> None:
        self.host = host
        self.label = label
        self.abandoned: list[str] = []
        self._close_by: float | None = None
        self._deadline: float | None = None

    async def call(
        self,
        name: str,
        limit: float | None,
        function: Callable[..., Any],
        *args: Any,
        on_cancel: Callable[[], None] | None = None,
    ) -> Any:
        """Run one guest call and return what it returns; what it raises is raised here.

        Raises GuestTimeout when `limit` seconds pass first, GuestCancelledItself when the guest ends itself with
        CancelledError. A cancellation of the caller is forwarded to the guest, which has the grace period to end;
        `on_cancel` is told first, since a thread cannot see it otherwise.
        """
        task = asyncio.ensure_future(self._shell(function, args))
        task.set_name(self.label)
        watch = self.host.watch
        if limit is not None:
            self._deadline = time.monotonic() + limit
        if watch is not None:
            # A nested call without a limit of its own lives under the outer one's.
            watch.entered(task, self.label, self._deadline)
        try:
            await self._wait(task, limit)
        except asyncio.CancelledError:
            if on_cancel is not None:
                on_cancel()
            await self._end(task, name)
            raise
        finally:
            if watch is not None:
                watch.left(task)
        if not task.done():
            # Everything of this scope that is still running, nested calls included, ends by one common instant.
            self._close_by = time.monotonic() + self.host.grace
            if on_cancel is not None:
                on_cancel()
            ended = await self._end(task, name, extra=_SETTLE)
            raise GuestTimeout(name, limit or 0.0, abandoned=not ended)
        return _outcome(task)

    async def _wait(self, task: asyncio.Task[Any], limit: float | None) -> None:
        if limit is None:
            await asyncio.wait({task})
            return
        watch = self.host.watch
        started = time.monotonic()
        excused_before = watch.blocked_by_others(self.label) if watch else 0.0
        while not task.done():
            excused = (watch.blocked_by_others(self.label) - excused_before) if watch else 0.0
            left = limit + excused - (time.monotonic() - started)
            if left <= 0:
                return
            await asyncio.wait({task}, timeout=left)

    async def _end(self, task: asyncio.Task[Any], name: str, extra: float = 0.0) -> bool:
        """Cancel, wait for the grace period, abandon. True where the guest ended."""
        if task.done():
            return True
        task.cancel()
        until = (self._close_by or time.monotonic() + self.host.grace) + extra
        interrupted = False
        while not task.done() and (left := until - time.monotonic()) > 0:
            try:
                await asyncio.wait({task}, timeout=left)
            except asyncio.CancelledError:  # a second cancellation must not cut the grace period short
                interrupted = True
        if not task.done():
            self._abandon(task, name)
        if interrupted:
            raise asyncio.CancelledError
        return task.done()

    def _abandon(self, task: asyncio.Task[Any], name: str) -> None:
        self.abandoned.append(name)
        self.host.abandoned.add(task)
        task.add_done_callback(self.host.abandoned.discard)

    async def _shell(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        try:
            if _returns_coroutine(function):
                return await function(*args)
            value = await self._in_thread(function, args)
            return await value if inspect.isawaitable(value) else value
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # SystemExit and KeyboardInterrupt would leave through the event loop
            return _Raised(error)

    async def _in_thread(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        future = self.host.threads.submit(lambda: function(*args))
        try:
            value, error = await asyncio.shield(future)
        except asyncio.CancelledError:
            # A thread cannot be cancelled; it was told through `ctx.cancelled` and has the grace period to notice.
            left = (self._close_by or time.monotonic() + self.host.grace) - time.monotonic()
            done, _ = await asyncio.wait({future}, timeout=max(left, 0.0))
            if not done:
                self.host.threads.abandon()
                self.abandoned.append("thread")
            raise
        if error is not None:
            raise error
        return value


def _returns_coroutine(function: Callable[..., Any]) -> bool:
    call = type(function).__call__ if not inspect.isfunction(function) else None
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _outcome(task: asyncio.Task[Any]) -> Any:
    if task.cancelled():
        raise GuestCancelledItself("the guest ended with CancelledError, but nobody had cancelled it")
    result = task.result()
    if isinstance(result, _Raised):
        raise result.error
    return result


async def settle(value: Awaitable[Any] | Any) -> Any:
    """The value itself, or what it comes to when awaited."""
    return await value if inspect.isawaitable(value) else value
