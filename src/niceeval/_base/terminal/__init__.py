"""What a terminal, a pipe or a log may be given: clean text, measured cells, marks, figures, streams that never raise.

Nothing here knows what an eval is. Every string that is not our own literal passes `Style.clean` (or `clean`).
"""

from __future__ import annotations

from niceeval._base.terminal.amounts import age, clock, count, duration, money, seconds, size, tokens
from niceeval._base.terminal.cells import (
    cell_width,
    cut_counted,
    cut_end,
    cut_middle,
    graphemes,
    pad_end,
    pad_start,
    wrap,
)
from niceeval._base.terminal.cleaning import break_ci_commands, clean, clean_lines
from niceeval._base.terminal.glyphs import ASCII, UNICODE, Glyphs, glyphs_for
from niceeval._base.terminal.streams import Stream, board_allowed, colour_wanted, terminal_size
from niceeval._base.terminal.style import Colour, Mark, Style

__all__ = [
    "ASCII",
    "UNICODE",
    "Colour",
    "Glyphs",
    "Mark",
    "Stream",
    "Style",
    "age",
    "board_allowed",
    "break_ci_commands",
    "cell_width",
    "clean",
    "clean_lines",
    "clock",
    "colour_wanted",
    "count",
    "cut_counted",
    "cut_end",
    "cut_middle",
    "duration",
    "glyphs_for",
    "graphemes",
    "money",
    "pad_end",
    "pad_start",
    "seconds",
    "size",
    "terminal_size",
    "tokens",
    "wrap",
]
