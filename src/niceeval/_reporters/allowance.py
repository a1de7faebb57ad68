"""How much a run may print where no terminal is: logs and coding agents pay for every byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

TOTAL = 24 * 1024 - 256
FOR_THE_END = 7 * 1024
BLOCKS = 10
BLOCKS_ON_TERMINAL = 50
INDEX_LINES_ON_TERMINAL = 200
PAIR_LINES = 200
NOTICES = 20


def size_of(lines: Sequence[str]) -> int:
    """Bytes that the lines take, as UTF-8 with their line ends."""
    return sum(len(line.encode("utf-8", "surrogatepass")) + 1 for line in lines)


@dataclass(slots=True)
class Allowance:
    """Both streams together. `limited` is false on a terminal, where failures are bounded by number, not by bytes."""

    limited: bool
    spent: int = 0
    blocks: int = 0
    index_lines: int = 0

    def take(self, lines: Sequence[str]) -> bool:
        """Whether these lines may be printed now; the end's share is not touched."""
        if not self.limited:
            return True
        needed = size_of(lines)
        if self.spent + needed > TOTAL - FOR_THE_END:
            return False
        self.spent += needed
        return True

    def take_block(self) -> bool:
        """Whether one more failure may have its whole block."""
        self.blocks += 1
        return self.blocks <= (BLOCKS if self.limited else BLOCKS_ON_TERMINAL)

    def take_index_line(self) -> bool:
        """Whether one more failure may have a line; the end counts those that had none."""
        self.index_lines += 1
        return self.limited or self.index_lines <= INDEX_LINES_ON_TERMINAL

    @property
    def for_the_end(self) -> int | None:
        """Bytes that are left for the end; None for no limit."""
        return TOTAL - self.spent if self.limited else None
