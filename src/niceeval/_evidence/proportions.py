"""Shares of a whole, with the interval that a sample leaves them. Pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Final

Z95: Final = 1.959963984540054
"""The standard normal quantile of a two-sided 95 % interval."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float


def wilson(count: int, total: int, z: float = Z95) -> Estimate:
    """A share and its score interval, which holds for small samples and at 0 and 1, too.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927), 209-212.
    Raises ValueError for a count that is not within `total`, or no total.
    """
    if not 0 <= count <= total or total < 1:
        raise ValueError(f"{count} of {total} is no share")
    share, spread = count / total, z * z / total
    middle = (share + spread / 2) / (1 + spread)
    half = z * sqrt(share * (1 - share) / total + spread / (4 * total)) / (1 + spread)
    # At the ends the arithmetic is exact only on paper.
    low = 0.0 if count == 0 else max(0.0, middle - half)
    high = 1.0 if count == total else min(1.0, middle + half)
    return Estimate(share, low, high)
