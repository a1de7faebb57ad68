"""stdout and stderr as they really are: of some encoding, some width, perhaps closed at the other end."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TextIO

_DEFAULT_SIZE = (80, 24)


class Stream:
    """A text stream that takes whatever it is given.

    What the encoding cannot hold is written as `\\u{4e2d}`; once the reader has gone, writing does nothing and `closed`
    is true.
    """

    __slots__ = ("_raw", "closed", "encoding")

    def __init__(self, raw: TextIO) -> None:
        self._raw = raw
        self.closed = False
        self.encoding: str | None = getattr(raw, "encoding", None)

    @property
    def isatty(self) -> bool:
        """Whether a person's terminal is at the other end."""
        try:
            return self._raw.isatty()
        except ValueError:
            return False

    def write(self, text: str) -> None:
        """Write, without flushing."""
        if self.closed or not text:
            return
        try:
            self._raw.write(text if text.isascii() else self._encodable(text))
        except (OSError, ValueError):
            self._give_up()

    def flush(self) -> None:
        """Hand what was written to the other end."""
        if self.closed:
            return
        try:
            self._raw.flush()
        except (OSError, ValueError):
            self._give_up()

    def fileno(self) -> int:
        """The descriptor. Raises OSError or ValueError where there is none."""
        return self._raw.fileno()

    def size(self, environ: Mapping[str, str] = os.environ) -> tuple[int, int]:
        """Columns and rows now."""
        return terminal_size(self._raw, environ)

    def _encodable(self, text: str) -> str:
        try:
            text.encode(self.encoding or "utf-8")
        except UnicodeEncodeError:
            return "".join(char if self._fits(char) else f"\\u{{{ord(char):x}}}" for char in text)
        return text

    def _fits(self, char: str) -> bool:
        try:
            char.encode(self.encoding or "utf-8")
        except UnicodeEncodeError:
            return False
        return True

    def _give_up(self) -> None:
        self.closed = True
        # What is still in the buffer would raise once more when the interpreter flushes at exit.
        try:
            descriptor = self._raw.fileno()
        except (OSError, ValueError):
            return
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, descriptor)
        os.close(sink)


def terminal_size(raw: TextIO, environ: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Columns and rows: `COLUMNS` and `LINES` win, then the terminal's own, else 80 x 24."""
    try:
        found = tuple(os.get_terminal_size(raw.fileno()))
    except (OSError, ValueError):
        found = _DEFAULT_SIZE
    columns = _positive(environ.get("COLUMNS")) or found[0] or _DEFAULT_SIZE[0]
    rows = _positive(environ.get("LINES")) or found[1] or _DEFAULT_SIZE[1]
    return columns, rows


def colour_wanted(isatty: bool, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to colour: a non-empty `NO_COLOR` wins, then `FORCE_COLOR`, then whether a terminal can show it."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0", "false"):
        return True
    return isatty and _understands_escapes(environ)


def board_allowed(stdout: Stream, stderr: Stream, *, quiet: bool, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a repainted board may be drawn: two terminals that understand it, no CI, and not `--quiet`."""
    if quiet or environ.get("CI"):
        return False
    return stdout.isatty and stderr.isatty and _understands_escapes(environ)


def _understands_escapes(environ: Mapping[str, str]) -> bool:
    if environ.get("TERM") == "dumb":
        return False
    return os.name != "nt" or bool(environ.get("WT_SESSION") or environ.get("TERM"))


def _positive(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and int(text) > 0 else None
