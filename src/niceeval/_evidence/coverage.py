"""Merging evidence coverage: the worse of two holds, and a scope keeps every reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from niceeval._model.coverage import CHANNELS, Channel, Coverage, EvidenceCoverage, Level, MergedCoverage
from niceeval._model.result import ChannelCoverage

_RANK: Mapping[Level, int] = {"complete": 0, "partial": 1, "unavailable": 2}

EVENT_CHANNELS: Mapping[str, tuple[Channel, ...]] = {
    "message": ("events", "messages"),
    "action.called": ("events", "actions"),
    "action.result": ("events", "actions"),
    "subagent.called": ("events", "actions"),
    "subagent.completed": ("events", "actions"),
}
"""Which channels an event of a type is evidence for; of every other type it is `events` alone."""
FROM_EVENTS: tuple[Channel, ...] = ("events", "actions", "messages")
"""The channels that the event stream feeds."""


def channels_of_type(kind: str) -> tuple[Channel, ...]:
    """The channels that have to be complete before the absence of such an event means anything."""
    return EVENT_CHANNELS.get(kind, ("events",))


COMPLETE: MergedCoverage = dict.fromkeys(CHANNELS, ("complete", ()))


def declared(coverage: EvidenceCoverage) -> MergedCoverage:
    """An agent's declaration in the merged form."""
    return {channel: (said.level, () if said.reason is None else (said.reason,)) for channel, said in coverage.items()}


def merge(parts: Sequence[MergedCoverage]) -> MergedCoverage:
    """The worst level per channel, with all reasons in order, each once."""
    if len(parts) == 1:
        return parts[0]
    merged: dict[Channel, tuple[Level, tuple[str, ...]]] = dict(COMPLETE)
    for part in parts:
        for channel, (level, reasons) in part.items():
            held, known = merged[channel]
            if level == "complete":
                continue
            worst = level if _RANK[level] > _RANK[held] else held
            merged[channel] = (worst, known + tuple(reason for reason in reasons if reason not in known))
    return merged


def downgrade(coverage: MergedCoverage, downgrades: Iterable[tuple[Channel, Coverage]]) -> MergedCoverage:
    """`coverage` made worse by single declarations."""
    result: dict[Channel, tuple[Level, tuple[str, ...]]] | None = None
    for channel, worse in downgrades:
        result = dict(coverage) if result is None else result
        level, reasons = result[channel]
        reason = worse.reason or ""
        result[channel] = (
            worse.level if _RANK[worse.level] > _RANK[level] else level,
            reasons if reason in reasons else (*reasons, reason),
        )
    return coverage if result is None else result


def stored(coverage: MergedCoverage) -> dict[str, ChannelCoverage]:
    """The form that is written to `result.json`."""
    return {channel: ChannelCoverage(status=level, reasons=reasons) for channel, (level, reasons) in coverage.items()}
