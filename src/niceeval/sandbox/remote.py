"""A sandbox on a machine that can only run commands and move files: what cloud services have in common.

A backend gives a `RemoteMachine`, three calls over its vendor's SDK; `RemoteSandbox` makes the whole contract of them,
with the machine's own `sh`, `tar`, `cat` and `grep`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import posixpath
import re
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import IO, Any, Protocol

from niceeval._base.errors import SandboxError, SandboxGoneError
from niceeval._model.sandbox import CommandResult
from niceeval.sandbox.archives import CHUNK, tar_of_files, tar_of_folder, unpack
from niceeval.sandbox.building import (
    ByCommand,
    Command,
    OutputKeeper,
    checked_command,
    command_result,
    contents_of,
    no_file,
    not_started,
    resolve_path,
)

COMMAND = "NICEEVAL_COMMAND"
"""The variable that marks every process of a command: a part for its sandbox, and one for itself."""
KILL_LIMIT = 60.0
"""Seconds that the killing command may take before the sandbox counts as lost."""
_FAILED = 125
_PLAIN = re.compile(r"[A-Za-z0-9/._+-]+")

_LAUNCHER = r"""
token=$1 folder=$2 input=$3 ended=$4; shift 4
[ -e "$ended" ] && exit 137
fail() { printf '%s %s\n' "$token" "$1" >&2; exit 125; }
cd -- "$folder" 2>/dev/null || fail folder
case $1 in
*/*) [ -e "$1" ] || fail missing; [ -f "$1" ] && [ -x "$1" ] || fail denied ;;
*) found=; rest=$PATH:
  while [ -n "$rest" ]; do
    place=${rest%%:*} rest=${rest#*:}
    [ -f "$place/$1" ] && [ -x "$place/$1" ] && found=1 && break
  done
  [ -n "$found" ] || fail missing ;;
esac
exec "$@" < "$input"
"""
_PROBLEMS = {"missing": "no such file or directory", "denied": "permission denied"}

_KILLER = r"""
marker=$1 ended=$2 rounds=0
[ -z "$ended" ] || (: > "$ended") 2>/dev/null
while [ $rounds -lt 500 ]; do
  rounds=$((rounds + 1)) found=
  for place in $(grep -alF "$marker" /proc/[0-9]*/environ 2>/dev/null); do
    pid=${place#/proc/}; kill -9 "${pid%/environ}" 2>/dev/null && found=1
  done
  [ -n "$found" ] || exit 0
done
exit 1
"""
"""Kills what carries a marker in its environment, until a look finds nothing. Its own processes carry none.

The file `ended` is written first: a service may still be starting the command, and the launcher, which carries the
marker, looks for the file before anything else. So one that the look does not find will find the file.
"""

_WRITE = r"""
stage=$1; shift; number=0
for target in "$@"; do
  [ -d "$target" ] && { printf '%s: is a directory\n' "$target" >&2; exit 3; }
  mkdir -p -- "${target%/*}/" && cat "$stage/$number" > "$target" || exit 3
  number=$((number + 1))
done
"""
"""Puts the numbered files of a folder in their places; one that is there keeps its mode, a link its place."""


class RemoteMachine(Protocol):
    """What a service's SDK can do, in three calls. Each raises SandboxError, or SandboxGoneError where it is gone."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        root: bool,
        on_stdout: Callable[[bytes], None],
        on_stderr: Callable[[bytes], None],
    ) -> int:
        """Run a command to the end of its first process; its exit code, 128 + n for death by a signal.

        Cancelled, it only stops waiting. Raises SandboxUnsupportedError where `root` cannot be had.
        """
        ...

    async def put(self, path: str, file: IO[bytes]) -> None:
        """Write a file of the machine, from the file's place to its end."""
        ...

    def get(self, path: str) -> AsyncIterator[bytes]:
        """A file of the machine, in pieces. Raises FileNotFoundError where there is none."""
        ...

    async def stop(self) -> None:
        """End the machine. One that has ended is no error."""
        ...


