"""A text that comes in pieces."""

from __future__ import annotations

from typing import Final, Literal

MAX_PIECED_CHARS: Final = 1_000_001
"""Characters that are held of one text: one more than is kept of it, so that the cut is noticed."""


class PieceText:
    """The pieces of one text, with the gaps where pieces may be missing."""

    __slots__ = ("_chars", "_key", "_parts", "kind")

    def __init__(self, kind: Literal["message", "thinking"], key: str) -> None:
        self.kind = kind
        self._key = key
        self._parts: list[list[str]] = [[]]
        self._chars = 0

    def continues(self, kind: str, key: str) -> bool:
        """Whether a piece of this kind and key belongs to this text."""
        return (self.kind, self._key) == (kind, key)

    def add(self, text: str) -> int:
        """A piece; returns how many of its characters are held."""
        held = text[: max(MAX_PIECED_CHARS - self._chars, 0)]
        if held:
            self._parts[-1].append(held)
            self._chars += len(held)
        return len(held)

    def gap(self) -> None:
        """What comes next does not continue what came before."""
        if len(self._parts) == 1 or self._parts[-1]:
            self._parts.append([])
        if len(self._parts) > 2:
            # Only the longest part is asked for, so no more than two are held.
            self._parts = [_longest(self._parts[:-1]), []]

    @property
    def has_gaps(self) -> bool:
        """Whether something may be missing."""
        return len(self._parts) > 1

    def longest(self) -> str:
        """The longest part that has no gap."""
        return "".join(_longest(self._parts))


def _longest(parts: list[list[str]]) -> list[str]:
    return max(parts, key=lambda pieces: sum(map(len, pieces)))
