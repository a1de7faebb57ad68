"""A Daytona sandbox as a machine that runs commands and moves files."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shlex
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import IO, Any

from niceeval.sandbox import SandboxError, SandboxGoneError, SandboxUnavailableError, SandboxUnsupportedError
from niceeval.sandbox.archives import CHUNK

LATE_OUTPUT = 1.0
"""Seconds without any that output is waited for after a command has ended."""
FIRST_LOOK = 0.02
"""Seconds until it is asked whether a command has ended; later looks come at longer intervals."""
LONGEST_WAIT = 1.0
_TRANSFER_LIMIT = 30 * 60


class DaytonaMachine:
    """See `niceeval.sandbox.remote.RemoteMachine`. Every command has a session of its own."""

    def __init__(self, sandbox: Any) -> None:
        self._sandbox = sandbox

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        root: bool,
        on_stdout: Callable[[bytes], None],
        on_stderr: Callable[[bytes], None],
    ) -> int:
        if root:
            problem = "root=True: its commands run as one user"
            fix = "use an image whose user is root"
            raise SandboxUnsupportedError("sandbox-unsupported", backend="daytona", problem=problem, fix=fix)
        from daytona import SessionExecuteRequest

        variables = [f"{name}={value}" for name, value in env.items()]
        # The shell of the session waits for input that nobody gives.
        line = shlex.join(["env", *variables, *argv]) + " < /dev/null"
        session = f"niceeval-{secrets.token_hex(8)}"
        process = self._sandbox.process
        with translated():
            await process.create_session(session)
            try:
                request = SessionExecuteRequest(command=line, run_async=True)
                command = (await process.execute_session_command(session, request)).cmd_id
                return await self._followed(session, command, on_stdout, on_stderr)
            finally:
                # It ends the session's shell and nothing that was started in a session of its own.
                with contextlib.suppress(Exception):
                    await asyncio.shield(process.delete_session(session))

    async def _followed(
        self, session: str, command: str, on_stdout: Callable[[bytes], None], on_stderr: Callable[[bytes], None]
    ) -> int:
        process = self._sandbox.process
        came = 0

        def to(take: Callable[[bytes], None]) -> Callable[[str], None]:
            def arrived(text: str) -> None:
                nonlocal came
                came += 1
                take(text.encode("utf-8", "surrogateescape"))

            return arrived

        logs = asyncio.ensure_future(
            process.get_session_command_logs_async(session, command, to(on_stdout), to(on_stderr))
        )
        try:
            wait = FIRST_LOOK
            while True:
                await asyncio.wait({logs}, timeout=wait)
                code = (await process.get_session_command(session, command)).exit_code
                if code is not None:
                    before = -1
                    while not logs.done() and before != came:
                        before = came
                        await asyncio.wait({logs}, timeout=LATE_OUTPUT)
                    if logs.done():
                        logs.result()
                    return int(code)
                if logs.done():
                    logs.result()
                    await asyncio.sleep(wait)
                wait = min(wait * 2, LONGEST_WAIT)
        finally:
            logs.cancel()
            await asyncio.gather(logs, return_exceptions=True)

    async def put(self, path: str, file: IO[bytes]) -> None:
        with tempfile.NamedTemporaryFile() as spool:
            await asyncio.to_thread(_copy, file, spool)
            with translated():
                await self._sandbox.fs.upload_file(spool.name, path, timeout=_TRANSFER_LIMIT)

    async def get(self, path: str) -> AsyncIterator[bytes]:
        with tempfile.NamedTemporaryFile() as spool:
            with translated():
                await self._sandbox.fs.download_file(path, spool.name, _TRANSFER_LIMIT)
            spool.seek(0)
            while data := await asyncio.to_thread(spool.read, CHUNK):
                yield data

    async def stop(self) -> None:
        with contextlib.suppress(SandboxGoneError), translated():
            await self._sandbox.delete()


@contextlib.contextmanager
def translated(keep: type[Exception] | None = None) -> Iterator[None]:
    """The SDK's errors in our words; one of the class `keep` passes as it is."""
    from daytona import DaytonaError, DaytonaNotFoundError, DaytonaRateLimitError

    try:
        yield
    except DaytonaError as error:
        if keep is not None and isinstance(error, keep):
            raise
        said = str(error)[:1_000]
        if isinstance(error, DaytonaNotFoundError):
            raise SandboxGoneError(
                "sandbox-gone", backend="daytona", problem=said, fix="see what removed it in the dashboard"
            ) from None
        if error.status_code in (401, 403):
            fix = "correct DAYTONA_API_KEY"
            raise SandboxUnavailableError("sandbox-unavailable", backend="daytona", problem=said, fix=fix) from None
        limited = isinstance(error, DaytonaRateLimitError)
        fix = "lower max_concurrency, or raise the limit of the account" if limited else "see the service's status"
        raise SandboxError("sandbox-failed", backend="daytona", problem=said, fix=fix) from None


def _copy(source: IO[bytes], target: IO[bytes]) -> None:
    while data := source.read(CHUNK):
        target.write(data)
    target.flush()
