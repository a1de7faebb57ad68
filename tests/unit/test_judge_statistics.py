"""Agreement of a judge with people, and a pass rate that is corrected for its errors."""

from __future__ import annotations

import random
from math import isclose
from statistics import stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from niceeval._evidence.proportions import Estimate, wilson
from niceeval._judging.agreement import Confusion
from niceeval._judging.correction import corrected

COUNTS = st.integers(0, 40)


def confusion(true_pass: int, false_pass: int, true_fail: int, false_fail: int) -> Confusion:
    return Confusion(true_pass=true_pass, false_pass=false_pass, true_fail=true_fail, false_fail=false_fail)


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [
        # Figures of the literature: R. G. Newcombe, Stat. Med. 17 (1998), table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_of_a_share_is_that_of_the_literature(count: int, total: int, low: float, high: float) -> None:
    """To the four digits that are printed there."""
    found = wilson(count, total)
    assert (found.value, round(found.low, 4), round(found.high, 4)) == (count / total, low, high)


@pytest.mark.parametrize(("count", "total"), [(1, 0), (-1, 3), (4, 3), (0, 0)])
def test_what_is_no_share_has_no_interval(count: int, total: int) -> None:
    """A count outside of its total is a mistake of the caller's."""
    with pytest.raises(ValueError, match="is no share"):
        wilson(count, total)


def test_kappa_and_its_interval() -> None:
    """The textbook's 20, 5, 10 and 15 of 50; the interval is as wide as kappa really spreads over samples like this."""
    found = confusion(20, 10, 15, 5).kappa
    assert found is not None
    assert isclose(found.value, 0.4)
    chance = random.Random("kappa")
    drawn = []
    for _ in range(3000):
        sample = chance.choices(range(4), weights=(20, 10, 15, 5), k=50)
        again = confusion(*(sample.count(cell) for cell in range(4))).kappa
        assert again is not None
        drawn.append(again.value)
    assert isclose((found.high - found.low) / 2 / 1.959964, stdev(drawn), rel_tol=0.06)


def test_perfect_agreement_has_an_interval_as_wide_as_its_sample_is_small() -> None:
    """Five examples that agree prove less than five hundred."""
    few, many = confusion(3, 0, 2, 0).kappa, confusion(300, 0, 200, 0).kappa
    assert few is not None
    assert many is not None
    assert few.value == many.value == 1.0
    assert few.low < 0.4 < 0.95 < many.low < 1.0


def test_verdicts_that_are_all_alike_have_no_kappa() -> None:
    """Where chance alone would agree always, nothing is said."""
    assert confusion(9, 0, 0, 0).kappa is None
    assert confusion(0, 0, 0, 0).kappa is None
    assert confusion(9, 0, 0, 0).false_pass_rate is None


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_figures_stay_in_their_ranges(a: int, b: int, c: int, d: int) -> None:
    """Whatever was counted: estimates lie within their intervals, and those within what can be."""
    one = confusion(a, b, c, d)
    for found in (one.agreement, one.false_pass_rate, one.false_fail_rate):
        assert found is None or 0 <= found.low <= found.value <= found.high <= 1
    kappa = one.kappa
    assert kappa is None or -1 <= kappa.low <= kappa.value + 1e-9
    assert kappa is None or kappa.value - 1e-9 <= kappa.high <= 1
    if one.total:
        rate = corrected(a, one.total, one)
        assert isinstance(rate, str) or 0 <= rate.low <= rate.high <= 1


def test_a_judge_without_errors_corrects_nothing() -> None:
    """The rate is as it was seen, and its interval about that of the share."""
    found = corrected(30, 40, confusion(500, 0, 500, 0))
    assert isinstance(found, Estimate)
    assert found.value == 0.75
    plain = wilson(30, 40)
    assert isclose(found.low, plain.low, abs_tol=0.02)
    assert isclose(found.high, plain.high, abs_tol=0.02)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (confusion(0, 3, 9, 0), "its calibration has no examples that people passed"),
        (confusion(9, 0, 0, 3), "its calibration has no examples that people failed"),
        (confusion(5, 5, 5, 5), "it agrees with people no better than chance"),
        (confusion(2, 8, 2, 8), "it agrees with people no better than chance"),
    ],
)
def test_where_nothing_can_be_said_it_is_said_why(one: Confusion, said: str) -> None:
    """No figure comes of a judge whose errors are not known, or who is guessing."""
    assert corrected(7, 10, one) == said


@pytest.mark.parametrize(
    ("sensitivity", "specificity", "truth", "examples", "judged"),
    [
        (0.90, 0.85, 0.70, 100, 200),
        (0.80, 0.95, 0.30, 60, 100),
        (0.95, 0.70, 0.90, 80, 150),
        (0.75, 0.75, 0.50, 100, 60),
        (0.99, 0.90, 0.97, 50, 100),
    ],
)
def test_the_corrected_interval_covers_the_truth(
    sensitivity: float, specificity: float, truth: float, examples: int, judged: int
) -> None:
    """With judges whose errors are known: the true rate is in the interval in at least 93 % of 1,000 calibrations."""
    chance = random.Random(f"{sensitivity}/{specificity}/{truth}")

    def count(times: int, share: float) -> int:
        return sum(chance.random() < share for _ in range(times))

    covered = 0
    for _ in range(1000):
        true_pass, true_fail = count(examples, sensitivity), count(examples, specificity)
        measured = confusion(true_pass, examples - true_fail, true_fail, examples - true_pass)
        good = count(judged, truth)
        passed = count(good, sensitivity) + count(judged - good, 1 - specificity)
        found = corrected(passed, judged, measured)
        covered += isinstance(found, Estimate) and found.low <= truth <= found.high
    assert covered >= 930
