"""The windows of the change ledger around a send: opened right before it, closed however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Final, TypeVar

from niceeval._drive.log import AttemptLog
from niceeval._drive.own_tasks import others_tasks
from niceeval._evidence.o11y import summarise
from niceeval._model.usage import add_usage
from niceeval._record.encode import encode
from niceeval._sandbox.workspace import Workspace

CANCELLED_SECONDS: Final = 3.0
"""What reading the workdir after a cancelled send may take: whoever cancelled it is waiting."""

T = TypeVar("T")


async def in_window(workspace: Workspace, send: Callable[[], Awaitable[T]], results: Callable[[], bytes]) -> T:
    """Send inside a window; what `results` then gives is written for tests that run in the sandbox.

    Also the changes of a send that failed or was cancelled are its agent's.
    """
    await workspace.before_send()
    try:
        value = await send()
    except asyncio.CancelledError:
        await _close_after_cancel(workspace)
        raise
    except BaseException:
        await workspace.after_send()
        raise
    await workspace.after_send(results())
    return value


def results_of(log: AttemptLog) -> bytes:
    """What the attempt did so far, as `o11y.json` says it: for tests that run in the sandbox."""
    turns = [turn for session in log.sessions for turn in session]
    costs = [turn.cost for turn in turns if turn.cost is not None]
    cost = sum(costs, Decimal(0)) if len(costs) == len(turns) else None
    usage = add_usage(turn.usage for turn in turns if turn.usage is not None)
    return encode(summarise(log.events, log.turn_summaries(), log.elapsed_ms(), usage, cost))


async def _close_after_cancel(workspace: Workspace) -> None:
    with others_tasks():
        closing = asyncio.ensure_future(workspace.after_send())
    try:
        await asyncio.wait({closing}, timeout=CANCELLED_SECONDS)
    finally:
        if not closing.done():
            closing.cancel()
            workspace.give_up("a send was cancelled, and the workdir could not be read in time after it")
