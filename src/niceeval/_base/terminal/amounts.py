"""Figures with their units, the same everywhere and in every locale."""

from __future__ import annotations

import math
from decimal import Decimal


def duration(ms: float) -> str:
    """`340ms` `34s` `6m 31s` `1h 04m`."""
    if ms < 999.5:
        return f"{round(ms)}ms"
    whole = round(ms / 1000)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    minutes = round(ms / 60_000)
    return f"{minutes // 60}h {minutes % 60:02d}m"


def seconds(ms: float) -> str:
    """`3.1s`, for columns that compare parts of an attempt; from ten minutes on as `duration`."""
    return f"{ms / 1000:.1f}s" if ms < 599_950 else duration(ms)


def clock(passed: float, *, wide: bool = False) -> str:
    """Running seconds: `0:31` `8:31` `1:04:12`; `wide` fills the minutes to two places (`04:12`)."""
    whole = int(passed)
    if whole >= 3600:
        return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
    return f"{whole // 60:02d}:{whole % 60:02d}" if wide else f"{whole // 60}:{whole % 60:02d}"


def tokens(amount: float) -> str:
    """`812` `4k` `8.1k` `58k` `2.4M`, without the word."""
    if amount < 999.5:
        return f"{round(amount)}"
    for unit, scale in (("k", 1e3), ("M", 1e6), ("G", 1e9)):
        figure = amount / scale
        if figure < 9.95:
            return f"{figure:.1f}".removesuffix(".0") + unit
        if figure < 999.5:
            return f"{round(figure)}{unit}"
    return f"{round(amount / 1e9):,}G"


def money(usd: float | Decimal | None) -> str:
    """`$0.44`, `<$0.01` for less, `$0` where nothing is known to have been charged, `cost unknown` for None."""
    if usd is None or not math.isfinite(usd):
        return "cost unknown"
    if usd == 0:
        return "$0"
    return f"${usd:,.2f}" if usd >= 0.005 else "<$0.01"


def count(number: int) -> str:
    """`41,200`."""
    return f"{number:,}"


def size(amount: int) -> str:
    """Bytes: `812 B` `2.1 kB` `1.2 GB`."""
    if amount < 1000:
        return f"{amount} B"
    if amount < 999_950:
        return f"{amount / 1e3:.1f} kB"
    return f"{amount / 1e6:.1f} MB" if amount < 999_950_000 else f"{amount / 1e9:,.1f} GB"


def age(passed: float) -> str:
    """How long ago, from seconds: `just now` `5m ago` `2h ago` `3d ago`."""
    if passed < 60:
        return "just now"
    if passed < 3600:
        return f"{int(passed // 60)}m ago"
    return f"{int(passed // 3600)}h ago" if passed < 86_400 else f"{int(passed // 86_400)}d ago"
