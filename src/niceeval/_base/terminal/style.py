"""How one stream is written to: its glyphs, its colour, its width, and the secrets that must not reach it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from niceeval._base.terminal.cleaning import Escapes, clean, clean_lines
from niceeval._base.terminal.glyphs import ASCII, UNICODE, Glyphs, glyphs_for
from niceeval._base.terminal.streams import Stream, colour_wanted

Colour: TypeAlias = Literal["red", "green", "yellow", "blue", "magenta", "cyan", "bold"]
Mark: TypeAlias = Literal["passed", "failed", "errored", "skipped", "carried", "unavailable", "soft"]

_SGR: Mapping[Colour, str] = {
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    "bold": "1",
}
_MARK_COLOUR: Mapping[Mark, Colour] = {
    "passed": "green",
    "failed": "red",
    "errored": "magenta",
    "skipped": "yellow",
    "carried": "cyan",
    "unavailable": "yellow",
    "soft": "blue",
}


def _unchanged(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """`width` is the number of cells that prose and rows may take, None where nothing is to be wrapped or cut (a log).

    `redact` replaces secrets; it runs before anything else on every text that is not ours.
    """

    color: bool = False
    glyphs: Glyphs = UNICODE
    width: int | None = None
    redact: Callable[[str], str] = _unchanged

    @classmethod
    def for_stream(
        cls,
        stream: Stream,
        *,
        redact: Callable[[str], str] = _unchanged,
        language: str = "en",
        environ: Mapping[str, str] = os.environ,
    ) -> Style:
        """What this stream can take now."""
        return cls(
            color=colour_wanted(stream.isatty, environ),
            glyphs=glyphs_for(stream.encoding, language),
            width=stream.size(environ)[0] if stream.isatty else None,
            redact=redact,
        )

    def clean(self, text: str, *, escapes: Escapes = "symbol") -> str:
        """One line of somebody else's text: secrets replaced, then as `clean` says."""
        return clean(self.redact(text), escapes=escapes, symbol=self.glyphs.escape)

    def clean_lines(self, text: str, *, escapes: Escapes = "symbol") -> list[str]:
        """Several lines of somebody else's text."""
        return clean_lines(self.redact(text), escapes=escapes, symbol=self.glyphs.escape)

    def paint(self, text: str, colour: Colour) -> str:
        """The text in a colour, where there is colour. Cells are counted before painting."""
        return f"\x1b[{_SGR[colour]}m{text}\x1b[0m" if self.color and text else text

    def symbol(self, mark: Mark) -> str:
        """A mark's character, coloured: for columns whose word stands in the same row."""
        return self.paint(getattr(self.glyphs, mark), _MARK_COLOUR[mark])

    def mark(self, mark: Mark) -> str:
        """A mark with its word: `✓ passed`."""
        return self.paint(f"{getattr(self.glyphs, mark)} {mark}", _MARK_COLOUR[mark])

    def joined(self, *parts: str) -> str:
        """The parts that are not empty, with ` · ` between."""
        return f" {self.glyphs.dot} ".join(part for part in parts if part)


PLAIN = Style(glyphs=ASCII)
"""No colour, no glyph beyond ASCII, no width: what any log takes."""
