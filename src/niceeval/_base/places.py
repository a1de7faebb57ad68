"""Where something was written: the caller's file, line and column, and a path as a person would name it."""

from __future__ import annotations

import itertools
import os
import sys
from types import CodeType, FrameType

from niceeval._base.errors import Place


def shown_path(path: str | os.PathLike[str]) -> str:
    """The path from the current folder, or the absolute one where that is shorter; always with `/`."""
    absolute = os.path.abspath(path)
    try:
        relative = os.path.relpath(absolute)
    except ValueError:  # another drive, on Windows
        return absolute.replace(os.sep, "/")
    shorter = relative if len(relative) <= len(absolute) else absolute
    return shorter.replace(os.sep, "/")


def caller_place(depth: int = 1) -> Place:
    """Where the function that calls this one was called (`depth=1`), or a frame further out."""
    return frame_place(sys._getframe(depth + 1))


def frame_place(frame: FrameType) -> Place:
    """The expression that a frame is evaluating now."""
    return code_place(frame.f_code, frame.f_lasti, frame.f_lineno)


def code_place(code: CodeType, instruction: int, line: int | None) -> Place:
    """The source place of an instruction; without a column where the interpreter keeps none."""
    positions = next(itertools.islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    start, column = positions[0], positions[2]
    return Place(shown_path(code.co_filename), start or line or 1, None if column is None else column + 1)
