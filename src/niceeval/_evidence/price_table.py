"""The built-in price table: list prices as dated data, with their sources, in `price_table.json` beside this file.

`define_config(pricing=...)` goes before it. A model that is in neither has no price: its cost is unknown, never 0.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

from niceeval._evidence.prices import Price

_FILE = Path(__file__).with_name("price_table.json")


@functools.cache
def built_in_prices() -> Mapping[str, Price]:
    """Model name (or a start of one ending in `*`) -> price. A provider before the name, as in
    `anthropic/claude-haiku-4-5`, is taken as well."""
    table: dict[str, Price] = {}
    for row in json.loads(_FILE.read_text(encoding="utf-8"))["prices"]:
        price = Price(
            input_per_mtok=Decimal(row["input"]),
            output_per_mtok=Decimal(row["output"]),
            cache_read_per_mtok=_given(row, "cacheRead"),
            cache_write_per_mtok=_given(row, "cacheWrite"),
        )
        for model in row["models"]:
            table[model] = price
            table[f"{row['source']}/{model}"] = price
    return table


def _given(row: Mapping[str, str], name: str) -> Decimal | None:
    return Decimal(row[name]) if name in row else None
