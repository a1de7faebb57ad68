"""JSON lines out of bytes as they arrive: tolerant of everything a pipe or a killed writer does to them."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

MAX_LINE_BYTES: Final = 16_000_000
"""The longest line that is decoded, in bytes; a longer one is skipped and counted."""

JsonObject = dict[str, Any]


class JsonLines:
    """An incremental decoder of JSON lines. Memory is bounded by a line and a chunk, time is linear in the bytes.

    `feed` takes chunks that may end anywhere, also within a character. Lines end in LF or CRLF; blank ones are nothing.
    What cannot be used is counted, never raised: `too_long` lines, `invalid_utf8` lines, `not_json` lines, JSON that
    is `not_object`. `cut` says that the last line, which has no end, was not whole. `problems()` has it as sentences.

    A line that is no valid UTF-8 may have lost a key as well as a character of a text, so it is not evidence and is
    left out; with `replace_invalid` it is decoded with U+FFFD in the bad places, and counted all the same.
    With `mark_holes` an empty object stands where a line was left out, for whom joins what two lines say.
    """

    def __init__(
        self,
        *,
        max_line_bytes: int = MAX_LINE_BYTES,
        replace_invalid: bool = False,
        mark_holes: bool = False,
    ) -> None:
        self._max = max_line_bytes
        self._replace = replace_invalid
        self._holes = mark_holes
        self._rest = bytearray()
        self._skipping = False
        self.objects = 0
        self.too_long = 0
        self.invalid_utf8 = 0
        self.not_json = 0
        self.not_object = 0
        self.cut = False

    def feed(self, chunk: bytes) -> list[JsonObject]:
        """The objects of the lines that end in this chunk."""
        found: list[JsonObject] = []
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._add(chunk, start, end)
            self._end_of_line(found)
            start = end + 1
        self._add(chunk, start, len(chunk))
        return found

    def finish(self) -> list[JsonObject]:
        """The object of a last line without an end, if it is whole; else `cut` is set. Call it once, at the end."""
        found: list[JsonObject] = []
        if self._skipping:
            self.cut = True
            self._end_of_line(found)
            return found
        before = (self.not_json, self.invalid_utf8)
        self._end_of_line(found)
        if (self.not_json, self.invalid_utf8) != before:
            # A last line that cannot be read is one that was still being written.
            self.not_json, self.invalid_utf8 = before
            self.cut = True
            found.clear()
        return found

    def problems(self) -> tuple[str, ...]:
        """What could not be read, one short sentence each; empty where all of it was."""
        said = []
        for count, what in (
            (self.too_long, f"longer than {self._max:,} bytes"),
            (self.invalid_utf8, "not valid UTF-8"),
            (self.not_json, "not JSON"),
            (self.not_object, "JSON, but no object"),
        ):
            if count:
                said.append(f"{count:,} line{'s are' if count != 1 else ' is'} {what}")
        if self.cut:
            said.append("the last line is cut")
        return tuple(said)

    def _add(self, chunk: bytes, start: int, end: int) -> None:
        if self._skipping:
            return
        if len(self._rest) + end - start > self._max:
            self._rest.clear()
            self._skipping = True
        else:
            self._rest += chunk[start:end]

    def _end_of_line(self, found: list[JsonObject]) -> None:
        if self._skipping:
            self._skipping = False
            self.too_long += 1
            self._hole(found)
            return
        line = bytes(self._rest).strip(b" \t\r")
        self._rest = bytearray()
        if line:
            self._decode(line, found)

    def _decode(self, line: bytes, found: list[JsonObject]) -> None:
        try:
            text = line.decode()
        except UnicodeDecodeError:
            self.invalid_utf8 += 1
            if not self._replace:
                self._hole(found)
                return
            text = line.decode(errors="replace")
        try:
            value = _decoded(text)
        except (ValueError, RecursionError):
            self.not_json += 1
            self._hole(found)
            return
        if isinstance(value, dict):
            self.objects += 1
            found.append(value)
        else:
            self.not_object += 1
            self._hole(found)

    def _hole(self, found: list[JsonObject]) -> None:
        if self._holes:
            found.append({})


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        # The standard library reads what some writers write and the standard has not: NaN, a lone surrogate.
        return json.loads(text)
