"""Where in the author's source a call was made: file, line and column, cheap enough to take at every call.

A recording or driving call captures its place in a plain function, on the caller's own stack: inside a coroutine the
caller would be the event loop.
"""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType, TracebackType
from typing import NamedTuple

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_COLUMNS: dict[tuple[CodeType, int], int | None] = {}
_OURS: dict[str, bool] = {}


class CallSite(NamedTuple):
    """A place in source; `column` counts characters' UTF-8 bytes from 1, as Python's own positions do."""

    file: str
    line: int
    column: int | None


def is_ours(filename: str) -> bool:
    """Whether a code file belongs to niceeval itself (guests that we ship count as the user's side)."""
    known = _OURS.get(filename)
    if known is None:
        known = _OURS[filename] = filename.startswith(_PACKAGE)
    return known


def call_site() -> CallSite:
    """The innermost frame outside niceeval: the author's line that made the call being executed."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return CallSite("<unknown>", 0, None)
    return frame_site(frame)


def frame_site(frame: FrameType) -> CallSite:
    """Where a frame is now."""
    # Read once: each read is an event for whoever listens to the interpreter.
    code = frame.f_code
    return CallSite(code.co_filename, frame.f_lineno, _column(code, frame.f_lasti))


def _column(code: CodeType, instruction: int) -> int | None:
    key = (code, instruction)
    if key not in _COLUMNS:
        if len(_COLUMNS) > 50_000:
            _COLUMNS.clear()
        position = _position(code, instruction)
        _COLUMNS[key] = None if position is None else position + 1
    return _COLUMNS[key]


def _position(code: CodeType, instruction: int) -> int | None:
    for index, (_, _, column, _) in enumerate(code.co_positions()):
        if index == instruction // 2:
            return column
    return None


def traceback_sites(traceback: TracebackType | None) -> list[CallSite]:
    """The places of a traceback, outermost first, without niceeval's own frames."""
    sites: list[CallSite] = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not is_ours(code.co_filename):
            sites.append(CallSite(code.co_filename, traceback.tb_lineno, _column(code, traceback.tb_lasti)))
        traceback = traceback.tb_next
    return sites
