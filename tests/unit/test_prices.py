"""Prices from the configuration, and exact costs."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from niceeval._evidence.prices import Price, cost_of, price_of
from niceeval._model.usage import Usage

CHEAP = Price(input_per_mtok=1, output_per_mtok=2)
DEAR = Price(input_per_mtok=10, output_per_mtok=20)
CACHED = Price(input_per_mtok=3, output_per_mtok=15, cache_read_per_mtok=0.3, cache_write_per_mtok=3.75)
NAMES = {"gpt-5.4": CHEAP, "openai/*": CHEAP, "openai/gpt-5*": DEAR, "openai/gpt-5.4": CACHED}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-5.4", CHEAP),
        ("openai/gpt-5.4", CACHED),
        ("openai/gpt-5.4-mini", DEAR),
        ("openai/gpt-4o", CHEAP),
        ("gpt-5.4-mini", None),
        ("anthropic/openai/x", None),
        ("openai", None),
        (None, None),
    ],
)
def test_the_most_specific_name_gives_the_price(model: str | None, expected: Price | None) -> None:
    """The exact name, then the longest entry that ends in a star, else nothing."""
    assert price_of(model, NAMES) is expected


@pytest.mark.parametrize(("model", "pricing"), [("a[1]", {"a[1*": CHEAP}), ("anything", {"*": CHEAP})])
def test_only_a_star_at_the_end_is_special(model: str, pricing: dict[str, Price]) -> None:
    """Other characters of file patterns stand for themselves."""
    assert price_of(model, pricing) is CHEAP
    assert price_of("abc", {"a?c": CHEAP, "*c": CHEAP}) is None


@pytest.mark.parametrize(
    ("usage", "price", "expected"),
    [
        (Usage(input_tokens=1_000_000, output_tokens=500_000), CHEAP, "2"),
        (Usage(input_tokens=0, output_tokens=0), CHEAP, "0"),
        (Usage(input_tokens=1, output_tokens=1), Price(input_per_mtok=0.1, output_per_mtok=0.2), "0.0000003"),
        (Usage(input_tokens=100, output_tokens=10, cache_read_tokens=1000, cache_write_tokens=200), CACHED, "0.0015"),
        (Usage(input_tokens=100, output_tokens=10, cache_read_tokens=0), CHEAP, "0.00012"),
        (Usage(input_tokens=100, output_tokens=10, reasoning_tokens=5), CHEAP, "0.00012"),
    ],
)
def test_a_cost_is_exact(usage: Usage, price: Price, expected: str) -> None:
    """Each bucket at its own price; reasoning is contained in output; a bucket without tokens needs no price."""
    assert cost_of(usage, price) == Decimal(expected)


@pytest.mark.parametrize(
    "usage",
    [
        Usage(),
        Usage(input_tokens=1),
        Usage(output_tokens=1),
        Usage(input_tokens=1, output_tokens=1, cache_read_tokens=1),
        Usage(input_tokens=1, output_tokens=1, cache_write_tokens=1),
    ],
)
def test_a_cost_that_cannot_be_known_is_none(usage: Usage) -> None:
    """Missing counts and missing prices are never zero."""
    assert cost_of(usage, CHEAP) is None


@pytest.mark.parametrize("value", ["1", True, None, -1, float("nan"), float("inf"), Decimal("NaN")])
def test_what_is_no_price_is_refused_by_field(value: Any) -> None:
    """The message names the field."""
    with pytest.raises((TypeError, ValueError), match="output_per_mtok"):
        Price(input_per_mtok=1, output_per_mtok=value)


def test_a_price_is_a_value() -> None:
    """Equal prices are equal, however they were written, and cannot be changed."""
    assert Price(input_per_mtok=1.5, output_per_mtok=Decimal("2")) == Price(
        input_per_mtok=Decimal("1.5"), output_per_mtok=2
    )
    with pytest.raises(AttributeError):
        CHEAP.input_per_mtok = Decimal(0)  # type: ignore[misc]


counts = st.integers(0, 10**12)


@given(st.lists(st.builds(Usage, input_tokens=counts, output_tokens=counts), min_size=1, max_size=20))
def test_the_sum_of_costs_is_the_cost_of_the_sum(usages: list[Usage]) -> None:
    """Exact decimals: adding turns loses nothing."""
    whole = Usage(
        input_tokens=sum(usage.input_tokens or 0 for usage in usages),
        output_tokens=sum(usage.output_tokens or 0 for usage in usages),
    )
    assert sum(cost_of(usage, CACHED) or 0 for usage in usages) == cost_of(whole, CACHED)
