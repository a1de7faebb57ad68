"""What a reporter is."""

from __future__ import annotations

from typing import Protocol

from niceeval._model.run_events import LiveEvent


class Reporter(Protocol):
    """Gets a run's events one at a time, in order.

    `handle` must return at once: it is called from the loop that runs the attempts. `close` is called once, after the
    last event or instead of it, and leaves nothing behind: no thread, no file, no hidden cursor.
    """

    def handle(self, event: LiveEvent) -> None: ...

    def close(self) -> None: ...
