"""Evidence coverage: how complete an agent's evidence is, on six channels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, cast

from niceeval._base.errors import AdapterError

Channel: TypeAlias = Literal["events", "actions", "messages", "usage", "status", "data"]
CHANNELS: tuple[Channel, ...] = ("events", "actions", "messages", "usage", "status", "data")

Level: TypeAlias = Literal["complete", "partial", "unavailable"]
_RANK: Mapping[Level, int] = {"complete": 0, "partial": 1, "unavailable": 2}


@dataclass(frozen=True, slots=True)
class Coverage:
    """How complete one channel is: `Coverage.complete`, `Coverage.partial(why)` or `Coverage.unavailable(why)`."""

    level: Level
    reason: str | None = None

    complete: ClassVar[Coverage]

    @staticmethod
    def partial(reason: str) -> Coverage:
        """Some of it is seen. What exists is evidence; what is missing proves nothing."""
        return Coverage("partial", reason)

    @staticmethod
    def unavailable(reason: str) -> Coverage:
        """None of it can be relied on to be seen."""
        return Coverage("unavailable", reason)

    def problem(self) -> str | None:
        """Why this is not a valid declaration, or None."""
        if self.level not in _RANK:
            return f"level {self.level!r} is not complete, partial or unavailable"
        if self.level == "complete":
            return None if self.reason is None else "complete takes no reason"
        if not isinstance(self.reason, str) or not self.reason.strip():
            return f"{self.level} needs a non-empty reason"
        return None

    def worse_than(self, other: Coverage) -> bool:
        """Whether this promises less than `other`."""
        return _RANK[self.level] > _RANK[other.level]


Coverage.complete = Coverage("complete")


class EvidenceCoverage:
    """One `Coverage` for each of the six channels.

    A channel left out, or declared in a way that says nothing, is reported by `define_agent`, which knows the agent's
    name; until then reading that channel raises.
    """

    __slots__ = ("_channels",)

    def __init__(
        self,
        *,
        events: Coverage | None = None,
        actions: Coverage | None = None,
        messages: Coverage | None = None,
        usage: Coverage | None = None,
        status: Coverage | None = None,
        data: Coverage | None = None,
    ) -> None:
        given = (events, actions, messages, usage, status, data)
        self._channels: dict[Channel, Coverage | None] = dict(zip(CHANNELS, given, strict=True))

    @classmethod
    def complete_except(cls, **worse: Coverage) -> EvidenceCoverage:
        """Everything complete but the channels given."""
        channels: dict[str, Coverage] = dict.fromkeys(CHANNELS, Coverage.complete)
        return cls(**{**channels, **worse})

    def __getitem__(self, channel: Channel) -> Coverage:
        coverage = self._channels[channel]
        if coverage is None:
            raise AdapterError("coverage-missing", agent="(not defined yet)", channels=channel, channel=channel)
        return coverage

    def items(self) -> list[tuple[Channel, Coverage]]:
        """The six channels in their order."""
        return [(channel, self[channel]) for channel in CHANNELS]

    def require_valid(self, agent: str) -> None:
        """Raises AdapterError (`coverage-missing`, `coverage-invalid`) naming the agent and the channel."""
        missing = [channel for channel, coverage in self._channels.items() if coverage is None]
        if missing:
            raise AdapterError("coverage-missing", agent=agent, channels=", ".join(missing), channel=missing[0])
        for channel, coverage in self._channels.items():
            problem = (
                coverage.problem()
                if isinstance(coverage, Coverage)
                else f"expected a Coverage, got {type(coverage).__name__}"
            )
            if problem:
                raise AdapterError(
                    "coverage-invalid",
                    agent=agent,
                    problem=f"{channel}: {problem}",
                    fix=f'{channel}=Coverage.complete, or Coverage.unavailable("why")',
                )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EvidenceCoverage) and other._channels == self._channels

    def __hash__(self) -> int:
        return hash(tuple(self._channels.items()))

    def __repr__(self) -> str:
        said = ", ".join(f"{channel}={coverage!r}" for channel, coverage in self._channels.items())
        return f"EvidenceCoverage({said})"


complete_evidence_coverage = EvidenceCoverage.complete_except()
"""Every channel complete: only for an adapter that really sees everything."""


def coverage_from_mapping(given: Mapping[str, object], agent: str) -> EvidenceCoverage:
    """An EvidenceCoverage from a mapping of channel to Coverage; validated by `require_valid`.

    Raises AdapterError (`coverage-invalid`) for a channel that does not exist.
    """
    unknown = [key for key in given if key not in CHANNELS]
    if unknown:
        raise AdapterError(
            "coverage-invalid",
            agent=agent,
            problem=f"there is no channel {unknown[0]!r}",
            fix="the channels are " + ", ".join(CHANNELS),
        )
    return EvidenceCoverage(**cast(dict[str, Coverage], dict(given)))


MergedCoverage: TypeAlias = Mapping[Channel, tuple[Level, tuple[str, ...]]]
"""A scope's coverage: per channel the worst level of its turns, and every reason that was given."""
