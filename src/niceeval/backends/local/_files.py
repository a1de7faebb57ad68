"""File operations of a sandbox that isolates nothing: this machine's own, by name."""

from __future__ import annotations

import asyncio
import os
import posixpath
import stat
from collections.abc import Mapping, Sequence
from typing import Protocol

from niceeval.sandbox.archives import tar_of_folder, unpack
from niceeval.sandbox.building import FILE_MODE, no_file


class Files(Protocol):
    """Absolute paths of a sandbox; `shown` is how the caller said one. Each raises SandboxFileError."""

    async def read(self, where: str, shown: str) -> bytes: ...

    async def write(self, contents: Mapping[str, bytes]) -> None: ...

    async def upload(self, local_dir: str, where: str, ignore: Sequence[str]) -> None: ...

    async def download(self, where: str, shown: str, local_dir: str) -> None: ...

    async def exists(self, where: str) -> bool: ...


class HostFiles:
    """See `Files`. Links lead where they lead, as for the agent's own commands."""

    async def read(self, where: str, shown: str) -> bytes:
        return await asyncio.to_thread(_read, where, shown)

    async def write(self, contents: Mapping[str, bytes]) -> None:
        await asyncio.to_thread(_write_all, contents)

    async def upload(self, local_dir: str, where: str, ignore: Sequence[str]) -> None:
        await asyncio.to_thread(_copy, local_dir, where, tuple(ignore), everything=True)

    async def download(self, where: str, shown: str, local_dir: str) -> None:
        await asyncio.to_thread(_copy, where, local_dir, (), everything=False)

    async def exists(self, where: str) -> bool:
        return await asyncio.to_thread(os.path.exists, where)


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
