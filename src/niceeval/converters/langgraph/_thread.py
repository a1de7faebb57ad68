"""The messages of a run, each once, however often states and streams repeat it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal

from niceeval.converters.langgraph._messages import key_of, kind_of

MAX_MESSAGES: Final = 20_000
"""The most messages that are held of one turn."""

Source = Literal["state", "values", "updates"]


class Thread:
    """Collects messages. `before` are the keys of those that are of earlier turns.

    A message is known by its key. One that has none is new where a node has just given it (`updates`); where a state
    repeats it with a key, that is the one that counts; and where a state has nothing but such messages, it cannot be
    told whether they are new.
    """

    def __init__(self, before: Collection[str]) -> None:
        self._before = frozenset(before)
        self._order: list[object] = []
        self._keys: set[str] = set()
        self._said: set[str] = set()
        self._loose: dict[int, bool] = {}
        self._values_came = False
        self._loose_in_values = False
        self.left_out = 0

    @property
    def seen(self) -> frozenset[str]:
        """The keys of all messages so far, of earlier turns too."""
        return self._before | self._keys

    def holds(self, key: str) -> bool:
        """Whether a message of this key has come, now or in an earlier turn."""
        return key in self._keys or key in self._before

    def take(self, message: object, source: Source, *, spoken: bool) -> None:
        """A message; `spoken=False` for one from inside a tool, said to nobody unless a state of the whole has it."""
        key = key_of(message)
        self._values_came |= source == "values"
        if key is None:
            self._take_loose(message, source, spoken)
        elif key not in self._before:
            if spoken:
                self._said.add(key)
            # The state gives its key to the very object that came without one.
            known = self._loose.pop(id(message), None) is not None
            if key not in self._keys and (known or self._add(message)):
                self._keys.add(key)

    def messages(self) -> tuple[list[tuple[object, bool]], bool]:
        """The messages in their order, with whether each was spoken; and whether some may be missing, or not new."""
        use_loose = not self._values_came or self._loose_in_values
        found = []
        loose_used = False
        for message in self._order:
            spoken = self._loose.get(id(message))
            if spoken is None:
                found.append((message, key_of(message) in self._said))
            elif use_loose:
                loose_used = True
                found.append((message, spoken))
        return found, self._loose_in_values and not loose_used

    def _take_loose(self, message: object, source: Source, spoken: bool) -> None:
        if kind_of(message) in ("human", "system"):
            return
        if source == "values" or (source == "state" and self._before):
            self._loose_in_values = True
        elif id(message) not in self._loose and self._add(message):
            self._loose[id(message)] = spoken

    def _add(self, message: object) -> bool:
        if len(self._order) >= MAX_MESSAGES:
            self.left_out += 1
            return False
        self._order.append(message)
        return True
