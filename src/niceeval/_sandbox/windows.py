"""Sends as windows between two trees, and several windows as one: what changed inside them and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Window:
    """The trees right before and right after a send, or several that overlapped."""

    before: str
    after: str


class Listed(NamedTuple):
    """One line of git's raw list: modes are octal text, `000000` where there is nothing; `status` is a letter."""

    old_mode: str
    new_mode: str
    old_id: str
    new_id: str
    status: str
    path: bytes
    origin: bytes | None


Entry = tuple[str, str]
"""A path's mode and object; mode `000000` where there is nothing."""


def joined(windows: Iterable[Window]) -> list[Window]:
    """Windows between which nothing changed are one; those inside which nothing changed are none."""
    found: list[Window] = []
    for window in windows:
        if window.before == window.after:
            continue
        if found and found[-1].after == window.before:
            found[-1] = Window(found[-1].before, window.after)
        else:
            found.append(window)
    # Nothing may be left of a change that was taken back.
    return [window for window in found if window.before != window.after]


def parse_listed(data: bytes) -> tuple[list[Listed], bool]:
    """The entries of `git diff-tree --raw -z`, and whether the data ends in the middle of one.

    Raises ValueError for what is no such list.
    """
    fields = data.split(b"\0")
    whole = fields.pop() == b""
    found: list[Listed] = []
    at = 0
    while at < len(fields):
        head = fields[at].decode("ascii").split(" ")
        if len(head) != 5 or not head[0].startswith(":"):
            if at == len(fields) - 1 and not whole:
                break
            raise ValueError(f"git's list of changes has {fields[at]!r:.80}")
        names = 2 if head[4][:1] in "RC" else 1
        if at + names >= len(fields):
            whole = False
            break
        paths = fields[at + 1 : at + 1 + names]
        origin = paths[0] if names == 2 else None
        found.append(Listed(head[0][1:], head[1], head[2], head[3], head[4][:1], paths[-1], origin))
        at += 1 + names
    return found, not whole


def merge_windows(lists: Sequence[bytes]) -> tuple[list[tuple[bytes, Entry]], list[tuple[bytes, Entry]]]:
    """Each changed path as the first window that changed it found it, and as the last one left it.

    Where two paths cannot both be (one is a folder of the other), the first found, and the last left, comes later in
    its list and so takes the other's place. Raises ValueError.
    """
    first: dict[bytes, Entry] = {}
    last: dict[bytes, Entry] = {}
    for data in lists:
        entries, cut = parse_listed(data)
        if cut:
            raise ValueError("git's list of changes was cut")
        for entry in entries:
            first.setdefault(entry.path, (entry.old_mode, entry.old_id))
            last.pop(entry.path, None)
            last[entry.path] = (entry.new_mode, entry.new_id)
    return list(reversed(first.items())), list(last.items())


def index_lines(entries: Iterable[tuple[bytes, Entry]]) -> bytes:
    """The paths that are there, as `git update-index -z --index-info` takes them."""
    lines = [f"{mode} {id}\t".encode() + path + b"\0" for path, (mode, id) in entries if int(mode, 8)]
    return b"".join(lines)
