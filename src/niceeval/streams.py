"""Server-sent events, read from the bytes of a response, for adapters of services that stream.

    async for event in sse_events(response.aiter_bytes()):
        frame = json.loads(event.data)

Lines of JSON (NDJSON) are read by `niceeval.turn_building.JsonLines`.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from dataclasses import dataclass

_LINE_END = re.compile(r"\r\n|\r|\n")

MAX_EVENT_CHARS = 8 * 1024 * 1024
"""The largest event that is kept, in characters: what is longer is left out whole, and counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSentEvent:
    """One event of a stream: its `data` lines joined by newlines, its name, and its id where one was sent."""

    data: str
    event: str = "message"
    id: str | None = None


class SseDecoder:
    """Cuts a byte stream into events, however its chunks fall.

    Follows the HTML standard's event stream format (https://html.spec.whatwg.org/multipage/server-sent-events.html):
    CR, LF and CRLF end a line, a line that begins with `:` is a comment, a blank line ends an event, and events without
    data are none. Bytes that are not UTF-8 become U+FFFD. `oversized` counts events that were left out for their
    length; `unfinished` says that the stream ended within one, which the standard drops, and so does `finish`.
    """

    def __init__(self, *, max_event_chars: int = MAX_EVENT_CHARS) -> None:
        self.oversized = 0
        self.unfinished = False
        self._max = max_event_chars
        self._text = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._after_cr = False
        self._begin_line()
        self._begin_event()

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """The events that end within this chunk."""
        yield from self._read(self._text.decode(chunk))

    def finish(self) -> Iterator[ServerSentEvent]:
        """Say that the stream has ended. An event without its blank line is not one: `unfinished` says so."""
        yield from self._read(self._text.decode(b"", final=True))
        self.unfinished = self._line_size > 0 or self._event_size > 0 or self._skipping

    def _begin_line(self) -> None:
        self._line: list[str] = []
        self._line_size = 0

    def _begin_event(self) -> None:
        self._data: list[str] = []
        self._name = ""
        self._id: str | None = None
        self._event_size = 0
        self._skipping = False

    def _read(self, text: str) -> Iterator[ServerSentEvent]:
        if self._after_cr and text:
            self._after_cr = False
            text = text.removeprefix("\n")
        start = 0
        for end in _LINE_END.finditer(text):
            self._add(text[start : end.start()])
            event = self._end_line()
            if event is not None:
                yield event
            start = end.end()
            self._after_cr = end[0] == "\r" and start == len(text)
        self._add(text[start:])

    def _add(self, text: str) -> None:
        self._line_size += len(text)
        if self._event_size + self._line_size > self._max:
            # Of what is too long nothing is kept; only where it ends is still looked for.
            self._skipping = True
            self._line = []
        elif text and not self._skipping:
            self._line.append(text)

    def _end_line(self) -> ServerSentEvent | None:
        line, size = "".join(self._line), self._line_size
        self._begin_line()
        if size == 0:
            return self._end_event()
        if self._skipping or line.startswith(":"):
            return None
        self._event_size += size
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        elif field == "id" and "\0" not in value:
            self._id = value
        return None

    def _end_event(self) -> ServerSentEvent | None:
        data, name, said, skipped = self._data, self._name, self._id, self._skipping
        self._begin_event()
        self.oversized += skipped
        return ServerSentEvent(data="\n".join(data), event=name or "message", id=said) if data and not skipped else None


async def sse_events(chunks: AsyncIterable[bytes], decoder: SseDecoder | None = None) -> AsyncIterator[ServerSentEvent]:
    """The events of a response's body as they come. Give a `decoder` to ask it afterwards what was left out."""
    reading = SseDecoder() if decoder is None else decoder
    async for chunk in chunks:
        for event in reading.feed(chunk):
            yield event
    for event in reading.finish():
        yield event
