"""What a container gets before it starts, so that any image will do: the workdir, a home, a name for the user."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Sequence

from niceeval.backends.docker._container import HOME, PRIVATE_DIR, Options
from niceeval.backends.docker._files import ContainerFiles
from niceeval.sandbox import SandboxFileError
from niceeval.sandbox.building import PRIVATE_MODE

_NAME = "sandbox"
_ROOT_LINE = {"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "/etc/group": "root:x:0:\n"}


async def layout_of(files: ContainerFiles, options: Options) -> bytes:
    """The archive to unpack at the root of a container of this image, before it starts. Raises EngineRefused."""
    passwd = await _text(files, "/etc/passwd")
    group = await _text(files, "/etc/group")
    known = _knows(passwd, options.uid)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        done: set[str] = set()
        wanted = [] if known else [(HOME, 0o755)]
        for path, mode in [*wanted, (options.workdir, 0o755), (PRIVATE_DIR, PRIVATE_MODE)]:
            for folder in await _absent(files, posixpath.dirname(path), done):
                own = folder == HOME or folder.startswith(f"{HOME}/")
                _folder(tar, folder, 0o755, (options.uid, options.gid) if own else (0, 0))
            done.add(path)
            _folder(tar, await files.real(path), mode, (options.uid, options.gid))
        if not known:
            _file(tar, "/etc/passwd", f"{passwd}{_NAME}:x:{options.uid}:{options.gid}::{HOME}:/bin/sh\n")
        if not _knows(group, options.gid):
            _file(tar, "/etc/group", f"{group}{_NAME}:x:{options.gid}:\n")
    return packed.getvalue()


async def _text(files: ContainerFiles, path: str) -> str:
    try:
        text = (await files.read(path, path)).decode("utf-8", "replace")
    except SandboxFileError:
        return _ROOT_LINE[path]
    return text if text.endswith("\n") or not text else f"{text}\n"


def _knows(text: str, number: int) -> bool:
    return any(line.split(":")[2:3] == [str(number)] for line in text.splitlines())


async def _absent(files: ContainerFiles, path: str, done: set[str]) -> Sequence[str]:
    """The folders down to `path` that are not there, from the top down."""
    found: list[str] = []
    while path != "/" and path not in done and await files.stat(path) is None:
        found.append(path)
        done.add(path)
        path = posixpath.dirname(path)
    return found[::-1]


def _folder(tar: tarfile.TarFile, path: str, mode: int, owner: tuple[int, int]) -> None:
    entry = tarfile.TarInfo(path.strip("/"))
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    entry.uid, entry.gid = owner
    tar.addfile(entry)


def _file(tar: tarfile.TarFile, path: str, text: str) -> None:
    data = text.encode("utf-8", "replace")
    entry = tarfile.TarInfo(path.strip("/"))
    entry.size, entry.mode = len(data), 0o644
    tar.addfile(entry, io.BytesIO(data))
