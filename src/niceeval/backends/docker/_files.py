"""Files of a container through the engine's archives: nothing has to be installed in the image for it."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import posixpath
import tarfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from niceeval.backends.docker._engine import FULL, Engine, EngineRefused, failed, refused
from niceeval.backends.docker._http import EngineLost, Exchange
from niceeval.sandbox import SandboxError
from niceeval.sandbox.archives import CHUNK, folder_entries, tar_of_folder, unpack
from niceeval.sandbox.building import FILE_MODE, no_file

MAX_READ = 1024**3
"""Bytes of a file that is read into memory."""
STAT_AT_ONCE = 8
"""Paths that are asked for at the same time."""
_MODE_DIR, _MODE_LINK, _MODE_SPECIAL = 1 << 31, 1 << 27, (1 << 26) | (1 << 25) | (1 << 24) | (1 << 21) | (1 << 19)
_PERMISSIONS = 0o777


@dataclass(frozen=True, slots=True)
class Stat:
    """What the engine says of a path. `target`: where a link leads in the end, as an absolute path."""

    path: str
    mode: int
    target: str

    @property
    def is_folder(self) -> bool:
        return bool(self.mode & _MODE_DIR)

    @property
    def is_link(self) -> bool:
        return bool(self.mode & _MODE_LINK)

    @property
    def is_file(self) -> bool:
        return not self.mode & (_MODE_DIR | _MODE_LINK | _MODE_SPECIAL)


class ContainerFiles:
    """The file system of one container; what is made there belongs to `uid` and `gid`."""

    def __init__(self, engine: Engine, container: str, uid: int, gid: int) -> None:
        self._engine = engine
        self._archive = f"/containers/{container}/archive"
        self._uid = uid
        self._gid = gid

    def _named(self, path: str) -> dict[str, str]:
        """The query that names a path. Raises SandboxFileError for a name that Podman takes for a pattern."""
        if self._engine.name != "podman":
            return {"path": path}
        if any(sign in path for sign in "*?["):
            raise no_file(path, "Podman takes the name for a pattern", "reach it by a command, or rename it")
        return {"path": path.replace("\\", "\\\\")}

    async def stat(self, path: str) -> Stat | None:
        """What is at a path, a link followed; None where nothing is. Raises EngineRefused."""
        found = await self._lstat(path)
        if found is None or not found.is_link:
            return found
        return await self._lstat(found.target) if found.target not in ("", path) else None

    async def _lstat(self, path: str) -> Stat | None:
        try:
            exchange = await self._engine.exchange("HEAD", self._archive, self._named(path))
        except EngineRefused as error:
            if error.status == 404:
                return None
            await self._explained(path)
            return None
        exchange.close()
        return _stat_of(exchange, path)

    async def _explained(self, path: str) -> None:
        """Return where a path cannot be there: it is below a file. The answer to HEAD has no words, that to GET has.

        Raises EngineRefused.
        """
        try:
            (await self._engine.exchange("GET", self._archive, self._named(path))).close()
        except EngineRefused as error:
            if not _is_absent(error):
                raise

    async def read(self, path: str, shown: str) -> bytes:
        """A file's bytes. Raises SandboxFileError, EngineRefused."""
        found = await self.stat(path)
        if found is None:
            await self._is_absent_there()
            raise no_file(shown, "no such file or directory")
        if not found.is_file:
            raise no_file(shown, "is no regular file")
        try:
            async with await self._engine.exchange("GET", self._archive, self._named(found.path)) as exchange:
                data = await exchange.read(MAX_READ + CHUNK)
        except EngineRefused as error:
            if _is_absent(error):
                raise no_file(shown, "no such file or directory") from None
            raise
        except EngineLost as error:
            raise self._engine.lost(str(error)) from None
        if len(data) > MAX_READ:
            raise no_file(shown, f"is larger than {MAX_READ >> 30} GiB", "fetch it with download_directory")
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            entry = tar.next()
            content = tar.extractfile(entry) if entry is not None else None
            if content is None:
                raise no_file(shown, "is no regular file")
            return content.read()

    async def write(self, contents: Mapping[str, bytes]) -> None:
        """Write files, in one archive. Raises SandboxFileError, EngineRefused."""
        limit = asyncio.Semaphore(STAT_AT_ONCE)

        async def known(path: str) -> Stat | None:
            async with limit:
                return await self.stat(path)

        found = await asyncio.gather(*(known(path) for path in contents))
        folders: dict[str, str] = {}
        missing: list[str] = []
        entries: list[tuple[str, bytes, int]] = []
        for (path, data), stat in zip(contents.items(), found, strict=True):
            if stat is not None and not stat.is_file:
                raise no_file(path, "is a folder" if stat.is_folder else "is no regular file")
            if stat is not None:
                entries.append((stat.path, data, stat.mode & _PERMISSIONS))
                continue
            parent = posixpath.dirname(path)
            if parent not in folders:
                folders[parent] = await self._folder(parent, missing)
            entries.append((posixpath.join(folders[parent], posixpath.basename(path)), data, FILE_MODE))
        await self._put("/", _archive(missing, entries, self._uid, self._gid))

    async def _folder(self, path: str, missing: list[str]) -> str:
        """The real path of a folder; what of it does not exist is added to `missing`, from the top down."""
        absent: list[str] = []
        at = path
        while (stat := await self.stat(at)) is None and at != "/":
            absent.append(posixpath.basename(at))
            at = posixpath.dirname(at)
        if stat is not None and not stat.is_folder:
            raise no_file(at, "is no folder")
        real = stat.path if stat is not None else "/"
        for name in reversed(absent):
            real = posixpath.join(real, name)
            if real not in missing:
                missing.append(real)
        return real

    async def make_folder(self, path: str) -> str:
        """Make a folder and those above it; gives its real path. Raises SandboxFileError, EngineRefused."""
        missing: list[str] = []
        real = await self._folder(path, missing)
        if missing:
            await self._put("/", [folder_entries(missing, uid=self._uid, gid=self._gid)])
        return real

    async def upload(self, local_dir: str, path: str, ignore: Sequence[str]) -> None:
        """A folder of this machine into one of the container. Raises SandboxFileError, EngineRefused."""
        real = await self.make_folder(path)
        await self._put(real, tar_of_folder(local_dir, uid=self._uid, gid=self._gid, ignore=ignore))

    async def put(self, archive: bytes) -> None:
        """Unpack an archive at the root. Raises SandboxFileError, EngineRefused."""
        await self._put("/", [archive])

    async def real(self, path: str) -> str:
        """Where a path leads in the end; the path itself where nothing is there."""
        found = await self.stat(path)
        return path if found is None else found.path

    async def exists(self, path: str) -> bool:
        """Whether something is at a path. Raises EngineRefused."""
        return await self.stat(path) is not None or await self._is_absent_there()

    async def _is_absent_there(self) -> bool:
        """False; the engine says the same of a path and of a container that is not there. Raises EngineRefused."""
        await self._engine.call("GET", f"{self._archive.removesuffix('/archive')}/json")
        return False

    async def download(self, path: str, local_dir: str, shown: str) -> None:
        """A folder of the container into one of this machine. Raises SandboxFileError, EngineRefused."""
        found = await self.stat(path)
        if found is None or not found.is_folder:
            await self._is_absent_there()
            raise no_file(shown, "no such file or directory" if found is None else "is no folder")
        async with await self._engine.exchange("GET", self._archive, self._named(found.path)) as exchange:
            chunks = _Chunks(exchange.body(), asyncio.get_running_loop())
            unpacking = asyncio.ensure_future(asyncio.to_thread(unpack, chunks, local_dir, renamed=_below_first))
            try:
                await asyncio.shield(unpacking)
            except EngineLost as error:
                raise self._engine.lost(str(error)) from None
            except asyncio.CancelledError:
                # The thread ends at its next chunk: it must not write on after this has returned.
                chunks.stopped = True
                exchange.close()
                await asyncio.wait({unpacking})
                if not unpacking.cancelled():
                    unpacking.exception()
                raise

    async def _put(self, path: str, archive: Iterable[bytes]) -> None:
        headers = {"Content-Type": "application/x-tar"}
        query = {"path": path, "noOverwriteDirNonDir": "1"}
        try:
            await self._engine.call("PUT", self._archive, query, body=_batches(iter(archive)), headers=headers)
        except EngineRefused as error:
            if (problem := _not_written(path, error)) is not None:
                raise problem from None
            raise


