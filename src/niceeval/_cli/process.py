"""One run as a process: its event loop, signals, and the way it ends although a guest may hold on to it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, NoReturn, TypeVar

from niceeval._base.forks import leave_copy, own_pid, stop_in_copies
from niceeval._base.plain_text import shorten
from niceeval._base.tasks import keep_tasks
from niceeval._cli.exit_codes import INTERRUPTED, NOT_PASSED, code_of
from niceeval._cli.json_output import JsonOutput
from niceeval._cli.leaving import LAST_WAIT, hold, leave_at_once, no_longer_than, release
from niceeval._model.run_events import RunNotice
from niceeval._plan.plan import RunPlan
from niceeval._record.writer import RunWriter
from niceeval._reporters.bus import ReporterBus
from niceeval._reporters.console import Console
from niceeval._run.limits import Limits
from niceeval._run.outside import Emit, Outside, RunHandle
from niceeval._run.run import run_plan
from niceeval._run.sandboxes import Keep

T = TypeVar("T")

AT_ONCE = 0.5
"""Seconds that the second Ctrl-C takes at most."""
MAX_TASK_NOTICES = 5
LIMITS = Limits()


def run_to_end(
    plan: RunPlan,
    writer: RunWriter,
    console: Console,
    bus: ReporterBus,
    output: JsonOutput | None = None,
    *,
    keep_sandboxes: Keep | None = None,
) -> int:
    """Run the plan and return the exit code. Bus and console are closed and the signal handlers are put back."""
    handle = RunHandle()
    loop = new_loop(bus.emit)
    outside = Outside(
        emit=bus.emit,
        live=console.live or bus.wants_progress,
        exit_code=code_of,
        leave=lambda why: _leave_stuck(console, output, why),
        limits=LIMITS,
        room=bus.room,
        keep_sandboxes=keep_sandboxes,
    )
    with _signals(handle, console, output):
        try:
            finished = _complete(loop, loop.create_task(run_plan(plan, writer, outside, handle)), bus.emit)
        finally:
            # Where the run itself broke, guests may still be under way.
            hold(asyncio.all_tasks(loop))
            _close(bus, writer, console)
        release()
        code = (bus.finished or finished).exit_code
        with no_longer_than(LAST_WAIT, code):
            _end_loop(loop, bus.emit)
    return code


def new_loop(emit: Emit) -> asyncio.AbstractEventLoop:
    """A loop for one run, on which guests cannot take the run's tasks away and a child of theirs takes no step."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(_task_notices(emit))
    keep_tasks(loop)
    stop_in_copies(loop)
    return loop


def _close(*parts: ReporterBus | RunWriter | Console) -> None:
    """Close all of them, in order, whatever one of them raises."""
    with ExitStack() as stack:
        for part in reversed(parts):
            stack.callback(part.close)


def _complete(loop: asyncio.AbstractEventLoop, run: asyncio.Task[T], emit: Emit) -> T:
    """Run the loop until a task of ours is over, whatever the tasks that guests have started may raise through it."""
    run.add_done_callback(lambda task: loop.stop())
    pid, said = own_pid(), False
    while not run.done():
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            leave_copy(pid, error)
            if not run.done():
                message = f"a task nobody waits for raised {type(error).__name__}; the run goes on"
                emit(RunNotice(code="task-error", level="warning", message=message))
            continue
        leave_copy(pid)
        if not run.done() and not said:
            said = True
            message = "an eval or an adapter stopped the event loop; the run goes on"
            emit(RunNotice(code="loop-stopped", level="warning", message=message))
    return run.result()


def _end_loop(loop: asyncio.AbstractEventLoop, emit: Emit) -> None:
    """Cancel what guests have left behind and give it a moment; `asyncio.run` would wait for it for ever."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        _complete(loop, loop.create_task(_wait(left)), emit)
    if all(task.done() for task in left):
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
    else:
        hold(left)


async def _wait(tasks: set[asyncio.Task[Any]]) -> None:
    await asyncio.wait(tasks, timeout=0.2)


@contextmanager
def _signals(handle: RunHandle, console: Console, output: JsonOutput | None) -> Iterator[None]:
    """Raw handlers: the first Ctrl-C or SIGTERM ends the run in good order, the second leaves at once.

    A handler of asyncio's own would run only after a guest that blocks the loop had finished.
    """
    seen = 0

    def on_signal(signum: int, frame: FrameType | None) -> None:
        nonlocal seen
        seen += 1
        if seen > 1:
            _say_and_leave(console, output)
        handle.interrupt()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _say_and_leave(console: Console, output: JsonOutput | None) -> NoReturn:
    # On top of anything: what the last words wait for may be a lock that the interrupted code holds.
    try:
        with no_longer_than(AT_ONCE, INTERRUPTED):
            console.restore()
            if output is not None:
                output.end("interrupted", INTERRUPTED)
    finally:
        leave_at_once(INTERRUPTED)


def _task_notices(emit: Emit) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """What asyncio would print about tasks that guests left alone becomes a few notices."""
    said = 0

    def on_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal said
        said += 1
        if said > MAX_TASK_NOTICES:
            return
        error = context.get("exception")
        what = f"{type(error).__name__}: {error}" if error is not None else str(context.get("message"))
        emit(RunNotice(code="task-error", level="warning", message=shorten(f"a task nobody waits for: {what}", 500)))

    return on_exception


def _leave_stuck(console: Console, output: JsonOutput | None, why: str) -> NoReturn:
    console.restore()
    if output is not None:
        output.end("incomplete", NOT_PASSED)
    console.say_at_once(f"error[loop-stuck]: {why}; the finished attempts are stored")
    leave_at_once(NOT_PASSED)
