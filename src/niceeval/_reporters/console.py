"""The reporter people see: failure blocks and the summary on stdout; the board, or lines, and warnings on stderr."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from niceeval._base.errors import NiceevalError
from niceeval._base.forks import is_copy, own_pid
from niceeval._base.terminal import Stream, Style, board_allowed, cut_counted
from niceeval._model.run_events import (
    BudgetExceeded,
    EarlyExit,
    EvalComplete,
    EvalStart,
    ExperimentFailed,
    Interrupted,
    LiveEvent,
    NotStarted,
    RunFinished,
    RunNotice,
    RunStart,
)
from niceeval._reporters.allowance import NOTICES, Allowance
from niceeval._reporters.board import board
from niceeval._reporters.deciding import index_entry
from niceeval._reporters.eta import Eta
from niceeval._reporters.failure_block import Failure, SourceLine, failure_block, same_as_line
from niceeval._reporters.figures import own_figures
from niceeval._reporters.lines import Heartbeat, finished_line, opening_line
from niceeval._reporters.painter import Painter, Target, Text
from niceeval._reporters.sentences import budget_lines, carried_line, index_line, not_started_line
from niceeval._reporters.state import Finished, RunState
from niceeval._reporters.summary import Ending, summary

_FRAME = 0.1
_CLOCK = 1.0
_BYTES_A_SECOND = 16_000
_MESSAGE_CELLS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """What the console needs to know of the command: `rerun` runs the same selection again.

    With `json`, stdout belongs to others: what would go there is left out, and there is no board.
    """

    version: str
    rerun: str
    language: str = "en"
    quiet: bool = False
    verbose: bool = False
    json: bool = False


class Console:
    """Folds the run's events and paints them from a thread of its own, so that a slow terminal holds up no attempt.

    With `threaded` off nothing is painted but by `tick` and `close`; in a copy of this process (a guest's fork) nothing
    at all.
    """

    def __init__(
        self,
        stdout: Stream,
        stderr: Stream,
        *,
        wording: Wording,
        source_line: SourceLine,
        redact: Callable[[str], str],
        environ: Mapping[str, str] = os.environ,
        now: Callable[[], float] = time.monotonic,
        threaded: bool = True,
    ) -> None:
        self._stdout, self._stderr = stdout, stderr
        self._wording = wording
        self._source_line = source_line
        self._environ = environ
        self._now = now
        self._threaded = threaded and not wording.quiet
        self._out = Style.for_stream(stdout, redact=redact, language=wording.language, environ=environ)
        self._err = Style.for_stream(stderr, redact=redact, language=wording.language, environ=environ)
        self._live = board_allowed(stdout, stderr, quiet=wording.quiet or wording.json, environ=environ)
        self._painter = Painter(stdout, stderr, live=self._live)
        self._allowance = Allowance(limited=not self._live)
        self._state = RunState()
        self._eta = Eta()
        self._heartbeat = Heartbeat()
        self._texts: list[Text] = []
        self._pid = own_pid()
        self._notices = 0
        self._carried_said = False
        # A raw signal handler may call `handle` on top of a `handle` that it interrupted.
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def handle(self, event: LiveEvent) -> None:
        """Fold one event in. Nothing is written here."""
        if is_copy(self._pid):
            return
        with self._lock:
            now = self._now()
            change = self._state.apply(event, now)
            self._say(event, change, now)
        if not self._wake.is_set():
            self._wake.set()

    def tick(self) -> int:
        """Write what is to be written, and repaint the board where it changed. Returns how much that was."""
        with self._lock:
            texts, self._texts = self._texts, []
            now = self._now()
            self._beat(texts, now)
            columns, rows = self._stderr.size(self._environ) if self._live else (0, 0)
            painted = self._board(columns, rows, now)
        return self._painter.show(texts, painted, columns)

    def close(self) -> None:
        """Write what is left, take the board away and give the cursor back."""
        if is_copy(self._pid):
            return
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._painter.close()
        texts, self._texts = self._texts, []
        self._painter.show(texts)
        atexit.unregister(self.restore)

    @property
    def live(self) -> bool:
        """Whether a board is painted, so that somebody watches progress."""
        return self._live

    def say_at_once(self, line: str) -> None:
        """Write a last line of stderr, for a process that is about to leave without `close`."""
        self._stderr.write(f"{self._err.clean(line)}\n")

    def restore(self) -> None:
        """Give the cursor back at once, without waiting for anything: for the way out that skips `close`."""
        if not is_copy(self._pid):
            self._painter.restore()

    def _board(self, columns: int, rows: int, now: float) -> list[str]:
        if not self._live or self._stopping.is_set() or self._state.finished is not None:
            return []
        return board(self._state, self._err, columns=columns, rows=rows, now=now, eta=self._eta)

    def _beat(self, texts: list[Text], now: float) -> None:
        if self._live or self._wording.quiet:
            return
        if texts:
            self._heartbeat.line_written(now)
        beat = self._heartbeat.line(self._state, self._err, now)
        if beat is not None:
            texts.append(Text("stderr", beat))

    def _watch(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(_CLOCK)
            self._wake.clear()
            written = self.tick()
            self._stopping.wait(max(_FRAME, written / _BYTES_A_SECOND if self._live else 0.0))

    def _begin(self) -> None:
        atexit.register(self.restore)
        if self._threaded:
            self._thread = threading.Thread(target=self._watch, name="niceeval-console", daemon=True)
            self._thread.start()

    def _say(self, event: LiveEvent, change: Finished | None, now: float) -> None:
        match event:
            case EvalComplete():
                assert change is not None
                self._say_finished(event, change)
            case EarlyExit() if change is not None and not self._wording.quiet:
                self._say_pair(change)
            case RunStart():
                if not self._live and not self._wording.quiet:
                    self._put("stderr", [opening_line(event, self._err, self._wording.version)])
                self._heartbeat.line_written(now)
                self._begin()
            case RunNotice():
                self._say_notice(event)
            case EvalStart():
                self._say_carried()
            case BudgetExceeded():
                self._say_budget(event)
            case NotStarted():
                self._put("stderr", [not_started_line(event, self._err)])
            case ExperimentFailed():
                self._put("stderr", self._error_lines(event.error), free=True)
            case Interrupted():
                noun = "attempt" if event.cancelled == 1 else "attempts"
                said = f"interrupted: {event.cancelled} {noun} cancelled, tearing down; Ctrl-C again leaves at once"
                self._put("stderr", [said], free=True)
            case RunFinished():
                self._say_carried()
                self._say_end()
            case _:
                pass

    def _say_carried(self) -> None:
        """Once: what the run has taken over before anything started."""
        if self._carried_said or not self._state.carried or self._wording.quiet:
            return
        self._carried_said = True
        self._put("stderr", [carried_line(self._state, self._err)])

    def _say_budget(self, event: BudgetExceeded) -> None:
        if event.error is not None:
            self._put("stderr", self._error_lines(event.error), free=True)
        else:
            self._put("stderr", budget_lines(event, self._err, self._wording.rerun), free=event.experiment_id is None)

    def _say_finished(self, event: EvalComplete, change: Finished) -> None:
        if self._wording.quiet:
            return
        if event.result.outcome in ("failed", "errored") and not self._wording.json:
            self._say_failure(event, change)
        if self._wording.verbose:
            self._put("stderr", [self._attempt_line(event, change)])
        else:
            self._say_pair(change)

    def _say_pair(self, change: Finished) -> None:
        if self._live or self._wording.verbose:
            return
        line = finished_line(self._state, change, self._err)
        if line is not None:
            self._put("stderr", [line])

    def _say_failure(self, event: EvalComplete, change: Finished) -> None:
        outline = change.experiment.outline
        failure = Failure(experiment_id=outline.id, runs=outline.runs, result=event.result)
        style = self._printing_style()
        # What was carried broke in an earlier run, which has printed its block.
        new = event.result.carried_from is None and change.same_as is None
        whole = new and self._allowance.take_block()
        if whole and self._put("stdout", failure_block(failure, style, self._source_line)):
            return
        if self._allowance.take_index_line():
            same = change.same_as
            entry = index_entry(outline.id, event.result)
            self._put("stdout", [same_as_line(failure, style, same) if same else index_line(entry, style)])

    def _printing_style(self) -> Style:
        """stdout's style at the width it has now."""
        if self._out.width is None:
            return self._out
        return replace(self._out, width=self._stdout.size(self._environ)[0])

    def _attempt_line(self, event: EvalComplete, change: Finished) -> str:
        style, outline, origin = self._err, change.experiment.outline, event.result.carried_from
        parts = (
            style.mark(event.result.outcome),
            style.clean(outline.id),
            style.clean(event.result.id),
            f"attempt {event.result.attempt + 1}/{outline.runs}",
            own_figures(event.result, style),
            "" if origin is None else f"carried from {style.clean(origin.run)}",
        )
        return "  ".join(part for part in parts if part)

    def _say_notice(self, notice: RunNotice) -> None:
        self._notices += 1
        if self._notices > NOTICES:
            return
        word = {"error": "error", "warning": "warning"}.get(notice.level, "note")
        message = cut_counted(self._err.clean(notice.message), _MESSAGE_CELLS, mark=self._err.glyphs.ellipsis)
        self._put("stderr", [f"{word}[{self._err.clean(notice.code)}]: {message}"])

    def _error_lines(self, error: NiceevalError) -> list[str]:
        language, style = self._wording.language, self._err
        message = cut_counted(style.clean(error.message(language)), _MESSAGE_CELLS, mark=style.glyphs.ellipsis)
        hint = error.next_step(language)
        lines = [f"error[{error.code}]: {message}"]
        lines += [f"  {style.clean(str(error.place))}"] if error.place else []
        return lines + ([f"  next: {style.clean(hint)}"] if hint else [])

    def _say_end(self) -> None:
        wording = self._wording
        if self._notices > NOTICES:
            self._put("stderr", [f"+ {self._notices - NOTICES} more warnings"], free=True)
        if wording.json:
            return
        ending = Ending(
            rerun=wording.rerun,
            language=wording.language,
            limit=self._allowance.for_the_end,
            brief=wording.quiet,
        )
        self._put("stdout", summary(self._state, self._printing_style(), ending), free=True)

    def _put(self, target: Target, lines: list[str], *, free: bool = False) -> bool:
        """Queue lines to be written; False where there is no allowance for them. `free` ones always are."""
        if not free and not self._allowance.take(lines):
            return False
        self._texts += [Text(target, line) for line in lines]
        return True
