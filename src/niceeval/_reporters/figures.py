"""Time, tokens and money of a set of attempts: sums that know how many attempts they know nothing about."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from niceeval._base.terminal import Style, duration, money, tokens
from niceeval._model.result import AttemptResult


def cost_of(result: AttemptResult) -> float | None:
    """What the attempt cost in USD, None unless the cost of its every turn is known.

    `usage.cost_usd` is no second source: it sums the turns that measured theirs, and may lack the others.
    """
    return result.estimated_cost_usd


def tokens_of(result: AttemptResult) -> int | None:
    """Input plus output tokens, None where neither is known."""
    return None if result.usage is None else result.usage.total_tokens


@dataclass(slots=True)
class Figures:
    """Sums over attempts. A skipped attempt that used nothing is no part of them."""

    attempts: int = 0
    duration_ms: int = 0
    with_tokens: int = 0
    tokens: int = 0
    with_cost: int = 0
    cost: Decimal = Decimal(0)

    def add(self, result: AttemptResult) -> None:
        """Count one attempt in."""
        used, cost = tokens_of(result), cost_of(result)
        if result.outcome == "skipped" and used is None and cost is None:
            return
        self.attempts += 1
        self.duration_ms += result.duration_ms
        if used is not None:
            self.with_tokens += 1
            self.tokens += used
        if cost is not None:
            self.with_cost += 1
            self.cost += Decimal(str(cost))

    def join(self, other: Figures) -> None:
        """Count another set in."""
        self.attempts += other.attempts
        self.duration_ms += other.duration_ms
        self.with_tokens += other.with_tokens
        self.tokens += other.tokens
        self.with_cost += other.with_cost
        self.cost += other.cost

    def mean_duration(self) -> str:
        """`41s`, or nothing where there is no attempt."""
        return duration(self.duration_ms / self.attempts) if self.attempts else ""

    def mean_tokens(self) -> str:
        """`61k tok` over the attempts whose tokens are known, or `tokens unknown`."""
        return f"{tokens(self.tokens / self.with_tokens)} tok" if self.with_tokens else "tokens unknown"

    def mean_cost(self) -> str:
        """`$0.38` over the attempts whose cost is known, with how many are not, or `cost unknown`."""
        if not self.with_cost:
            return money(None)
        unknown = self.attempts - self.with_cost
        return money(self.cost / self.with_cost) + (f" ({unknown} unknown)" if unknown else "")

    def total_tokens(self) -> str:
        """`2.4M tok`, or `tokens unknown`."""
        return f"{tokens(self.tokens)} tok" if self.with_tokens else "tokens unknown"

    def total_cost(self, budget: float | None = None) -> str:
        """`$9.87`, `$9.87 of $15.00`, `$4.12 + 3 attempts of unknown cost`, or `cost unknown`."""
        if not self.with_cost:
            return money(None) + ("" if budget is None else f", budget {money(budget)}")
        unknown = self.attempts - self.with_cost
        noun = "attempt" if unknown == 1 else "attempts"
        of = "" if budget is None else f" of {money(budget)}"
        return money(self.cost) + of + (f" + {unknown} {noun} of unknown cost" if unknown else "")

    def expected_cost(self, attempts: int) -> Decimal | None:
        """What so many more attempts will cost at the mean of those known; None where none is known."""
        return self.cost / self.with_cost * attempts if self.with_cost else None

    def means(self, style: Style) -> str:
        """`mean 41s · 61k tok · $0.38`; empty where there is no attempt."""
        if not self.attempts:
            return ""
        return style.joined(f"mean {self.mean_duration()}", self.mean_tokens(), self.mean_cost())


def own_figures(result: AttemptResult, style: Style) -> str:
    """One attempt's `34s · 58k tok · $0.44`."""
    used = tokens_of(result)
    said = "tokens unknown" if used is None else f"{tokens(used)} tok"
    return style.joined(duration(result.duration_ms), said, money(cost_of(result)))
