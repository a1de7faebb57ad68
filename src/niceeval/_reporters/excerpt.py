"""One line of the author's source, with the call that matters underlined."""

from __future__ import annotations

import re

from niceeval._base.terminal import Style, cell_width, cut_end, graphemes

_CALLEE = re.compile(r"(?:await\s+)?[^\W\d]\w*(?:\.\w+)*")
_LEFT_SHARE = 3


def excerpt(style: Style, source: str, line: int, column: int | None, cells: int) -> list[str]:
    """The source line and, where the column is known, a row with carets under the call.

    `column` counts characters from 1. Both rows take at most `cells` cells; a longer line is cut around the carets.
    """
    source = source.rstrip()
    gutter = f"{line:>5} {style.glyphs.rule} "
    room = max(cells - len(gutter), 8)
    if column is None or not 1 <= column <= len(source):
        return [gutter + _window(style, style.clean(source), 0, 0, room)[0]]
    head = source[: column - 1]
    found = _CALLEE.match(source, column - 1)
    marked = found.group() if found else source[column - 1]
    before, under = cell_width(style.clean(head)), max(cell_width(style.clean(marked)), 1)
    shown, moved = _window(style, style.clean(source), before, under, room)
    carets = "^" * max(min(under, room - (before - moved)), 1)
    blank = f"{'':>5} {style.glyphs.rule} "
    return [gutter + shown, blank + " " * (before - moved) + style.paint(carets, "red")]


def _window(style: Style, text: str, at: int, length: int, room: int) -> tuple[str, int]:
    """A part of the text that holds the cells from `at`, and by how many cells that part moved to the left."""
    mark = style.glyphs.ellipsis
    skip = 0 if at + length + len(mark) <= room else max(at - room // _LEFT_SHARE, 0)
    tail, first = _from(text, skip)
    if first == 0:
        return cut_end(text, room, mark=mark), 0
    return mark + cut_end(tail, room - len(mark), mark=mark), first - len(mark)


def _from(text: str, skip: int) -> tuple[str, int]:
    """The text from the first character that starts at or after cell `skip`, and that cell."""
    position = 0
    parts = graphemes(text)
    for index, part in enumerate(parts):
        if position >= skip:
            return "".join(parts[index:]), position
        position += cell_width(part)
    return "", position
