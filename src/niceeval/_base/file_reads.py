"""Which files of the project its own code reads by hand, with `open` or `Path.read_text`, and what was in them.

Nobody declares such a file, and prompts are changed more often than code. So once `watch` was called, the interpreter
tells of every file that is opened; those below the project's root that the project's own code opened to read are noted
with a digest. An opened file outside the root costs less than a microsecond.

Not seen: what other processes read, files outside the root, and files that are read without Python opening them.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeAlias

from niceeval._base.callsite import is_ours

MAX_READS: Final = 200
"""Files whose digests are kept of one attempt."""
MAX_DIGESTED: Final = 16 * 1024 * 1024
"""Bytes up to which a file's content counts; of a larger one, its size and the time it was changed."""
MISSING: Final = "missing"
"""In the place of a digest: there was no such file."""
UNREADABLE: Final = "unreadable"
UNSETTLED: Final = "changed while it was read"

Way: TypeAlias = tuple[tuple[str, int], ...]
"""How an open was come to: (file relative to the root, line) of the project's frames, innermost first, up to the
module that was being imported, or to niceeval's call of the guest."""
Pair: TypeAlias = tuple[str, str]
"""Experiment id and eval id."""

_WRITES = os.O_WRONLY | os.O_RDWR
_DETOUR = f"{os.sep}."
_MAX_FRAMES = 200
_CHUNK = 1024 * 1024
_FOREIGN = r"(?:^|/)(?:site-packages|dist-packages|\.venv|venv|node_modules)/"
_NOT_PROJECTS = re.compile(_FOREIGN)
_NO_INPUT = re.compile(rf"{_FOREIGN}|(?:^|/)(?:\.niceeval|\.git|__pycache__)/|(?:^|/)\.env$|\.py[co]$")


