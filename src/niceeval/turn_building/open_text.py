"""A text that comes in pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MAX_OPEN_CHARS: Final = 1_000_001
"""Characters that are held of a text whose end has not come: one more than is kept, so that the cut is noticed."""


class OpenText:
    """Holds the pieces of the text that is being said; `done(kind, text)` is given the whole once it has ended."""

    def __init__(self, done: Callable[[str, str], None]) -> None:
        self._done = done
        self._of: tuple[str, str] | None = None
        self._pieces: list[str] = []
        self._chars = 0

    def add(self, kind: str, key: str, text: str) -> None:
        """A piece. One of another kind or key ends the text before it."""
        if self._of != (kind, key):
            self.close()
            self._of = (kind, key)
        room = MAX_OPEN_CHARS - self._chars
        if text and room > 0:
            self._pieces.append(text[:room])
            self._chars += len(self._pieces[-1])

    def close(self) -> None:
        """The text that is being said ends here."""
        if self._of is None:
            return
        (kind, _), text = self._of, "".join(self._pieces)
        self._of, self._pieces, self._chars = None, [], 0
        self._done(kind, text)
