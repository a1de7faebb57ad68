"""Everything that was seen of an agent, for the checks to judge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from niceeval._base.watchdog import Block
from niceeval._evidence.scope import TurnRecord
from niceeval._model.agent import Agent
from niceeval._model.coverage import Channel, Coverage
from niceeval._model.events import Message, StreamEvent
from niceeval.testing._agent.drives import Drive
from niceeval.testing._agent.interrupting import Interruption
from niceeval.testing._agent.probes import Probes


@dataclass(slots=True, kw_only=True)
class Evidence:
    """The scenarios that were run, by name; absent are those without a probe, and all others where the first failed."""

    agent: Agent
    probes: Probes
    drives: dict[str, Drive] = field(default_factory=dict)
    interruption: Interruption | None = None
    blocks: list[Block] = field(default_factory=list)

    def add(self, drive: Drive) -> Drive:
        """Keep a scenario that was run."""
        self.drives[drive.name] = drive
        return drive

    @property
    def broken(self) -> bool:
        """Whether not even a plain text came through, so that nothing else was tried."""
        first = self.drives.get("hello")
        return first is None or first.fault is not None

    def get(self, name: str) -> Drive | None:
        """The scenario of that name, where it was run."""
        return self.drives.get(name)

    def named(self, prefix: str) -> list[Drive]:
        """The scenarios whose names begin so."""
        return [drive for name, drive in self.drives.items() if name.startswith(prefix)]

    def turns(self) -> Iterator[tuple[Drive, TurnRecord]]:
        """Every turn that came back."""
        for drive in self.drives.values():
            for turn in drive.turns:
                yield drive, turn

    def declared(self, channel: Channel) -> Coverage:
        """What the agent declares."""
        return self.agent.evidence_coverage[channel]

    def events(self) -> dict[str, tuple[StreamEvent, ...]]:
        """The event streams, by scenario, without the places of the scenarios' own calls."""
        return {name: tuple(map(_placeless, drive.driver.log.events)) for name, drive in self.drives.items()}


def _placeless(event: StreamEvent) -> StreamEvent:
    return msgspec.structs.replace(event, loc=None) if isinstance(event, Message) else event
