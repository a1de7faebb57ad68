"""How an error reads: `error[code]: message`, its place with the source line, who called, and what to do."""

from __future__ import annotations

import linecache
import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Sequence
from typing import Literal

from niceeval._base.errors import NiceevalError, Place
from niceeval._base.redaction import Redactor, secret_values
from niceeval._base.terminal import Style, cut_counted
from niceeval._cli.streams import Streams
from niceeval._reporters.excerpt import excerpt
from niceeval._version import __version__

MAX_BYTES = 2048
"""What one error may take."""
MAX_ERRORS = 10
"""Errors printed in full; the others are counted."""

_MESSAGE_CHARS = 600
_HINT_CHARS = 300
_SOURCE_CELLS = 120

Label = Literal["error", "warning"]


def print_errors(errors: Sequence[NiceevalError], streams: Streams, label: Label = "error") -> None:
    """Each error on stderr, in their order; after `MAX_ERRORS` only how many more there are."""
    for error in errors[:MAX_ERRORS]:
        streams.note(*error_lines(error, streams.err_style, streams.language, label))
        if _debugging():
            streams.note(*_own_frames(error, streams.err_style))
    if len(errors) > MAX_ERRORS:
        streams.note(f"+ {len(errors) - MAX_ERRORS} more {label}s")


def error_lines(error: NiceevalError, style: Style, language: str, label: Label = "error") -> list[str]:
    """One error as printed, within `MAX_BYTES`: where there is too much, the source and the frames go first."""
    mark = style.glyphs.ellipsis
    message = cut_counted(style.clean(error.message(language)), _MESSAGE_CHARS, mark=mark)
    first = f"{style.paint(f'{label}[{error.code}]', 'red' if label == 'error' else 'yellow')}: {message}"
    place = [] if error.place is None else [f"  {style.clean(str(error.place))}"]
    hint = cut_counted(style.clean(error.next_step(language)), _HINT_CHARS, mark=mark)
    last = [f"  next: {hint}"] if hint else []
    frames = _frame_lines(error, style)
    source = [] if error.place is None else _source_lines(error.place, style)
    for middle in ([*source, *frames], source, []):
        lines = [first, *place, *middle, *last]
        if sum(len(line.encode(errors="replace")) + 1 for line in lines) <= MAX_BYTES:
            return lines
    return [first, *place, *last]


def _source_lines(place: Place, style: Style) -> list[str]:
    # A line of .env may hold a credential that nothing knows as one yet.
    if os.path.basename(place.file).startswith(".env"):
        return []
    source = linecache.getline(os.path.abspath(place.file), place.line)
    if not source.strip():
        return []
    return excerpt(style, source, place.line, place.column, min(style.width or _SOURCE_CELLS, _SOURCE_CELLS))


def _frame_lines(error: NiceevalError, style: Style) -> list[str]:
    if not error.frames:
        return []
    return ["  reached from:", *(f"    {line}" for line in style.clean_lines(error.frames))]


def _debugging() -> bool:
    return os.environ.get("NICEEVAL_DEBUG", "0") not in ("", "0")


def _own_frames(error: BaseException, style: Style) -> list[str]:
    return style.clean_lines("".join(traceback.format_exception(error)))


def print_broke(error: BaseException, streams: Streams) -> NiceevalError:
    """niceeval's own fault: one line, and a report file with the frames. Returns what the line says."""
    redact = Redactor(secret_values(os.environ, {}))
    text = redact("".join(traceback.format_exception(error)))
    name = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    broke = NiceevalError("broke", error=redact(name), report=_written_report(text))
    streams.note(*error_lines(broke, streams.err_style, streams.language))
    if _debugging():
        streams.note(*streams.err_style.clean_lines(text))
    return broke


def _written_report(text: str) -> str:
    """Write what a bug report needs, and say where it is."""
    system = f"niceeval {__version__}, Python {platform.python_version()}, {platform.platform()}\n\n"
    try:
        descriptor, path = tempfile.mkstemp(prefix="niceeval-broke-", suffix=".txt")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as report:
            report.write(system + text)
    except OSError as error:
        return f"no report could be written ({error.strerror})"
    return f"report it with {path}"


def safe_standard_streams() -> None:
    """Let nothing that is written past our own streams raise for want of a character, or of a stream."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Started with a closed descriptor: nobody listens, and no file that is opened later may take its number.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - it stays open
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
