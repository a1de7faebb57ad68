"""A sandbox as an attempt holds it: usable until the attempt is over, and stopped by nobody but the runner.

What an attempt leaves behind (a task of an adapter, a thread) must not reach a sandbox that the next attempt has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike

from niceeval._base.errors import SandboxGoneError, SandboxUnsupportedError
from niceeval._model.sandbox import CommandResult, Sandbox


class LeasedSandbox:
    """The sandbox itself, until `end`."""

    def __init__(self, sandbox: Sandbox, backend: str) -> None:
        self._held: Sandbox | None = sandbox
        self._backend = backend
        self._workdir = sandbox.workdir
        self._id = sandbox.sandbox_id
        self._private_dir = sandbox.private_dir

    def end(self) -> None:
        """From here on every call is refused."""
        self._held = None

    @property
    def workdir(self) -> str:
        return self._workdir

    @property
    def sandbox_id(self) -> str:
        return self._id

    @property
    def private_dir(self) -> str:
        return self._private_dir

    @property
    def _sandbox(self) -> Sandbox:
        if self._held is None:
            raise SandboxGoneError(
                "sandbox-gone",
                backend=self._backend,
                problem="its attempt is over",
                fix="await everything that uses ctx.sandbox before send, setup or the eval returns",
            )
        return self._held

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
        return await self._sandbox.run_command(
            cmd,
            args,
            cwd=cwd,
            env=env,
            root=root,
            stdin=stdin,
            timeout=timeout,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
        )

    async def run_shell(
        self,
        script: str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        root: bool = False,
        stdin: str | bytes | None = None,
        timeout: float | None = None,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
    ) -> CommandResult:
        return await self._sandbox.run_shell(
            script,
            cwd=cwd,
            env=env,
            root=root,
            stdin=stdin,
            timeout=timeout,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
        )

    async def read_file(self, path: str) -> str:
        return await self._sandbox.read_file(path)

    async def read_bytes(self, path: str) -> bytes:
        return await self._sandbox.read_bytes(path)

    async def write_files(self, files: Mapping[str, str | bytes], target_dir: str | None = None) -> None:
        await self._sandbox.write_files(files, target_dir)

    async def upload_directory(
        self, local_dir: str | PathLike[str], target_dir: str | None = None, *, ignore: Sequence[str] = ()
    ) -> None:
        await self._sandbox.upload_directory(local_dir, target_dir, ignore=ignore)

    async def download_directory(self, path: str, local_dir: str | PathLike[str]) -> None:
        await self._sandbox.download_directory(path, local_dir)

    async def file_exists(self, path: str) -> bool:
        return await self._sandbox.file_exists(path)

    async def end_processes(self) -> None:
        await self._sandbox.end_processes()

    async def stop(self) -> None:
        raise SandboxUnsupportedError(
            "sandbox-unsupported",
            backend=self._backend,
            problem="a sandbox is stopped by niceeval, when its attempt is over",
            fix="remove the call of stop()",
        )
