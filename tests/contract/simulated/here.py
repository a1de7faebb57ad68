"""Commands of a simulated service's sandbox: they run on this machine, in a scratch folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

LACKS = {
    "cleared_environment": "a process is found by a variable of its environment",
    "non_root" if os.geteuid() == 0 else "root": "the machine is this one, with its user",
}
_MARK = "NICEEVAL_TEST_MACHINE"
_READERS: set[asyncio.Task[None]] = set()
"""What reads for those who have gone."""


class Place:
    """A sandbox's folder and its processes."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="niceeval-service-"))

    async def start(
        self, argv: Sequence[str], env: Mapping[str, str], *, stdin: int = asyncio.subprocess.DEVNULL
    ) -> asyncio.subprocess.Process:
        """A process with pipes, in a session of its own."""
        given = {"PATH": os.environ["PATH"], "HOME": str(self.folder), **env, _MARK: str(self.folder)}
        return await asyncio.create_subprocess_exec(
            *argv,
            env=given,
            cwd=self.folder,
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )

    def end(self) -> None:
        """Kill what runs, all of it before any of it can say something about it, and remove the folder."""
        for number in (signal.SIGSTOP, signal.SIGKILL):
            self._send(number)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _send(self, number: signal.Signals) -> None:
        marker = f"{_MARK}={self.folder}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if marker in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), number)


async def output(process: asyncio.subprocess.Process) -> AsyncIterator[tuple[str, bytes]]:
    """What a process says, until nobody holds its streams; read to its end even where nobody listens any more."""
    queue: asyncio.Queue[tuple[str, bytes] | None] = asyncio.Queue(maxsize=64)
    listening = True

    async def read(name: str, stream: asyncio.StreamReader | None) -> None:
        assert stream is not None
        while data := await stream.read(65_536):
            if listening:
                await queue.put((name, data))

    async def read_both() -> None:
        await asyncio.gather(read("stdout", process.stdout), read("stderr", process.stderr))
        if listening:
            await queue.put(None)

    task = asyncio.create_task(read_both())
    _READERS.add(task)
    task.add_done_callback(_READERS.discard)
    try:
        while (piece := await queue.get()) is not None:
            yield piece
    finally:
        listening = False
        while not queue.empty():
            queue.get_nowait()


async def ended(process: asyncio.subprocess.Process) -> int:
    """Its exit code, at its own end."""
    while process.returncode is None:  # noqa: ASYNC110 - its `wait` waits for the pipes too
        await asyncio.sleep(0.005)
    return process.returncode


@contextlib.asynccontextmanager
async def listening(app: Starlette) -> AsyncIterator[str]:
    """The address of an app on a free port of this machine."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off"))
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    with socket.create_server(("127.0.0.1", 0)) as place:
        running = asyncio.create_task(server._serve([place]))
        while not server.started:  # noqa: ASYNC110 - it has no event for it
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{place.getsockname()[1]}"
        finally:
            server.should_exit = server.force_exit = True
            await asyncio.wait({running}, timeout=30)
            for reader in list(_READERS):
                reader.cancel()