class Digests:
    """What files below a root hold at this moment; a file that looks untouched is not read twice."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._known: dict[str, tuple[tuple[int, ...], str]] = {}

    def of(self, path: str) -> str | None:
        """The digest of a file, by its path relative to the root; None for what is no regular file."""
        file = os.path.join(self._root, path)
        try:
            found = os.stat(file)
        except (FileNotFoundError, NotADirectoryError):
            return MISSING
        except (OSError, ValueError):
            return UNREADABLE
        if not stat.S_ISREG(found.st_mode):
            return None
        seen = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        known = self._known.get(path)
        if known is None or known[0] != seen:
            known = self._known[path] = (seen, _digest(file, found))
        return known[1]


def _digest(file: str, found: os.stat_result) -> str:
    hashed = hashlib.sha256()
    if found.st_size > MAX_DIGESTED:
        hashed.update(f"size {found.st_size} changed {found.st_mtime_ns}".encode())
    else:
        try:
            with open(file, "rb") as opened:
                while data := opened.read(_CHUNK):
                    hashed.update(data)
        except OSError:
            return UNREADABLE
    return f"sha256:{hashed.hexdigest()}"


def read_changes(reads: Mapping[str, str], digests: Digests) -> list[str]:
    """Which of the files that were read are different now, by name: `file: prompts/system.txt`, `... (removed)`."""
    found = ((path, old, _now(path, digests)) for path, old in sorted(reads.items()))
    return [f"file: {path}{_what(old, new)}" for path, old, new in found if old != new]


def _now(path: str, digests: Digests) -> str | None:
    # The path is what a result says: nothing outside the project is looked at for it.
    inside = not os.path.isabs(path) and ".." not in path.replace(os.sep, "/").split("/")
    return digests.of(path) if inside else None


def _what(old: str, new: str | None) -> str:
    return " (removed)" if new == MISSING else " (added)" if old == MISSING else ""


class AttemptReads:
    """What one attempt has read so far, each file with its digest as it was read."""

    __slots__ = ("digests", "pair", "ways")

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.digests: dict[str, str] = {}
        self.ways: set[Way] = set()

    def add(self, path: str, digest: str, way: Way) -> None:
        known = self.digests.setdefault(path, digest)
        if known != digest:
            self.digests[path] = UNSETTLED
        if way:
            self.ways.add(way)


class _Kept:
    """What was read in one way while attempts ran: by each pair, and by nobody in particular (None)."""

    __slots__ = ("_all", "_by", "_most")

    def __init__(self) -> None:
        self._all: dict[str, str] = {}
        self._by: dict[Pair | None, dict[str, str]] = {}
        self._most = 0

    def add(self, pair: Pair | None, path: str, digest: str) -> None:
        own = self._by.setdefault(pair, {})
        for files in (own, self._all):
            if len(files) <= MAX_READS:
                files[path] = digest
        self._most = max(self._most, len(own))

    def of(self, pair: Pair) -> dict[str, str]:
        """What an attempt of the pair may have been given of it without opening anything."""
        own = self._by.get(pair)
        if own is not None:
            return {**self._by.get(None, {}), **own}
        # Where each pair reads a few files of its own out of many, they are read by input and not kept for others.
        by_input = len(self._all) > max(20, 5 * self._most)
        return self._by.get(None, {}) if by_input else self._all


class FileReads:
    """What a project's code has read below its root, since the watch began.

    What the files' modules read when they were loaded belongs to every eval and experiment that such a module is part
    of. From `end_loading` on, what is read inside an attempt is that attempt's. A file may be read once and kept in
    memory for everybody: so what was read for others, by code that an attempt shares, is the attempt's as well where
    it opened nothing in the same way itself.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.digests = Digests(root)
        self._prefixes = tuple(dict.fromkeys(os.path.join(path, "") for path in (str(root), os.path.realpath(root))))
        self._results = tuple(f"{prefix}.niceeval{os.sep}" for prefix in self._prefixes)
        self._code: dict[str, str] = {}
        self._written: set[str] = set()
        self._loading = True
        self._loaded: dict[Way, dict[str, str]] = {}
        self._kept: dict[Way, _Kept] = {}

    # What was seen ----------------------------------------------------------------------------------------------

    def loaded_by(self, files: Container[str]) -> dict[str, str]:
        """Path -> digest of what these source files' modules read while the project was loaded."""
        own = {way for way in tuple(self._loaded) if way[-1][0] in files}
        found: dict[str, str] = {}
        for way, read in tuple(self._loaded.items()):
            if way in own or _may_share(way, own, files):
                found |= read
        return self._inputs(found, files)

    def end_loading(self) -> None:
        """The project is loaded: from here on, what is read counts for attempts."""
        self._loading = False

    def of(self, attempt: AttemptReads, files: Container[str]) -> dict[str, str]:
        """Path -> digest of what an attempt depends on; `files` are the source files of its eval and experiment.

        More than MAX_READS say that not all are known.
        """
        if not attempt.digests and not self._kept:
            return {}
        found = dict(tuple(attempt.digests.items()))
        own = set(attempt.ways)
        for way, kept in tuple(self._kept.items()):
            if way not in own and _may_share(way, own, files):
                found = {**kept.of(attempt.pair), **found}
        return self._inputs(found, files)

    def _inputs(self, found: Mapping[str, str], files: Container[str]) -> dict[str, str]:
        # A file that this run has written is no input of it; sources are known as sources.
        return {path: found[path] for path in sorted(found) if path not in self._written and path not in files}

    # Seeing -----------------------------------------------------------------------------------------------------

    def is_nothing(self, path: object) -> bool:
        """Whether a path can be told at once to be of no interest: nearly all are, and each costs its caller time."""
        return path.__class__ is str and (
            path.startswith(self._results) or (path.startswith(os.sep) and not path.startswith(self._prefixes))
        )

    def opened(self, path: object, mode: object, flags: int) -> None:
        """Somebody is about to open a file."""
        relative = self._relative(path)
        if relative is None:
            return
        if flags & _WRITES:
            self._written.add(relative)
            return
        frame = sys._getframe(2)
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return
        way = self._way(frame)
        # Without a mode the path may be relative to a folder that is not told, so that it names nothing here.
        if way is not None and relative not in self._written:
            self._note(relative, way, may_be_missing=mode is not None)

    def renamed(self, path: object) -> None:
        """Somebody puts a file in this place."""
        relative = self._relative(path)
        if relative is not None:
            self._written.add(relative)

    def read_for(self, path: object) -> None:
        """niceeval reads a file for its caller, while attempts run."""
        relative = self._relative(path)
        if relative is None or self._loading:
            return
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and is_ours(frame.f_code.co_filename):
            frame = frame.f_back
        self._note(relative, self._way(frame) or (), may_be_missing=True)

    def _relative(self, path: object) -> str | None:
        """The path from the root, with `/`; None for what lies outside or can be no input."""
        if not isinstance(path, (str, bytes, os.PathLike)):
            return None
        text = path if isinstance(path, str) else os.fsdecode(path)
        if os.altsep:
            text = text.replace(os.altsep, os.sep)
        if not text.startswith(self._prefixes):
            if os.path.isabs(text):
                return None
            text = os.path.abspath(text)
        elif _DETOUR in text or os.sep * 2 in text:
            text = os.path.abspath(text)
        for prefix in self._prefixes:
            if text.startswith(prefix):
                relative = text[len(prefix) :].replace(os.sep, "/")
                return None if _NO_INPUT.search(relative) else relative
        return None

    def _way(self, frame: FrameType | None) -> Way | None:
        """None for what niceeval opens for itself; empty where no frame is the project's."""
        places: list[tuple[str, int]] = []
        for _ in range(_MAX_FRAMES):
            if frame is None:
                break
            code = frame.f_code
            if is_ours(code.co_filename):
                return tuple(places) or None
            file = self._project_file(code.co_filename)
            if file:
                places.append((file, frame.f_lineno))
                if code.co_name == "<module>":
                    break
            frame = frame.f_back
        return tuple(places)

    def _project_file(self, name: str) -> str:
        """A code file's path from the root; empty for code that is not the project's."""
        known = self._code.get(name)
        if known is None:
            prefix = next((prefix for prefix in self._prefixes if name.startswith(prefix)), None)
            known = "" if prefix is None else name[len(prefix) :].replace(os.sep, "/")
            known = self._code[name] = "" if _NOT_PROJECTS.search(known) else known
        return known

    def _note(self, path: str, way: Way, *, may_be_missing: bool) -> None:
        attempt = _attempt.get()
        if attempt is _NOBODY or (not way and (attempt is None or self._loading)):
            return
        if attempt is not None and len(attempt.digests) > MAX_READS:
            return
        digest = self.digests.of(path)
        if digest is None or (digest == MISSING and not (may_be_missing and not self._loading)):
            return
        if self._loading:
            self._loaded.setdefault(way, {})[path] = digest
            return
        if attempt is not None:
            attempt.add(path, digest, way)
        if way:
            self._kept.setdefault(way, _Kept()).add(None if attempt is None else attempt.pair, path, digest)


