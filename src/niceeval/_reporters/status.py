"""A line for work that takes longer than a second: discovery, reading, clearing away."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from niceeval._base.terminal import Stream, Style, count, cut_end

_ON_TERMINAL = (1.0, 0.1)
_IN_A_LOG = (10.0, 30.0)


class StatusLine:
    """`with StatusLine(stderr, style, live=True, doing="reading") as status: ... status.update(41_200, 100_000)`.

    On a terminal (`live`) the line appears after 1 s, is renewed in place and is gone at the end; in a log a line is
    written after 10 s and then every 30 s. Work that is done sooner prints nothing.
    """

    def __init__(self, stream: Stream, style: Style, *, live: bool, doing: str, noun: str = "") -> None:
        self._stream = stream
        self._style = style
        self._live = live
        self._doing = doing
        self._noun = noun
        self._progress: tuple[int, int | None] | None = None
        self._shown = ""
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="niceeval-status", daemon=True)

    def update(self, current: int, total: int | None = None) -> None:
        """Note how far the work is; costs nothing but this note."""
        self._progress = (current, total)

    def __enter__(self) -> StatusLine:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        if self._live and self._shown:
            self._write("\r\x1b[K")

    def text(self, passed: float) -> str:
        """`reading 41,200 of 100,000 attempts`, with the seconds passed where there is no count."""
        if self._progress is None:
            return f"{self._doing} ({int(passed)}s)"
        current, total = self._progress
        of = "" if total is None else f" of {count(total)}"
        return f"{self._doing} {count(current)}{of} {self._noun}".rstrip()

    def _watch(self) -> None:
        first, every = _ON_TERMINAL if self._live else _IN_A_LOG
        began = time.monotonic()
        wait = first
        while not self._done.wait(wait):
            self._show(self.text(time.monotonic() - began))
            wait = every

    def _show(self, text: str) -> None:
        if not self._live:
            self._write(text + "\n")
        elif text != self._shown:
            width = (self._style.width or 80) - 1
            self._write("\r" + cut_end(text, width, mark=self._style.glyphs.ellipsis) + "\x1b[K")
        self._shown = text

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
