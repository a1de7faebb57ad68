"""An E2B sandbox as a machine that runs commands and moves files."""

from __future__ import annotations

import asyncio
import contextlib
import io
import secrets
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING

from niceeval.backends.e2b._errors import failed, translated
from niceeval.sandbox import SandboxGoneError
from niceeval.sandbox.services import LATE_OUTPUT, Ending, Lease, gone_because

if TYPE_CHECKING:
    from e2b import AsyncCommandHandle, AsyncSandbox


LONGEST_LINE = 64 * 1024
"""Bytes of a command's line that are passed on as they are. Linux takes 128 KiB in one argument."""


class E2bMachine:
    """See `niceeval.sandbox.remote.RemoteMachine`."""

    def __init__(self, sandbox: AsyncSandbox, private_dir: str) -> None:
        self._sandbox = sandbox
        self._private = private_dir
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
        line = await self._short(_line(ending.argv, env))
        with gone_because(self.lease), translated():
            handle = await self._sandbox.commands.run(
                line,
                background=True,
                envs=dict(env),
                user="root" if root else None,
                on_stdout=lambda text: on_stdout(text.encode("utf-8", "replace")),
                on_stderr=lambda text: ending.feed(text.encode("utf-8", "replace")),
                timeout=0,
                retain_output=False,
            )
            return await self._followed(handle, ending)

    async def _short(self, line: str) -> str:
        """The line, or where it is too long for one argument, one that reads it from a file."""
        if len(line.encode()) <= LONGEST_LINE:
            return line
        place = f"{self._private}/line-{secrets.token_hex(8)}"
        quoted = shlex.quote(place)
        await self.put(place, io.BytesIO(f"rm -f -- {quoted}\n{line}\n".encode()))
        return f". {quoted}"

    async def _followed(self, handle: AsyncCommandHandle[None], ending: Ending) -> int:
        from e2b import CommandExitException

        over = asyncio.create_task(handle.wait())
        known = asyncio.create_task(ending.known.wait())
        try:
            await asyncio.wait({over, known}, return_when=asyncio.FIRST_COMPLETED)
            if not over.done():
                await asyncio.wait({over}, timeout=LATE_OUTPUT)
            ending.finish()
            if ending.code is not None:
                return ending.code
            try:
                return (await over).exit_code
            except CommandExitException as exit:
                # The command's shell was killed: nobody was left to say how it ended.
                return exit.exit_code if exit.exit_code >= 0 else 137
        finally:
            known.cancel()
            over.cancel()
            with contextlib.suppress(Exception):
                await handle.disconnect()
            await asyncio.gather(known, over, return_exceptions=True)

    async def put(self, path: str, file: IO[bytes]) -> None:
        with gone_because(self.lease), translated():
            await self._sandbox.files.write(path, file)

    async def get(self, path: str) -> AsyncIterator[bytes]:
        with gone_because(self.lease), translated():
            async with await self._sandbox.files.read(path, "stream") as chunks:
                async for chunk in chunks:
                    yield chunk

    async def extend(self, seconds: float) -> None:
        """Let it live that long from now."""
        with translated():
            await self._sandbox.set_timeout(max(1, int(seconds)))

    async def stop(self) -> None:
        if self.lease is not None:
            await self.lease.end()
        with contextlib.suppress(SandboxGoneError), translated():
            await self._sandbox.kill()


def _line(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """The command's line for the service's login shell, whose profile may have set another PATH."""
    if any("\udc80" <= char <= "\udcff" for text in argv for char in text):
        raise failed("an argument is no UTF-8 text, and E2B takes nothing else", "pass it in a file")
    path = f"export PATH={shlex.quote(env['PATH'])}; " if "PATH" in env else ""
    return f"{path}exec {shlex.join(argv)}"
