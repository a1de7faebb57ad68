"""The guest boundary alone: whatever a guest does, its call comes back in time and nothing leaves through the loop."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from niceeval._base.guest import GuestCancelledItself, GuestHost, GuestScope, GuestTimeout
from niceeval._base.tasks import TaskKeeper, keep_tasks
from niceeval._base.threads import DaemonThreads
from niceeval._base.watchdog import LoopWatch

GRACE = 0.15
LIMIT = 0.05


def _host(threads: int = 8) -> GuestHost:
    return GuestHost(DaemonThreads(threads), grace=GRACE)


def _run(work: Callable[[GuestHost], Coroutine[Any, Any, Any]], *, threads: int = 8) -> Any:
    """Run `work(host)` on a loop of its own and leave without what was abandoned, as the process does."""
    host = _host(threads)
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: None)
    try:
        return loop.run_until_complete(work(host))
    finally:
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        host.threads.close()


def _call(function: Callable[..., Any], *args: Any, limit: float | None = 5.0) -> Any:
    async def work(host: GuestHost) -> Any:
        return await GuestScope(host, "one").call("guest", limit, function, *args)

    return _run(work)


async def _double(value: int) -> int:
    await asyncio.sleep(0)
    return 2 * value


class _AsyncCall:
    async def __call__(self, value: int) -> int:
        return 2 * value


class _PlainCall:
    def __call__(self, value: int) -> int:
        return 2 * value

    def method(self, value: int) -> int:
        return 2 * value

    async def async_method(self, value: int) -> int:
        return 2 * value


def _wrapped(value: int) -> Awaitable[int]:
    return _double(value)


@pytest.mark.parametrize(
    "guest",
    [
        pytest.param(_double, id="coroutine function"),
        pytest.param(lambda value: 2 * value, id="plain function"),
        pytest.param(lambda value: _double(value), id="lambda that returns a coroutine"),
        pytest.param(_wrapped, id="plain wrapper of a coroutine function"),
        pytest.param(functools.partial(_double), id="partial of a coroutine function"),
        pytest.param(functools.partial(lambda factor, value: factor * value, 2), id="partial of a plain function"),
        pytest.param(_AsyncCall(), id="object with an async __call__"),
        pytest.param(_PlainCall(), id="object with a plain __call__"),
        pytest.param(_PlainCall().method, id="bound method"),
        pytest.param(_PlainCall().async_method, id="bound async method"),
    ],
)
def test_every_form_of_guest_gives_its_value(guest: Callable[..., Any]) -> None:
    """What decides between the loop and a thread is the result, not the signature."""
    assert _call(guest, 21) == 42


class _Odd(BaseException):
    pass


@pytest.mark.parametrize("in_thread", [False, True], ids=["async", "plain"])
@pytest.mark.parametrize(
    "error",
    [ValueError("no"), TimeoutError("mine"), SystemExit(3), KeyboardInterrupt(), _Odd("odd"), MemoryError()],
    ids=lambda error: type(error).__name__,
)
def test_what_a_guest_raises_is_raised_at_the_call(error: BaseException, in_thread: bool) -> None:
    """The very exception arrives, also one that would end the event loop if it got there."""

    def plain() -> None:
        raise error

    async def coroutine() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        _call(plain if in_thread else coroutine)
    assert raised.value is error


@pytest.mark.parametrize("in_thread", [False, True], ids=["async", "plain"])
def test_stop_iteration_does_not_end_the_caller_quietly(in_thread: bool) -> None:
    """StopIteration has a meaning inside coroutines; here it is an error like any other."""

    def plain() -> None:
        raise StopIteration

    async def coroutine() -> None:
        raise StopIteration

    with pytest.raises(RuntimeError):
        _call(plain if in_thread else coroutine)


@pytest.mark.parametrize("in_thread", [False, True], ids=["async", "plain"])
def test_a_guest_that_cancels_itself_is_not_a_cancellation_of_ours(in_thread: bool) -> None:
    """CancelledError out of nowhere must not look as if the caller had been cancelled."""

    def plain() -> None:
        raise asyncio.CancelledError

    async def coroutine() -> None:
        raise asyncio.CancelledError

    with pytest.raises(GuestCancelledItself):
        _call(plain if in_thread else coroutine)


def test_our_limit_is_told_from_the_guests_own_timeout() -> None:
    """A guest's TimeoutError is its error; only our limit raises GuestTimeout."""

    async def guest() -> None:
        async with asyncio.timeout(0.001):
            await asyncio.sleep(10)

    with pytest.raises(TimeoutError):
        _call(guest)


