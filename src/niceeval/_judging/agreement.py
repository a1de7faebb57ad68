"""How a judge's verdicts stand to those of people: one verdict for each labelled example."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from niceeval._evidence.proportions import Z95, Estimate, wilson


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """Counts of examples, by what people said and what the judge said."""

    true_pass: int
    false_pass: int
    true_fail: int
    false_fail: int

    @property
    def total(self) -> int:
        return self.true_pass + self.false_pass + self.true_fail + self.false_fail

    @property
    def labelled_pass(self) -> int:
        return self.true_pass + self.false_fail

    @property
    def labelled_fail(self) -> int:
        return self.true_fail + self.false_pass

    @property
    def agreement(self) -> Estimate | None:
        """The share of examples on which they agree; None without any."""
        return wilson(self.true_pass + self.true_fail, self.total) if self.total else None

    @property
    def false_pass_rate(self) -> Estimate | None:
        """Of those that people failed, the share that the judge passed; None where people failed none."""
        return wilson(self.false_pass, self.labelled_fail) if self.labelled_fail else None

    @property
    def false_fail_rate(self) -> Estimate | None:
        """Of those that people passed, the share that the judge failed; None where people passed none."""
        return wilson(self.false_fail, self.labelled_pass) if self.labelled_pass else None

    @property
    def kappa(self) -> Estimate | None:
        """Cohen's kappa: agreement beyond what chance gives; None where one side has only one verdict.

        J. Cohen, "A coefficient of agreement for nominal scales", Educ. Psychol. Meas. 20 (1960), 37-46; the interval
        for large samples of J. L. Fleiss, J. Cohen, B. S. Everitt, Psychol. Bull. 72 (1969), 323-327. It has no width
        where all examples agree; there the agreement's Wilson interval gives the lower end, chance held fixed.
        """
        total = self.total
        if not total:
            return None
        cells = (
            (self.true_pass / total, self.false_fail / total),
            (self.false_pass / total, self.true_fail / total),
        )
        people = [sum(row) for row in cells]
        judge = [cells[0][side] + cells[1][side] for side in (0, 1)]
        agreed, chance = cells[0][0] + cells[1][1], people[0] * judge[0] + people[1] * judge[1]
        if chance >= 1:
            return None
        kappa = (agreed - chance) / (1 - chance)
        if agreed == 1:
            return Estimate(1.0, (wilson(total, total).low - chance) / (1 - chance), 1.0)
        apart = 1 - kappa
        same = sum(cells[i][i] * (1 - (people[i] + judge[i]) * apart) ** 2 for i in (0, 1))
        other = sum(cells[i][1 - i] * (judge[i] + people[1 - i]) ** 2 for i in (0, 1)) * apart**2
        variance = (same + other - (kappa - chance * apart) ** 2) / ((1 - chance) ** 2 * total)
        half = Z95 * sqrt(max(0.0, variance))
        return Estimate(kappa, max(-1.0, kappa - half), min(1.0, kappa + half))
