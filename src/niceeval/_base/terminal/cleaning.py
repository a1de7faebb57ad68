"""Somebody else's text, made safe to print: it steers no terminal, commands no CI system, and hides nothing."""

from __future__ import annotations

import re
from typing import Literal

Escapes = Literal["symbol", "visible"]

TAB = "    "

# A string sequence (OSC, DCS, SOS, PM, APC) is taken whole only where it is terminated: of an unterminated one just the
# introducer goes, so that it cannot hide the text behind it.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])(?:[^\x07\x1b\x90\x98\x9c-\x9f\n\r]*(?:\x07|\x1b\\|\x9c))?"
    r"|\x1b[ -/]*[0-~]?"
)
_LINE_END = re.compile(r"\r\n|\n")

# Controls, format characters (bidi, zero-width, tags), separators that break lines, surrogates, and everything else
# that Unicode says to display as nothing.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\ud800-\udfff\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
# Text and emoji presentation of the character before: looks only, and terminals disagree about the width they make.
_PRESENTATION = re.compile("(?<=[^\x00-\x20])[\ufe0e\ufe0f]+")
# Three combining marks on one letter is already rare; a tower of them paints over the rows around it.
_TOWER = re.compile(
    "(?<=[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4})"
    "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
)
_CI_MARKER = re.compile(r"##(\w*)\[")


def clean(text: str, *, escapes: Escapes = "symbol", symbol: str = "␛") -> str:
    """One line of text without anything that a terminal or a CI system would obey.

    An escape sequence becomes `symbol`, or is spelled out (`\\x1b[2J`) where `escapes` is "visible". A line end becomes
    a visible `\\n`, a tab four spaces, any other control, bidi, zero-width character or lone surrogate `\\u{202e}`.
    """
    if _is_plain(text):
        return text
    return _clean_line(_LINE_END.sub(r"\\n", text), escapes, symbol)


def clean_lines(text: str, *, escapes: Escapes = "symbol", symbol: str = "␛") -> list[str]:
    """`clean` for text of several lines, one item each; a final line end makes no empty line."""
    lines = _LINE_END.split(text)
    if lines[-1] == "":
        lines.pop()
    return [clean(line, escapes=escapes, symbol=symbol) for line in lines]


def break_ci_commands(line: str) -> str:
    """The line, with what GitHub (`::error`), Azure (`##vso[`) and their kind would take for a command broken up."""
    if line.lstrip().startswith("::"):
        line = line.replace("::", ": :", 1)
    return _CI_MARKER.sub(r"##\1 [", line) if "##" in line else line


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and "::" not in text and "##" not in text


def _clean_line(text: str, escapes: Escapes, symbol: str) -> str:
    if not text.isprintable():
        text = _SEQUENCE.sub(symbol if escapes == "symbol" else _spelled_out, text).replace("\t", TAB)
    if not text.isascii():
        text = _TOWER.sub(_code_point, _PRESENTATION.sub("", text))
    return break_ci_commands(_UNSAFE.sub(_code_point, text))


def _spelled_out(match: re.Match[str]) -> str:
    return "".join(char if " " <= char <= "~" else _hex(char) for char in match.group())


def _hex(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{{{ord(char):x}}}"


def _code_point(match: re.Match[str]) -> str:
    return f"\\u{{{ord(match.group()):x}}}"
