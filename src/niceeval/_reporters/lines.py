"""The form for logs and pipes: a line when something finished, and a heartbeat when nothing did."""

from __future__ import annotations

import math

from niceeval._base.terminal import Style, money
from niceeval._model.run_events import RunStart
from niceeval._reporters.allowance import PAIR_LINES
from niceeval._reporters.sentences import pair_line, progress_line
from niceeval._reporters.state import Finished, RunState

_SILENT_FOR = 30.0
_SILENT_LATER = 120.0
_LATER = 600.0


def opening_line(start: RunStart, style: Style, version: str) -> str:
    """`niceeval 0.1.0 · compare · 84 attempts, 22 carried · concurrency 11 · budget $15.00`."""
    noun = "attempt" if start.planned == 1 else "attempts"
    carried = f", {start.carried} carried" if start.carried else ""
    return style.joined(
        f"niceeval {version}",
        style.clean(start.title),
        f"{start.planned} {noun}{carried}",
        f"concurrency {start.concurrency}",
        "" if start.budget is None else f"budget {money(start.budget)}",
    )


def finished_line(state: RunState, change: Finished, style: Style) -> str | None:
    """The line of an (experiment, eval) that is finished: once, and None before that.

    In a run of more than 200 of them those that passed get none; and one that was carried whole ran earlier.
    """
    if state.start is None or change.pair.said or not change.pair.complete(change.experiment.outline.runs):
        return None
    change.pair.said = True
    if change.pair.carried == change.pair.counts.finished:
        return None
    pairs = sum(outline.evals for outline in state.start.experiments)
    if pairs > PAIR_LINES and change.pair.counts.fold() == "passed":
        return None
    return pair_line(change.experiment, change.pair, style)


class Heartbeat:
    """Says when a silent log needs a sign of life: after 30 s without a line, 2 min once 10 min have passed."""

    def __init__(self) -> None:
        self._last = math.inf

    def line_written(self, now: float) -> None:
        """Something was printed."""
        self._last = now

    def line(self, state: RunState, style: Style, now: float) -> str | None:
        """The heartbeat, where one is due."""
        if state.start is None or state.finished is not None:
            return None
        patience = _SILENT_LATER if now - state.began >= _LATER else _SILENT_FOR
        if now - self._last < patience:
            return None
        self._last = now
        return progress_line(state, style, now)
