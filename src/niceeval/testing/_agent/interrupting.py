"""Cancelling a send in the middle, and finding what it leaves running."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakSet

from niceeval._drive.context import EvalContext
from niceeval._model.agent import Agent
from niceeval._model.turn_input import TurnInput
from niceeval.testing._agent.drives import Conditions, Drive, Notes, drive, with_agent

AFTER = 0.05
"""Seconds into a send at which it is cancelled; one that is quicker is cancelled at its first pause."""
_INSIDE: ContextVar[bool] = ContextVar("niceeval_inside_send", default=False)


def with_input(agent: Agent, change: Callable[[TurnInput], TurnInput]) -> Agent:
    """The agent, with each input changed on its way in. A plain `send` stays plain: it belongs on a thread."""
    send = agent.send

    async def changed(input: TurnInput, ctx: Any) -> Any:
        result: Any = send(change(input), ctx)
        return await result

    def changed_plain(input: TurnInput, ctx: Any) -> Any:
        return send(change(input), ctx)

    is_async = inspect.iscoroutinefunction(send) or inspect.iscoroutinefunction(type(send).__call__)
    return replace(agent, send=changed if is_async else changed_plain)


@dataclass(slots=True, kw_only=True)
class Interruption:
    """A send that was to be cancelled. `hit` says that it was still running then; `left` names what runs on."""

    drive: Drive
    hit: bool
    left: list[str] = field(default_factory=list)


async def interrupt(text: str, conditions: Conditions) -> Interruption:
    """Cancel one send in the middle; one that is over too soon is tried again, to be cancelled at its first pause."""
    interruption = await _interrupt(text, conditions, AFTER)
    return interruption if interruption.hit or interruption.drive.fault else await _interrupt(text, conditions, 0.0)


async def _interrupt(text: str, conditions: Conditions, after: float) -> Interruption:
    loop, entered = asyncio.get_running_loop(), asyncio.Event()
    hit = False

    def enter(input: TurnInput) -> TurnInput:
        _INSIDE.set(True)
        loop.call_soon_threadsafe(entered.set)
        return input

    async def body(t: EvalContext, notes: Notes) -> None:
        nonlocal hit
        sending = asyncio.ensure_future(t.send(text))
        entering = asyncio.create_task(entered.wait())
        await asyncio.wait({sending, entering}, return_when=asyncio.FIRST_COMPLETED)
        entering.cancel()
        if after:
            await asyncio.wait({sending}, timeout=after)
        sending.cancel()
        await asyncio.wait({sending})
        hit = sending.cancelled()
        if not hit:
            sending.exception()  # taken, so that asyncio does not report it; the drive's fault says it already

    with _made_inside() as made:
        done = await drive("cancel", body, with_agent(conditions, with_input(conditions.agent, enter)))
        return Interruption(drive=done, hit=hit, left=await _left(made, conditions.host.grace))


async def _left(made: WeakSet[asyncio.Task[Any]], grace: float) -> list[str]:
    tasks = {task for task in made if not task.done()}
    if tasks:
        await asyncio.wait(tasks, timeout=grace)
    return sorted(_name(task) for task in tasks if not task.done())


def _name(task: asyncio.Task[Any]) -> str:
    return getattr(task.get_coro(), "__qualname__", None) or task.get_name()


@contextmanager
def _made_inside() -> Iterator[WeakSet[asyncio.Task[Any]]]:
    """The tasks that are made from inside a send while this is open, also by other code that the send calls."""
    loop = asyncio.get_running_loop()
    outer = loop.get_task_factory()
    made: WeakSet[asyncio.Task[Any]] = WeakSet()

    def factory(
        loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any], **options: Any
    ) -> Any:
        task = asyncio.Task(coro, loop=loop, **options) if outer is None else outer(loop, coro, **options)
        if _INSIDE.get() and isinstance(task, asyncio.Task):
            made.add(task)
        return task

    loop.set_task_factory(factory)
    try:
        yield made
    finally:
        loop.set_task_factory(outer)
