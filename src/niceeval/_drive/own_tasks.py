"""The tasks that an eval starts itself. One that nobody waits for takes its assertions, or its failure, with it.

Tasks of adapters and of libraries are none of these: a client may well keep a background task of its own.
"""

from __future__ import annotations

import asyncio
import os
import sysconfig
from collections.abc import Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from niceeval._base.callsite import CallSite, frame_site, is_ours, traceback_sites
from niceeval._base.errors import StopEval
from niceeval._drive.faults import in_project, leaves

_LIBRARIES = tuple(
    os.path.join(path, "")
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
    if (path := sysconfig.get_path(name))
)
_KEPT = 64


class OwnTasks:
    """The tasks of one attempt's eval function, in a project with this root."""

    __slots__ = ("_root", "_tasks")

    def __init__(self, root: Path) -> None:
        self._root = root
        self._tasks: list[asyncio.Task[Any]] = []

    def add(self, task: asyncio.Task[Any]) -> None:
        """Keep a task that was started; the ones that ended well are let go of."""
        self._tasks.append(task)
        if len(self._tasks) % _KEPT == 0:
            self._tasks = [held for held in self._tasks if not held.done() or _is_lost(held)]

    async def settle(self, grace: float) -> None:
        """Let the tasks end that the eval has cancelled itself."""
        ending = {task for task in self._tasks if not task.done() and task.cancelling()}
        if ending:
            await asyncio.wait(ending, timeout=grace)

    def unfinished(self) -> Iterator[tuple[asyncio.Task[Any], str, CallSite]]:
        """The author's tasks that still run, by the name of their coroutine and the line where they stand."""
        for task in self._tasks:
            site = None if task.done() else self._standing(task.get_coro())
            if site is not None:
                yield task, getattr(task.get_coro(), "__qualname__", task.get_name()), site

    def failed(self) -> Iterator[tuple[BaseException, CallSite]]:
        """What the author's tasks ended with and nobody has seen, with the author's line that raised it.

        A stop of the eval is left out: the attempt knows its reason already.
        """
        for task in filter(_is_lost, self._tasks):
            error = task.exception()
            assert error is not None
            real = next((leaf for leaf in leaves(error) if not isinstance(leaf, StopEval)), None)
            sites = [] if real is None else traceback_sites(real.__traceback__)
            site = next((site for site in reversed(sites) if self._is_authors(site.file)), None)
            if real is not None and site is not None:
                yield real, site

    def _standing(self, coroutine: object) -> CallSite | None:
        """The innermost line of the author's that a suspended coroutine is at."""
        code: CodeType | None = getattr(coroutine, "cr_code", None)
        if code is not None and is_ours(code.co_filename):
            return None
        found: CallSite | None = None
        while coroutine is not None:
            frame: FrameType | None = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
            if frame is not None and self._is_authors(frame.f_code.co_filename):
                found = frame_site(frame)
            coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
        return found

    def _is_authors(self, filename: str) -> bool:
        if is_ours(filename) or filename.startswith("<frozen "):
            return False
        return in_project(filename, self._root) or not (
            filename.startswith(_LIBRARIES) or "site-packages" in filename or "dist-packages" in filename
        )


OWN_TASKS: ContextVar[OwnTasks | None] = ContextVar("niceeval_own_tasks", default=None)
"""Where the tasks are kept that the code being run starts; None for code that is not an eval's."""


@contextmanager
def others_tasks() -> Iterator[None]:
    """Around a call of somebody else: what it starts is not the eval's."""
    mine = OWN_TASKS.get()
    OWN_TASKS.set(None)
    try:
        yield
    finally:
        OWN_TASKS.set(mine)


class _Factory:
    """Makes tasks as the loop did before, and keeps those of evals."""

    def __init__(self, outer: Any) -> None:
        self.outer = outer

    def __call__(
        self,
        loop: asyncio.AbstractEventLoop,
        coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        **options: Any,
    ) -> Any:
        outer = self.outer
        task = asyncio.Task(coro, loop=loop, **options) if outer is None else outer(loop, coro, **options)
        context = options.get("context")
        tasks = OWN_TASKS.get() if context is None else context.get(OWN_TASKS)
        if tasks is not None and isinstance(task, asyncio.Task):
            tasks.add(task)
        return task


def watch_tasks() -> None:
    """From here on the running loop's tasks are kept for the evals that start them."""
    loop = asyncio.get_running_loop()
    outer = loop.get_task_factory()
    if not isinstance(outer, _Factory):
        loop.set_task_factory(_Factory(outer))


def _is_lost(task: asyncio.Task[Any]) -> bool:
    """Whether a task has ended in an exception that nobody has asked for."""
    # Asking for the exception would count as having seen it; this is what asyncio itself decides by.
    return task.done() and not task.cancelled() and bool(getattr(task, "_log_traceback", False))
