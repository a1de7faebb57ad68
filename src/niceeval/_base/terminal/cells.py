"""Widths in terminal cells, and cuts that never split what a person sees as one character."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def graphemes(text: str) -> Sequence[str]:
    """The text as user-perceived characters."""
    if text.isascii():
        return text
    from wcwidth import iter_graphemes

    return list(iter_graphemes(text))


def cell_width(text: str) -> int:
    """How many cells cleaned text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_width, graphemes(text)))


def cut_end(text: str, cells: int, *, mark: str = "…") -> str:
    """The text in at most `cells` cells; one that was cut ends with `mark`."""
    if cell_width(text) <= cells:
        return text
    if cell_width(mark) > cells:
        return _head(text, cells)
    return _head(text, cells - cell_width(mark)) + mark


def cut_counted(text: str, cells: int, *, mark: str = "…") -> str:
    """The text in at most `cells` cells; one that was cut says by how much: `It is 21 °C [+412 chars]`.

    Where that leaves no room for any text, it is cut as `cut_end` does.
    """
    if cell_width(text) <= cells:
        return text
    # The figure's own width depends on the cut: assume the widest, which is the whole length.
    room = cells - len(f" [+{len(text)} chars]")
    head = _head(text, room) if room > 0 else ""
    return f"{head} [+{len(text) - len(head)} chars]" if head else cut_end(text, cells, mark=mark)


def cut_middle(text: str, cells: int, *, mark: str = "…") -> str:
    """An id in at most `cells` cells, both ends kept: `compare/…/gpt-5.4` where whole segments fit, else by letter."""
    if cell_width(text) <= cells:
        return text
    whole = f"{text.split('/', 1)[0]}/{mark}/{text.rsplit('/', 1)[-1]}"
    if text.count("/") >= 2 and cell_width(whole) <= cells:
        return whole
    room = cells - cell_width(mark)
    if room < 2:
        return cut_end(text, cells, mark=mark)
    tail = _tail(text, room // 2)
    return _head(text, room - cell_width(tail)) + mark + tail


def wrap(text: str, cells: int, *, lines: int, mark: str = "…") -> list[str]:
    """Prose broken at spaces into at most `lines` lines of `cells` cells; the last one says what was cut."""
    rows: list[str] = []
    while len(rows) < lines - 1 and cell_width(text) > cells:
        head = _head(text, cells + 1)
        at = head.rfind(" ")
        row = head[:at] if at > 0 else _head(text, cells)
        if not row:
            break
        rows.append(row)
        text = text[len(row) :].lstrip(" ")
    return [*rows, cut_counted(text, cells, mark=mark)]


def pad_end(text: str, cells: int) -> str:
    """The text, filled with spaces on the right."""
    return text + " " * (cells - cell_width(text))


def pad_start(text: str, cells: int) -> str:
    """The text, filled with spaces on the left: for figures."""
    return " " * (cells - cell_width(text)) + text


def _head(text: str, cells: int) -> str:
    return text[:cells] if text.isascii() else "".join(_fitting(graphemes(text), cells))


def _tail(text: str, cells: int) -> str:
    if text.isascii():
        return text[len(text) - cells :]
    return "".join(reversed(_fitting(reversed(graphemes(text)), cells)))


def _fitting(parts: Iterable[str], cells: int) -> list[str]:
    taken: list[str] = []
    for part in parts:
        cells -= _width(part)
        if cells < 0:
            break
        taken.append(part)
    return taken


def _width(grapheme: str) -> int:
    if grapheme.isascii():
        return len(grapheme)
    from wcwidth import wcswidth

    return max(wcswidth(grapheme), 0)
