"""The built-in price table: dated rows with sources, one price a model, and what goes before it."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from importlib import resources
from typing import Any

import pytest

from niceeval import Price
from niceeval._evidence.price_table import built_in_prices
from niceeval._evidence.prices import price_of, turn_cost
from niceeval._model.usage import Usage

TABLE: dict[str, Any] = json.loads(
    resources.files("niceeval._evidence").joinpath("price_table.json").read_text("utf-8")
)
SOURCES = {source["id"]: source for source in TABLE["sources"]}
NAMES = [name for row in TABLE["prices"] for name in row["models"]]
MILLION = Usage(input_tokens=1_000_000, output_tokens=1_000_000)


@pytest.mark.parametrize("row", TABLE["prices"], ids=lambda row: str(row["models"][0]))
def test_every_row_holds_exact_prices(row: dict[str, Any]) -> None:
    """Texts, so that they are read as the decimals that were written; more for output than for input, less for reading
    a cache; and nothing that nobody reads."""
    assert set(row) <= {"source", "models", "input", "output", "cacheRead", "cacheWrite"}
    prices = {name: Decimal(row[name]) for name in row if name not in ("source", "models")}
    assert all(isinstance(row[name], str) for name in prices)
    assert 0 < prices["input"] < prices["output"]
    assert prices.get("cacheRead", Decimal(0)) < prices["input"] <= prices.get("cacheWrite", prices["input"])
    found = built_in_prices()[row["models"][0]]
    assert (found.input_per_mtok, found.output_per_mtok) == (prices["input"], prices["output"])
    assert (found.cache_read_per_mtok, found.cache_write_per_mtok) == (
        prices.get("cacheRead"),
        prices.get("cacheWrite"),
    )


@pytest.mark.parametrize("source", TABLE["sources"], ids=lambda source: str(source["id"]))
def test_every_source_has_an_address_and_a_date(source: dict[str, Any]) -> None:
    """Where the prices are from, and when they were compared."""
    assert source["url"].startswith("https://")
    assert datetime.date.fromisoformat(source["checked"]) > datetime.date(2026, 1, 1)


def test_every_row_has_a_source_and_every_source_rows() -> None:
    """No price without where it is from."""
    assert {row["source"] for row in TABLE["prices"]} == set(SOURCES)


def test_the_currency_is_said() -> None:
    """Amounts mean nothing without it."""
    assert (TABLE["currency"], TABLE["unit"]) == ("USD", "per million tokens")


def test_no_name_matches_two_prices() -> None:
    """Neither the same name twice, nor a start that another row's name begins with."""
    assert len(NAMES) == len(set(NAMES))
    starts = [name[:-1] for name in NAMES if name.endswith("*")]
    for start in starts:
        for name in NAMES:
            assert name.rstrip("*") == start or not name.startswith(start), (start, name)
    assert all("*" not in name[:-1] for name in NAMES)


@pytest.mark.parametrize(
    ("model", "input_price"),
    [
        ("claude-haiku-4-5", "1"),
        ("claude-haiku-4-5-20251001", "1"),
        ("anthropic/claude-haiku-4-5", "1"),
        ("anthropic/claude-haiku-4-5-20251001", "1"),
        ("claude-opus-4-5", "5"),
        ("claude-opus-4-1", "15"),
        ("claude-opus-4-20250514", "15"),
        ("gpt-5.4", "2.5"),
        ("gpt-5.4-2026-03-05", "2.5"),
        ("openai/gpt-5.4-mini", "0.75"),
        ("gpt-5.4-pro", "30"),
    ],
)
def test_a_model_is_found_by_its_name_its_snapshot_and_with_its_provider(model: str, input_price: str) -> None:
    """One that is more than a start of another's name has its own price."""
    found = price_of(model, built_in_prices())
    assert found is not None
    assert found.input_per_mtok == Decimal(input_price)


@pytest.mark.parametrize(
    "model", ["gpt-5.4-mega", "gpt-5.40", "openai/claude-haiku-4-5", "claude-haiku", "Claude-Haiku-4-5", "gpt", "", "*"]
)
def test_what_is_not_in_the_table_has_no_price(model: str) -> None:
    """Nothing is guessed from a similar name."""
    assert price_of(model, built_in_prices()) is None


OWN = Price(input_per_mtok=100, output_per_mtok=0)


@pytest.mark.parametrize("name", ["gpt-5.4", "gpt-5*", "gpt-*", "*"])
def test_a_projects_price_goes_before_the_table(name: str) -> None:
    """Also where it is a wildcard and the table has the exact name."""
    assert turn_cost(MILLION, "gpt-5.4", ({name: OWN}, built_in_prices())) == (Decimal(100), None)


def test_a_projects_price_for_another_model_changes_nothing() -> None:
    """The table is asked then."""
    assert turn_cost(MILLION, "gpt-5.4", ({"gpt-4*": OWN}, built_in_prices())) == (Decimal("17.5"), None)


def test_a_measured_cost_goes_before_every_price() -> None:
    """What the service said, as the decimal that it reads as."""
    measured = Usage(input_tokens=1_000_000, output_tokens=1_000_000, cost_usd=0.1)
    assert turn_cost(measured, "gpt-5.4", ({"*": OWN}, built_in_prices())) == (Decimal("0.1"), None)


def test_what_is_measured_as_free_is_free() -> None:
    """0 is a cost that is known; without usage nothing is."""
    assert turn_cost(Usage(cost_usd=0.0), None, (built_in_prices(),)) == (Decimal(0), None)
    cost, gap = turn_cost(None, "gpt-5.4", (built_in_prices(),))
    assert cost is None
    assert gap is not None


def test_cached_tokens_without_a_price_for_them_have_no_cost() -> None:
    """They are neither free nor full price."""
    usage = Usage(input_tokens=10, output_tokens=10, cache_write_tokens=10)
    cost, gap = turn_cost(usage, "gpt-5.4", (built_in_prices(),))
    assert cost is None
    assert gap is not None
    assert gap.problem == "the price of gpt-5.4 says nothing about the cache that a turn used"
