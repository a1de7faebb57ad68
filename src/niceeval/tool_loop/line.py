"""What one conversation with an endpoint keeps between turns."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

S = TypeVar("S")

REJECTED = "The user rejected this call."
"""What the model is told of a call that a human refused."""
LAPSED = "The user went on without an answer: this call was not made."
"""What the model is told of a call that nobody decided on."""
NOT_RUN = "This call was not made: there is nothing that runs it."
"""What the model is told of a call that the adapter has no tool for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedCall:
    """A call that the model wants the adapter to make. `wire_id` is what the protocol calls it."""

    wire_id: str
    name: str
    arguments: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What the model is told of a call of its last answer."""

    call: WantedCall
    text: str


@dataclass(slots=True)
class Line(Generic[S]):
    """One conversation. `open` are calls that a human was asked about, by the id of the request; `settled` are the
    others of the same answer, which the model is told of together with them; `times` counts the ids that models gave.
    """

    state: S
    open: dict[str, WantedCall] = field(default_factory=dict)
    settled: list[Settled] = field(default_factory=list)
    times: dict[str, int] = field(default_factory=dict)

    def draft(self) -> Line[S]:
        """A copy, for a turn that may yet come to nothing."""
        return Line(copy.copy(self.state), dict(self.open), list(self.settled), dict(self.times))

    def event_id(self, wire_id: str) -> str:
        """An id for the events of a new call: the model's own, unless it was given before on this line."""
        times = self.times[wire_id] = self.times.get(wire_id, 0) + 1
        return wire_id if times == 1 else f"{wire_id}#{times}"
