"""A Vercel Sandbox as a machine that runs commands and moves files."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, TextIO, cast

from niceeval.backends.vercel._errors import translated
from niceeval.sandbox import SandboxGoneError
from niceeval.sandbox.archives import CHUNK
from niceeval.sandbox.services import LATE_OUTPUT, Ending, Lease, gone_because

if TYPE_CHECKING:
    from vercel.sandbox import Sandbox, SandboxRuntimeSession

SHORTEST = 1.0
"""Seconds that the service extends a sandbox's time by at least."""


class VercelMachine:
    """See `niceeval.sandbox.remote.RemoteMachine`.

    Everything goes to the session that the sandbox was made with. The sandbox itself would start another one where that
    has ended: with an empty file system, and without a word.
    """

    def __init__(self, sandbox: Sandbox, session: SandboxRuntimeSession, *, term: float) -> None:
        self._sandbox = sandbox
        self._session = session
        self._ends = time.monotonic() + term
        self.lease: Lease | None = None

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        root: bool,
        on_stdout: Callable[[bytes], None],
        on_stderr: Callable[[bytes], None],
    ) -> int:
        ending = Ending(argv, on_stderr)
        command, *rest = ending.argv
        with gone_because(self.lease), translated():
            running = asyncio.ensure_future(
                self._session.run_process(
                    command, rest, env=env, sudo=root, stdout=_stream(on_stdout), stderr=_stream(ending.feed)
                )
            )
            known = asyncio.create_task(ending.known.wait())
            try:
                await asyncio.wait({running, known}, return_when=asyncio.FIRST_COMPLETED)
                if not running.done():
                    await asyncio.wait({running}, timeout=LATE_OUTPUT)
                ending.finish()
                if ending.code is not None:
                    return ending.code
                code = (await running).returncode
                # The command's shell was killed: nobody was left to say how it ended.
                return code if code >= 0 else 137
            finally:
                known.cancel()
                running.cancel()
                await asyncio.gather(known, running, return_exceptions=True)

    async def put(self, path: str, file: IO[bytes]) -> None:
        size = os.fstat(file.fileno()).st_size - file.tell()
        with gone_because(self.lease), translated():
            async with self._session.fs.open(path, "wb", size=size, permissions=0o644) as target:
                while data := await asyncio.to_thread(file.read, CHUNK):
                    await target.write(data)

    async def get(self, path: str) -> AsyncIterator[bytes]:
        with gone_because(self.lease), translated():
            async with self._session.fs.open(path, "rb") as source:
                while data := await source.read(CHUNK):
                    yield data

    async def extend(self, seconds: float) -> None:
        """Let it live that long from now; the service only adds to the time that it has."""
        more = time.monotonic() + seconds - self._ends
        if more < SHORTEST:
            return
        with translated():
            await self._session.extend_execution_time_limit(more)
        self._ends += more

    async def stop(self) -> None:
        if self.lease is not None:
            await self.lease.end()
        await removed(self._sandbox)


async def removed(sandbox: Sandbox) -> None:
    """Stop a sandbox, and remove it. One that has ended is no error."""
    with contextlib.suppress(SandboxGoneError), translated():
        await sandbox.stop()
    # The snapshot that it was made from stays, also where nothing else uses it.
    with contextlib.suppress(SandboxGoneError), translated():
        await sandbox.destroy()


def _stream(take: Callable[[bytes], None]) -> TextIO:
    return cast(TextIO, _Stream(take))


class _Stream(io.TextIOBase):
    """Where the SDK writes what a command says."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        self._take(text.encode("utf-8", "replace"))
        return len(text)
