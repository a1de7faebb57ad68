"""Money that may be spent: what was, what attempts in flight will probably need, and whether one more may start.

While nothing is known of what an attempt costs, one runs alone. Then every attempt in flight reserves the mean measured
cost, and another one starts only while spent + reserved + its own reservation stays within the limit. The overshoot is
therefore at most what the attempts in flight cost beyond their reservations. Amounts are exact decimals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal


@dataclass(slots=True)
class Budget:
    """One scope's budget (an experiment's, or the whole run's), in US dollars.

    `unenforceable` says why the limit cannot be kept: an attempt that sent something came back without a cost.
    """

    limit: Decimal
    spent: Decimal = Decimal(0)
    unenforceable: str | None = None
    _measured: int = 0
    _in_flight: dict[int, Decimal] = field(default_factory=dict)

    @property
    def mean(self) -> Decimal | None:
        """The mean cost of the finished attempts; None while none has one."""
        return self.spent / self._measured if self._measured else None

    @property
    def reserved(self) -> Decimal:
        """What the attempts in flight are expected to cost."""
        return sum(self._in_flight.values(), Decimal(0))

    def may_start(self) -> bool:
        """Whether one more attempt may start now."""
        if self.unenforceable is not None:
            return False
        mean = self.mean
        if mean is None:
            return not self._in_flight and self.limit > 0
        return self.spent + self.reserved + mean <= self.limit and self.spent < self.limit

    @property
    def exhausted(self) -> bool:
        """Whether nothing more will start: not now, and not when what is in flight has finished."""
        return not self.may_start() and not self._in_flight

    def start(self, attempt: int) -> None:
        """An attempt starts; `attempt` is its index."""
        self._in_flight[attempt] = self.mean or Decimal(0)

    def finish(self, attempt: int, cost: Decimal | None, *, sent: bool, problem: str | None = None) -> None:
        """An attempt has ended. `sent` says whether it sent anything; without a cost it cannot have been free."""
        reserved = self._in_flight.pop(attempt, Decimal(0))
        if not sent:
            return
        if cost is None:
            self.unenforceable = self.unenforceable or problem or "an attempt has no cost"
            self.spent += reserved
            return
        self.spent += cost
        self._measured += 1

    def cancel(self, attempt: int, known: Decimal) -> None:
        """An attempt was cancelled: what it is known to have cost, and at least its reservation, counts as spent."""
        self.spent += max(known, self._in_flight.pop(attempt, Decimal(0)))