class _Chunks(Iterator[bytes]):
    """The pieces of an answer, for a thread that unpacks them while the loop reads."""

    def __init__(self, body: AsyncIterator[bytes], loop: asyncio.AbstractEventLoop) -> None:
        self._body = body
        self._loop = loop
        self.stopped = False

    def __next__(self) -> bytes:
        if self.stopped:
            raise StopIteration
        found = asyncio.run_coroutine_threadsafe(self._next(), self._loop).result()
        if found is None:
            raise StopIteration
        return found

    async def _next(self) -> bytes | None:
        return await anext(self._body, None)


async def _batches(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces of an archive, made in a thread, joined so that small files do not each cost a turn."""

    def some() -> bytes:
        found = bytearray()
        for chunk in chunks:
            found += chunk
            if len(found) >= CHUNK:
                break
        return bytes(found)

    while data := await asyncio.to_thread(some):
        yield data


def _archive(folders: Sequence[str], files: Sequence[tuple[str, bytes, int]], uid: int, gid: int) -> Iterator[bytes]:
    packed, now = io.BytesIO(), int(time.time())
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data, mode in [*((folder, None, 0o755) for folder in folders), *files]:
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.uid, entry.gid, entry.mode, entry.mtime = uid, gid, mode, now
            if data is None:
                entry.type = tarfile.DIRTYPE
            else:
                entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data or b""))
            if packed.tell() >= CHUNK:
                yield packed.getvalue()
                packed.seek(0)
                packed.truncate()
    yield packed.getvalue()


def _below_first(name: str) -> str | None:
    return name.strip("/").partition("/")[2] or None


def _stat_of(exchange: Exchange, path: str) -> Stat:
    # Docker's alphabet ends in +/, Podman's in -_.
    text = exchange.headers.get("x-docker-container-path-stat", "").translate(str.maketrans("-_", "+/"))
    try:
        found = json.loads(base64.b64decode(text))
        return Stat(path, int(found["mode"]), str(found.get("linkTarget") or ""))
    except (ValueError, KeyError, TypeError):
        raise failed(f"the engine does not say what {path} is", "update the engine") from None


def _is_absent(error: EngineRefused) -> bool:
    low = error.message.lower()
    return (error.status == 404 and "no such container" not in low) or "not a directory" in low


def _not_written(path: str, error: EngineRefused) -> SandboxError | None:
    low = error.message.lower()
    if FULL in low:
        return refused(f"writing to {path}", error)
    if error.status in (404, 409) and ("no such container" in low or "not running" in low):
        return None
    return no_file(path, f"cannot be written: {error.message[:300]}", "choose another place")
