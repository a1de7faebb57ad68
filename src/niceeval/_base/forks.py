"""A child that other people's code forks off must not go on as a second niceeval.

`os.fork()` copies everything: the event loop, the open run, the lines that are still to be printed. What is to stay
with one process notes who that is (`own_pid`) and asks before it acts.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_LOOPS: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()


def own_pid() -> int:
    """The process that this is; to be kept by what must not act in a copy of it."""
    return os.getpid()


def is_copy(pid: int) -> bool:
    """Whether this process was forked off the one that `pid` was noted in."""
    return os.getpid() != pid


def leave_copy(pid: int, error: BaseException | None = None) -> None:
    """End a copy at once, with the status that the code in it asked for by `error`; nothing in the process itself.

    Neither exit handlers nor buffers are run down: they are the other process's.
    """
    if is_copy(pid):
        os._exit(_status(error))


def stop_in_copies(loop: asyncio.AbstractEventLoop) -> None:
    """In a copy this loop takes no further step, also where the code that forked waits for something."""
    _LOOPS.add(loop)


def _status(error: BaseException | None) -> int:
    if error is None:
        return 0
    if not isinstance(error, SystemExit):
        return 1
    if error.code is None:
        return 0
    return error.code & 0xFF if isinstance(error.code, int) else 1


def _stop_loops() -> None:
    for loop in list(_LOOPS):
        # What is due in this very step is other attempts' work; asyncio has no public way to take it back.
        for handle in getattr(loop, "_ready", ()):
            handle.cancel()
        loop.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_stop_loops)
