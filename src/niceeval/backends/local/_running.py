"""One command under its supervisor, seen from niceeval's side."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from niceeval.backends.local._marked import MARKER, kill_marked
from niceeval.sandbox import CommandResult
from niceeval.sandbox.building import OutputKeeper, command_result, exit_code_of, not_started

SUPERVISOR = Path(__file__).with_name("_supervisor.py")
HELD_OPEN = 0.3
"""Seconds that output is waited for after the command has ended, where what it left running holds it open."""
DRAIN_ROUNDS = 4
"""How often it is waited again where more output came meanwhile: what was left running may print for ever."""
KILL_POLL = 0.005
"""Seconds between two looks whether a supervisor has ended."""
HANG_UP_LIMIT = 5.0
"""Seconds that a supervisor whose keeper was killed may take to kill its tree, before that is sought by marker."""
KILL_LIMIT = 30.0
"""Seconds that a supervisor may take to kill its tree before it is killed itself, and its tree sought by marker."""


class Supervised:
    """A command and its supervisor. `alive` is true for as long as anything runs that the command started."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket, marker: str, began: float) -> None:
        self._marker = marker
        self._began = began
        self._process = process
        self._control = control
        self._said = bytearray()
        self._draining: list[asyncio.Task[None]] = []
        self._over = False
        self._killed = False
        self._received = 0

    @property
    def alive(self) -> bool:
        """Whether the supervisor runs still."""
        return self._process.returncode is None

    @classmethod
    async def start(
        cls, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], stdin: bytes | None, command: str
    ) -> Supervised:
        """Start it; `env` has the marker, of this command alone.

        Raises SandboxCommandError where the program could not be executed.
        """
        began = time.monotonic()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        # Never cancelled while it is made: asyncio would kill the supervisor, and what it had started would live.
        making = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-S",
                str(SUPERVISOR),
                str(theirs.fileno()),
                cwd,
                *argv,
                stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=dict(env),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        )
        cancelled = await _to_its_end(making)
        theirs.close()
        try:
            process = making.result()
        except (OSError, ValueError) as error:
            ours.close()
            raise not_started(command, f"could not be started: {error}", "make it smaller, or free memory") from None
        supervised = cls(process, ours, env[MARKER], began)
        try:
            if cancelled:
                raise asyncio.CancelledError
            word, _, number = (await supervised._word()).partition(" ")
        except asyncio.CancelledError:
            await supervised.kill()
            raise
        if word != "started":
            await process.wait()
            supervised.close()
            raise not_started(command, _start_problem(number, cwd))
        return supervised

    async def finish(
        self, out: OutputKeeper, err: OutputKeeper, *, stdin: bytes | None, timeout: float | None
    ) -> CommandResult:
        """Wait for the command's end, or for its limit; cancelled, its tree is dead before this returns."""
        process = self._process
        assert process.stdout is not None
        assert process.stderr is not None
        readers = [self._keep(process.stdout, out), self._keep(process.stderr, err)]
        self._draining = [asyncio.create_task(reader) for reader in readers]
        feeding = asyncio.create_task(self._feed(stdin))
        try:
            async with asyncio.timeout(timeout) as limit:
                said = await self._word()
                status = int(said.partition(" ")[2] or -9)
            if not said:
                await self.kill()
            timed_out = False
        except TimeoutError:
            if not limit.expired():
                raise
            status, timed_out = -9, True
            await self.kill()
        except asyncio.CancelledError:
            self._over = True
            await self.kill()
            raise
        finally:
            feeding.cancel()
        await self._drain()
        self._over = True
        if self._killed:
            self._close_output()
        return command_result(
            out, err, exit_code=exit_code_of(status), duration=time.monotonic() - self._began, timed_out=timed_out
        )

    async def _drain(self) -> None:
        """Take what the command had printed when it ended: it is in a pipe still, where this process is busy."""
        for _ in range(DRAIN_ROUNDS):
            before = self._received
            _, pending = await asyncio.wait(self._draining, timeout=HELD_OPEN)
            if not pending or self._received == before:
                break

    async def kill(self) -> None:
        """Kill everything that the command started; returns when it is dead, whoever cancels meanwhile."""
        killing = asyncio.ensure_future(self._kill())
        cancelled = await _to_its_end(killing)
        killing.result()
        if self._over or not self._draining:
            self._close_output()
        if cancelled:
            raise asyncio.CancelledError

    async def _kill(self) -> None:
        self._killed = True
        if self.alive:
            with contextlib.suppress(OSError):
                await asyncio.get_running_loop().sock_sendall(self._control, b"kill\n")
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGCONT)
            # Not `wait`: it also waits for the end of the output, which something may hold open that is sought below.
            limit = time.monotonic() + KILL_LIMIT
            while self.alive:
                await asyncio.sleep(KILL_POLL)
                if time.monotonic() > limit:
                    with contextlib.suppress(ProcessLookupError):
                        self._process.kill()
        if self._process.returncode != 0:
            # It did not end as it ends when it has killed all: somebody has killed it, or what it is the keeper of.
            await self._hung_up()
            await asyncio.to_thread(kill_marked, self._marker)
        self.close()

    async def _hung_up(self) -> None:
        """Wait until nobody is at the other end: what is left of keeper and supervisor is killing the tree."""
        if self._control.fileno() < 0:
            return
        look = select.poll()
        look.register(self._control, 0)
        for _ in range(int(HANG_UP_LIMIT / KILL_POLL)):
            if look.poll(0):
                break
            await asyncio.sleep(KILL_POLL)

    def _close_output(self) -> None:
        """Read no more: what escaped may hold the output open for ever, past the end of the event loop.

        A process of asyncio has no public way to close the transport that it would complain about then.
        """
        transport = getattr(self._process, "_transport", None)
        if transport is not None:
            transport.close()

    def close(self) -> None:
        """Close the control socket; a supervisor that lives still would kill its tree."""
        self._control.close()

    async def _feed(self, data: bytes | None) -> None:
        pipe = self._process.stdin
        if pipe is None:
            return
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            pipe.write(data or b"")
            await pipe.drain()
        pipe.close()

    async def _keep(self, stream: asyncio.StreamReader, keeper: OutputKeeper) -> None:
        """Read to the end, also after the command's own: what it left running must not die of a closed pipe."""
        while data := await stream.read(65_536):
            self._received += len(data)
            if not self._over:
                keeper.feed(data)

    async def _word(self) -> str:
        """The next line that the supervisor says; empty where it has ended without one."""
        loop = asyncio.get_running_loop()
        while b"\n" not in self._said:
            try:
                data = await loop.sock_recv(self._control, 256)
            except OSError:
                data = b""
            if not data:
                return ""
            self._said += data
        line, _, rest = bytes(self._said).partition(b"\n")
        self._said = bytearray(rest)
        return line.decode("ascii", "replace")


async def _to_its_end(task: asyncio.Future[Any]) -> bool:
    """Wait until a task is done, whoever cancels meanwhile; whether somebody did."""
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    return cancelled


def _start_problem(number: str, cwd: str) -> str:
    if not number.isdecimal():
        return "its supervisor ended before it was started"
    if not os.path.isdir(cwd):
        return f"its folder {cwd} does not exist"
    return os.strerror(int(number)).lower()
