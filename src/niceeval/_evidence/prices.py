"""Prices, and what a usage costs at one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from niceeval._model.usage import Usage

_PER_MILLION = Decimal(1_000_000)
_FIELDS = ("input_per_mtok", "output_per_mtok", "cache_read_per_mtok", "cache_write_per_mtok")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per million tokens. Any number may be given; it is kept as the exact decimal that was written.

    A cache price that is not given is unknown, not zero. Raises ValueError or TypeError, naming the field, for what is
    no finite number of at least 0.
    """

    input_per_mtok: Decimal
    output_per_mtok: Decimal
    cache_read_per_mtok: Decimal | None = None
    cache_write_per_mtok: Decimal | None = None

    def __init__(
        self,
        *,
        input_per_mtok: float | Decimal,
        output_per_mtok: float | Decimal,
        cache_read_per_mtok: float | Decimal | None = None,
        cache_write_per_mtok: float | Decimal | None = None,
    ) -> None:
        given = (input_per_mtok, output_per_mtok, cache_read_per_mtok, cache_write_per_mtok)
        for field, value in zip(_FIELDS, given, strict=True):
            optional = field.startswith("cache")
            object.__setattr__(self, field, None if value is None and optional else _dollars(field, value))


def price_of(model: str | None, pricing: Mapping[str, Price]) -> Price | None:
    """The model's price: its exact name first, else the longest entry that ends in `*` and whose rest begins the name.

    None where no entry fits or the model is not known.
    """
    if model is None:
        return None
    if model in pricing:
        return pricing[model]
    fitting = [name for name in pricing if name.endswith("*") and model.startswith(name[:-1])]
    return pricing[max(fitting, key=len)] if fitting else None


def cost_of(usage: Usage, price: Price) -> Decimal | None:
    """What the tokens cost, in US dollars, exactly; a measured `cost_usd` is not looked at.

    None (unknown) where input or output counts are missing, or a cache bucket holds tokens and has no price.
    """
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    total = usage.input_tokens * price.input_per_mtok + usage.output_tokens * price.output_per_mtok
    buckets = (
        (usage.cache_read_tokens, price.cache_read_per_mtok),
        (usage.cache_write_tokens, price.cache_write_per_mtok),
    )
    for tokens, each in buckets:
        if not tokens:
            continue
        if each is None:
            return None
        total += tokens * each
    return total / _PER_MILLION


@dataclass(frozen=True, slots=True)
class CostGap:
    """Why a cost is not known, and the edit that would make it known."""

    problem: str
    fix: str


def turn_cost(
    usage: Usage | None, model: str | None, pricing: Sequence[Mapping[str, Price]]
) -> tuple[Decimal | None, CostGap | None]:
    """What one turn cost, measured first, else priced; or None and why it is not known.

    Of several tables the first that fits counts: a project's own goes before the built-in one.
    """
    if usage is None:
        return None, CostGap("a turn reported no usage", "usage=Usage(...) in the adapter's Turn")
    if usage.cost_usd is not None:
        return Decimal(str(usage.cost_usd)), None
    if model is None:
        fix = 'model="..." in the experiment, or cost_usd in the adapter\'s Usage'
        return None, CostGap("no cost was measured and no model is set", fix)
    price = next((found for table in pricing if (found := price_of(model, table)) is not None), None)
    if price is None:
        fix = f"pricing={{{json.dumps(model)}: Price(...)}} in niceeval_config.py"
        return None, CostGap(f"model {model} has no price", fix)
    cost = cost_of(usage, price)
    return (cost, None) if cost is not None else (None, _incomplete(usage, model))


def _incomplete(usage: Usage, model: str) -> CostGap:
    if usage.input_tokens is None or usage.output_tokens is None:
        problem = "a turn did not report both input and output tokens"
        return CostGap(problem, "input_tokens and output_tokens in the adapter's Usage")
    problem = f"the price of {model} says nothing about the cache that a turn used"
    return CostGap(
        problem, f"pricing={{{json.dumps(model)}: Price(..., cache_read_per_mtok=...)}} in niceeval_config.py"
    )


def _dollars(field: str, value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise TypeError(f"{field}: expected US dollars per million tokens, got {value!r}")
    try:
        # Through text: 0.1 means 0.1, not the binary fraction next to it.
        dollars = Decimal(str(value))
    except InvalidOperation:
        raise ValueError(f"{field}: {value!r} is no number") from None
    if not dollars.is_finite() or dollars < 0:
        raise ValueError(f"{field}: expected a finite number of at least 0, got {value!r}")
    return dollars
