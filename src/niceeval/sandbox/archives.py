"""Tar streams: a folder or files on their way into a sandbox, and a folder on its way out of one."""

from __future__ import annotations

import io
import os
import shutil
import stat
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from niceeval._base.errors import SandboxFileError
from niceeval.sandbox.building import FILE_MODE, no_file
from niceeval.sandbox.ignoring import Ignored

CHUNK = 256 * 1024
"""Bytes that are read or handed on at once."""
MAX_ENTRIES = 1_000_000
"""Files of an archive that are unpacked here; one that goes on for ever must not."""


class _Sink(io.RawIOBase):
    """Collects what a tar writer writes, to be handed on in chunks."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        return len(part)

    def taken(self) -> bytes:
        found = b"".join(self._parts)
        self._parts.clear()
        return found


def tar_of_files(files: Mapping[str, bytes], *, uid: int, gid: int, mode: int = FILE_MODE) -> Iterator[bytes]:
    """An archive of files by their names in it, owned by `uid` and `gid`; no entries for their folders."""
    sink = _Sink()
    with tarfile.open(fileobj=sink, mode="w|", format=tarfile.PAX_FORMAT, bufsize=CHUNK) as tar:
        for name, content in files.items():
            entry = _entry(name.lstrip("/"), uid, gid, mode)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
            yield sink.taken()
    yield sink.taken()


def folder_entries(names: Iterable[str], *, uid: int, gid: int, mode: int = 0o755) -> bytes:
    """An archive of nothing but folders."""
    sink = _Sink()
    with tarfile.open(fileobj=sink, mode="w|", format=tarfile.PAX_FORMAT, bufsize=CHUNK) as tar:
        for name in names:
            entry = _entry(name.strip("/"), uid, gid, mode)
            entry.type = tarfile.DIRTYPE
            tar.addfile(entry)
    return sink.taken()


def tar_of_folder(
    local_dir: str | os.PathLike[str], *, uid: int, gid: int, ignore: Sequence[str] = (), prefix: str = ""
) -> Iterator[bytes]:
    """An archive of what is in a folder of this machine, below `prefix`, in a fixed order, without what is ignored.

    Links stay links, and are never followed; sockets, pipes and devices are left out. Files that grow or shrink
    meanwhile keep the size that they had.

    Raises SandboxFileError where the folder is none, or a file in it cannot be read.
    """
    top = Path(local_dir)
    if not top.is_dir():
        raise no_file(str(top), "is no folder of this machine")
    entries = ((path, f"{prefix}{name}") for path, name in _walk(top, Ignored(ignore)))
    return _packed_all(entries, uid, gid)


def tar_of_paths(top: Path, paths: Iterable[str], *, uid: int, gid: int) -> Iterator[bytes]:
    """An archive of these paths below a folder of this machine, as `tar_of_folder` makes one."""
    return _packed_all(((top / path, path) for path in paths), uid, gid)


def _packed_all(entries: Iterable[tuple[Path, str]], uid: int, gid: int) -> Iterator[bytes]:
    sink = _Sink()
    with tarfile.open(fileobj=sink, mode="w|", format=tarfile.PAX_FORMAT, bufsize=CHUNK) as tar:
        for path, name in entries:
            try:
                yield from _packed(tar, sink, path, name, uid, gid)
            except OSError as error:
                raise no_file(
                    str(path), f"cannot be read: {error.strerror}", "make it readable, or ignore it"
                ) from None
    yield sink.taken()


def _packed(tar: tarfile.TarFile, sink: _Sink, path: Path, name: str, uid: int, gid: int) -> Iterator[bytes]:
    found = path.lstat()
    entry = _entry(name, uid, gid, stat.S_IMODE(found.st_mode))
    entry.mtime = int(found.st_mtime)
    if stat.S_ISLNK(found.st_mode):
        entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(path)
        tar.addfile(entry)
    elif stat.S_ISDIR(found.st_mode):
        entry.type = tarfile.DIRTYPE
        tar.addfile(entry)
    elif stat.S_ISREG(found.st_mode):
        entry.size = found.st_size
        with open(path, "rb") as file:
            # The reader hands the entry on in pieces, so that a large file never lies in memory as a whole.
            yield from _streamed(tar, sink, entry, file)
    yield sink.taken()


def _streamed(tar: tarfile.TarFile, sink: _Sink, entry: tarfile.TarInfo, file: io.BufferedReader) -> Iterator[bytes]:
    # What `addfile` does with the header, and the content by hand: it copies a whole file before it returns.
    _header(tar, entry)
    left = entry.size
    while left > 0:
        data = file.read(min(CHUNK, left))
        if not data:
            data = b"\0" * min(CHUNK, left)
        left -= len(data)
        assert tar.fileobj is not None
        tar.fileobj.write(data)
        yield sink.taken()
    if entry.size % tarfile.BLOCKSIZE:
        assert tar.fileobj is not None
        tar.fileobj.write(b"\0" * (tarfile.BLOCKSIZE - entry.size % tarfile.BLOCKSIZE))


def _header(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> None:
    assert tar.fileobj is not None
    tar.fileobj.write(entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape"))


def _entry(name: str, uid: int, gid: int, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.uid, entry.gid, entry.mode, entry.mtime = uid, gid, mode, int(time.time())
    return entry


def _walk(top: Path, ignored: Ignored) -> Iterator[tuple[Path, str]]:
    waiting = [("", top)]
    while waiting:
        prefix, folder = waiting.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            raise no_file(str(folder), f"cannot be read: {error.strerror}", "make it readable, or ignore it") from None
        inner: list[tuple[str, Path]] = []
        for entry in entries:
            name = f"{prefix}{entry.name}"
            is_folder = entry.is_dir(follow_symlinks=False)
            if ignored.ignores(name, folder=is_folder):
                continue
            yield Path(entry.path), name
            if is_folder:
                inner.append((f"{name}/", Path(entry.path)))
        waiting.extend(reversed(inner))


class _Reading(io.RawIOBase):
    """Gives a tar reader the chunks of an archive as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            found = next(self._chunks, None)
            if found is None:
                return 0
            self._rest = memoryview(found)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def unpack(
    chunks: Iterable[bytes],
    local_dir: str | os.PathLike[str],
    *,
    renamed: Callable[[str], str | None] | None = None,
    keep_links: bool = False,
) -> None:
    """Write an archive's folders, files and links below a folder of this machine, and nothing anywhere else.

    `renamed` gives the name below the folder for one in the archive; None leaves it out. Links that lead out of the
    folder are left out unless `keep_links`, which is for what may lead anywhere: a sandbox's own folder. Of a file with
    two names there are two files. Devices, sockets and pipes are left out; what is there already is replaced, and links
    are never followed.

    Raises SandboxFileError where the archive is none, or something cannot be written.
    """
    top = Path(local_dir)
    top.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(fileobj=io.BufferedReader(_Reading(iter(chunks)), CHUNK), mode="r|") as tar:
            count = 0
            while (entry := tar.next()) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # it remembers all of them otherwise
                count += 1
                if count > MAX_ENTRIES:
                    raise no_file(str(top), f"the folder has more than {MAX_ENTRIES:,} files", "fetch a smaller one")
                name = entry.name if renamed is None else renamed(entry.name)
                if name is not None:
                    same = entry.linkname if renamed is None else renamed(entry.linkname) if entry.islnk() else None
                    _unpack_one(tar, entry, top, name, same, keep_links)
    except tarfile.TarError as error:
        raise no_file(str(top), f"what came is no whole archive: {error}", "try again") from None
    except OSError as error:
        raise no_file(str(error.filename or top), f"cannot be written: {error.strerror}", "free it") from None


