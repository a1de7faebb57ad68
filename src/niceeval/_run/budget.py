"""Money that may be spent: what was, what attempts in flight will probably need, and whether one more may start.

While nothing is known of what an attempt costs, one runs alone. Then every attempt in flight reserves the mean measured
cost, and another one starts only while spent + reserved + its own reservation stays within the limit. The overshoot is
therefore at most what the attempts in flight cost beyond their reservations. Amounts are exact: costs are decimals, and
a mean of them is a fraction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from niceeval._evidence.prices import CostGap
from niceeval._run.spending import Spending


@dataclass(frozen=True, slots=True)
class Unenforceable:
    """Why a limit cannot be kept: an experiment's first attempt that sent anything has no cost."""

    experiment_id: str
    gap: CostGap


@dataclass(slots=True)
class Budget:
    """One scope's budget (an experiment's, or the whole run's), in US dollars.

    `spent` holds what is known, and for attempts of unknown cost at least what they had reserved.
    """

    limit: Fraction
    spent: Fraction = Fraction(0)
    reserved: Fraction = Fraction(0)
    unenforceable: Unenforceable | None = None
    _measured: int = 0
    _measured_sum: Fraction = Fraction(0)
    _experiments: set[str] = field(default_factory=set)
    _in_flight: dict[int, Fraction] = field(default_factory=dict)

    @property
    def mean(self) -> Fraction | None:
        """The mean cost of the attempts whose cost is known; None while there is none."""
        return self._measured_sum / self._measured if self._measured else None

    def may_start(self) -> bool:
        """Whether one more attempt may start now."""
        if self.unenforceable is not None or self.spent >= self.limit:
            return False
        mean = self.mean
        if mean is None:
            return not self._in_flight
        return self.spent + self.reserved + mean <= self.limit

    @property
    def exhausted(self) -> bool:
        """Whether nothing more will start: not now, and not when what is in flight has finished."""
        return not self.may_start() and not self._in_flight

    def start(self, attempt: int) -> None:
        """An attempt starts; `attempt` is its index."""
        self._in_flight[attempt] = self.mean or Fraction(0)
        self.reserved += self._in_flight[attempt]

    def finish(self, attempt: int, experiment_id: str, spending: Spending) -> None:
        """An attempt has ended. One that sent something and has no cost was not free.

        Where nothing is known yet of what that experiment's attempts cost, the limit cannot be kept.
        """
        reserved = self._release(attempt)
        if not spending.sent:
            return
        if spending.gap is None:
            self.spent += Fraction(spending.known)
            self._measured += 1
            self._measured_sum += Fraction(spending.known)
            self._experiments.add(experiment_id)
            return
        self.spent += max(Fraction(spending.known), reserved)
        if experiment_id not in self._experiments and self.unenforceable is None:
            self.unenforceable = Unenforceable(experiment_id, spending.gap)

    def cancel(self, attempt: int, spending: Spending) -> None:
        """An attempt was cut off: what it is known to have cost, and at least its reservation, counts as spent."""
        reserved = self._release(attempt)
        if spending.sent:
            self.spent += max(Fraction(spending.known), reserved)

    def came_to_nothing(self, attempt: int) -> None:
        """An attempt was not run after all."""
        self._release(attempt)

    def _release(self, attempt: int) -> Fraction:
        reserved = self._in_flight.pop(attempt, Fraction(0))
        self.reserved -= reserved
        return reserved
