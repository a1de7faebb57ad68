"""A run: workers take attempts from the dispatcher, seal them, hand them to the writer, and say what happened."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from niceeval._base.clock import utc_text
from niceeval._base.errors import NiceevalError, ResultsError
from niceeval._base.guest import GuestHost
from niceeval._base.threads import DaemonThreads
from niceeval._base.watchdog import Block, LoopWatch
from niceeval._drive.driver import OnProgress
from niceeval._drive.faults import shown_file
from niceeval._model.result import FORMAT, SCHEMA_VERSION, Diagnostic, Phase, Producer, RunSummary
from niceeval._model.run_events import (
    AttemptKey,
    EarlyExit,
    EvalComplete,
    EvalStart,
    ExperimentOutline,
    Interrupted,
    LiveEvent,
    Progress,
    RunFinished,
    RunNotice,
    RunSaved,
    RunStart,
)
from niceeval._plan.plan import AttemptPlan, RunPlan
from niceeval._record.writer import RunWriter
from niceeval._run.attempt import FinishedAttempt, run_attempt
from niceeval._run.dispatch import Dispatcher, Lane, attempt_numbers
from niceeval._run.hooks import Hooks
from niceeval._run.limits import DEFAULT_LIMITS, Limits
from niceeval._run.outcome import Status, Tally
from niceeval._run.seal import Sources, seal, verdict_of
from niceeval._version import __version__

Emit = Callable[[LiveEvent], None]

THREADS_PER_ATTEMPT = 4
"""Plain-function guests that may run at once, per attempt that may run at once."""


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
    awaited before an attempt starts: it waits while those who are told are too far behind.
    """

    emit: Emit
    live: bool
    exit_code: Callable[[Status], int]
    leave: Callable[[str], None]
    room: Callable[[], Awaitable[None]] = _always_room
    limits: Limits = DEFAULT_LIMITS


async def run_plan(plan: RunPlan, writer: RunWriter, outside: Outside, handle: RunHandle) -> RunFinished:
    """Run every attempt of the plan and return what it came to, which is also the last event emitted.

    Raises ResultsError (`cannot-write`) where the run folder cannot be made.
    """
    return await _Run(plan, writer, outside, handle).run()


@dataclass(slots=True)
class _Blocks:
    """What the watchdog saw, per attempt label, until the attempt is sealed."""

    by_label: dict[str, list[Block]] = field(default_factory=dict)

    def add(self, block: Block) -> bool:
        """Keep it for its attempt; False where no attempt is known."""
        if block.label is None:
            return False
        self.by_label.setdefault(block.label, []).append(block)
        return True


