"""File operations of an isolated sandbox: commands that run isolated themselves.

The agent may exchange folders for links at any time. A path that was checked here could lead elsewhere when it is
opened here; so no path of the agent's is ever opened here. Inside, there is nothing of the host that a link leads to.

What comes or goes lies meanwhile in a folder, the stage, that only the one command and niceeval see.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shlex
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from niceeval.backends.local._bubblewrap import STAGE
from niceeval.sandbox import CommandResult
from niceeval.sandbox.archives import CHUNK, tar_of_folder, unpack
from niceeval.sandbox.building import no_file

FILE_LIMIT = 600.0
"""Seconds that reading or writing files may take: where the agent makes a pipe of one, it would be for ever."""
FOLDER_LIMIT = 3600.0
"""Seconds that moving a folder may take."""
LONGEST_PATH = 4096
"""Bytes of a path: no Linux opens a longer one."""

_READ = r"""
[ -e "$2" ] || exit 3
[ -f "$2" ] || exit 4
[ -r "$2" ] || exit 5
exec 3< "$2"
[ -f /proc/self/fd/3 ] || exit 4
cat <&3 > "$1/out"
"""
"""Looks again at what was opened: it may be another than what was looked at before."""
_READ_PROBLEMS = {3: "no such file or directory", 4: "is no regular file", 5: "permission denied"}

_WRITE = r"""
umask 022
stage=$1
refused() { printf '%s\n' "$1" >&2; exit 3; }
put() {
  [ ! -d "$2" ] || refused 'is a directory'
  [ ! -e "$2" ] || [ -f "$2" ] || refused 'is no regular file'
  mkdir -p -- "${2%/*}/" && cat "$stage/$1" > "$2" || exit 3
}
. "$stage/list"
"""
"""Puts the numbered files of the stage in their places; one that is there keeps its mode, a link its place."""

_UPLOAD = 'mkdir -p -- "$2" && tar -x --no-same-owner -p -f "$1/archive" -C "$2"'
_DOWNLOAD = '[ -d "$2" ] || exit 3; tar -c -f "$1/out" -C "$2" .'
_MEANWHILE = re.compile(r"tar: .*(changed as we read it|removed before we read it|shrank by \d+ bytes.*)")
"""What tar says of files that somebody writes meanwhile: no failure."""

Run = Callable[[Sequence[str], Path | None, float], Awaitable[CommandResult]]
"""Runs a command isolated, with a folder of the host's beside the sandbox's own, for so many seconds at most."""


class IsolatedFiles:
    """See `Files`. `root` is the sandbox's folder; stages are in it, where no command of the agent's sees them."""

    def __init__(self, root: Path, run: Run) -> None:
        self._root = root
        self._run = run

    async def read(self, where: str, shown: str) -> bytes:
        with _named(shown):
            async with self._stage() as stage:
                result = await self._script(_READ, stage, where, limit=FILE_LIMIT)
                if result.exit_code != 0:
                    raise no_file(shown, _READ_PROBLEMS.get(result.exit_code) or _said(result, FILE_LIMIT))
                return await asyncio.to_thread(_taken, stage / "out")

    async def write(self, contents: Mapping[str, bytes]) -> None:
        if not contents:
            return
        first = next(iter(contents))
        with _named(first):
            async with self._stage() as stage:
                await asyncio.to_thread(_fill, stage, contents)
                result = await self._script(_WRITE, stage, limit=FILE_LIMIT)
                if result.exit_code != 0:
                    failed = await asyncio.to_thread(_failed, stage, contents)
                    raise no_file(failed, _said(result, FILE_LIMIT))

    async def upload(self, local_dir: str, where: str, ignore: Sequence[str]) -> None:
        with _named(where):
            async with self._stage() as stage:
                chunks = tar_of_folder(local_dir, uid=0, gid=0, ignore=tuple(ignore))
                await asyncio.to_thread(_spool, stage / "archive", chunks)
                result = await self._script(_UPLOAD, stage, where, limit=FOLDER_LIMIT)
                if result.exit_code != 0:
                    raise no_file(where, _said(result, FOLDER_LIMIT))

    async def download(self, where: str, shown: str, local_dir: str) -> None:
        with _named(shown):
            async with self._stage() as stage:
                result = await self._script(_DOWNLOAD, stage, where, limit=FOLDER_LIMIT)
                if result.exit_code == 3:
                    raise no_file(shown, "is no folder in the sandbox")
                if result.exit_code != 0 and not _only_meanwhile(result):
                    raise no_file(shown, _said(result, FOLDER_LIMIT))
                await asyncio.to_thread(_unspool, stage / "out", local_dir)

    async def exists(self, where: str) -> bool:
        if _path_problem(where) is not None:
            return False
        result = await self._run(("test", "-e", where), None, FILE_LIMIT)
        if result.exit_code not in (0, 1):
            raise no_file(where, _said(result, FILE_LIMIT))
        return result.exit_code == 0

    async def _script(self, script: str, stage: Path, *paths: str, limit: float) -> CommandResult:
        for path in paths:
            problem = _path_problem(path)
            if problem is not None:
                raise no_file(path, problem)
        return await self._run(("sh", "-c", script, "sh", STAGE, *paths), stage, limit)

    @contextlib.asynccontextmanager
    async def _stage(self) -> AsyncIterator[Path]:
        stage = self._root / f"stage-{secrets.token_hex(8)}"
        stage.mkdir(mode=0o700)
        try:
            yield stage
        finally:
            await asyncio.to_thread(shutil.rmtree, stage, ignore_errors=True)


@contextlib.contextmanager
def _named(shown: str) -> Iterator[None]:
    """The stage is this machine's, and may be full or gone: an error of the path that was asked for."""
    try:
        yield
    except OSError as error:
        raise no_file(shown, (error.strerror or str(error)).lower()) from None


