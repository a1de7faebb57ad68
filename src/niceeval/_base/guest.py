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
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from niceeval._base.forks import leave_copy, own_pid
from niceeval._base.tasks import guest_task
from niceeval._base.threads import DaemonThreads
from niceeval._base.watchdog import Guest, LoopWatch

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
    """What all guests of a run share. `abandoned` keeps the tasks that nobody waits for any more.

    A guest that forks returns twice: in any process but `pid` its call ends the process.
    """

    threads: DaemonThreads
    watch: LoopWatch | None = None
    grace: float = GRACE
    abandoned: set[asyncio.Task[Any]] = field(default_factory=set)
    pid: int = field(default_factory=own_pid)


class GuestScope:
    """The guest calls that belong together (an attempt's, an experiment's hooks): one label, one end when closing."""

    __slots__ = ("_close_by", "_deadline", "_open", "abandoned", "host", "label")

    def __init__(self, host: GuestHost, label: str) -> None:
        self.host = host
        self.label = label
        self.abandoned: list[str] = []
        self._open = 0
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
        `on_cancel` is told first, since a thread cannot see it otherwise. Calls made inside this one end by the same
        instant as it does.
        """
        outermost = self._open == 0
        if outermost:
            self._close_by = self._deadline = None
        if limit is not None:
            self._deadline = time.monotonic() + limit
        call = _Call(self, name, function, args, self._deadline)
        call.task.set_name(self.label)
        self._open += 1
        try:
            await self._wait(call.task, limit)
            if call.task.done():
                return _outcome(call.task)
            ended = await self._close(call, on_cancel, outermost, extra=_SETTLE)
            raise GuestTimeout(name, limit or 0.0, abandoned=not ended)
        except asyncio.CancelledError:
            if not call.closing:
                await self._close(call, on_cancel, outermost)
            raise
        finally:
            self._open -= 1

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

    async def _close(
        self, call: _Call, on_cancel: Callable[[], None] | None, outermost: bool, extra: float = 0.0
    ) -> bool:
        """Cancel, wait for the grace period, abandon. True where the guest ended."""
        call.closing = True
        if call.task.done():
            return True
        if outermost:
            # Everything of this scope that is still running, nested calls included, ends by one common instant.
            self._close_by = time.monotonic() + self.host.grace
        if on_cancel is not None:
            on_cancel()
        until = self.closing_time() + extra
        if self.host.watch is not None and call.guest is not None:
            self.host.watch.closing(call.guest, until)
        call.task.cancel()
        cancelled_again = not await _ended(call.task, until)
        if not call.task.done():
            self._abandon(call)
        if cancelled_again:
            raise asyncio.CancelledError
        return call.task.done()

    def closing_time(self) -> float:
        """The instant (monotonic) by which a call that is cancelled now has to end."""
        return self._close_by or time.monotonic() + self.host.grace

    def _abandon(self, call: _Call) -> None:
        self.abandoned.append(call.name)
        self.host.abandoned.add(call.task)
        call.task.add_done_callback(self.host.abandoned.discard)


class _Call:
    """One guest call under way: its task, and what the watch knows of it."""

    __slots__ = ("closing", "guest", "name", "scope", "task")

    def __init__(
        self, scope: GuestScope, name: str, function: Callable[..., Any], args: tuple[Any, ...], deadline: float | None
    ) -> None:
        self.scope = scope
        self.name = name
        self.closing = False
        self.guest: Guest | None = None
        self.task = guest_task(self._run(function, args, deadline), scope.label)

    async def _run(self, function: Callable[..., Any], args: tuple[Any, ...], deadline: float | None) -> Any:
        watch = self.scope.host.watch
        if watch is not None:
            self.guest = watch.entered(self.scope.label, deadline)
        pid = self.scope.host.pid
        try:
            value = await self._value(function, args)
        except asyncio.CancelledError as error:
            leave_copy(pid, error)
            raise
        except BaseException as error:
            leave_copy(pid, error)
            return _Raised(error)
        leave_copy(pid)
        return value

    async def _value(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if _returns_coroutine(function):
            return await function(*args)
        value = await self._in_thread(function, args)
        return await value if inspect.isawaitable(value) else value

    async def _in_thread(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        threads = self.scope.host.threads
        job = threads.submit(lambda: function(*args))
        try:
            value, error = await asyncio.shield(job.future)
        except asyncio.CancelledError:
            # A thread cannot be cancelled; it was told through `ctx.cancelled` and has the grace period to notice.
            if job.state == "running":
                await _ended(job.future, self.scope.closing_time())
            if threads.give_up(job):
                self.scope.abandoned.append(self.name)
            raise
        if error is not None:
            raise error
        return value


async def _ended(future: asyncio.Future[Any], until: float) -> bool:
    """Wait for a future until an instant; False where this task was cancelled meanwhile, which cuts nothing short."""
    undisturbed = True
    while not future.done() and (left := until - time.monotonic()) > 0:
        try:
            await asyncio.wait({future}, timeout=left)
        except asyncio.CancelledError:
            undisturbed = False
    return undisturbed


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
