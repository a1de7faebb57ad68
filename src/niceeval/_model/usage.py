"""Tokens and money of a turn, a session or an attempt."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

import msgspec


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a protocol reported; a field it does not give is left out, never guessed.

    `input_tokens` are those at full price, without the cache buckets; `reasoning_tokens` are contained in
    `output_tokens`; `cost_usd` is set only when it was measured.
    """

    input_tokens: int | None = msgspec.field(default=None, name="inputTokens")
    output_tokens: int | None = msgspec.field(default=None, name="outputTokens")
    cache_read_tokens: int | None = msgspec.field(default=None, name="cacheReadTokens")
    cache_write_tokens: int | None = msgspec.field(default=None, name="cacheWriteTokens")
    reasoning_tokens: int | None = msgspec.field(default=None, name="reasoningTokens")
    requests: int | None = None
    cost_usd: float | None = msgspec.field(default=None, name="costUSD")

    @property
    def total_tokens(self) -> int | None:
        """Input plus output, cache buckets not counted; None where neither is known."""
        if self.input_tokens is None and self.output_tokens is None:
            return None
        return (self.input_tokens or 0) + (self.output_tokens or 0)


_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "requests")


def add_usage(usages: Iterable[Usage]) -> Usage | None:
    """The sum, field by field: a field is absent only where no part has it. None for no parts.

    Money is added in exact decimal arithmetic.
    """
    parts = list(usages)
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    sums: dict[str, int | None] = {}
    for name in _COUNTS:
        values = [value for part in parts if (value := getattr(part, name)) is not None]
        sums[name] = sum(values) if values else None
    costs = [Decimal(str(part.cost_usd)) for part in parts if part.cost_usd is not None]
    return Usage(**sums, cost_usd=float(sum(costs, Decimal(0))) if costs else None)