def _path_problem(path: str) -> str | None:
    try:
        return "file name too long" if len(os.fsencode(path)) > LONGEST_PATH else None
    except UnicodeEncodeError:
        return "is no path: it holds half a character"


def _fill(stage: Path, contents: Mapping[str, bytes]) -> None:
    """The numbered files, and the list that puts each in its place: as arguments, many paths are too long."""
    lines: list[bytes] = []
    for number, (where, data) in enumerate(contents.items()):
        problem = _path_problem(where)
        if problem is not None:
            raise no_file(where, problem)
        (stage / str(number)).write_bytes(data)
        lines.append(b'put %d %s\nrm -f "$stage/%d"\n' % (number, os.fsencode(shlex.quote(where)), number))
    (stage / "list").write_bytes(b"".join(lines))


def _failed(stage: Path, contents: Mapping[str, bytes]) -> str:
    """The first path whose file lies in the stage still."""
    return next(
        (where for number, where in enumerate(contents) if (stage / str(number)).exists()), next(iter(contents))
    )


def _spool(place: Path, chunks: Iterable[bytes]) -> None:
    with open(place, "wb") as file:
        for chunk in chunks:
            file.write(chunk)


def _taken(place: Path) -> bytes:
    with _opened(place) as file:
        return file.read()


def _opened(place: Path) -> BinaryIO:
    """What a command left in the stage. It is a file, as nobody else sees the stage; a link would not be followed."""
    return open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def _unspool(place: Path, local_dir: str) -> None:
    with _opened(place) as file:
        unpack(iter(lambda: file.read(CHUNK), b""), local_dir)


def _only_meanwhile(result: CommandResult) -> bool:
    lines = result.stderr.splitlines()
    return result.exit_code == 1 and bool(lines) and all(_MEANWHILE.fullmatch(line) for line in lines)


def _said(result: CommandResult, limit: float) -> str:
    """Why it failed: the last line that it complained with."""
    if result.timed_out:
        return f"was not done within {limit:g} s"
    lines = result.stderr.strip().splitlines()
    return lines[-1][:500] if lines else f"the command for it ended with {result.exit_code}"
