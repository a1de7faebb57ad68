"""A temporary folder on this machine as a sandbox."""

from __future__ import annotations

import asyncio
import itertools
import os
import posixpath
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from niceeval.backends.local import _bubblewrap
from niceeval.backends.local._folders import remove_folder
from niceeval.backends.local._marked import MARKER, kill_marked
from niceeval.backends.local._running import Supervised
from niceeval.sandbox import CommandResult, SandboxGoneError, SandboxUnsupportedError
from niceeval.sandbox.archives import tar_of_folder, unpack
from niceeval.sandbox.building import (
    FILE_MODE,
    ByCommand,
    OutputKeeper,
    checked_command,
    contents_of,
    no_file,
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
    """See `niceeval.sandbox.Sandbox`. With `bwrap`, the program, commands run isolated."""

    def __init__(self, root: Path, *, env: Mapping[str, str], bwrap: str | None, network: bool) -> None:
        self._root = root
        self._bwrap = bwrap
        self._network = network
        self._numbers = itertools.count(1)
        self._running: set[Supervised] = set()
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
        where = self._place(path, doing="read")
        return await asyncio.to_thread(_read, where, path)

    async def write_files(self, files: Mapping[str, str | bytes], target_dir: str | None = None) -> None:
        self._require_there()
        given = contents_of(files, self.workdir, target_dir)
        contents = {self._place(path, doing="write to", writing=True): data for path, data in given.items()}
        await asyncio.to_thread(_write_all, contents)

    async def upload_directory(
        self, local_dir: str | os.PathLike[str], target_dir: str | None = None, *, ignore: Sequence[str] = ()
    ) -> None:
        self._require_there()
        where = self._place(target_dir or ".", doing="upload to", writing=True)
        await asyncio.to_thread(_copy, os.fspath(local_dir), where, tuple(ignore), everything=True)

    async def download_directory(self, path: str, local_dir: str | os.PathLike[str]) -> None:
        self._require_there()
        where = self._place(path, doing="download")
        await asyncio.to_thread(_copy, where, os.fspath(local_dir), (), everything=False)

    async def file_exists(self, path: str) -> bool:
        self._require_there()
        where = resolve_path(self.workdir, path, doing="look for")
        if self._bwrap is not None:
            where = _bubblewrap.host_path(where, self._root, writing=False) or ""
        return await asyncio.to_thread(os.path.exists, where)

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
        await self._kill_all()
        if self._root.exists():
            await asyncio.to_thread(remove_folder, self._root)

    async def _kill_all(self) -> None:
        running, self._running = self._running, set()
        await asyncio.gather(*(supervised.kill() for supervised in running))
        await asyncio.to_thread(kill_marked, f"{self.sandbox_id}.")

    def _place(self, path: str, *, doing: str, writing: bool = False) -> str:
        """The place on this machine of a sandbox path; an isolated one's links lead nowhere else."""
        where = resolve_path(self.workdir, path, doing=doing)
        if self._bwrap is None:
            return where
        place = _bubblewrap.host_path(where, self._root, writing=writing)
        if place is None:
            raise no_file(path, "leads out of what the sandbox shows" if not writing else "is not the sandbox's own")
        return place

    def _require_there(self) -> None:
        if self._stopped or not self._root.is_dir():
            problem = "it was stopped" if self._stopped else "its folder was removed"
            raise SandboxGoneError("sandbox-gone", backend="local", problem=problem, fix="make a new one")


def _read(where: str, path: str) -> bytes:
    try:
        if not stat.S_ISREG(os.stat(where).st_mode):
            raise no_file(path, "is no regular file")
        with open(where, "rb") as file:
            return file.read()
    except OSError as error:
        raise no_file(path, (error.strerror or str(error)).lower()) from None


def _write_all(contents: Mapping[str, bytes]) -> None:
    for where, data in contents.items():
        try:
            os.makedirs(posixpath.dirname(where), exist_ok=True)
            new = not os.path.exists(where)
            with open(where, "wb") as file:
                file.write(data)
            if new:
                os.chmod(where, FILE_MODE)
        except OSError as error:
            raise no_file(where, (error.strerror or str(error)).lower()) from None


def _copy(source: str, target: str, ignore: tuple[str, ...], *, everything: bool) -> None:
    """Copy a folder's content; `everything` keeps links that lead out of it as they are."""
    try:
        unpack(tar_of_folder(source, uid=0, gid=0, ignore=ignore), target, keep_links=everything)
    except OSError as error:
        raise no_file(target, (error.strerror or str(error)).lower()) from None
