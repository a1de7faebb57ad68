"""Adding up what a turn used, where the source says the same figure more than once."""

from __future__ import annotations

from typing import Final

from niceeval._model.usage import Usage, add_usage

MAX_USAGE_KEYS: Final = 20_000
"""The most figures that are held apart so that a repetition is noticed; one more makes the usage partial."""


class UsageSum:
    """A sum in which a key that repeats replaces the figure it gave before."""

    def __init__(self) -> None:
        self._by_key: dict[str, Usage] = {}
        self._rest: Usage | None = None

    def add(self, usage: Usage, key: str | None) -> str | None:
        """Add a figure; says why the sum is not certain any more, or None."""
        if key is not None and (key in self._by_key or len(self._by_key) < MAX_USAGE_KEYS):
            self._by_key[key] = usage
            return None
        self._rest = usage if self._rest is None else add_usage((self._rest, usage))
        return None if key is None else f"usage was reported for more than {MAX_USAGE_KEYS:,} model calls"

    def total(self) -> Usage | None:
        """The sum so far; None where nothing was said."""
        parts = list(self._by_key.values())
        return add_usage(parts if self._rest is None else [*parts, self._rest])
