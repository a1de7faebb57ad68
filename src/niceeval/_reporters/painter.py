"""Permanent text and a repainted board on one screen: the only writer of both streams while a run is on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, TypeAlias

from niceeval._base.terminal import Stream, break_ci_commands

Target: TypeAlias = Literal["stdout", "stderr"]

_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"
_CLEAR_DOWN, _CLEAR_ROW = "\x1b[J", "\x1b[K"


@dataclass(frozen=True, slots=True)
class Text:
    """One permanent line, and the stream it belongs to."""

    target: Target
    line: str


class Painter:
    """Writes lines for good, and below them a board that it replaces in place.

    The board is drawn on stderr, in the normal screen, with the cursor hidden; `close` takes it away and shows the
    cursor. Without `live` there is no board and no control character.
    """

    def __init__(self, stdout: Stream, stderr: Stream, *, live: bool) -> None:
        self._streams: dict[Target, Stream] = {"stdout": stdout, "stderr": stderr}
        self._live = live
        self._board: list[str] = []
        self._columns = 0
        self._hidden = False

    def show(self, texts: Sequence[Text], board: Sequence[str] = (), columns: int = 0) -> int:
        """Write the texts for good and paint the board below them. Returns how many characters that took."""
        if not self._live:
            return self._write(texts)
        if not texts and columns == self._columns and self._same_shape(board):
            return self._change_rows(board)
        written = self._erase() + self._write(texts)
        self._columns = columns
        return written + self._paint(board)

    def close(self) -> None:
        """Take the board away and give the cursor back."""
        if self._hidden:
            self._erase()
            self._put(_SHOW)
            self._hidden = False

    def restore(self) -> None:
        """Give the cursor back from a signal handler or at exit: no lock, no buffer, the board stays as it is."""
        if self._hidden:
            self._hidden = False
            try:
                os.write(self._streams["stderr"].fileno(), f"{_SHOW}\r\n".encode())
            except OSError:
                return

    def _same_shape(self, board: Sequence[str]) -> bool:
        return bool(self._board) and len(board) == len(self._board)

    def _write(self, texts: Sequence[Text]) -> int:
        written = 0
        for target, group in groupby(texts, key=lambda text: text.target):
            stream = self._streams[target]
            # Wherever a line was composed, here is the last place where it can be kept from commanding a CI system.
            said = "".join(break_ci_commands(text.line) + "\n" for text in group)
            stream.write(said)
            stream.flush()
            written += len(said)
        return written

    def _erase(self) -> int:
        """Clear the board. The rows are counted as they were painted: counting them as a resized terminal may have
        wrapped them would, where it did not, take permanent lines with them."""
        if not self._board:
            return 0
        up = len(self._board) - 1
        said = "\r" + (f"\x1b[{up}A" if up else "") + _CLEAR_DOWN
        self._board = []
        return self._put(said)

    def _paint(self, board: Sequence[str]) -> int:
        if not board:
            return 0
        said = ("" if self._hidden else _HIDE) + "\r\n".join(board)
        self._hidden = True
        self._board = list(board)
        return self._put(said)

    def _change_rows(self, board: Sequence[str]) -> int:
        changed = [index for index, row in enumerate(board) if row != self._board[index]]
        if not changed:
            return 0
        at = len(board) - 1
        said = []
        for index in changed:
            said.append(_moved(index - at) + board[index] + _CLEAR_ROW)
            at = index
        said.append(_moved(len(board) - 1 - at) if at != len(board) - 1 else "")
        self._board = list(board)
        return self._put("".join(said))

    def _put(self, said: str) -> int:
        stream = self._streams["stderr"]
        stream.write(said)
        stream.flush()
        return len(said)


def _moved(rows: int) -> str:
    return "\r" + (f"\x1b[{-rows}A" if rows < 0 else f"\x1b[{rows}B" if rows > 0 else "")
