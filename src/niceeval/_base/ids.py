"""Names that come from people, as folder names; and the short stable name of an attempt (its locator)."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable

MAX_SEGMENT = 100
"""Characters of one folder name; a longer true name is cut and carries a hash."""
MAX_PATH = 300
"""Characters of an eval id as a path; a longer one becomes a single hashed folder."""
IDENTITY_LENGTH = 52
"""Characters of a SHA-256 in base32."""
LOCATOR_LENGTH = 8
MIN_LOCATOR_PREFIX = 4

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_.@-]")
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)", re.IGNORECASE)
_LOCATOR = re.compile(r"@?([a-z2-7]+)", re.IGNORECASE)


def name_hash(name: str, length: int) -> str:
    """The first `length` characters of the lower-case base32 SHA-256 of a name; any text, lone surrogates too."""
    return _base32(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest(), length)


def _base32(digest: bytes, length: int) -> str:
    """The first `length` characters of the lower-case base32 of a digest; only what they need is encoded."""
    return base64.b32encode(digest[: -(-length * 5 // 8)]).decode("ascii").rstrip("=").lower()[:length]


def clean_segment(name: str) -> str:
    """One folder name: every character outside `[A-Za-z0-9_.@-]` becomes `_`.

    What a file system would read otherwise is changed too: `.`, `..`, a trailing dot, our own hidden folders and the
    device names of Windows. The result is never empty; it may be longer than `MAX_SEGMENT`.
    """
    text = _FORBIDDEN.sub("_", name) or "_"
    if text.endswith("."):
        text = text[:-1] + "_"
    if text.startswith("."):
        text = "_" + text[1:]
    return f"_{text}" if _DEVICE.match(text) else text


def clean_path(name: str) -> str:
    """An eval id as a relative folder: `/` stays, each part is a `clean_segment`."""
    return "/".join([clean_segment(part) for part in name.split("/")])


def flat_name(name: str, length: int) -> str:
    """A single folder name for any true name: what is readable of it, then `length` characters of its hash."""
    return f"{clean_segment(name)[:MAX_SEGMENT]}-{name_hash(name, length)}"


def _too_long(folder: str) -> bool:
    return len(folder) > MAX_PATH or any(len(part) > MAX_SEGMENT for part in folder.split("/"))


def folder_names(
    names: Iterable[str], *, paths: bool, flat: Iterable[str] = (), taken: Iterable[str] = ()
) -> dict[str, str]:
    """A folder for each true name, no two the same on a file system that ignores case.

    A name keeps its plain form unless that is too long, `taken`, or shared by two of the names: then all of those
    carry a hash of the true name. `paths` keeps `/` as a folder boundary; names in `flat` become one hashed folder.
    """
    clean = clean_path if paths else clean_segment
    plain = {name: clean(name) for name in dict.fromkeys(names)}
    reserved = {folder.lower() for folder in taken}
    single = set(flat) | {name for name, folder in plain.items() if _top(folder) in reserved or _too_long(folder)}
    hashed = set(single)
    length = LOCATOR_LENGTH
    while True:
        folders = {name: _folder(name, plain[name], name in hashed, name in single, length) for name in plain}
        clashing = _clashing(folders)
        if not clashing:
            return folders
        if clashing <= hashed:
            length += LOCATOR_LENGTH
        hashed |= clashing


def _top(folder: str) -> str:
    return folder.split("/", 1)[0].lower()


def _folder(name: str, plain: str, hashed: bool, single: bool, length: int) -> str:
    if single:
        return flat_name(name, length)
    return f"{plain}-{name_hash(name, length)}" if hashed else plain


def _clashing(folders: dict[str, str]) -> set[str]:
    by_folder: dict[str, list[str]] = defaultdict(list)
    for name, folder in folders.items():
        by_folder[folder.lower()].append(name)
    return {name for sharing in by_folder.values() if len(sharing) > 1 for name in sharing}


def identity_hash(
    experiment_id: str | None, eval_id: str, attempt: int, started_at: str, length: int = IDENTITY_LENGTH
) -> str:
    """The 52 characters that tell an attempt from every other; its locator is the shortest unique start (from 8)."""
    identity = json.dumps([experiment_id, eval_id, attempt, started_at], separators=(",", ":"))
    return _base32(hashlib.sha256(identity.encode("ascii")).digest(), length)


def locator_of(experiment_id: str | None, eval_id: str, attempt: int, started_at: str) -> str:
    """`@` and the first 8 characters of the identity's hash. `attempt` counts from 0, `started_at` as it is stored."""
    return "@" + identity_hash(experiment_id, eval_id, attempt, started_at, LOCATOR_LENGTH)


def parse_locator(text: str) -> str | None:
    """What was typed, as a hash prefix: with or without `@`, in any case. None where it cannot be a locator."""
    found = _LOCATOR.fullmatch(text.strip())
    if found is None or len(found[1]) < MIN_LOCATOR_PREFIX:
        return None
    return found[1].lower()
