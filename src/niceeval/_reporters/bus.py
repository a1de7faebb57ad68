"""From the run to its reporters: nobody who is told something can hold up an attempt, or the end.

The console is called directly and only takes notes. Everyone else has a lane: a queue and a thread. Order is kept in
each; what a slow reporter has not read yet is kept, and no further attempt is started while one is `BEHIND` events
late, so that memory stays bounded without losing an event. Progress alone is dropped.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from niceeval._base.errors import NiceevalError, ResultsError
from niceeval._base.plain_text import type_name
from niceeval._model.run_events import LiveEvent, RunFinished, RunNotice
from niceeval._record.encode import Redact
from niceeval._reporters.lane import Lane
from niceeval._reporters.protocol import Reporter

BEHIND = 1_000
"""Events a reporter may be late before no further attempt starts."""
_CAUGHT_UP = BEHIND // 2
_POLL = 0.02


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds: for one event while the run waits for the reporter, for one event at the end, and for the whole end."""

    event: float = 60.0
    last_event: float = 10.0
    end: float = 60.0


@dataclass(frozen=True, slots=True)
class Route:
    """A reporter, and the evals whose events it gets; None for all of them.

    Where it is `required` and does not do its work, that is a problem of the run.
    """

    reporter: Reporter
    evals: frozenset[str] | None = None
    required: bool = False


def routes(everything: Iterable[Reporter], by_eval: Iterable[tuple[str, Iterable[Reporter]]]) -> list[Route]:
    """One route per reporter object: for the whole run where it is in `everything`, else for the evals that name it."""
    whole = {id(reporter): reporter for reporter in everything}
    others: dict[int, tuple[Reporter, set[str]]] = {}
    for eval_id, reporters in by_eval:
        for reporter in reporters:
            if id(reporter) not in whole:
                others.setdefault(id(reporter), (reporter, set()))[1].add(eval_id)
    return [
        *(Route(reporter) for reporter in whole.values()),
        *(Route(reporter, frozenset(evals)) for reporter, evals in others.values()),
    ]


class ReporterBus:
    """Hands events on. `emit` may be called from any thread and never waits; `close` waits, but not for ever.

    `output` (the JSON lines on stdout) is told of everything, has no limit, and, like the console, gets the last event
    only when the reporters are done: what is to be said about them comes before the last word. `exit_code` names the
    code of a status, for a run that is incomplete only by what a required reporter did not do.
    """

    def __init__(
        self,
        console: Reporter,
        reporters: Sequence[Route] = (),
        *,
        output: Reporter | None = None,
        redact: Redact,
        limits: Limits | None = None,
        exit_code: Callable[[str], int] | None = None,
    ) -> None:
        self._console = console
        self._limits = limits or Limits()
        self._output = None if output is None else Lane(output, redact=None, say=self._tell_console)
        self._lanes = [Lane(route.reporter, evals=route.evals, redact=redact, say=self._notice) for route in reporters]
        self._required = [lane for lane, route in zip(self._lanes, reporters, strict=True) if route.required]
        self._exit_code = exit_code
        self._finished: RunFinished | None = None
        self._closed = threading.Event()

    @property
    def wants_progress(self) -> bool:
        """Whether some reporter asked for progress."""
        return any(lane.wants_progress for lane in self._lanes)

    @property
    def finished(self) -> RunFinished | None:
        """The last event as everybody of ours was told it; None before there is one."""
        return self._finished

    def emit(self, event: LiveEvent) -> None:
        """Tell everybody."""
        if isinstance(event, RunFinished):
            self._finished = event
        else:
            self._tell_ours(event)
        for lane in self._lanes:
            lane.put(event)

    async def room(self) -> None:
        """Return once every reporter has caught up far enough for another attempt to start."""
        if not self._late(BEHIND):
            return
        # A poll, and not a signal: it is rare, and a guest's thread then needs no way into this loop.
        while self._late(_CAUGHT_UP):
            await asyncio.sleep(_POLL)
            self._abandon_stuck(self._limits.event)

    def close(self) -> None:
        """Let everybody finish what they were told, abandon those who do not, and say the last word."""
        if self._closed.is_set():
            return
        self._closed.set()
        for lane in self._lanes:
            lane.finish()
        self._await_reporters()
        if self._finished is not None:
            self._finished = self._with_failures(self._finished)
            self._tell_ours(self._finished)
        if self._output is not None:
            self._output.finish()
            self._output.wait(None)

    def _await_reporters(self) -> None:
        deadline = time.monotonic() + self._limits.end
        while waiting := [lane for lane in self._lanes if not lane.over]:
            waiting[0].wait(_POLL)
            self._abandon_stuck(self._limits.last_event)
            if time.monotonic() > deadline:
                for lane in waiting:
                    if not lane.over:
                        lane.abandon()

    def _with_failures(self, finished: RunFinished) -> RunFinished:
        failures = tuple(_problem(lane) for lane in self._required if lane.failure is not None)
        if not failures:
            return finished
        status = "incomplete" if finished.status == "passed" else finished.status
        code = finished.exit_code if self._exit_code is None else self._exit_code(status)
        return replace(finished, status=status, exit_code=code, problems=(*finished.problems, *failures))

    def _late(self, events: int) -> bool:
        lanes = self._lanes if self._output is None else [*self._lanes, self._output]
        return any(lane.backlog > events and not lane.over for lane in lanes)

    def _abandon_stuck(self, limit: float) -> None:
        now = time.monotonic()
        for lane in self._lanes:
            if lane.held_for(now) > limit:
                lane.abandon()

    def _tell_console(self, event: LiveEvent) -> None:
        self._console.handle(event)

    def _tell_ours(self, event: LiveEvent) -> None:
        self._tell_console(event)
        if self._output is not None:
            self._output.put(event)

    def _notice(self, notice: RunNotice) -> None:
        """Something about a reporter: ours are told, and the other reporters while the run lasts."""
        self._tell_ours(notice)
        if self._finished is None:
            for lane in self._lanes:
                lane.put(notice)


def _problem(lane: Lane) -> NiceevalError:
    if isinstance(lane.failure, NiceevalError):
        return lane.failure
    return ResultsError("cannot-write", path=lane.name, problem=type_name(lane.failure))
