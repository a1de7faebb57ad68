"""A temporary folder on this machine as a sandbox."""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from niceeval.backends.local import _bubblewrap
from niceeval.backends.local._files import Files, HostFiles
from niceeval.backends.local._folders import remove_folder
from niceeval.backends.local._isolated_files import IsolatedFiles
from niceeval.backends.local._marked import MARKER, kill_marked
from niceeval.backends.local._running import Supervised
from niceeval.sandbox import CommandResult, SandboxGoneError, SandboxUnsupportedError
from niceeval.sandbox.building import (
    ByCommand,
    OutputKeeper,
    checked_command,
    contents_of,
    not_started,
    resolve_path,
)

_PASSED_ON = (
    "PATH",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TERM",
    "USER",
    "LOGNAME",
    "SHELL",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "SYSTEMROOT",
)
"""The variables of niceeval's own that commands have: never a key."""


class LocalSandbox(ByCommand):
    """See `niceeval.sandbox.Sandbox`. With `bwrap`, the program, commands and file operations run isolated."""

    def __init__(self, root: Path, *, env: Mapping[str, str], bwrap: str | None, network: bool) -> None:
        self._root = root
        self._bwrap = bwrap
        self._network = network
        self._numbers = itertools.count(1)
        self._running: set[Supervised] = set()
        self._moving: set[Supervised] = set()
        self._files: Files = (
            HostFiles() if bwrap is None else IsolatedFiles(root, functools.partial(self._run_own, bwrap))
        )
        self._stopped = False
        self._stopping: asyncio.Task[None] | None = None
        passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        own = {"HOME": str(root / "home"), "TMPDIR": str(root / "tmp")}
        path = {"PATH": _bubblewrap.PATH} if bwrap is not None else {}
        self._env = {"PATH": _bubblewrap.PATH, **passed, **path, **own, **env}

    @property
    def workdir(self) -> str:
        return str(self._root / "workspace")

    @property
    def sandbox_id(self) -> str:
        return self._root.name

    @property
    def private_dir(self) -> str:
        return str(self._root / "private")

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
        self._require_there()
        command = checked_command(self.workdir, cmd, args, cwd=cwd, env=env, root=root, stdin=stdin, timeout=timeout)
        if root and os.geteuid() != 0:
            raise SandboxUnsupportedError(
                "sandbox-unsupported",
                backend="local",
                problem="root=True, and niceeval is not run as root",
                fix="leave root=True out, or use docker_sandbox(...)",
            )
        variables = {**self._env, **command.env, MARKER: f"{self.sandbox_id}.{next(self._numbers)}."}
        argv: Sequence[str] = command.argv
        if self._bwrap is not None:
            problem = _bubblewrap.program_problem(cmd, command.cwd, variables.get("PATH", ""), self._root)
            if problem is not None:
                raise not_started(cmd, problem)
            argv = _bubblewrap.wrapped(self._bwrap, self._root, command.cwd, argv, network=self._network)
        supervised = await Supervised.start(
            argv,
            cwd=command.cwd if self._bwrap is None else self.workdir,
            env=variables,
            stdin=command.stdin,
            command=cmd,
        )
        self._running = {other for other in self._running if other.alive}
        self._running.add(supervised)
        if self._stopped:
            await supervised.kill()
            self._require_there()
        return await supervised.finish(
            OutputKeeper(on_stdout), OutputKeeper(on_stderr), stdin=command.stdin, timeout=command.timeout
        )

    async def read_bytes(self, path: str) -> bytes:
        self._require_there()
        where = resolve_path(self.workdir, path, doing="read")
        return await self._files.read(where, path)

    async def write_files(self, files: Mapping[str, str | bytes], target_dir: str | None = None) -> None:
        self._require_there()
        await self._files.write(contents_of(files, self.workdir, target_dir))

    async def upload_directory(
        self, local_dir: str | os.PathLike[str], target_dir: str | None = None, *, ignore: Sequence[str] = ()
    ) -> None:
        self._require_there()
        where = resolve_path(self.workdir, target_dir or ".", doing="upload to")
        await self._files.upload(os.fspath(local_dir), where, ignore)

    async def download_directory(self, path: str, local_dir: str | os.PathLike[str]) -> None:
        self._require_there()
        where = resolve_path(self.workdir, path, doing="download")
        await self._files.download(where, path, os.fspath(local_dir))

    async def file_exists(self, path: str) -> bool:
        self._require_there()
        return await self._files.exists(resolve_path(self.workdir, path, doing="look for"))

    async def end_processes(self) -> None:
        self._require_there()
        await self._kill_all()

    async def stop(self) -> None:
        # Several may ask, and whoever asks is answered when it is done.
        self._stopped = True
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        await asyncio.gather(self._kill_all(), *(supervised.kill() for supervised in self._moving))
        if self._root.exists():
            await asyncio.to_thread(remove_folder, self._root)

    async def _kill_all(self) -> None:
        running, self._running = self._running, set()
        await asyncio.gather(*(supervised.kill() for supervised in running))
        await asyncio.to_thread(kill_marked, f"{self.sandbox_id}.")

    async def _run_own(self, bwrap: str, argv: Sequence[str], stage: Path | None, limit: float) -> CommandResult:
        """A command of a file operation: it is none of the agent's, and only `stop` ends it."""
        line = _bubblewrap.wrapped(bwrap, self._root, "/", argv, network=self._network, stage=stage)
        marker = f"{self.sandbox_id}-files.{next(self._numbers)}."
        env = {"PATH": _bubblewrap.PATH, "LC_ALL": "C", MARKER: marker}
        supervised = await Supervised.start(line, cwd=self.workdir, env=env, stdin=None, command=argv[0])
        self._moving.add(supervised)
        try:
            if self._stopped:
                await supervised.kill()
                self._require_there()
            result = await supervised.finish(OutputKeeper(), OutputKeeper(), stdin=None, timeout=limit)
        finally:
            self._moving.discard(supervised)
        self._require_there()
        return result

    def _require_there(self) -> None:
        if self._stopped or not self._root.is_dir():
            problem = "it was stopped" if self._stopped else "its folder was removed"
            raise SandboxGoneError("sandbox-gone", backend="local", problem=problem, fix="make a new one")
