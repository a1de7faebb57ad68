"""Tokens: cached ones are counted among the input by the framework, for every provider; a Usage keeps them apart."""

from __future__ import annotations

from niceeval.adapter import Usage
from niceeval.converters._attributes import count_field
from niceeval.turn_building import TurnBuilder


def add_run_usage(builder: TurnBuilder, usage: object, requests: int | None = None) -> None:
    """What a run used (`result.usage`), or one request did; `requests` is given where the object has no count.

    A count of zero is also what stands where a provider said nothing, so only those are given that are more. The cost
    that the framework works out is from a price list: it is not measured, and left out.
    """
    made = count_field(usage, "requests") if requests is None else requests
    unmeasured = count_field(usage, "unmeasured_requests") or 0
    read, written = count_field(usage, "cache_read_tokens") or 0, count_field(usage, "cache_write_tokens") or 0
    given, output = count_field(usage, "input_tokens"), count_field(usage, "output_tokens")
    if given is None or output is None or (made and not given and not output):
        builder.unavailable("usage", "the model said nothing of tokens")
        builder.add_usage(Usage(requests=made or None))
        return
    if unmeasured:
        builder.partial("usage", f"{unmeasured} of the model's answers came without token counts")
    builder.add_usage(
        Usage(
            input_tokens=max(given - read - written, 0),
            output_tokens=output,
            cache_read_tokens=read or None,
            cache_write_tokens=written or None,
            reasoning_tokens=count_field(usage, "output_reasoning_tokens") or None,
            requests=made,
        )
    )
