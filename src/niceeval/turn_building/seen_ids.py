"""Noticing that something is said again."""

from __future__ import annotations

from typing import Final

MAX_SEEN_IDS: Final = 50_000
"""The most ids that are remembered; of more, the oldest are forgotten."""


class SeenIds:
    """Remembers the ids that were seen last, in bounded memory."""

    def __init__(self, most: int = MAX_SEEN_IDS) -> None:
        self._most = most
        self._ids: dict[str, None] = {}

    def first(self, id: str | None) -> bool:
        """Whether this id was not seen before; what has no id is always new."""
        if id is None:
            return True
        key = id[:200]
        if key in self._ids:
            return False
        self._ids[key] = None
        if len(self._ids) > self._most:
            del self._ids[next(iter(self._ids))]
        return True

    def __len__(self) -> int:
        return len(self._ids)
