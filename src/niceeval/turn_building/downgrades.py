"""The channels that a turn makes worse, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from niceeval._base.plain_text import shorten
from niceeval._model.coverage import CHANNELS, Channel, Coverage, EvidenceCoverage, Level, coverage_from_mapping

MAX_REASONS: Final = 6
"""The most reasons that are kept for one channel of a turn; the rest are counted."""
MAX_REASON_CHARS: Final = 300
"""The longest reason that is kept, in characters."""


class Downgrades:
    """Collects downgrades; each reason once per channel, in the order they came."""

    def __init__(self, declared: EvidenceCoverage | Mapping[str, Coverage]) -> None:
        if not isinstance(declared, EvidenceCoverage):
            declared = coverage_from_mapping(declared, "turn builder")
        declared.require_valid("turn builder")
        self._declared = declared
        self._levels: dict[Channel, Level] = {}
        self._reasons: dict[Channel, list[str]] = {}
        self._more: dict[Channel, int] = {}

    def add(self, channel: Channel, worse: Coverage) -> None:
        """Make a channel worse. Raises ValueError for a channel that does not exist, or a downgrade without reason."""
        problem = worse.problem()
        if channel not in CHANNELS or problem or worse.reason is None:
            raise ValueError(f"{channel!r}: {problem or 'a downgrade is partial or unavailable, of a known channel'}")
        reason = shorten(worse.reason, MAX_REASON_CHARS)
        known = self._reasons.setdefault(channel, [])
        held = self._levels.get(channel, worse.level)
        self._levels[channel] = "unavailable" if "unavailable" in (held, worse.level) else worse.level
        if reason in known:
            return
        if len(known) < MAX_REASONS:
            known.append(reason)
        else:
            self._more[channel] = self._more.get(channel, 0) + 1

    def coverage(self) -> dict[str, Coverage] | None:
        """The form of `Turn.evidence_coverage`: never better than what was declared; None for no downgrade."""
        return {channel: self._of(channel) for channel in CHANNELS if channel in self._levels} or None

    def _of(self, channel: Channel) -> Coverage:
        more = self._more.get(channel, 0)
        text = "; ".join(self._reasons[channel]) + (f"; and {more:,} more" if more else "")
        worse = Coverage(self._levels[channel], text)
        declared = self._declared[channel]
        return Coverage(declared.level, text) if declared.worse_than(worse) else worse
