"""An answer that stays small where nobody scrolls: in a log, or before a coding agent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

LIMIT = 16 * 1024
"""Bytes of one answer off a terminal."""
TAIL_LINES = 8
TAIL_BYTES = 2 * 1024


def bounded(lines: Sequence[str], more: str) -> list[str]:
    """The lines within `LIMIT`: the first, how many are left out (`more` is the command for them), the last."""
    if sum(map(_size, lines)) <= LIMIT:
        return list(lines)
    tail = _fitting(reversed(lines[-TAIL_LINES:]), TAIL_BYTES)
    room = LIMIT - sum(map(_size, tail)) - _size(_left_out(len(lines), more))
    head = _fitting(lines, room)
    return [*head, _left_out(len(lines) - len(head) - len(tail), more), *reversed(tail)]


def _left_out(number: int, more: str) -> str:
    return f"+ {number:,} more lines: {more}"


def _fitting(lines: Iterable[str], room: int) -> list[str]:
    taken: list[str] = []
    for line in lines:
        room -= _size(line)
        if room < 0:
            break
        taken.append(line)
    return taken


def _size(line: str) -> int:
    """The line's bytes, also where the stream must spell out what it cannot encode (`\\u{1f600}`)."""
    return 1 + (len(line) if line.isascii() else sum(1 if char < "\x80" else 9 for char in line))
