"""Tasks that a guest cannot cancel unless they are its own: ours, and the guest calls of other attempts.

`asyncio.all_tasks()` hands out every task of the loop, and code that tidies up with it would end the whole run. What
guests start themselves are ordinary tasks: a connection that attempts share may well be closed by another one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Generator
from contextvars import ContextVar, copy_context
from typing import Any
from weakref import WeakKeyDictionary

from niceeval._base.watchdog import current_label


class _KeptTask(asyncio.Task[Any]):
    """`owner` is the label of the only guest that may cancel it; None where it is ours."""

    owner: str | None = None
    keeper: TaskKeeper

    def cancel(self, msg: Any | None = None) -> bool:
        guest = current_label()
        if guest is None or guest == self.owner or self.done():
            return super().cancel(msg)
        self.keeper.refused[guest] += 1
        return False


_GUEST_OF: ContextVar[str | None] = ContextVar("niceeval_guest_of_task", default=None)
"""The guest for whom a task is being made. Other factories may stand between `guest_task` and the keeper."""


class TaskKeeper:
    """The task factory of a run's loop. `refused` counts, by the guest's label, the tasks it wanted to cancel."""

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()

    def __call__(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        **options: Any,
    ) -> asyncio.Task[Any]:
        owner = _GUEST_OF.get()
        if owner is None and current_label() is not None:
            return asyncio.Task(work, loop=loop, **options)
        task = _KeptTask(work, loop=loop, **options)
        task.owner, task.keeper = owner, self
        return task

    def taken(self, label: str) -> int:
        """How many tasks this guest wanted to cancel since it was last asked for."""
        return self.refused.pop(label, 0)


_KEEPERS: WeakKeyDictionary[asyncio.AbstractEventLoop, TaskKeeper] = WeakKeyDictionary()


def keep_tasks(loop: asyncio.AbstractEventLoop) -> TaskKeeper:
    """From here on the loop's tasks are kept; the keeper it has, where it has one."""
    keeper = _KEEPERS.get(loop)
    if keeper is None:
        keeper = _KEEPERS[loop] = TaskKeeper()
        loop.set_task_factory(keeper)
    return keeper


def guest_task(work: Coroutine[Any, Any, Any], owner: str) -> asyncio.Task[Any]:
    """A task in which a guest runs; what that starts itself is not marked."""
    unmarked = copy_context()
    token = _GUEST_OF.set(owner)
    try:
        return asyncio.get_running_loop().create_task(work, context=unmarked)
    finally:
        _GUEST_OF.reset(token)
