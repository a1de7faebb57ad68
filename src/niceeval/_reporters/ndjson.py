"""`--json`: a run's events as lines of JSON, the last of which is `run:summary`, whatever ends the run."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Literal, TypeAlias

from niceeval._base.errors import NiceevalError
from niceeval._model.run_events import LiveEvent, RunFinished
from niceeval._record.encode import Redact
from niceeval._reporters.records import (
    LINE_BYTES,
    Record,
    mapped_texts,
    record_of,
    run_summary,
    with_shorter_lists,
    with_shorter_texts,
)
from niceeval._reporters.state import RunState
from niceeval._reporters.summary import next_commands

EndStatus: TypeAlias = Literal["passed", "failed", "errored", "incomplete", "interrupted", "broke"]

_PATIENCE = 0.5
_TEXT_LIMITS = (2_000, 500, 100)


def line_of(record: Record, redact: Redact) -> bytes:
    """The record as one line of at most `LINE_BYTES`; texts are cut first, then lists, which say how much is left out.

    Pure ASCII: JSON keeps every value, and nothing in it can steer a terminal or end a line early.
    """
    data = _encoded(record, redact)
    for limit in _TEXT_LIMITS:
        if len(data) <= LINE_BYTES:
            return data
        record = with_shorter_texts(record, limit)
        data = _encoded(record, redact)
    while len(data) > LINE_BYTES:
        shorter = with_shorter_lists(record)
        if shorter is record:
            raise ValueError(f"a line of {len(data)} bytes cannot be made shorter")
        record = shorter
        data = _encoded(record, redact)
    return data


def _encoded(record: Record, redact: Redact) -> bytes:
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
    if not text.isascii() or redact(text) != text:
        record = mapped_texts(record, lambda value: redact(_whole(value)))
    return json.dumps(record, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def _whole(text: str) -> str:
    """The text without lone surrogates, which strict decoders refuse."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Ndjson:
    """Writes a line for each event. `end` writes `run:summary` where the run could not come to it itself."""

    def __init__(self, write: Callable[[bytes], None], *, redact: Redact, rerun: str) -> None:
        self._write = write
        self.redact = redact
        self.rerun = rerun
        self._state = RunState()
        self._ended = False
        # Held while a line is written, so that a last line from a signal handler or the watchdog comes between lines.
        self._lock = threading.Lock()

    def handle(self, event: LiveEvent) -> None:
        """Write the event's line; progress has none."""
        with self._lock:
            if self._ended:
                return
            self._state.apply(event, time.monotonic())
            if isinstance(event, RunFinished):
                self._write_end(run_summary(event, self._commands(event)))
            elif (record := record_of(event)) is not None:
                self._write(line_of(record, self.redact))

    def end(self, status: EndStatus, exit_code: int, problems: Sequence[NiceevalError] = ()) -> None:
        """Write `run:summary` from what was told so far, unless it was written. Never waits for long."""
        if not self._lock.acquire(timeout=_PATIENCE):
            return
        try:
            if not self._ended:
                self._write_end(self._cut_short(status, exit_code, problems))
        finally:
            self._lock.release()

    def _write_end(self, record: Record) -> None:
        self._ended = True
        self._write(line_of(record, self.redact))

    def _commands(self, finished: RunFinished) -> list[str]:
        return [command for command, _ in next_commands(self._state, finished, self.rerun)]

    def _cut_short(self, status: EndStatus, exit_code: int, problems: Sequence[NiceevalError]) -> Record:
        state = self._state
        finished = RunFinished(
            status="incomplete" if status == "broke" else status,
            exit_code=exit_code,
            planned=state.planned,
            **asdict(state.counts),
            not_started=state.planned - state.cancelled - state.counts.finished,
            cancelled=state.cancelled,
            carried=state.carried,
            duration_ms=round((time.monotonic() - state.began) * 1000) if state.start else 0,
            problems=(*(state.start.problems if state.start else ()), *problems),
        )
        record = run_summary(finished, self._commands(finished) if state.start else [])
        if state.start is None:
            del record["durationMs"]
        return {**record, "status": status}
