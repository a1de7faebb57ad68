"""Locators of a set of attempts: short where they can be, longer where two would read the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property

from niceeval._base.errors import ResultsError
from niceeval._base.ids import LOCATOR_LENGTH, parse_locator
from niceeval._record.attempt import Attempt

MAX_CANDIDATES = 3
"""Candidates that an ambiguous locator lists; the others are counted."""


class Locators:
    """Finds attempts by what people type. The attempts are asked for when the first locator is."""

    def __init__(self, attempts: Callable[[], Sequence[Attempt]]) -> None:
        self._attempts = attempts

    @cached_property
    def _by_start(self) -> dict[str, list[tuple[str, Attempt]]]:
        found: dict[str, list[tuple[str, Attempt]]] = defaultdict(list)
        for attempt in self._attempts():
            full = attempt.hash
            found[full[:LOCATOR_LENGTH]].append((full, attempt))
        return found

    def of(self, attempt: Attempt) -> str:
        """The attempt's locator."""
        full = attempt.hash
        others = [other for other, _ in self._by_start[full[:LOCATOR_LENGTH]] if other != full]
        length = LOCATOR_LENGTH
        while any(other.startswith(full[:length]) for other in others):
            length += 1
        return f"@{full[:length]}"

    def find(self, typed: str, where: str) -> Attempt:
        """The attempt that `typed` names: its locator in any case, or a unique start of four characters or more.

        Raises ResultsError (`unknown-locator`, `ambiguous-locator`).
        """
        start = parse_locator(typed)
        matching = [] if start is None else self._starting(start)
        if not matching:
            raise ResultsError("unknown-locator", locator=typed, path=where)
        if len(matching) > 1:
            raise self._ambiguous(typed, matching)
        return matching[0]

    def _starting(self, start: str) -> list[Attempt]:
        near = self._by_start.get(start[:LOCATOR_LENGTH], []) if len(start) >= LOCATOR_LENGTH else self._all()
        return [attempt for full, attempt in near if full.startswith(start)]

    def _all(self) -> list[tuple[str, Attempt]]:
        return [item for items in self._by_start.values() for item in items]

    def _ambiguous(self, typed: str, matching: list[Attempt]) -> ResultsError:
        shown = [f"{self.of(attempt)} ({attempt.eval_id})" for attempt in matching[:MAX_CANDIDATES]]
        more = len(matching) - len(shown)
        candidates = " or ".join(shown) + (f" or {more} more" if more else "")
        first = self.of(matching[0])
        return ResultsError("ambiguous-locator", locator=typed, candidates=candidates, first=first)
