"""The tokens of one response, in buckets that exclude each other."""

from __future__ import annotations

from niceeval.adapter import Usage
from niceeval.turn_building import count_of


def usage_of(usage: object) -> Usage | None:
    """What `usage` says: cached tokens are counted inside the input, and are taken out. None where it says nothing."""
    total, output = count_of(usage, "input_tokens"), count_of(usage, "output_tokens")
    if total is None and output is None:
        return None
    read = count_of(usage, "input_tokens_details", "cached_tokens")
    written = count_of(usage, "input_tokens_details", "cache_write_tokens")
    return Usage(
        input_tokens=None if total is None else max(total - (read or 0) - (written or 0), 0),
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=count_of(usage, "output_tokens_details", "reasoning_tokens"),
        requests=1,
    )
