"""The context of a build: a folder as a tar, without what `.dockerignore` leaves out."""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from niceeval.backends.docker._engine import failed
from niceeval.sandbox import SandboxError

MAX_CONTEXT = 2 * 1024**3
"""Bytes of a build's context; more is a folder that nobody meant."""
_SPOOLED = 16 * 1024 * 1024


class DockerIgnore:
    """The patterns of a `.dockerignore`: the last that matches decides, `!` takes back."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules: list[tuple[bool, re.Pattern[str]]] = []
        for line in lines:
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            back = text.startswith("!")
            cleaned = os.path.normpath(text[1:].strip() if back else text).strip("/")
            if cleaned and cleaned != ".":
                self._rules.append((back, re.compile(_expression(cleaned) + r"(?:/.*)?\Z", re.DOTALL)))

    @property
    def takes_back(self) -> bool:
        """Whether something below an ignored folder may be wanted."""
        return any(back for back, _ in self._rules)

    def ignores(self, path: str) -> bool:
        """Whether a path, relative to the context with `/`, stays out."""
        ignored = False
        for back, pattern in self._rules:
            if pattern.match(path):
                ignored = not back
        return ignored


def _expression(pattern: str) -> str:
    found = ""
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            found, at = found + "(?:.*/)?", at + 3
        elif pattern.startswith("**", at):
            found, at = found + ".*", at + 2
        elif pattern[at] == "*":
            found, at = found + "[^/]*", at + 1
        elif pattern[at] == "?":
            found, at = found + "[^/]", at + 1
        elif pattern[at] == "[" and (end := pattern.find("]", at + 2)) > 0:
            inside = pattern[at + 1 : end].replace("\\", "\\\\")
            found, at = found + f"[{inside}]", end + 1
        else:
            found, at = found + re.escape(pattern[at]), at + 1
    return found


def build_context(dockerfile: str) -> tuple[IO[bytes], str]:
    """The context of a Dockerfile, which is its folder, as a tar file, and the digest of all that is in it.

    The same files give the same digest, whenever they were written. The Dockerfile is called `Dockerfile` in the tar
    where that is its name, and by its own name otherwise. Raises SandboxError.
    """
    file = Path(dockerfile)
    if not file.is_file():
        raise failed(f"there is no Dockerfile at {dockerfile}", "correct dockerfile=")
    folder = file.parent
    packed = tempfile.SpooledTemporaryFile(max_size=_SPOOLED)  # noqa: SIM115 - the caller closes it
    try:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path, name in _walk(folder, _ignore(file), {file.name, ".dockerignore"}):
                _add(tar, path, name)
                if packed.tell() > MAX_CONTEXT:
                    raise failed(f"{folder} is more than {MAX_CONTEXT >> 30} GiB", "leave files out by .dockerignore")
    except OSError as error:
        packed.close()
        raise failed(f"{error.filename}: {error.strerror}", "make it readable, or name it in .dockerignore") from None
    except SandboxError:
        packed.close()
        raise
    packed.seek(0)
    digest = hashlib.sha256()
    while data := packed.read(1 << 20):
        digest.update(data)
    packed.seek(0)
    return packed, digest.hexdigest()


def _ignore(file: Path) -> DockerIgnore:
    for name in (f"{file.name}.dockerignore", ".dockerignore"):
        path = file.parent / name
        if path.is_file():
            return DockerIgnore(path.read_text("utf-8", "replace").splitlines())
    return DockerIgnore(())


def _walk(top: Path, ignored: DockerIgnore, always: set[str]) -> Iterable[tuple[Path, str]]:
    for at, folders, files in os.walk(top):
        here = Path(at)
        prefix = "" if here == top else here.relative_to(top).as_posix() + "/"
        folders.sort()
        linked = [name for name in folders if (here / name).is_symlink()]
        kept = [name for name in folders if name not in linked]
        folders[:] = [name for name in kept if ignored.takes_back or not ignored.ignores(prefix + name)]
        for name in sorted([*files, *linked, *folders]):
            if prefix + name in always or not ignored.ignores(prefix + name):
                yield here / name, prefix + name


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    entry = tar.gettarinfo(str(path), name)
    if not (entry.isreg() or entry.isdir() or entry.issym() or entry.islnk()):
        return
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    if entry.islnk():
        # A second name of a file is a file of its own here.
        entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", path.stat().st_size
    if entry.isreg():
        with open(path, "rb") as file:
            tar.addfile(entry, file)
    else:
        tar.addfile(entry, io.BytesIO())
