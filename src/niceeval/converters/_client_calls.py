"""Calls that the caller of a model makes, over one tool loop: their ids, their results, and how they went."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, Literal

from niceeval.turn_building import TurnBuilder

NO_STATUS: Final = "a tool's result has no status in this protocol, and nobody said which calls failed"
"""Why a result that came without a word about it is less than certain."""


class ClientCalls:
    """Adds calls and results to a builder.

    Servers that number calls anew in each answer give an id twice: the second call is then `id#2`. `failed` and
    `rejected` are ids of calls of which the caller knows that; None for `failed` says that the caller does not know.
    """

    def __init__(self, builder: TurnBuilder, failed: Collection[str] | None, rejected: Collection[str]) -> None:
        self._builder = builder
        self._failed = None if failed is None else frozenset(failed)
        self._rejected = frozenset(rejected)
        self._made: dict[str, list[tuple[str, str, Any]]] = {}
        self._open: dict[str, list[str]] = {}
        self._unknown_outcomes = False

    def called(self, id: str, name: str, given: Any, tool: str | None = None) -> str:
        """A call; the same one said again is the one that was. Returns its id in the events."""
        known = self._made.setdefault(id, [])
        open_ids = self._open.setdefault(id, [])
        for unique, its_name, its_input in known:
            if unique in open_ids and (its_name, its_input) == (name, given):
                return unique
        unique = id if not known else f"{id}#{len(known) + 1}"
        known.append((unique, name, given))
        open_ids.append(unique)
        self._builder.called(unique, name, given, tool)
        return unique

    def is_open(self, id: str) -> bool:
        """Whether a call of this id was made here and has no result."""
        return bool(self._open.get(id))

    def result(
        self,
        id: str,
        output: Any,
        status: Literal["completed", "failed", "rejected"] | None = None,
        *,
        called_before: bool = False,
    ) -> None:
        """What a call came to. `status` where the protocol says it; what the caller knows goes before. `called_before`
        where the call may be one of an earlier turn."""
        open_ids, known = self._open.get(id, []), self._made.get(id, [])
        unique = open_ids.pop(0) if open_ids else (known[-1][0] if known else id)
        if id in self._rejected or unique in self._rejected:
            self._builder.result(unique, output, "rejected")
        elif self._failed is not None and (id in self._failed or unique in self._failed):
            self._builder.result(unique, output, "failed")
        else:
            self._unknown_outcomes = self._unknown_outcomes or (status is None and self._failed is None)
            self._builder.result(unique, output, status or "completed")
        if not known and not called_before:
            self._builder.partial("actions", "a result has no call")

    def finish(self, waiting: Collection[str] = ()) -> None:
        """The loop is over: say what is not known of it. `waiting` are ids of calls that a human was asked about."""
        if any(left for id, left in self._open.items() if id not in waiting):
            self._builder.partial("actions", "the answer has calls whose results are not there")
        if self._unknown_outcomes:
            self._builder.partial("actions", NO_STATUS)