def test_a_guest_that_hangs_is_cancelled_at_its_limit() -> None:
    """It gets CancelledError and may clean up; it is not abandoned."""
    cleaned = []

    async def guest() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            cleaned.append(True)

    with pytest.raises(GuestTimeout) as timeout:
        _call(guest, limit=LIMIT)
    assert (timeout.value.abandoned, timeout.value.limit, cleaned) == (False, LIMIT, [True])


async def _swallows_once() -> None:
    try:
        await asyncio.sleep(10)
    except asyncio.CancelledError:
        await asyncio.sleep(10)


async def _swallows_for_ever() -> None:
    while True:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            continue


@pytest.mark.parametrize("guest", [_swallows_once, _swallows_for_ever])
def test_a_guest_that_swallows_cancellation_is_abandoned(guest: Callable[[], Awaitable[None]]) -> None:
    """After the grace period nobody waits for it; a reference is kept, and its name."""

    async def work(host: GuestHost) -> None:
        scope = GuestScope(host, "one")
        with pytest.raises(GuestTimeout) as timeout:
            await scope.call("send", LIMIT, guest)
        assert timeout.value.abandoned
        assert scope.abandoned == ["send"]
        assert len(host.abandoned) == 1

    started = time.monotonic()
    _run(work)
    assert time.monotonic() - started < 5


def test_an_abandoned_guest_that_ends_after_all_is_forgotten() -> None:
    """What it comes to is nobody's business any more, and it is not held in memory."""
    release: list[asyncio.Event] = []

    async def guest() -> None:
        release.append(asyncio.Event())
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            await release[0].wait()
            raise ValueError("too late") from None

    async def work(host: GuestHost) -> None:
        with pytest.raises(GuestTimeout):
            await GuestScope(host, "one").call("send", LIMIT, guest)
        assert host.abandoned
        release[0].set()
        await asyncio.sleep(0.01)
        assert not host.abandoned

    _run(work)


def test_a_plain_function_that_hangs_is_abandoned_with_its_thread() -> None:
    """The call comes back after the grace period, although a thread cannot be cancelled."""
    release = threading.Event()

    async def work(host: GuestHost) -> None:
        scope = GuestScope(host, "one")
        with pytest.raises(GuestTimeout):
            await scope.call("send", LIMIT, release.wait)
        assert scope.abandoned == ["send"]

    started = time.monotonic()
    _run(work)
    assert time.monotonic() - started < 5
    release.set()


def test_a_plain_function_is_told_that_it_is_cancelled() -> None:
    """`on_cancel` comes before the grace period, so that a function that watches it ends in time."""
    cancelled = threading.Event()

    async def work(host: GuestHost) -> None:
        scope = GuestScope(host, "one")
        with pytest.raises(GuestTimeout) as timeout:
            await scope.call("send", LIMIT, cancelled.wait, on_cancel=cancelled.set)
        assert (timeout.value.abandoned, scope.abandoned) == (False, [])

    _run(work)


def test_a_plain_function_that_ends_in_time_is_never_taken_for_abandoned() -> None:
    """However close its end is to the moment at which its caller hears of it."""

    async def work(host: GuestHost) -> None:
        for _ in range(60):
            cancelled = threading.Event()
            scope = GuestScope(host, "one")
            with pytest.raises(GuestTimeout):
                await scope.call("send", 0.001, cancelled.wait, on_cancel=cancelled.set)
            assert scope.abandoned == []

    # Threads take turns so often that every order of the two comes about.
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        _run(work)
    finally:
        sys.setswitchinterval(before)


def test_threads_run_with_the_callers_context_variables() -> None:
    """A plain function sees the values, and what it sets stays its own."""
    variable = contextvars.ContextVar("variable", default="unset")

    def guest() -> str:
        seen = variable.get()
        variable.set("changed")
        return seen

    async def work(host: GuestHost) -> None:
        variable.set("mine")
        assert await GuestScope(host, "one").call("send", 5.0, guest) == "mine"
        assert variable.get() == "mine"

    _run(work)


