"""stdout for the answer, stderr for everything else, and how each may be written to."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from niceeval._base.catalogue import current_language
from niceeval._base.terminal import Stream, Style

LIST_BYTES = 16_384
"""What a list may be, where no person scrolls it."""


def _unchanged(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """The two streams of one command, with their styles."""

    out: Stream
    err: Stream
    out_style: Style
    err_style: Style
    language: str

    @classmethod
    def standard(cls, redact: Callable[[str], str] = _unchanged) -> Streams:
        """The process's own, as they are now."""
        out, err = Stream(sys.stdout), Stream(sys.stderr)
        language = current_language()
        return cls(
            out=out,
            err=err,
            out_style=Style.for_stream(out, redact=redact, language=language),
            err_style=Style.for_stream(err, redact=redact, language=language),
            language=language,
        )

    def say(self, *lines: str) -> None:
        """Lines of the answer."""
        _write(self.out, lines)

    def note(self, *lines: str) -> None:
        """Lines beside the answer."""
        _write(self.err, lines)

    def say_json(self, value: object) -> None:
        """The answer as JSON. Escaped to ASCII, it is UTF-8 on a stream of whatever encoding."""
        self.say(self.out_style.redact(json.dumps(value, indent=2)))

    def say_list(self, lines: list[str], more: str) -> None:
        """A list. Off a terminal it ends at `LIST_BYTES`, with what is left out counted, and `more` to see it."""
        room = LIST_BYTES - len(more.encode()) - 40
        shown = lines if self.out.isatty else lines[: _fitting(lines, room)]
        self.say(*shown)
        if len(shown) < len(lines):
            self.say(f"+ {len(lines) - len(shown):,} more: {more}")


def _fitting(lines: Iterable[str], room: int) -> int:
    """How many of the first lines fit into `room` bytes."""
    count = 0
    for line in lines:
        # An escape for what the stream cannot hold may take eight characters where there was one.
        room -= len(line) + 1 if line.isascii() else 8 * len(line) + 1
        if room < 0:
            break
        count += 1
    return count


def _write(stream: Stream, lines: Iterable[str]) -> None:
    stream.write("".join(f"{line}\n" for line in lines))
    stream.flush()
