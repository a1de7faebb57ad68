"""From what git says of two trees to the changes of an attempt. All of it is somebody else's text, and bounded."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from niceeval._model.changes import Changes
from niceeval._model.diff import DiffRules, OtherFile, OtherKind, StoredDiff
from niceeval._model.ignoring import IgnorePattern, ignore_patterns, ignored_by
from niceeval._sandbox.ledger import RawChanges
from niceeval._sandbox.ledger_scripts import MAX_CONTENT_BYTES, MAX_PATCH_BYTES, MAX_RAW_BYTES
from niceeval._sandbox.windows import Listed, parse_listed

MAX_PATHS: Final = 5_000
"""Changed paths that are kept."""
MAX_STORED_CHARS: Final = 8_000_000
"""Characters of text and of patches, together, that `diff.json` keeps; further files keep size and SHA-256 only."""

_LINK, _REPOSITORY, _NOTHING = "120000", "160000", "000000"
_NUMBER = re.compile(rb"[0-9]{1,18}")
_LIKE_A_BYTE = re.compile(r"\\x[0-9a-f]{2}")
_SECTION = re.compile(rb"^(?=diff --git )", re.MULTILINE)


class UnreadableChanges(Exception):
    """What git printed does not fit together."""


def changes_of(raw: RawChanges, *, rules: DiffRules, workdir: str, windows: int, incomplete: str | None) -> Changes:
    """The changes that git lists. `incomplete` is what is known to be missing already. Raises UnreadableChanges."""
    try:
        entries, cut = parse_listed(raw.listed)
    except (ValueError, UnicodeDecodeError) as error:
        raise UnreadableChanges(str(error)) from None
    building = _Building(incomplete=incomplete, room=MAX_STORED_CHARS, workdir=workdir, ignored=ignore_patterns(rules))
    if cut or len(raw.listed) >= MAX_RAW_BYTES:
        building.miss("the list of changed paths was cut")
    if len(raw.contents) >= MAX_CONTENT_BYTES or len(raw.patches) >= MAX_PATCH_BYTES:
        building.miss("more was changed than is read of it")
    contents = _contents(raw.contents, len(entries), cut=len(raw.contents) >= MAX_CONTENT_BYTES)
    patches = _patches(raw.patches, entries, cut=len(raw.patches) >= MAX_PATCH_BYTES)
    for number, entry in enumerate(entries):
        if number >= MAX_PATHS:
            building.miss(f"only {MAX_PATHS:,} of {len(entries):,} changed paths are kept")
            break
        building.add(entry, contents[number], patches[number])
    return building.changes(rules, workdir, windows)


@dataclass(slots=True)
class _Building:
    incomplete: str | None
    room: int
    workdir: str
    ignored: Sequence[IgnorePattern]
    generated: dict[str, str] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    patches: dict[str, str] = field(default_factory=dict)
    others: dict[str, OtherFile] = field(default_factory=dict)
    added: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)

    def miss(self, why: str) -> None:
        """Something is missing; the first reason is told."""
        self.incomplete = self.incomplete or why

    def add(self, entry: Listed, content: bytes | None, patch: bytes | None) -> None:
        """One changed path. `content` and `patch` are None where they lie behind a cut."""
        path = shown_path(entry.path)
        if entry.status == "D":
            self.deleted.append(path)
            return
        origin = None
        if entry.status == "R" and entry.origin is not None:
            origin = shown_path(entry.origin)
            self.deleted.append(origin)
        if entry.new_mode == _REPOSITORY:
            self._described(path, content, origin)
        else:
            self._file(path, entry, content, patch, origin)

    def _file(self, path: str, entry: Listed, content: bytes | None, patch: bytes | None, origin: str | None) -> None:
        same = entry.old_id == entry.new_id
        if entry.new_mode == _LINK and self._leads_out(entry.path, content or b""):
            self.unread[path] = "it is a link to where nothing is looked at"
        if content is None or (patch is None and not same):
            self.unread[path] = "the diff was cut before it"
            self.miss(f"the diff is larger than what is read of it, and was cut at {path}")
        if patch is not None and (lines := added_lines(patch)):
            self.added[path] = lines
        mode = entry.new_mode if entry.new_mode != entry.old_mode and entry.old_mode != _NOTHING else None
        text = None if content is None or entry.new_mode == _LINK else text_of(content)
        shown = "" if patch is None or entry.old_mode == _NOTHING or same else patch_text(patch)
        kept = text is not None and len(text) + len(shown) <= self.room
        if text is not None and kept and not (same and origin is None):
            self.room -= len(text) + len(shown)
            self.generated[path] = text
            if shown:
                self.patches[path] = shown
        kind = _kind(entry, origin, text, kept)
        if kind is None and mode is None:
            return
        known = None if content is None else hashlib.sha256(content).hexdigest()
        size = None if content is None else len(content)
        self.others[path] = OtherFile(kind=kind or "mode", size=size, sha256=known, mode=mode, origin=origin)

    def _leads_out(self, path: bytes, target: bytes) -> bool:
        """Whether a link shows what the ledger does not see: something outside of the workdir, or that is ignored."""
        folder = posixpath.join(self.workdir.encode(), posixpath.dirname(path))
        end = posixpath.normpath(posixpath.join(folder, target))
        inside = posixpath.relpath(end, self.workdir.encode())
        if not target or inside == b".." or inside.startswith(b"../"):
            return True
        return ignored_by(shown_path(inside), self.ignored) is not None

    def _described(self, path: str, content: bytes | None, origin: str | None) -> None:
        """A path that the ledger has no content of: `oversized SIZE SHA256 MODE`, `special KIND`."""
        words = (content or b"").decode("ascii", "replace").split(" ")
        if words[0] == "oversized" and len(words) == 4 and words[1].isdigit():
            self.others[path] = OtherFile(
                kind="oversized", size=int(words[1]), sha256=words[2], mode=words[3], origin=origin
            )
            self.unread[path] = "it is too large: only its size and SHA-256 are kept"
        else:
            self.others[path] = OtherFile(kind="special", origin=origin)
            if words[-1] == "unreadable" or content is None:
                self.unread[path] = "it could not be read"

    def changes(self, rules: DiffRules, workdir: str, windows: int) -> Changes:
        stored = StoredDiff(
            generated_files=self.generated,
            deleted_files=tuple(sorted(set(self.deleted) - self.generated.keys() - self.others.keys())),
            patches=self.patches,
            other_files=self.others,
            incomplete=self.incomplete,
        )
        return Changes(
            stored=stored, rules=rules, workdir=workdir, windows=windows, added=self.added, unread=self.unread
        )


def _kind(entry: Listed, origin: str | None, text: str | None, kept: bool) -> OtherKind | None:
    """What beside its text is to be said of a file; None where there is nothing."""
    if origin is not None:
        return "renamed"
    if entry.new_mode == _LINK:
        return "symlink"
    if entry.old_id == entry.new_id:
        return "mode"
    if text is None:
        return "binary"
    return None if kept else "oversized"


def _contents(data: bytes, count: int, *, cut: bool) -> list[bytes | None]:
    """The contents that `git cat-file --batch` printed, in their order; None for what is not there.

    Raises UnreadableChanges.
    """
    found: list[bytes | None] = []
    at = 0
    while at < len(data) and len(found) < count:
        line_end = data.find(b"\n", at)
        head = data[at : line_end if line_end >= 0 else len(data)].split(b" ")
        if head[-1] == b"missing":
            found.append(None)
            at = line_end + 1
            continue
        if line_end < 0 or len(head) != 3 or not _NUMBER.fullmatch(head[2]):
            break
        end = line_end + 1 + int(head[2])
        if end >= len(data):
            break
        found.append(data[line_end + 1 : end])
        at = end + 1
    if len(found) < count and not cut:
        raise UnreadableChanges("git's list of contents is shorter than that of changed paths")
    return found + [None] * (count - len(found))


def _patches(data: bytes, entries: Sequence[Listed], *, cut: bool) -> list[bytes | None]:
    """The patch of each entry; None for one behind the cut. Raises UnreadableChanges."""
    sections = [section for section in _SECTION.split(data) if section]
    if cut and sections:
        sections.pop()
    found: list[bytes | None] = []
    at = 0
    for entry in entries:
        # A file that became a link (or the reverse) is deleted and created.
        end = at + (2 if entry.status == "T" else 1)
        found.append(b"".join(sections[at:end]) if end <= len(sections) else None)
        at = end
    if not cut and at != len(sections):
        raise UnreadableChanges("git's patches do not fit its list of changed paths")
    return found


def added_lines(patch: bytes) -> str:
    """The text of a patch's added lines."""
    lines: list[bytes] = []
    inside = False
    for line in patch.split(b"\n"):
        if line.startswith(b"@@ "):
            inside = True
        elif line.startswith(b"diff --git "):
            inside = False
        elif inside and line.startswith(b"+"):
            lines.append(line[1:])
    return b"\n".join(lines).decode("utf-8", "replace")


def patch_text(patch: bytes) -> str:
    """A patch from its first `---` line on; empty for one without lines."""
    at = patch.find(b"\n--- ")
    return "" if at < 0 else patch[at + 1 :].decode("utf-8", "replace")


def shown_path(path: bytes) -> str:
    """A path as text, another for each: bytes that are no UTF-8 as `\\xe9`, and a backslash doubled where it might be
    taken for one of these."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        return path.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return text.replace("\\", "\\\\") if _LIKE_A_BYTE.search(text) else text


def text_of(content: bytes) -> str | None:
    """The content as text; None for what is none."""
    if b"\0" in content:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None
