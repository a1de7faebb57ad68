"""Streams as a run meets them: an emulated terminal, a pipe of some encoding."""

from __future__ import annotations

import io

import pyte


class Emulator:
    """A terminal that stdout and stderr share; `stream` makes a text stream into it."""

    def __init__(self, columns: int, rows: int) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=5000, ratio=0.5)
        self._parser = pyte.Stream(self.screen)
        self.environ = {"COLUMNS": str(columns), "LINES": str(rows), "TERM": "xterm-256color"}
        self.raw: list[str] = []

    def stream(self) -> io.TextIOBase:
        return _Terminal(self)

    def feed(self, text: str) -> None:
        self.raw.append(text)
        # What the terminal driver does with line ends.
        self._parser.feed(text.replace("\r\n", "\n").replace("\n", "\r\n"))

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        self.environ.update(COLUMNS=str(columns), LINES=str(rows))

    def shown(self) -> list[str]:
        """What is on the screen, without blank rows at the end."""
        rows = [row.rstrip() for row in self.screen.display]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def everything(self) -> list[str]:
        """Scrollback and screen."""
        back = ["".join(row[column].data for column in sorted(row)).rstrip() for row in self.screen.history.top]
        return back + self.shown()


class _Terminal(io.StringIO):
    encoding = "utf-8"

    def __init__(self, emulator: Emulator) -> None:
        super().__init__()
        self._emulator = emulator

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._emulator.feed(text)
        return len(text)


def a_pipe(encoding: str = "utf-8", errors: str = "strict") -> io.TextIOWrapper:
    """A pipe as Python opens it; `bytes_of` reads what arrived."""
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors=errors, newline="\n")


def text_of(pipe: io.TextIOWrapper) -> str:
    """What arrived at the other end."""
    pipe.flush()
    buffer = pipe.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(pipe.encoding)
