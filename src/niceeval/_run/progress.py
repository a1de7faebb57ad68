"""What a running attempt does now, told to whoever watches; to nobody, nothing is made."""

from __future__ import annotations

from niceeval._drive.driver import OnProgress
from niceeval._model.result import Phase
from niceeval._model.run_events import AttemptKey, Progress
from niceeval._run.outside import Outside


def telling(key: AttemptKey, outside: Outside) -> OnProgress:
    """The attempt's own `on_progress`."""
    if not outside.live:
        return _silent

    def on_progress(
        phase: Phase,
        turn: int | None = None,
        text: str | None = None,
        current: float | None = None,
        total: float | None = None,
    ) -> None:
        outside.emit(Progress(key=key, phase=phase, turn=turn, text=text, current=current, total=total))

    return on_progress


def _silent(
    phase: Phase,
    turn: int | None = None,
    text: str | None = None,
    current: float | None = None,
    total: float | None = None,
) -> None:
    return None
