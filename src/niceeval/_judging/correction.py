"""A pass rate that a judge gave, corrected for the errors that its calibration measured."""

from __future__ import annotations

from math import sqrt

from niceeval._evidence.proportions import Z95, Estimate
from niceeval._judging.agreement import Confusion


def corrected(passed: int, total: int, confusion: Confusion) -> Estimate | str:
    """The share that people would have passed, with a 95 % interval; or why nothing can be said.

    The estimate is that of W. J. Rogan and B. Gladen, "Estimating prevalence from the results of a screening test", Am.
    J. Epidemiol. 107 (1978), 71-76, cut to [0, 1]. The interval, which counts that the error rates are estimates, too,
    is that of Z. Lang and J. Reiczigel, Prev. Vet. Med. 113 (2014), 13-22.

    Raises ValueError for a count that is not within `total`, or no total.
    """
    if not 0 <= passed <= total or total < 1:
        raise ValueError(f"{passed} of {total} is no share")
    positives, negatives = confusion.labelled_pass, confusion.labelled_fail
    if not positives or not negatives:
        return "its calibration has no examples that people " + ("passed" if not positives else "failed")
    sensitivity, specificity = confusion.true_pass / positives, confusion.true_fail / negatives
    if sensitivity + specificity <= 1:
        return "it agrees with people no better than chance"
    value = (passed / total + specificity - 1) / (sensitivity + specificity - 1)
    low, high = _interval(passed, total, confusion)
    return Estimate(min(1.0, max(0.0, value)), low, high)


def _interval(passed: int, total: int, confusion: Confusion) -> tuple[float, float]:
    z2 = Z95 * Z95
    n, n_pass, n_fail = total + z2, confusion.labelled_pass + 2, confusion.labelled_fail + 2
    seen = (passed + z2 / 2) / n
    sensitivity, specificity = (confusion.true_pass + 1) / n_pass, (confusion.true_fail + 1) / n_fail
    better = sensitivity + specificity - 1
    if better <= 0:
        return 0.0, 1.0
    share = (seen + specificity - 1) / better
    of_pass, of_fail = sensitivity * (1 - sensitivity) / n_pass, specificity * (1 - specificity) / n_fail
    shift = 2 * z2 * (share * of_pass - (1 - share) * of_fail)
    spread = sqrt(seen * (1 - seen) / n + share * share * of_pass + (1 - share) * (1 - share) * of_fail) / better
    low, high = share + shift - Z95 * spread, share + shift + Z95 * spread
    return min(1.0, max(0.0, low)), max(0.0, min(1.0, high))
