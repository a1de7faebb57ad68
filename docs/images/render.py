"""Draws `docs/images/compare.svg`: what a terminal shows at the end of `niceeval exp compare` in the example.

    python docs/images/render.py

The command runs in a pseudo-terminal of the picture's size, so the colours and the lines are the real ones. POSIX only.
"""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import tempfile
from html import escape
from itertools import groupby
from pathlib import Path

import pyte
from pyte.screens import Char

ROOT = Path(__file__).parents[2]
TARGET = Path(__file__).with_name("compare.svg")
COMMAND = "niceeval exp compare"
COLUMNS, LINES = 100, 38
CELL_WIDTH, LINE_HEIGHT, MARGIN = 8.4, 19, 16
INK, PAPER = "#d6deeb", "#0f1720"
COLOURS = {
    "red": "#ef6b73",
    "green": "#7fd88f",
    "brown": "#e8c268",
    "blue": "#82aaff",
    "magenta": "#c792ea",
    "cyan": "#7fdbca",
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "weather_desk"
        ignored = shutil.ignore_patterns(".niceeval", "__pycache__")
        shutil.copytree(ROOT / "examples" / "weather_desk", project, ignore=ignored)
        screen = run_in_terminal([sys.executable, "-m", "niceeval", *COMMAND.split()[1:]], project)
    TARGET.write_text(drawn(screen), "utf-8")
    print(f"wrote {TARGET.relative_to(ROOT)}")


def run_in_terminal(command: list[str], folder: Path) -> pyte.Screen:
    """The screen after the command has ended."""
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(LINES)}
    for name in ("CI", "NO_COLOR", "NICEEVAL_LANG"):
        environment.pop(name, None)
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    while chunk := _read(ours):
        stream.feed(chunk)
    process.wait()
    os.close(ours)
    return screen


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says EIO where the other side is closed, macOS an empty read
        return b""


def drawn(screen: pyte.Screen) -> str:
    """The screen as SVG, with the command above it."""
    rows = [[screen.buffer[y][x] for x in range(COLUMNS)] for y in range(LINES)]
    while rows and not "".join(char.data for char in rows[-1]).strip():
        rows.pop()
    while rows and rows[0][0].data == " ":  # the rest of a block whose first line scrolled away
        rows.pop(0)
    width = COLUMNS * CELL_WIDTH + 2 * MARGIN
    height = (len(rows) + 1) * LINE_HEIGHT + 2 * MARGIN
    lines = [_text(0, 0, f"$ {COMMAND}", COLOURS["cyan"], bold=False)]
    for y, row in enumerate(rows, 1):
        lines += _row(y, row)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
        f'role="img" aria-label="{COMMAND}">\n'
        f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>\n'
        '<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14">\n'
        + "".join(f"{line}\n" for line in lines)
        + "</g>\n</svg>\n"
    )


def _row(y: int, row: list[Char]) -> list[str]:
    texts, x = [], 0
    for (colour, bold), chars in groupby(row, key=lambda char: (char.fg, char.bold)):
        text = "".join(char.data for char in chars)
        if text.strip():
            texts.append(_text(x, y, text, COLOURS.get(colour, INK), bold=bold))
        x += len(text)
    return texts


def _text(x: int, y: int, text: str, colour: str, *, bold: bool) -> str:
    shift = len(text) - len(text.lstrip(" "))
    text = text.strip(" ")
    left, top = MARGIN + (x + shift) * CELL_WIDTH, MARGIN + (y + 0.75) * LINE_HEIGHT
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{left:.1f}" y="{top:.1f}" fill="{colour}"{weight} xml:space="preserve" '
        f'textLength="{len(text) * CELL_WIDTH:.1f}">{escape(text)}</text>'
    )


if __name__ == "__main__":
    main()
