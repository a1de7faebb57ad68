"""Tokens: cached ones are counted among the input by the SDK, reasoning among the output."""

from __future__ import annotations

from niceeval.adapter import Usage
from niceeval.converters._attributes import count_field, field
from niceeval.turn_building import TurnBuilder


def add_run_usage(builder: TurnBuilder, usage: object, before: object = None) -> None:
    """What a run used. `before` is what was used when the run that this one goes on from had paused: the SDK counts on.

    A count of zero is also what stands where a provider said nothing, so only those are given that are more.
    """
    made = _more(usage, before, "requests")
    given, output = _more(usage, before, "input_tokens"), _more(usage, before, "output_tokens")
    if given is None or output is None or (made and not given and not output):
        builder.unavailable("usage", "the model said nothing of tokens")
        builder.add_usage(Usage(requests=made or None))
        return
    cached = _more(*_details(usage, before, "input_tokens_details"), "cached_tokens") or 0
    written = _more(*_details(usage, before, "input_tokens_details"), "cache_write_tokens") or 0
    builder.add_usage(
        Usage(
            input_tokens=max(given - cached - written, 0),
            output_tokens=output,
            cache_read_tokens=cached or None,
            cache_write_tokens=written or None,
            reasoning_tokens=_more(*_details(usage, before, "output_tokens_details"), "reasoning_tokens") or None,
            requests=made,
        )
    )


def _details(usage: object, before: object, name: str) -> tuple[object, object]:
    return field(usage, name), field(before, name)


def _more(usage: object, before: object, name: str) -> int | None:
    total = count_field(usage, name)
    return None if total is None else max(total - (count_field(before, name) or 0), 0)
