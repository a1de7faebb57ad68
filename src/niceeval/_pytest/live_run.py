"""The one niceeval run of a session. It goes on, all attempts at once, whenever pytest has nothing to report."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from niceeval._base.errors import NiceevalError
from niceeval._base.redaction import Redactor
from niceeval._cli.exit_codes import INTERRUPTED, NOT_PASSED, code_of
from niceeval._cli.leaving import leave_at_once
from niceeval._cli.process import LIMITS, _complete, _end_loop, new_loop
from niceeval._cli.reporting import reporters_of
from niceeval._model.run_events import Interrupted, LiveEvent
from niceeval._plan.plan import RunPlan
from niceeval._pytest.outcomes import Outcomes
from niceeval._pytest.output import EvalOutput
from niceeval._record.layout import RESULTS_FOLDER
from niceeval._record.writer import RunWriter
from niceeval._reporters.bus import ReporterBus
from niceeval._run.outside import Outside, RunHandle
from niceeval._run.run import run_plan


class LiveRun:
    """A run on a loop of its own that is taken a step further by `wait`, on the main thread, and ended by `finish`.

    Between steps the loop stands still: the hooks of other plugins never run inside it.
    """

    def __init__(self, plan: RunPlan, output: EvalOutput) -> None:
        """Raises ResultsError (`cannot-write`) where a reporter of the project could not write its file."""
        self.outcomes = Outcomes(plan)
        self._output = output
        redact = Redactor(plan.secrets)
        self._bus = ReporterBus(self.outcomes, reporters_of(plan, junit=None, markdown=None), redact=redact)
        self._writer = RunWriter(plan.root / RESULTS_FOLDER, root=plan.root, redact=redact)
        self._handle = RunHandle()
        self._news = asyncio.Event()
        self._loop = new_loop(self._emit)
        outside = Outside(
            emit=self._emit,
            live=self._bus.wants_progress,
            exit_code=code_of,
            leave=self._leave_stuck,
            limits=LIMITS,
            room=self._bus.room,
        )
        self._run = self._loop.create_task(run_plan(plan, self._writer, outside, self._handle))
        self._closed = False
        self._signals_seen = 0

    @property
    def over(self) -> bool:
        """Whether the run has ended and everything was put away."""
        return self._closed

    def wait(self) -> None:
        """Go on until an eval is decided, the run is over, or somebody interrupts it."""
        if not self._closed:
            if not self.outcomes.fresh:
                self._news.clear()
            self._step(self._until_news())
            if self._run.done():
                self._close()

    def finish(self) -> None:
        """End the run in good order: what has not finished is cancelled, what has is stored. Safe to call again."""
        if not self._closed:
            if not self._run.done() and not self.outcomes.all_decided:
                self._handle.interrupt()
            self._step(self._until_over())
            self._close()

    def _emit(self, event: LiveEvent) -> None:
        self._bus.emit(event)
        if isinstance(event, Interrupted):
            # Said in a signal handler, on top of anything.
            self._loop.call_soon_threadsafe(self._news.set)
        elif self.outcomes.fresh:
            self._news.set()

    async def _until_news(self) -> None:
        news = asyncio.ensure_future(self._news.wait())
        await asyncio.wait({self._run, news}, return_when=asyncio.FIRST_COMPLETED)
        news.cancel()

    async def _until_over(self) -> None:
        await asyncio.wait({self._run})

    def _step(self, work: Coroutine[Any, Any, None]) -> None:
        with self._signals(), self._output.kept():
            _complete(self._loop, self._loop.create_task(work), self._emit)

    def _close(self) -> None:
        """Tell the reporters the end, stop the writer and put the loop away, once."""
        self._closed = True
        error = self._run.exception()
        with self._signals(), self._output.kept():
            try:
                self._bus.close()
                self._writer.close()
            finally:
                _end_loop(self._loop, self._emit_late)
        self.outcomes.close(error if isinstance(error, NiceevalError) else None)
        if error is not None and not isinstance(error, NiceevalError):
            raise error

    def _emit_late(self, event: LiveEvent) -> None:
        self.outcomes.handle(event)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """The first Ctrl-C or SIGTERM ends the run in good order, the second leaves at once.

        Raw handlers: the exception that pytest expects would be raised inside an eval, and taken for its fault.
        """

        def on_signal(signum: int, frame: FrameType | None) -> None:
            self._signals_seen += 1
            if self._signals_seen > 1:
                leave_at_once(INTERRUPTED)
            self._handle.interrupt()

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _leave_stuck(self, why: str) -> NoReturn:
        # On the watchdog's thread; the main one will never come back, so pytest cannot report anything any more.
        self._output.stop()
        print(f"error[loop-stuck]: {why}; the finished attempts are stored", file=sys.stderr)
        leave_at_once(NOT_PASSED)
