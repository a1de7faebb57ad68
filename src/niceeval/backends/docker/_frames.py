"""The frames of an attached stream: 8 bytes that say whose output follows and how much, then the output."""

from __future__ import annotations

from collections.abc import Iterator

_HEADER = 8
STDOUT = 1
STDERR = 2
SYSTEM = 3
"""What the engine itself has to say, such as that a command could not be run."""


class FrameError(ValueError):
    """The stream is not made of frames."""


class FrameParser:
    """Takes the stream in pieces of any size and gives (stream, output) as it comes, also within a frame.

    It keeps 8 bytes at most, however large a frame is.
    """

    def __init__(self) -> None:
        self._head = bytearray()
        self._kind = 0
        self._left = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The output in `data`. Raises FrameError."""
        at = 0
        while at < len(data):
            if self._left:
                part = data[at : at + self._left]
                self._left -= len(part)
                at += len(part)
                yield self._kind, part
                continue
            part = data[at : at + _HEADER - len(self._head)]
            self._head += part
            at += len(part)
            if len(self._head) == _HEADER:
                self._begin()

    def _begin(self) -> None:
        head = bytes(self._head)
        self._head.clear()
        if head[0] > SYSTEM or head[1:4] != b"\0\0\0":
            raise FrameError(f"a frame begins with {head.hex()}")
        self._kind = head[0] or STDOUT
        self._left = int.from_bytes(head[4:], "big")

    @property
    def between(self) -> bool:
        """Whether the stream may end here."""
        return not self._head and not self._left
