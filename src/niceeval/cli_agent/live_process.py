"""A program that runs in the sandbox across turns, and is talked to in lines of JSON."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from niceeval._base.errors import AdapterError, SandboxError
from niceeval._model.sandbox import CommandResult, Sandbox
from niceeval.turn_building import JsonLines

WRITE_LIMIT = 60.0
"""Seconds that the program may take to read a line."""
MAX_WAITING = 100_000
"""Messages that may wait to be read; a program that says more is killed."""
LAST_WORDS = 500
"""Characters of the program's standard error that an error repeats."""

_START = 'umask 077; mkdir -p "$1" && mkfifo "$1/in"'
_RUN = 'exec 3<>"$0"; exec "$@" <&3'
"""The program's end of the pipe is open for both ways, so that it never sees an end between two writers."""


class LiveProcess:
    """A running program. `start` and `stop` belong together; `stop` kills its whole tree.

    `folder` is a new folder of the sandbox for the pipe that the program is fed through.
    """

    def __init__(self, sandbox: Sandbox, folder: str, *, name: str) -> None:
        self.lines = JsonLines()
        self._sandbox = sandbox
        self._folder = folder
        self._name = name
        self._messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._said = ""
        self._task: asyncio.Task[CommandResult] | None = None
        self._writing = asyncio.Lock()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._task is not None and not self._task.done()

    async def start(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        """Start the program in the working folder. Raises AdapterError where its pipe cannot be made."""
        made = await self._sandbox.run_command("sh", ["-c", _START, "sh", self._folder])
        if made.exit_code != 0:
            raise self.ended(f"its pipe cannot be made: {made.stderr.strip()[:LAST_WORDS]}")
        self._task = asyncio.create_task(
            self._sandbox.run_command(
                "sh",
                ["-c", _RUN, f"{self._folder}/in", *argv],
                env=env,
                on_stdout=self._out,
                on_stderr=self._err,
            ),
            name=f"niceeval-live-{self._name}",
        )
        self._task.add_done_callback(self._over)

    async def send(self, message: Mapping[str, Any]) -> None:
        """Write one message as a line. Raises AdapterError (`cli-ended`) where the program does not read any more."""
        line = json.dumps(message, ensure_ascii=True) + "\n"
        async with self._writing:
            if not self.alive:
                raise self.ended("it has ended")
            written = await self._write(line)
        if written.exit_code != 0:
            raise self.ended("it does not read what it is sent")

    async def _write(self, line: str) -> CommandResult:
        """Write into the pipe. A writer waits for a reader: one whose program has ended meanwhile is not waited for."""
        made = self._sandbox.run_command(
            "sh", ["-c", 'cat > "$1"', "sh", f"{self._folder}/in"], stdin=line, timeout=WRITE_LIMIT
        )
        writing = asyncio.ensure_future(made)
        running = {self._task} if self._task is not None else set()
        try:
            await asyncio.wait({writing, *running}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not writing.done():
                writing.cancel()
                await asyncio.wait({writing})
        if writing.cancelled():
            raise self.ended("it has ended")
        return writing.result()

    async def receive(self, wait: float | None = None) -> dict[str, Any] | None:
        """The next message; None where the program has ended. Raises TimeoutError after `wait` seconds without one."""
        if wait is None:
            return await self._messages.get()
        async with asyncio.timeout(wait):
            return await self._messages.get()

    def ended(self, problem: str) -> AdapterError:
        """The error of a program that does not answer any more, with the last that it complained of."""
        words = self._said.strip().splitlines()
        said = f"; it said: {words[-1][:LAST_WORDS]}" if words else ""
        return AdapterError("cli-ended", cli=self._name, problem=problem + said)

    async def stop(self) -> None:
        """Kill it, with everything that it started. One that has ended, or never began, is no error."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        with contextlib.suppress(SandboxError):
            await self._sandbox.run_command("rm", ["-rf", "--", self._folder])

    def _out(self, text: str) -> None:
        for message in self.lines.feed(text.encode("utf-8", "replace")):
            self._messages.put_nowait(message)
        if self._messages.qsize() > MAX_WAITING and self._task is not None:
            self._said = f"it said more than {MAX_WAITING:,} messages that nobody had read"
            self._task.cancel()

    def _err(self, text: str) -> None:
        self._said = (self._said + text)[-4 * LAST_WORDS :]

    def _over(self, task: asyncio.Task[CommandResult]) -> None:
        if not task.cancelled():
            error = task.exception()
            if error is not None:
                self._said = str(error)
        for message in self.lines.finish():
            self._messages.put_nowait(message)
        self._messages.put_nowait(None)
