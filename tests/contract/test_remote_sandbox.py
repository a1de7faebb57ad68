"""What cloud backends share, over a machine that runs its commands here."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from niceeval.sandbox import Sandbox
from niceeval.sandbox.remote import RemoteSandbox
from niceeval.testing import check_sandbox_sync

LACKS = {
    "cleared_environment": "a process is found by a variable of its environment",
    "non_root" if os.geteuid() == 0 else "root": "the machine is this one, with its user",
}


class HereMachine:
    """A machine of three calls, which is this one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        root: bool,
        on_stdout: Callable[[bytes], None],
        on_stderr: Callable[[bytes], None],
    ) -> int:
        process = await asyncio.create_subprocess_exec(
            *argv,
            env={"PATH": os.environ["PATH"], **env},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        readers = [
            asyncio.create_task(_hand_on(process.stdout, on_stdout)),
            asyncio.create_task(_hand_on(process.stderr, on_stderr)),
        ]
        # Its `wait` would wait for the pipes too, which what it leaves running may hold open.
        while process.returncode is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        code = process.returncode
        await asyncio.wait(readers, timeout=0.3)
        return code if code >= 0 else 128 - code

    async def put(self, path: str, file: IO[bytes]) -> None:
        await asyncio.to_thread(Path(path).write_bytes, file.read())

    async def get(self, path: str) -> AsyncIterator[bytes]:
        yield await asyncio.to_thread(Path(path).read_bytes)

    async def stop(self) -> None:
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        marker = f"NICEEVAL_TEST_MACHINE={self._folder}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if marker in (process / "environ").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)


async def _hand_on(stream: asyncio.StreamReader, take: Callable[[bytes], None]) -> None:
    while data := await stream.read(65_536):
        take(data)


class SlowMachine(HereMachine):
    """One that begins a command a while after it was told to, also where nobody waits for it any more."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.starts: list[asyncio.Task[int]] = []
        self.slow = asyncio.Event()
        self.begin = asyncio.Event()

    async def run(self, argv: Sequence[str], **options: Any) -> int:
        if "beat" not in argv:
            return await super().run(argv, **options)

        async def later() -> int:
            self.slow.set()
            await self.begin.wait()
            return await HereMachine.run(self, argv, **options)

        self.starts.append(asyncio.create_task(later()))
        return await asyncio.shield(self.starts[-1])


async def make(machine: type[HereMachine] = HereMachine) -> Sandbox:
    """A new sandbox in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="niceeval-here-"))
    env = {"HOME": str(folder), "NICEEVAL_TEST_MACHINE": str(folder)}
    sandbox = RemoteSandbox(
        machine(folder),
        name="here",
        sandbox_id=folder.name,
        workdir=str(folder / "workspace"),
        private_dir=str(folder / "private"),
        env=env,
    )
    await sandbox.prepare()
    return sandbox


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc, as the machines of cloud services do")
def test_three_calls_make_the_whole_contract() -> None:
    """Every check of the kit passes on a sandbox that is made of running commands and moving files."""
    report = check_sandbox_sync(make, lacks=LACKS)
    report.raise_for_failures()
    assert len(report.passed) >= 110


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["cancelled", "timed out"])
def test_a_command_that_begins_after_it_was_ended_does_nothing(ending: str) -> None:
    """A service may still be starting what is killed: it found nothing to kill, and the command ran on for good."""
    machines: list[SlowMachine] = []

    class Kept(SlowMachine):
        def __init__(self, folder: Path) -> None:
            super().__init__(folder)
            machines.append(self)

    async def body() -> None:
        sandbox = await make(Kept)
        (machine,) = machines
        limit = 0.2 if ending == "timed out" else None
        running = asyncio.create_task(sandbox.run_command("sh", ["-c", "echo > alive", "beat"], timeout=limit))
        await machine.slow.wait()
        if ending == "cancelled":
            running.cancel()
        await asyncio.wait({running}, timeout=60)
        assert running.cancelled() if ending == "cancelled" else running.result().timed_out
        machine.begin.set()
        assert await machine.starts[0] != 0
        assert not await sandbox.file_exists("alive")
        await sandbox.stop()

    asyncio.run(body())
