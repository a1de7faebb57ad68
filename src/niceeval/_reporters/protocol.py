"""What a reporter is."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from niceeval._model.run_events import LiveEvent


class Reporter(Protocol):
    """Gets a run's events one at a time, in order.

    `handle` may be a plain or an async function. A guest's is called on a thread of its own, so that it may take its
    time; that of the console is called from the loop that runs the attempts and returns at once.

    Two more attributes are looked at where they exist: `close()`, plain or async, is called once after the last event,
    or instead of it; a true `wants_progress` asks for `Progress` events as well.
    """

    def handle(self, event: LiveEvent, /) -> Awaitable[None] | None: ...
