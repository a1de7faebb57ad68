"""What stands between a run and the one who starts it: what it is given, and the way in to end it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from niceeval._model.run_events import LiveEvent
from niceeval._run.limits import DEFAULT_LIMITS, Limits
from niceeval._run.outcome import Status
from niceeval._run.sandboxes import Keep

Emit: TypeAlias = Callable[[LiveEvent], None]


class RunHandle:
    """The way into a run from outside: `interrupt` ends it in good order, at any time and from a signal handler too."""

    def __init__(self) -> None:
        self._wanted = False
        self._act: Callable[[], None] | None = None

    def interrupt(self) -> None:
        """Start nothing more, cancel what runs, tear down, store. Before the run has begun: as soon as it has."""
        self._wanted = True
        if self._act is not None:
            self._act()

    def bind(self, act: Callable[[], None] | None) -> None:
        """Say what an interrupt does from here on; None when there is nothing left to interrupt."""
        self._act = act
        if self._wanted:
            self.interrupt()


async def _always_room() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What a run is given by the one who starts it.

    `emit` is told everything that happens; `live` says whether somebody watches, and only then are Progress events
    made; `exit_code` names the code a status ends with; `leave` ends the process at once, from any thread. `room` is
    awaited before an attempt starts: it waits while those who are told are too far behind. `keep_sandboxes`: those of
    which attempts are left standing.
    """

    emit: Emit
    live: bool
    exit_code: Callable[[Status], int]
    leave: Callable[[str], None]
    room: Callable[[], Awaitable[None]] = _always_room
    limits: Limits = DEFAULT_LIMITS
    keep_sandboxes: Keep | None = None