class RemoteSandbox(ByCommand):
    """See `niceeval.sandbox.Sandbox`. `env` is set for every command; `prepare` is awaited once, before anything."""

    def __init__(
        self,
        machine: RemoteMachine,
        *,
        name: str,
        sandbox_id: str,
        workdir: str,
        private_dir: str,
        env: Mapping[str, str],
    ) -> None:
        self._machine = machine
        self._name = name
        self._id = sandbox_id
        self._workdir = workdir
        self._private = private_dir
        self._env = dict(env)
        self._mark = secrets.token_hex(8)
        self._stopped = False
        self._stopping: asyncio.Task[None] | None = None

    @property
    def workdir(self) -> str:
        return self._workdir

    @property
    def sandbox_id(self) -> str:
        return self._id

    @property
    def private_dir(self) -> str:
        return self._private

    async def prepare(self) -> None:
        """Make the workdir and the private folder. Raises SandboxError where they cannot be made."""
        script = 'mkdir -p -- "$1" "$2" && chmod 700 "$2"'
        await self._own("sh", "-c", script, "sh", self._workdir, self._private)

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
        command = checked_command(self._workdir, cmd, args, cwd=cwd, env=env, root=root, stdin=stdin, timeout=timeout)
        if command.stdin is None:
            return await self._run(command, "/dev/null", on_stdout, on_stderr)
        async with self._staged(command.stdin) as place:
            return await self._run(command, place, on_stdout, on_stderr)

    async def _run(
        self,
        command: Command,
        stdin: str,
        on_stdout: Callable[[str], None] | None,
        on_stderr: Callable[[str], None] | None,
    ) -> CommandResult:
        token, marker = f"niceeval-{secrets.token_hex(8)}", f"{self._mark}-{secrets.token_hex(8)}"
        argv = ("sh", "-c", _LAUNCHER, "sh", token, command.cwd, stdin, self._ended(marker), *command.argv)
        out, err = OutputKeeper(on_stdout), OutputKeeper(on_stderr)
        said = bytearray()

        def take_error(data: bytes) -> None:
            if len(said) < 200:
                said.extend(data[:200])
            # What the launcher says of a command that was never started is no output of it.
            if not bytes(said).startswith(token.encode()):
                err.feed(data)

        started = time.monotonic()
        env = {**self._env, **command.env, COMMAND: marker}
        running = asyncio.ensure_future(
            self._machine.run(argv, env=env, root=command.root, on_stdout=out.feed, on_stderr=take_error)
        )
        try:
            done, _ = await asyncio.wait({running}, timeout=command.timeout)
        except asyncio.CancelledError:
            await self._kill(running, marker, command.root)
            raise
        if not done:
            await self._kill(running, marker, command.root)
        code = 137 if not done else await running
        if code == _FAILED and bytes(said).startswith(token.encode()):
            raise not_started(command.argv[0], _start_problem(said.decode("utf-8", "replace"), command.cwd))
        return command_result(out, err, exit_code=code, duration=time.monotonic() - started, timed_out=not done)

    async def _kill(self, running: asyncio.Future[int], marker: str, root: bool) -> None:
        """Kill a command's tree, whoever cancels meanwhile; raises the cancellation afterwards."""

        async def kill() -> None:
            with contextlib.suppress(SandboxGoneError):
                await self._killed(f"{COMMAND}={marker}", self._ended(marker), root=root)
            running.cancel()
            await asyncio.wait({running})

        await _shielded(kill())

    def _ended(self, marker: str) -> str:
        """The file that says that a command was killed, and is not to begin any more."""
        return posixpath.join(self._private, f"ended-{marker}")

    async def _killed(self, marker: str, ended: str = "", *, root: bool) -> None:
        async with asyncio.timeout(KILL_LIMIT):
            code = await self._machine.run(
                ("sh", "-c", _KILLER, "sh", marker, ended), env={}, root=root, on_stdout=_ignored, on_stderr=_ignored
            )
        if code != 0:
            problem = f"a command could not be killed (exit code {code})"
            raise SandboxError("sandbox-failed", backend=self._name, problem=problem, fix="make a new sandbox")

    async def read_bytes(self, path: str) -> bytes:
        self._require_there()
        where = resolve_path(self._workdir, path, doing="read")
        script = '[ -f "$1" ] && [ -r "$1" ] && exit 0; [ -e "$1" ] && exit 4; exit 3'
        code, _ = await self._asked("sh", "-c", script, "sh", where)
        if code != 0:
            raise no_file(path, "no such file or directory" if code == 3 else "is no regular file, or may not be read")
        if _PLAIN.fullmatch(where):
            return await self._got(where, path)
        # A service may have no way to say such a name; a copy has one that any can.
        place = self._place()
        try:
            await self._own("cp", "--", where, place)
            return await self._got(place, path)
        finally:
            await self._forget(place)

    async def _got(self, where: str, shown: str) -> bytes:
        try:
            return b"".join([chunk async for chunk in self._machine.get(where)])
        except FileNotFoundError:
            raise no_file(shown, "no such file or directory") from None

    async def write_files(self, files: Mapping[str, str | bytes], target_dir: str | None = None) -> None:
        self._require_there()
        contents = contents_of(files, self._workdir, target_dir)
        if not contents:
            return
        numbered = {str(number): data for number, data in enumerate(contents.values())}
        async with self._unpacked(tar_of_files(numbered, uid=0, gid=0)) as stage:
            code, said = await self._asked("sh", "-c", _WRITE, "sh", stage, *contents)
        if code != 0:
            raise no_file(next(iter(contents)), said or "cannot be written")

    async def upload_directory(
        self, local_dir: str | os.PathLike[str], target_dir: str | None = None, *, ignore: Sequence[str] = ()
    ) -> None:
        self._require_there()
        target = resolve_path(self._workdir, target_dir or ".", doing="upload to")
        chunks = tar_of_folder(local_dir, uid=0, gid=0, ignore=tuple(ignore))
        async with self._spooled(chunks) as place:
            script = 'mkdir -p -- "$2" && tar -x --no-same-owner -p -f "$1" -C "$2"'
            code, said = await self._asked("sh", "-c", script, "sh", place, target)
        if code != 0:
            raise no_file(target, said or "cannot be written")

    async def download_directory(self, path: str, local_dir: str | os.PathLike[str]) -> None:
        self._require_there()
        where = resolve_path(self._workdir, path, doing="download")
        place = self._place()
        try:
            script = '[ -d "$2" ] || exit 3; tar -c -f "$1" -C "$2" .'
            code, said = await self._asked("sh", "-c", script, "sh", place, where)
            if code != 0:
                raise no_file(path, "is no folder in the sandbox" if code == 3 else said)
            with tempfile.TemporaryFile() as spool:
                async for chunk in self._machine.get(place):
                    await asyncio.to_thread(spool.write, chunk)
                spool.seek(0)
                await asyncio.to_thread(unpack, _chunks(spool), local_dir)
        finally:
            await self._forget(place)

    async def file_exists(self, path: str) -> bool:
        self._require_there()
        where = resolve_path(self._workdir, path, doing="look for")
        return (await self._asked("sh", "-c", '[ -e "$1" ]', "sh", where))[0] == 0

    async def end_processes(self) -> None:
        self._require_there()
        await self._killed(f"{COMMAND}={self._mark}-", root=False)

    async def stop(self) -> None:
        self._stopped = True
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._machine.stop())
        await asyncio.shield(self._stopping)

    # ------------------------------------------------------------------------------------------------------------

    def _require_there(self) -> None:
        if self._stopped:
            raise SandboxGoneError("sandbox-gone", backend=self._name, problem="it was stopped", fix="make a new one")

    async def _asked(self, *argv: str) -> tuple[int, str]:
        """A command of our own: its exit code and the last line that it complained with."""
        said = bytearray()

        def take(data: bytes) -> None:
            said.extend(data[:2_000])

        code = await self._machine.run(argv, env=self._env, root=False, on_stdout=_ignored, on_stderr=take)
        lines = said.decode("utf-8", "replace").strip().splitlines()
        return code, lines[-1][:500] if lines else ""

    async def _own(self, *argv: str) -> None:
        code, said = await self._asked(*argv)
        if code != 0:
            raise SandboxError(
                "sandbox-failed", backend=self._name, problem=said or f"exit code {code}", fix="see the service's log"
            )

    def _place(self) -> str:
        return posixpath.join(self._private, f"transfer-{secrets.token_hex(8)}")

    async def _forget(self, place: str) -> None:
        with contextlib.suppress(SandboxError):
            await _shielded(self._asked("rm", "-rf", "--", place))

    @contextlib.asynccontextmanager
    async def _staged(self, data: bytes) -> AsyncIterator[str]:
        async with self._spooled(iter([data])) as place:
            yield place

    @contextlib.asynccontextmanager
    async def _spooled(self, chunks: Iterator[bytes]) -> AsyncIterator[str]:
        """A file of the machine that holds these chunks, for a while; readable by every user that commands run as."""
        place = self._place()
        try:
            with tempfile.TemporaryFile() as spool:
                await asyncio.to_thread(_fill, spool, chunks)
                await self._machine.put(place, spool)
            yield place
        finally:
            await self._forget(place)

    @contextlib.asynccontextmanager
    async def _unpacked(self, chunks: Iterator[bytes]) -> AsyncIterator[str]:
        """A folder of the machine with an archive's files, for a while."""
        async with self._spooled(chunks) as place:
            stage = f"{place}.d"
            try:
                script = 'mkdir -- "$2" && tar -x --no-same-owner -f "$1" -C "$2"'
                await self._own("sh", "-c", script, "sh", place, stage)
                yield stage
            finally:
                await self._forget(stage)


def _start_problem(said: str, cwd: str) -> str:
    word = said.split()[1] if len(said.split()) > 1 else ""
    return _PROBLEMS.get(word, f"its folder {cwd} does not exist, or may not be entered")


def _ignored(_: bytes) -> None:
    return None


def _fill(spool: IO[bytes], chunks: Iterator[bytes]) -> None:
    for chunk in chunks:
        spool.write(chunk)
    spool.seek(0)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while data := file.read(CHUNK):
        yield data


async def _shielded(work: Coroutine[Any, Any, Any]) -> None:
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError
