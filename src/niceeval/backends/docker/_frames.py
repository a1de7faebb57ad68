"""The frames of an attached stream: which of stdout and stderr, how long, and the bytes."""

from __future__ import annotations

from collections.abc import Iterator

HEADER = 8
"""Bytes before each frame: the stream's number, three zeros, and the length, big-endian."""


class FrameReader:
    """Cuts the raw bytes of an attached stream into (stream, data), however they arrive; 1 is stdout, 2 is stderr.

    Frames are handed on in pieces as they come, so that a large one is never held.
    """

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = 0
        self._stream = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The pieces in this chunk."""
        view = memoryview(data)
        while view:
            if self._left == 0:
                wanted = HEADER - len(self._head)
                self._head += view[:wanted]
                view = view[wanted:]
                if len(self._head) < HEADER:
                    return
                self._stream, self._left = self._head[0], int.from_bytes(self._head[4:8], "big")
                self._head.clear()
                continue
            piece = bytes(view[: self._left])
            view = view[len(piece) :]
            self._left -= len(piece)
            yield self._stream, piece
