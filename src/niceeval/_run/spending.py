"""What one attempt cost, as far as that is known."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from niceeval._drive.driver import Driver
from niceeval._evidence.prices import CostGap

_LOST = CostGap("a send ended in an error, so its cost is not known", "correct what ended that send")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """US dollars. `sent`: whether an agent took anything in. `known` is the sum over the turns whose cost is known.

    `gap` says why that is not all; None where it is.
    """

    sent: bool
    known: Decimal = Decimal(0)
    gap: CostGap | None = None

    @property
    def usd(self) -> float | None:
        """The whole cost; None where it is not known, or nothing was sent."""
        return float(self.known) if self.sent and self.gap is None else None


def spending_of(driver: Driver) -> Spending:
    """What an attempt cost, or has cost so far. An input that was certainly not accepted cost nothing."""
    turns = [turn for session in driver.log.sessions for turn in session if turn.accepted]
    unknown = [turn for turn in turns if turn.cost is None]
    gap = next((turn.cost_gap for turn in unknown if turn.cost_gap is not None), _LOST) if unknown else None
    known = sum((turn.cost for turn in turns if turn.cost is not None), Decimal(0))
    return Spending(sent=bool(turns), known=known, gap=gap)