class _Run:
    def __init__(self, plan: RunPlan, writer: RunWriter, outside: Outside, handle: RunHandle) -> None:
        self._plan = plan
        self._writer = writer
        self._outside = outside
        self._emit = outside.emit
        self._handle = handle
        self._dispatch = Dispatcher(plan)
        self._tasks: dict[int, asyncio.Task[FinishedAttempt]] = {}
        self._tally = Tally(plan)
        self._sources = Sources(plan.root)
        self._blocks = _Blocks()
        self._watch = LoopWatch(self._on_block, self._on_stuck)
        self._threads = DaemonThreads(max(32, THREADS_PER_ATTEMPT * plan.concurrency))
        self._host = GuestHost(self._threads, self._watch, outside.limits.grace)
        self._hooks = Hooks(self._host, plan.root, outside.emit, outside.limits)
        self._setups: set[asyncio.Task[None]] = set()
        self._interrupted = False

    async def run(self) -> RunFinished:
        started_at, started = utc_text(), time.monotonic()
        self._writer.begin()
        self._writer.reserve([_name(attempt) for attempt in self._plan.attempts])
        self._emit(self._start())
        self._watch.start()
        self._loop = asyncio.get_running_loop()
        self._handle.bind(self._interrupt)
        try:
            await self._work()
            await self._hooks.tear_down_all(self._dispatch.lanes.values())
        finally:
            self._handle.bind(None)
            self._watch.stop()
            self._threads.close()
        return self._finish(started_at, round((time.monotonic() - started) * 1000))

    def _start(self) -> RunStart:
        attempts: dict[str, int] = {}
        evals: dict[str, set[str]] = {}
        for attempt in self._plan.attempts:
            attempts[attempt.experiment.id] = attempts.get(attempt.experiment.id, 0) + 1
            evals.setdefault(attempt.experiment.id, set()).add(attempt.eval.id)
        return RunStart(
            run=self._writer.name,
            title=self._plan.title,
            planned=len(self._plan.attempts),
            concurrency=self._plan.concurrency,
            experiments=tuple(
                ExperimentOutline(
                    id=experiment.id,
                    agent=experiment.agent.name,
                    model=experiment.model,
                    evals=len(evals[experiment.id]),
                    runs=experiment.runs,
                    early_exit=experiment.early_exit,
                    timeout=experiment.timeout or 0.0,
                    attempts=attempts[experiment.id],
                )
                for experiment in self._plan.experiments
            ),
            problems=self._plan.problems,
            root=str(self._plan.root),
            folder=str(self._plan.root / self._writer.output_dir),
        )

    # Workers ----------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        workers = min(self._plan.concurrency, len(self._plan.attempts))
        async with asyncio.TaskGroup() as group:
            for number in range(workers):
                group.create_task(self._worker(), name=f"niceeval-worker-{number}")
        if self._setups:
            await asyncio.wait(self._setups)

    async def _worker(self) -> None:
        while True:
            await self._outside.room()
            item = None if self._dispatch.stopped else self._dispatch.take()
            if isinstance(item, Lane):
                self._begin_setup(item)
            elif item is not None:
                await self._one(item)
            elif self._dispatch.exhausted:
                self._dispatch.wake()
                return
            else:
                await self._dispatch.wait()

    def _begin_setup(self, lane: Lane) -> None:
        task = asyncio.create_task(self._set_up(lane), name=f"niceeval-setup-{lane.experiment.id}")
        self._setups.add(task)
        task.add_done_callback(self._setups.discard)

    async def _set_up(self, lane: Lane) -> None:
        problem = await self._hooks.set_up(lane)
        if problem is not None:
            self._tally.problem(problem)
            self._hooks.report(lane, problem, self._dispatch.fail_lane(lane))
        else:
            lane.state = "ready"
        self._dispatch.wake()

    async def _one(self, attempt: AttemptPlan) -> None:
        key = AttemptKey(attempt.experiment.id, attempt.eval.id, attempt.attempt)
        label = f"{key.experiment_id} {key.eval_id} {key.attempt}"
        self._emit(EvalStart(key=key, started_at=utc_text(), timeout=attempt.timeout))
        work = run_attempt(attempt, self._plan, self._host, label, self._progress(key), self._outside.limits)
        task = asyncio.create_task(work, name=label)
        self._tasks[attempt.index] = task
        try:
            await asyncio.wait({task})
            if not task.cancelled() and attempt.index not in self._dispatch.cancelled:
                await self._seal(attempt, key, label, task.result())
            elif attempt.index not in self._dispatch.cancelled:
                self._dispatch.cancelled.add(attempt.index)
        finally:
            del self._tasks[attempt.index]
            lane = self._dispatch.finished(attempt)
        if lane.over and not self._dispatch.stopped:
            await self._hooks.tear_down(lane)

    def _progress(self, key: AttemptKey) -> OnProgress:
        if not self._outside.live:
            return _no_progress

        def on_progress(
            phase: Phase,
            turn: int | None = None,
            text: str | None = None,
            current: float | None = None,
            total: float | None = None,
        ) -> None:
            self._emit(Progress(key=key, phase=phase, turn=turn, text=text, current=current, total=total))

        return on_progress

    async def _seal(self, attempt: AttemptPlan, key: AttemptKey, label: str, finished: FinishedAttempt) -> None:
        for block in self._blocks.by_label.pop(label, []):
            finished.driver.log.diagnose(self._block_diagnostic(block))
        verdict = verdict_of(finished, strict=self._plan.strict)
        others = self._dispatch.close_eval(attempt, verdict)
        for other in others:
            running = self._tasks.get(other.index)
            if running is not None:
                running.cancel()
        lane = self._dispatch.lanes[attempt.experiment.id]
        sealed = seal(
            finished,
            verdict=verdict,
            artifacts_dir=self._writer.artifacts_dir(_name(attempt)),
            agent_version=lane.agent_version,
            strict=self._plan.strict,
            early_exited=bool(others),
            sources=self._sources,
        )
        stored = await self._store(sealed, label)
        self._tally.add(sealed.result)
        self._emit(EvalComplete(key=key, result=sealed.result, stored=stored))
        if others:
            self._emit(
                EarlyExit(
                    experiment_id=key.experiment_id,
                    eval_id=key.eval_id,
                    after="passed" if verdict == "passed" else "errored",
                    cancelled=attempt_numbers(others),
                )
            )

    async def _store(self, sealed: Any, label: str) -> bool:
        try:
            await asyncio.wrap_future(self._writer.submit(sealed))
        except ResultsError as error:
            self._tally.problem(error)
            self._emit(RunNotice(code=error.code, level="error", message=f"{label}: {error.message()}"))
            return False
        return True

    # Blocks and interrupts --------------------------------------------------------------------------------------

    def _block_diagnostic(self, block: Block) -> Diagnostic:
        return Diagnostic(
            code="loop-blocked",
            level="warning",
            message=f"blocked the event loop for {block.seconds:.1f}s at {self._shown(block.where)};"
            " other attempts had to wait",
        )

    def _shown(self, where: str) -> str:
        file, _, rest = where.partition(":")
        return f"{shown_file(file, self._plan.root)}:{rest}" if rest else where

    def _on_block(self, block: Block) -> None:
        if not self._blocks.add(block):
            message = f"the event loop was blocked for {block.seconds:.1f}s at {self._shown(block.where)}"
            self._emit(RunNotice(code="loop-blocked", level="warning", message=message))

    def _on_stuck(self, block: Block) -> None:
        # On the watchdog's thread, with a loop that will never run again: what is sealed is on disk already.
        self._outside.leave(f"{block.label or 'somebody'} holds the event loop at {self._shown(block.where)} for good")

    def _interrupt(self) -> None:
        # May run in a signal handler, on top of anything: said at once, also where a guest holds the loop.
        if self._interrupted:
            return
        self._interrupted = True
        self._emit(Interrupted(cancelled=len(self._tasks)))
        self._watch.hurry()
        self._loop.call_soon_threadsafe(self._cancel_all)

    def _cancel_all(self) -> None:
        self._dispatch.stop()
        for task in list(self._tasks.values()):
            task.cancel()
        for setup in list(self._setups):
            setup.cancel()

    # The end ----------------------------------------------------------------------------------------------------

    def _finish(self, started_at: str, duration_ms: int) -> RunFinished:
        tally = self._tally
        summary = RunSummary(
            format=FORMAT,
            schema_version=SCHEMA_VERSION,
            producer=Producer(name="niceeval", version=__version__, runtime="python"),
            name=self._plan.config.name,
            agent=self._plan.experiments[0].agent.name if self._plan.experiments else "",
            model=tally.common_model(),
            started_at=started_at,
            completed_at=utc_text(),
            passed=tally.count("passed"),
            failed=tally.count("failed"),
            skipped=tally.count("skipped"),
            errored=tally.count("errored"),
            duration_ms=duration_ms,
            usage=tally.usage(),
            estimated_cost_usd=tally.cost(),
            output_dir=self._writer.output_dir,
            interrupted=self._interrupted,
            not_started=self._dispatch.not_started,
            cancelled=len(self._dispatch.cancelled),
        )
        try:
            self._writer.finish(summary)
            self._emit(RunSaved(run=self._writer.name, output_dir=self._writer.output_dir))
        except NiceevalError as error:
            tally.problem(error)
            self._emit(RunNotice(code=error.code, level="error", message=error.message()))
        finished = tally.finished(
            exit_code=self._outside.exit_code,
            interrupted=self._interrupted,
            not_started=self._dispatch.not_started,
            cancelled=len(self._dispatch.cancelled),
            duration_ms=duration_ms,
        )
        self._emit(finished)
        return finished


def _no_progress(
    phase: Phase,
    turn: int | None = None,
    text: str | None = None,
    current: float | None = None,
    total: float | None = None,
) -> None:
    return None


def _name(attempt: AttemptPlan) -> tuple[str, str, str, str | None, int]:
    experiment = attempt.experiment
    return (experiment.id, attempt.eval.id, experiment.agent.name, experiment.model, attempt.attempt)
