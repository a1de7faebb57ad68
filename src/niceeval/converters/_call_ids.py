"""Ids of calls that are each used once."""

from __future__ import annotations


class CallIds:
    """Ids that name one call each. Models that give none get one made of the tool and its arguments, which comes
    again with the same call; the second is then `id#2`. Keep one for a conversation, so that ids differ across turns.
    """

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        self._closed: set[str] = set()

    def call(self, id: str) -> str:
        """The id of a call that is made now."""
        times = self._times.get(id, 0)
        if times == 0 or id in self._closed:
            self._times[id] = times + 1
            self._closed.discard(id)
        return self.current(id)

    def result(self, id: str) -> str:
        """The id of the call whose result this is."""
        self._closed.add(id)
        return self.current(id)

    def current(self, id: str) -> str:
        """The id of the call that was made last under this one."""
        times = self._times.get(id, 1)
        return id if times == 1 else f"{id}#{times}"

    def copy(self) -> CallIds:
        """The same, apart."""
        other = CallIds()
        other.restore(self)
        return other

    def restore(self, other: CallIds) -> None:
        """Become what the other one is."""
        self._times = dict(other._times)
        self._closed = set(other._closed)

    def original(self, id: str) -> str:
        """What the framework calls it."""
        base, mark, number = id.rpartition("#")
        return base if mark and number.isdigit() and base in self._times else id
