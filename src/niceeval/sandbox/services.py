"""What backends of cloud services share: seeing a command's end, and holding on to a sandbox that would expire."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from niceeval._base.errors import SandboxError, SandboxGoneError

Made = TypeVar("Made")

LATE_OUTPUT = 0.5
"""Seconds that output is waited for after a command has ended, where what it left running holds its streams."""
RETRY = 15.0
"""Seconds until a lease that could not be extended is tried again."""

_WRAPPER = r"""
token=$1; shift
exec 3>&2 2>/dev/null
(exec "$@" 2>&3 3>&-)
code=$?
printf '%s %s.' "$token" "$code" >&3
exit "$code"
"""
"""Runs a command and says its exit code, behind its error output. The shell's own words on signals go nowhere."""
_LONGEST_CODE = 5


class Ending:
    """Makes the end of a command visible in its error output.

    Services end a command's streams when nobody holds them any more, and some say -1 for every signal. `argv` is what
    to run; `feed` hands on what comes on its error output, without what was added to it; `code` is the exit code once
    it is known, and `known` is set then.
    """

    def __init__(self, argv: Sequence[str], on_stderr: Callable[[bytes], None]) -> None:
        token = f"niceeval-end-{secrets.token_hex(12)}"
        self.argv = ("sh", "-c", _WRAPPER, "sh", token, *argv)
        self.code: int | None = None
        self.known = asyncio.Event()
        self._token = token.encode() + b" "
        self._held = b""
        self._take = on_stderr

    def feed(self, data: bytes) -> None:
        """More of the error output."""
        held = self._held + data
        before, found, after = held.partition(self._token)
        if not found:
            keep = self._start_of_token(held)
            self._hand_on(held[: len(held) - keep])
            self._held = held[len(held) - keep :]
            return
        digits, full, rest = after.partition(b".")
        if not full and len(after) < _LONGEST_CODE:
            self._hand_on(before)
            self._held = self._token + after
            return
        self._held = b""
        self._hand_on(before + rest)
        self.code = int(digits) if digits.isdigit() else None
        self.known.set()

    def finish(self) -> None:
        """Nothing more comes: hand on what was held back."""
        held, self._held = self._held, b""
        self._hand_on(held)

    def _start_of_token(self, data: bytes) -> int:
        """How many of the last bytes may be the beginning of the token."""
        longest = min(len(data), len(self._token) - 1)
        return next((size for size in range(longest, 0, -1) if self._token.startswith(data[-size:])), 0)

    def _hand_on(self, data: bytes) -> None:
        if data:
            self._take(data)


class Lease:
    """Keeps a sandbox that its service ends after a while: extends its time until `lifetime` seconds have passed.

    `extend` gives it `term` seconds from now. When this process dies, the sandbox ends within a term by itself.
    `problem` says why it could not be extended the last time.
    """

    def __init__(self, extend: Callable[[float], Awaitable[None]], *, term: float, lifetime: float) -> None:
        self.problem: str | None = None
        self._extend = extend
        self._term = term
        self._end = time.monotonic() + lifetime
        self._task = asyncio.create_task(self._hold())

    async def _hold(self) -> None:
        wait = self._term / 3
        while True:
            left = self._end - time.monotonic()
            if left <= wait:
                return
            await asyncio.sleep(wait)
            try:
                await self._extend(min(self._term, max(1.0, self._end - time.monotonic())))
                self.problem, wait = None, self._term / 3
            except SandboxGoneError as error:
                self.problem = str(error)
                return
            except SandboxError as error:
                self.problem, wait = str(error), min(RETRY, self._term / 3)

    async def end(self) -> None:
        """Extend it no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@contextlib.contextmanager
def gone_because(lease: Lease | None) -> Iterator[None]:
    """A sandbox that is gone says too that its time could not be extended."""
    try:
        yield
    except SandboxGoneError as error:
        if lease is None or lease.problem is None:
            raise
        problem = f"{error.fields.get('problem')} (its time could not be extended: {lease.problem})"
        backend, fix = error.fields.get("backend"), error.fields.get("fix")
        raise SandboxGoneError("sandbox-gone", backend=backend, problem=problem, fix=fix) from None


async def made_or_removed(making: Coroutine[Any, Any, Made], remove: Callable[[Made], Awaitable[None]]) -> Made:
    """What `making` makes. Cancelled, it is waited for and removed: the service may have begun to make it."""
    task = asyncio.ensure_future(making)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        # One that cannot be removed ends by itself, when its first term is over.
        with contextlib.suppress(SandboxError):
            await asyncio.shield(asyncio.ensure_future(_removed(task, remove)))
        raise
    return task.result()


async def _removed(task: asyncio.Future[Made], remove: Callable[[Made], Awaitable[None]]) -> None:
    await asyncio.wait({task})
    if not task.cancelled() and task.exception() is None:
        await remove(task.result())