def _may_share(way: Way, own: set[Way], files: Container[str]) -> bool:
    """Whether code of these files was used in a way that is none of its own: it may have kept what it read."""
    if len(way) == 1 and way[0][0].endswith("_eval.py"):
        # In the body of an eval: that keeps nothing for the others.
        return False
    shared = 0
    while shared < len(way) and way[shared][0] in files:
        shared += 1
    return shared > 0 and not any(one[:shared] == way[:shared] for one in own)


_NOBODY: Final = AttemptReads(("", ""))
_attempt: ContextVar[AttemptReads | None] = ContextVar("niceeval_attempt_reads", default=None)
_watching: FileReads | None = None
_installed = False


def watch(root: Path) -> FileReads:
    """Begin anew to note what the project at `root` reads. The interpreter's hook is installed once, and stays."""
    global _installed, _watching
    _watching = FileReads(root)
    if not _installed:
        _installed = True
        sys.addaudithook(_on_audit)
    return _watching


def watched(root: Path) -> FileReads | None:
    """What is noted of the project at `root`; None where nothing is."""
    return _watching if _watching is not None and _watching.root == root else None


def begin_attempt(pair: Pair) -> AttemptReads:
    """From here on, in this context and those copied from it, what is read is one attempt's."""
    reads = AttemptReads(pair)
    _attempt.set(reads)
    return reads


@contextmanager
def unnoted() -> Iterator[None]:
    """What is read inside counts for nothing."""
    token = _attempt.set(_NOBODY)
    try:
        yield
    finally:
        _attempt.reset(token)


def read_for_caller(path: str | os.PathLike[str]) -> None:
    """To be said where niceeval itself reads, on behalf of a guest, a file that the guest names."""
    if _watching is not None:
        _watching.read_for(path)


def _on_audit(event: str, args: tuple[Any, ...]) -> None:
    if event != "open" and event != "os.rename":
        return
    watching = _watching
    path = args[0] if event == "open" else args[1]
    if watching is None or watching.is_nothing(path):
        return
    try:
        if event == "open":
            watching.opened(*args)
        else:
            watching.renamed(path)
    except Exception:  # noqa: BLE001 - raised here, it would keep somebody's file from being opened
        return
