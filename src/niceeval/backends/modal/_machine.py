"""A Modal sandbox as a machine that runs commands and moves files."""

from __future__ import annotations

import asyncio
import contextlib
import io
import secrets
import shlex
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from niceeval.backends.modal._errors import failed, gone, translated
from niceeval.sandbox import SandboxError, SandboxGoneError, SandboxUnsupportedError
from niceeval.sandbox.archives import CHUNK
from niceeval.sandbox.services import LATE_OUTPUT, Ending, Lease, gone_because

if TYPE_CHECKING:
    from modal import Sandbox

LONGEST_LINE = 32 * 1024
"""Characters of a command's arguments that are passed on as they are. Modal takes 64 Ki of them."""
LONGEST_REST = 60.0
"""Seconds that the output of a command that has ended is read on for, while more of it comes."""
LOOK = 30.0
"""Seconds of a command that runs until it is asked whether its sandbox does: the SDK may wait for ever for one that
ended together with the machine that it was on."""
_NONE = 44
_WRITE = ("sh", "-c", 'exec cat > "$1"', "sh")
_READ = ("sh", "-c", f'[ -e "$1" ] || exit {_NONE}; exec cat -- "$1"', "sh")
_WHY = {124: "its time was over", 137: "it was ended"}


class ModalMachine:
    """See `niceeval.sandbox.remote.RemoteMachine`. `root`: whether the user that commands run as is root."""

    def __init__(self, sandbox: Sandbox, private_dir: str) -> None:
        self._sandbox = sandbox
        self._private = private_dir
        self.root = False
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
        if root and not self.root:
            problem = "root=True: its commands run as the image's user, who is not root"
            fix = "use an image whose user is root"
            raise SandboxUnsupportedError("sandbox-unsupported", backend="modal", problem=problem, fix=fix)
        ending = Ending(argv, on_stderr)
        line, variables = await self._sayable(ending.argv, env)
        async with self._told():
            process = await self._exec(line, variables)
            return await self._followed(process, ending, on_stdout)

    async def _exec(self, argv: Sequence[str], env: Mapping[str, str]) -> Any:
        """A process whose streams are bytes."""
        return await self._sandbox.exec.aio(*argv, env=dict(env), text=False)

    async def _sayable(self, argv: Sequence[str], env: Mapping[str, str]) -> tuple[Sequence[str], Mapping[str, str]]:
        """The arguments and variables; where they are too long for Modal, or no text, a line that reads a file."""
        said = {name: value for name, value in env.items() if _is_text(value)}
        if len(said) == len(env) and sum(map(len, argv)) <= LONGEST_LINE and all(map(_is_text, argv)):
            return argv, said
        place = f"{self._private}/line-{secrets.token_hex(8)}"
        unsaid = [f"export {name}={shlex.quote(value)}" for name, value in env.items() if name not in said]
        lines = [f"rm -f -- {shlex.quote(place)}", *unsaid, f"exec {shlex.join(argv)}", ""]
        await self.put(place, io.BytesIO("\n".join(lines).encode("utf-8", "surrogateescape")))
        return ("sh", place), said

    async def _followed(self, process: Any, ending: Ending, on_stdout: Callable[[bytes], None]) -> int:
        pieces = 0

        async def read(stream: Any, take: Callable[[bytes], None]) -> None:
            nonlocal pieces
            async for data in stream:
                pieces += 1
                take(data)

        out = asyncio.create_task(read(process.stdout, on_stdout))
        err = asyncio.create_task(read(process.stderr, ending.feed))
        over = asyncio.create_task(_awaited(process.wait.aio()))
        known = asyncio.create_task(ending.known.wait())
        tasks: tuple[asyncio.Task[Any], ...] = (out, err, over, known)
        try:
            while not (await asyncio.wait({over, known}, timeout=LOOK, return_when=asyncio.FIRST_COMPLETED))[0]:
                await self._require_it_runs()
            if over.done():
                over.result()
            until = time.monotonic() + LONGEST_REST
            seen = -1
            while seen != pieces and time.monotonic() < until:
                seen = pieces
                _, late = await asyncio.wait({out, err}, timeout=LATE_OUTPUT)
                if not late:
                    break
            ending.finish()
            for reader in (out, err):
                if reader.done():
                    reader.result()
            return int(await over) if ending.code is None else ending.code
        finally:
            await _ended(tasks)

    async def put(self, path: str, file: IO[bytes]) -> None:
        async with self._told():
            process = await self._exec((*_WRITE, path), {})
            try:
                await _fed(process.stdin, file)
            except Exception:
                # A `cat` that has ended says better why than the service, which cannot write to it any more.
                if await process.poll.aio() is not None:
                    await self._require_success(process, f"{path} cannot be written")
                raise
            await self._require_success(process, f"{path} cannot be written")

    async def get(self, path: str) -> AsyncIterator[bytes]:
        async with self._told():
            process = await self._exec((*_READ, path), {})
            async for data in process.stdout:
                yield data
            await self._require_success(process, f"{path} cannot be read")

    async def _require_success(self, process: Any, otherwise: str) -> None:
        code = await process.wait.aio()
        if code == _NONE:
            raise FileNotFoundError(otherwise)
        if code != 0:
            said = (await process.stderr.read.aio()).decode("utf-8", "replace").strip()
            raise failed(said[-500:] or otherwise, "see how full the sandbox's disk is")

    async def extend(self, _seconds: float) -> None:
        """Let it be idle for that long from now on: Modal counts from the last command."""
        with translated():
            await (await self._exec(("true",), {})).wait.aio()

    async def stop(self) -> None:
        if self.lease is not None:
            await self.lease.end()
        with contextlib.suppress(SandboxGoneError), translated():
            await self._sandbox.terminate.aio()

    @contextlib.asynccontextmanager
    async def _told(self) -> AsyncIterator[None]:
        """The SDK's errors in our words; that the sandbox has ended comes before what went wrong because of it."""
        with gone_because(self.lease):
            try:
                with translated():
                    yield
            except SandboxGoneError:
                raise
            except SandboxError:
                await self._require_it_runs()
                raise

    async def _require_it_runs(self) -> None:
        """Raises SandboxGoneError where Modal says that it has ended, and nothing where it says nothing."""
        try:
            with translated():
                code = await self._sandbox.poll.aio()
        except SandboxGoneError:
            raise
        except SandboxError:
            return
        if code is not None:
            raise gone(_WHY.get(code, f"its first process ended with exit code {code}"))


async def _fed(stdin: Any, file: IO[bytes]) -> None:
    """Write the file, from its place to its end, and then the end."""
    try:
        while data := await asyncio.to_thread(file.read, CHUNK):
            stdin.write(data)
            await stdin.drain.aio()
    except BaseException:
        # A `cat` that waits for more would be there for ever.
        stdin.write_eof()
        with contextlib.suppress(Exception):
            await asyncio.shield(asyncio.ensure_future(_awaited(stdin.drain.aio())))
        raise
    stdin.write_eof()
    await stdin.drain.aio()


async def _awaited(call: Coroutine[Any, Any, Any]) -> Any:
    return await call


async def _ended(tasks: Iterable[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _is_text(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)