def test_more_plain_functions_than_threads_wait_their_turn() -> None:
    """Never more run at once than the limit says."""
    running, most, lock = 0, 0, threading.Lock()

    def guest() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1

    async def work(host: GuestHost) -> None:
        scope = GuestScope(host, "one")
        await asyncio.gather(*(scope.call("send", 5.0, guest) for _ in range(20)))

    _run(work, threads=3)
    assert most == 3


def test_abandoned_threads_give_their_place_to_those_that_wait() -> None:
    """A queue behind threads that hang for ever must move on when they are given up."""
    release = threading.Event()

    async def work(host: GuestHost) -> list[str]:
        async def hang() -> None:
            with pytest.raises(GuestTimeout):
                await GuestScope(host, "hangs").call("send", LIMIT, release.wait)

        async def behind() -> str:
            value: str = await GuestScope(host, "waits").call("send", 5.0, lambda: "done")
            return value

        hanging = [asyncio.create_task(hang()) for _ in range(2)]
        await asyncio.sleep(0)
        values = await asyncio.gather(*(behind() for _ in range(6)))
        await asyncio.gather(*hanging)
        return values

    assert _run(work, threads=2) == ["done"] * 6
    release.set()


def test_a_plain_function_that_had_to_wait_beyond_its_limit_never_starts() -> None:
    """A send that was cancelled before its thread was free must not be sent later."""
    release, started = threading.Event(), threading.Event()

    async def work(host: GuestHost) -> None:
        first = asyncio.create_task(GuestScope(host, "first").call("send", 5.0, release.wait))
        await asyncio.sleep(0.01)
        scope = GuestScope(host, "second")
        with pytest.raises(GuestTimeout) as timeout:
            await scope.call("send", LIMIT, started.set)
        assert (timeout.value.abandoned, scope.abandoned) == (False, [])
        release.set()
        await first
        await GuestScope(host, "third").call("send", 5.0, lambda: None)

    _run(work, threads=1)
    assert not started.is_set()


def test_threads_are_used_again_and_end_when_the_run_does() -> None:
    """One after the other needs no new thread each time, and none is left afterwards."""

    async def work(host: GuestHost) -> set[int]:
        scope = GuestScope(host, "one")
        return {await scope.call("send", 5.0, threading.get_ident) for _ in range(50)}

    before = set(threading.enumerate())
    assert len(_run(work)) < 10
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
        assert not thread.is_alive()


def test_a_cancellation_of_the_caller_is_forwarded() -> None:
    """The guest sees CancelledError, ends, and the caller's cancellation goes on."""
    seen: list[str] = []

    async def guest() -> None:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            seen.append("guest")
            raise

    async def work(host: GuestHost) -> None:
        call = GuestScope(host, "one").call("send", 5.0, guest, on_cancel=lambda: seen.append("told"))
        task = asyncio.create_task(call)
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    _run(work)
    assert seen == ["told", "guest"]


def test_a_second_cancellation_does_not_cut_the_grace_period_short() -> None:
    """The guest's cleanup runs to its end, and the caller is still cancelled."""
    cleaned: list[bool] = []

    async def guest() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(GRACE / 3)
            cleaned.append(True)

    async def work(host: GuestHost) -> None:
        task = asyncio.create_task(GuestScope(host, "one").call("send", 5.0, guest))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    _run(work)
    assert cleaned == [True]


def test_a_cancelled_caller_does_not_wait_for_a_guest_that_swallows_it() -> None:
    """Abandoned after the grace period, as at a limit."""

    async def work(host: GuestHost) -> None:
        scope = GuestScope(host, "one")
        task = asyncio.create_task(scope.call("send", None, _swallows_for_ever))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert scope.abandoned == ["send"]

    _run(work)


def test_nested_calls_end_by_one_common_instant() -> None:
    """The inner guest that ignores the cancellation is the one that is named, and only one grace period passes."""

    async def work(host: GuestHost) -> float:
        scope = GuestScope(host, "one")

        async def outer() -> None:
            await scope.call("send", None, _swallows_for_ever)

        started = time.monotonic()
        with pytest.raises(GuestTimeout) as timeout:
            await scope.call("eval", LIMIT, outer)
        assert timeout.value.name == "eval"
        assert scope.abandoned == ["send"]
        return time.monotonic() - started

    assert _run(work) < LIMIT + 2 * GRACE