def _unpack_one(
    tar: tarfile.TarFile, entry: tarfile.TarInfo, top: Path, name: str, same: str | None, keep_links: bool
) -> None:
    """Write one entry; `same` is the name of the file that it is another name of."""
    parts = _parts(top, name)
    if not parts:
        return
    path = top.joinpath(*parts)
    if entry.isdir():
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            path.unlink()
        path.mkdir(parents=True, exist_ok=True)
    elif entry.isreg():
        _prepare(path)
        source = tar.extractfile(entry)
        assert source is not None
        with open(path, "xb") as file:
            while data := source.read(CHUNK):
                file.write(data)
        os.chmod(path, (entry.mode & 0o777) | 0o600)
    elif entry.islnk():
        _copy_within(top, _parts(top, same or ""), path)
    elif entry.issym() and (keep_links or _stays(parts, entry.linkname)):
        _prepare(path)
        os.symlink(entry.linkname, path)


def _parts(top: Path, name: str) -> list[str]:
    """The parts of a name below the folder; none for one that leads out of it, or through a link."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return parts if ".." not in parts and _inside(top, parts[:-1]) else []


def _copy_within(top: Path, parts: Sequence[str], path: Path) -> None:
    source = top.joinpath(*parts)
    if parts and source != path and source.is_file() and not source.is_symlink():
        _prepare(path)
        shutil.copy(source, path)


def _prepare(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or path.is_file():
        path.unlink()


def _inside(top: Path, folders: Sequence[str]) -> bool:
    """Whether none of the folders on the way is a link: a link could lead out."""
    place = top
    for folder in folders:
        place = place / folder
        if place.is_symlink():
            return False
    return True


def _stays(parts: Sequence[str], target: str) -> bool:
    """Whether a link at this place leads to somewhere below the top, whatever other links are on the way.

    `..` after a name could leave by a link of that name, so it may only be at the beginning.
    """
    if target.startswith("/") or "\0" in target:
        return False
    steps = [part for part in target.split("/") if part not in ("", ".")]
    up = next((index for index, part in enumerate(steps) if part != ".."), len(steps))
    return up < len(parts) and ".." not in steps[up:]


__all__ = ["CHUNK", "SandboxFileError", "folder_entries", "tar_of_files", "tar_of_folder", "tar_of_paths", "unpack"]
