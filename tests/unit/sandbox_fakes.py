"""A user's own sandbox for tests: a temporary folder, real commands, and faults on request.

world = World(tmp_path)
spec = world.spec(create_hangs=True)
world.standing   # ids of what was made and not stopped
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from niceeval.sandbox import CommandResult, SandboxError, SandboxGoneError, SandboxSpec, define_sandbox


@dataclass
class World:
    """What the fakes of one test have in common. Faults are callables or flags that a test sets."""

    root: Path
    made: list[str] = field(default_factory=list)
    standing: set[str] = field(default_factory=set)
    runtimes: list[Mapping[str, str]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    before_create: Callable[[int], Any] | None = None
    before_stop: Callable[[str], Any] | None = None
    end_fails: bool = False
    most: int = 0

    def spec(self, **options: Any) -> SandboxSpec:
        """A spec whose sandboxes are made here."""
        return define_sandbox(name="fake", create=self.create, **options)

    async def create(self, *, timeout: float, runtime: Mapping[str, str]) -> FakeSandbox:
        """As `define_sandbox` calls it."""
        number = len(self.made)
        if self.before_create is not None:
            await self.before_create(number)
        sandbox = FakeSandbox(self, f"fake-{number}")
        self.made.append(sandbox.sandbox_id)
        self.runtimes.append(dict(runtime))
        self.standing.add(sandbox.sandbox_id)
        self.most = max(self.most, len(self.standing))
        return sandbox


class FakeSandbox:
    """A folder of its own, in which commands are real processes of one process group each."""

    def __init__(self, world: World, sandbox_id: str) -> None:
        self.world = world
        self.sandbox_id = sandbox_id
        self.root = world.root / sandbox_id
        self.workdir = str(self.root / "work")
        self.private_dir = str(self.root / "private")
        self.gone = False
        self.left: list[int] = []
        for folder in (self.workdir, self.private_dir):
            os.makedirs(folder)

    def _require(self) -> None:
        if self.gone or self.sandbox_id not in self.world.standing:
            raise SandboxGoneError("sandbox-gone", backend="fake", problem="it was removed", fix="run it again")

    def _path(self, path: str | None) -> str:
        return os.path.join(self.workdir, path or "")

    async def run_command(
        self,
        cmd: str,
        args: Sequence[str] = (),
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        root: bool = False,
        stdin: str | bytes | None = None,
        timeout: float | None = None,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
    ) -> CommandResult:
        """A real process."""
        self._require()
        process = await asyncio.create_subprocess_exec(
            cmd,
            *args,
            cwd=self._path(cwd),
            env={**os.environ, **(env or {})},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        data = stdin.encode() if isinstance(stdin, str) else stdin
        self.left.append(process.pid)
        try:
            out, err = await asyncio.wait_for(process.communicate(data), timeout)
        except (TimeoutError, asyncio.CancelledError) as error:
            self._kill(process.pid)
            await process.wait()
            if isinstance(error, TimeoutError):
                return CommandResult(stdout="", stderr="", exit_code=124, duration=timeout or 0.0, timed_out=True)
            raise
        self._require()
        code = process.returncode or 0
        return CommandResult(
            stdout=out.decode("utf-8", "replace"),
            stderr=err.decode("utf-8", "replace"),
            exit_code=code if code >= 0 else 128 - code,
            duration=0.0,
        )

    async def run_shell(self, script: str, **options: Any) -> CommandResult:
        """As a command of bash."""
        return await self.run_command("bash", ["-c", script], **options)

    async def read_file(self, path: str) -> str:
        """Text."""
        return (await self.read_bytes(path)).decode("utf-8", "replace")

    async def read_bytes(self, path: str) -> bytes:
        """Bytes."""
        self._require()
        return await asyncio.to_thread(Path(self._path(path)).read_bytes)

    async def write_files(self, files: Mapping[str, str | bytes], target_dir: str | None = None) -> None:
        """Written with their parents."""
        self._require()
        for name, content in files.items():
            path = os.path.join(self._path(target_dir), name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            await asyncio.to_thread(Path(path).write_bytes, content.encode() if isinstance(content, str) else content)

    async def upload_directory(
        self, local_dir: str | os.PathLike[str], target_dir: str | None = None, *, ignore: Sequence[str] = ()
    ) -> None:
        """The whole folder."""
        self._require()
        shutil.copytree(local_dir, self._path(target_dir), symlinks=True, dirs_exist_ok=True)

    async def download_directory(self, path: str, local_dir: str | os.PathLike[str]) -> None:
        """The whole folder."""
        self._require()
        shutil.copytree(self._path(path), local_dir, symlinks=True, dirs_exist_ok=True)

    async def file_exists(self, path: str) -> bool:
        """Whether it is there."""
        self._require()
        return os.access(self._path(path), os.F_OK)

    async def end_processes(self) -> None:
        """Every process group that was started here."""
        self.world.events.append(f"end_processes {self.sandbox_id}")
        if self.world.end_fails:
            raise SandboxError("sandbox-failed", backend="fake", problem="they do not end", fix="look at them")
        for pid in self.left:
            self._kill(pid)

    async def stop(self) -> None:
        """Twice is fine."""
        if self.world.before_stop is not None:
            await self.world.before_stop(self.sandbox_id)
        for pid in self.left:
            self._kill(pid)
        self.gone = True
        self.world.standing.discard(self.sandbox_id)
        self.world.events.append(f"stop {self.sandbox_id}")

    def _kill(self, group: int) -> None:
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return