def test_a_call_after_one_that_was_closed_has_its_own_grace_period() -> None:
    """An instant that has passed must not be the end of what comes later in the same scope."""
    cleaned: list[bool] = []

    async def tidy() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(GRACE / 3)
            cleaned.append(True)

    async def work(host: GuestHost) -> None:
        scope = GuestScope(host, "one")
        with pytest.raises(GuestTimeout):
            await scope.call("first", LIMIT, _swallows_for_ever)
        await asyncio.sleep(GRACE)
        with pytest.raises(GuestTimeout) as timeout:
            await scope.call("second", LIMIT, tidy)
        assert not timeout.value.abandoned

    _run(work)
    assert cleaned == [True]


def test_an_authors_own_timeout_around_a_call_leaves_the_next_one_alone() -> None:
    """`asyncio.timeout` around a send cancels that send; the scope goes on."""

    async def work(host: GuestHost) -> int:
        scope = GuestScope(host, "one")

        async def outer() -> int:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await scope.call("send", None, asyncio.sleep, 10)
            value: int = await scope.call("send", None, _double, 21)
            return value

        value: int = await scope.call("eval", 5.0, outer)
        return value

    assert _run(work) == 42


def test_nothing_is_left_behind_by_many_calls() -> None:
    """No task and no reference grows with the number of calls."""

    async def work(host: GuestHost) -> None:
        scope = GuestScope(host, "one")
        for _ in range(500):
            await scope.call("send", 5.0, _double, 1)
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1
        assert not host.abandoned
        assert not scope.abandoned

    _run(work)


# Processes and tasks -----------------------------------------------------------------------------------------------


def _forks(error: BaseException | None) -> int:
    child = os.fork()
    if child != 0:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if error is not None:
        raise error
    return -1


@pytest.mark.parametrize("in_thread", [False, True], ids=["async", "plain"])
@pytest.mark.parametrize(
    ("error", "status"),
    [(None, 0), (SystemExit(), 0), (SystemExit(3), 3), (SystemExit("no"), 1), (ValueError("no"), 1)],
    ids=["returns", "exits", "exits with 3", "exits with text", "raises"],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_that_a_guest_forks_ends_with_the_guest(
    error: BaseException | None, status: int, in_thread: bool
) -> None:
    """Only the process itself comes back from the call; the child has the status that its code asked for."""

    async def coroutine() -> int:
        return _forks(error)

    assert _call((lambda: _forks(error)) if in_thread else coroutine) == status


def _watched(work: Callable[[GuestHost, TaskKeeper], Coroutine[Any, Any, None]]) -> None:
    """Run `work` on a loop whose tasks are kept, with a watch, which knows whose code runs."""

    loop = asyncio.new_event_loop()
    keeper = keep_tasks(loop)

    async def run() -> None:
        watch = LoopWatch(lambda block: None, lambda block: None)
        watch.start()
        try:
            await work(GuestHost(DaemonThreads(4), watch, grace=GRACE), keeper)
        finally:
            watch.stop()

    loop.run_until_complete(run())
    loop.close()


async def _cancel_all() -> int:
    return sum(task.cancel() for task in asyncio.all_tasks() if task is not asyncio.current_task())


def test_a_guest_cannot_cancel_what_is_not_its_own() -> None:
    """Neither our tasks nor another attempt's calls; the attempt is counted."""

    async def work(host: GuestHost, keeper: TaskKeeper) -> None:
        ours = asyncio.create_task(asyncio.sleep(0.05, "ours"))
        other = asyncio.create_task(GuestScope(host, "other").call("send", 5.0, asyncio.sleep, 0.05, "other"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await GuestScope(host, "one").call("send", 5.0, _cancel_all)
        assert (await ours, await other) == ("ours", "other")
        assert keeper.taken("one") >= 3
        assert keeper.taken("one") == keeper.taken("other") == 0

    _watched(work)


def test_a_guest_may_cancel_its_own_call_and_what_guests_have_started() -> None:
    """`asyncio.timeout` does the one; a connection that attempts share is closed by whoever is last."""
    started: list[asyncio.Task[None]] = []

    async def starts() -> None:
        started.append(asyncio.create_task(asyncio.sleep(10)))

    async def times_out() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(10)

    async def closes() -> bool:
        return started[0].cancel()

    async def work(host: GuestHost, keeper: TaskKeeper) -> None:
        await GuestScope(host, "one").call("send", 5.0, starts)
        with pytest.raises(TimeoutError):
            await GuestScope(host, "two").call("send", 5.0, times_out)
        assert await GuestScope(host, "two").call("send", 5.0, closes)
        assert not keeper.refused

    _watched(work)
