"""A run: workers take attempts from the dispatcher, seal them, hand them to the writer, and say what happened."""

from __future__ import annotations

import asyncio
import time
import traceback
from contextlib import nullcontext
from contextvars import Context
from typing import Any

from niceeval._base.clock import utc_text
from niceeval._base.errors import NiceevalError, ResultsError
from niceeval._base.guest import GuestHost
from niceeval._base.tasks import keep_tasks
from niceeval._base.threads import DaemonThreads
from niceeval._base.watchdog import Block, LoopWatch
from niceeval._drive.faults import error_text, shown_file
from niceeval._judging.desk import JudgeDesk
from niceeval._model.result import Verdict
from niceeval._model.run_events import (
    AttemptKey,
    EarlyExit,
    EvalComplete,
    EvalStart,
    Interrupted,
    NotStarted,
    RunFinished,
    RunNotice,
    RunSaved,
)
from niceeval._plan.carry import looked_again
from niceeval._plan.plan import AttemptPlan, RunPlan
from niceeval._record.claims import Held, Stored
from niceeval._record.writer import RunWriter
from niceeval._run.accounts import budget_exceeded, run_start, run_summary, unneeded
from niceeval._run.attempt import FinishedAttempt, RunningAttempt, prices_of
from niceeval._run.attempt_names import key_of, label_of, stored_name_of
from niceeval._run.blocks import Blocks, cancelled_tasks
from niceeval._run.dispatch import (
    SANDBOX_FAILED,
    SETUP_FAILED,
    Dispatcher,
    Lane,
    OverBudget,
    attempt_numbers,
    exits_early,
)
from niceeval._run.hooks import Hooks
from niceeval._run.last_words import kept_sandboxes, unasserted
from niceeval._run.outcome import Tally
from niceeval._run.outside import Outside, RunHandle
from niceeval._run.progress import telling
from niceeval._run.sandboxes import Sandboxes
from niceeval._run.seal import Sources, seal, verdict_of
from niceeval._run.sharing import Sharing
from niceeval._run.shielding import shielded
from niceeval._run.spending import spending_of
from niceeval._run.taking_over import TakingOver
from niceeval._run.teardowns import FailedTeardowns

THREADS_PER_ATTEMPT = 4
"""Plain-function guests that may run at once, per attempt that may run at once."""
LOOK_AGAIN = 0.25
"""Seconds between two looks at what other invocations have done with attempts that were put off."""


async def run_plan(plan: RunPlan, writer: RunWriter, outside: Outside, handle: RunHandle) -> RunFinished:
    """Run every attempt of the plan and return what it came to, which is also the last event emitted.

    Raises ResultsError (`cannot-write`) where the run folder cannot be made.
    """
    writer.begin()
    sharing = Sharing(
        plan, writer.results_dir, writer.name, lambda attempt: writer.artifacts_dir(stored_name_of(attempt))
    )
    sharing.open()
    try:
        # Only from here on does everybody see that this run is alive: who has ended before is found by looking again.
        plan = looked_again(plan, writer.results_dir)
        return await _Run(plan, writer, outside, handle, sharing).run()
    finally:
        sharing.close()


class _Run:
    def __init__(self, plan: RunPlan, writer: RunWriter, outside: Outside, handle: RunHandle, sharing: Sharing) -> None:
        self._plan = plan
        self._writer = writer
        self._outside = outside
        self._emit = outside.emit
        self._handle = handle
        self._sharing = sharing
        self._dispatch = Dispatcher(plan)
        self._tasks: dict[int, asyncio.Task[FinishedAttempt]] = {}
        self._tally = Tally(plan)
        self._taking_over = TakingOver(plan, writer, sharing, self._tally, outside.emit)
        self._waits_for: set[str] = set()
        self._sources = Sources(plan.root)
        self._blocks = Blocks(plan.root, outside.emit, self._is_running)
        self._watch = LoopWatch(self._blocks.add, self._on_stuck)
        self._threads = DaemonThreads(max(32, THREADS_PER_ATTEMPT * plan.concurrency))
        self._host = GuestHost(self._threads, self._watch, outside.limits.grace)
        self._hooks = Hooks(self._host, plan.root, outside.emit, outside.limits)
        self._sandboxes = Sandboxes(
            plan.experiments,
            plan.attempts,
            run=writer.name,
            host=self._host,
            limits=outside.limits,
            emit=outside.emit,
            waiting=self._dispatch.waiting_in,
            keep=outside.keep_sandboxes,
        )
        self._desk = JudgeDesk(prices_of(plan))
        self._setups: set[asyncio.Task[None]] = set()
        self._teardowns = FailedTeardowns()
        self._interrupted = False
        self._unasserted: set[str] = set()
        self._kept: list[str] = []

    async def run(self) -> RunFinished:
        started_at, started = utc_text(), time.monotonic()
        self._writer.reserve([stored_name_of(attempt) for attempt in self._plan.attempts])
        self._emit(run_start(self._plan, self._writer))
        self._sharing.tell(self._say_problem)
        self._watch.start()
        self._loop = asyncio.get_running_loop()
        self._keeper = keep_tasks(self._loop)
        self._handle.bind(self._interrupt)
        try:
            await self._carry_over()
            await self._work()
        finally:
            await shielded(self._end_shared())
            self._handle.bind(None)
            self._watch.stop()
            self._threads.close()
        return self._finish(started_at, round((time.monotonic() - started) * 1000))

    async def _end_shared(self) -> None:
        """What attempts shared: their sandboxes first, which may need what an experiment's setup started."""
        await self._sandboxes.close()
        await self._hooks.tear_down_all(self._dispatch.lanes.values())
        await self._desk.close()

    def _say_problem(self, message: str) -> None:
        self._emit(RunNotice(code="shared-results", level="warning", message=message))

    # Taking over ------------------------------------------------------------------------------------------------

    async def _carry_over(self) -> None:
        """Store again what the plan takes over from earlier runs. What cannot be read after all is run."""
        left = await self._taking_over.planned()
        for attempt in left:
            self._dispatch.needed_after_all(attempt)
        for event in unneeded(self._plan, self._dispatch.cancelled):
            self._emit(event)

    # Workers ----------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        workers = min(self._plan.concurrency, len(self._plan.attempts))
        looking = asyncio.create_task(self._look_again(), name="niceeval-shared-work")
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(workers):
                    group.create_task(self._worker(), name=f"niceeval-worker-{number}")
        finally:
            looking.cancel()
        if self._setups:
            await asyncio.wait(self._setups)

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            if any(lane.put_off for lane in self._dispatch.lanes.values()):
                self._sharing.refresh()
                self._dispatch.try_again(self._sharing.elsewhere)

    async def _worker(self) -> None:
        while True:
            await self._outside.room()
            item = None if self._dispatch.stopped else self._dispatch.take()
            if isinstance(item, Lane):
                self._begin_setup(item)
            elif isinstance(item, OverBudget):
                self._say_over_budget(item)
            elif item is not None:
                await self._guarded(item)
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
        problem, reason = await self._sandboxes.open(lane.experiment), SANDBOX_FAILED
        if problem is None:
            problem, reason = await self._hooks.set_up(lane), SETUP_FAILED
        if problem is not None:
            self._tally.problem(problem)
            self._hooks.report(lane, problem, self._dispatch.fail_lane(lane, reason))
        else:
            lane.state = "ready"
        self._dispatch.wake()

    def _say_over_budget(self, over: OverBudget) -> None:
        event = budget_exceeded(over, self._dispatch.lanes)
        if event.error is not None:
            self._tally.problem(event.error)
        self._emit(event)

    async def _guarded(self, attempt: AttemptPlan) -> None:
        try:
            await self._one(attempt)
        except Exception as error:  # noqa: BLE001 - a fault of ours in one attempt must not take the others with it
            self._broke(attempt, error)

    def _broke(self, attempt: AttemptPlan, error: Exception) -> None:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{label_of(attempt)}: {error_text(error)}"
        report = f"report it: {shown_file(frame.filename, self._plan.root)}:{frame.lineno} in {frame.name}"
        problem = NiceevalError("broke", error=text, report=report)
        self._tally.problem(problem)
        self._emit(RunNotice(code=problem.code, level="error", message=f"{problem.message()}; {report}"))
        if attempt.index in self._dispatch.running:
            self._sharing.give_up(attempt)
            self._dispatch.broke(attempt)

    async def _one(self, attempt: AttemptPlan) -> None:
        others = self._sharing.take(attempt)
        if isinstance(others, Held):
            self._say_waiting(others.run)
            self._dispatch.put_off(attempt)
            return
        if others is not None:
            if await self._adopt(attempt, others):
                return
            self._sharing.take(attempt, anyway=True)
        elif self._may_be_unneeded(attempt):
            self._sharing.give_up(attempt)
            self._dispatch.put_off(attempt)
            return
        await self._tear_down_if_over(await self._run_one(attempt))

    def _may_be_unneeded(self, attempt: AttemptPlan) -> bool:
        """Whether another attempt of the eval is stored elsewhere, and has to be looked at first."""
        others = self._dispatch.others_of(attempt) if exits_early(attempt) else ()
        return any(self._sharing.elsewhere(other) == "stored" for other in others)

    async def _adopt(self, attempt: AttemptPlan, others: Stored) -> bool:
        """Take over what another invocation has just stored; False where that is not possible."""
        stored = self._sharing.read(others)
        if stored is None:
            return False
        self._dispatch.settles(attempt)
        cut = bool(self._dispatch.unneeded_after(attempt, stored.outcome))
        if not await self._taking_over.one(attempt, stored, early_exited=cut):
            return False
        lane = self._dispatch.came_to_nothing(attempt)
        self._close_others(attempt, stored.outcome)
        await self._tear_down_if_over(lane)
        return True

    def _say_waiting(self, run: str) -> None:
        if run not in self._waits_for:
            self._waits_for.add(run)
            message = f"run {run} is busy with attempts of this run; what it stores is taken over"
            self._emit(RunNotice(code="shared-results", level="info", message=message))

    async def _run_one(self, attempt: AttemptPlan) -> Lane:
        key = key_of(attempt)
        label = label_of(attempt)
        self._emit(EvalStart(key=key, started_at=utc_text(), timeout=attempt.timeout))
        running = RunningAttempt(
            attempt,
            self._plan,
            self._host,
            label,
            telling(key, self._outside),
            self._outside.limits,
            self._sandboxes,
            desk=self._desk,
        )
        task = asyncio.create_task(running.run(), name=label)
        self._tasks[attempt.index] = task
        try:
            await asyncio.wait({task})
        finally:
            del self._tasks[attempt.index]
        self._teardowns.look(attempt.experiment.id, running.driver)
        if task.cancelled() or attempt.index in self._dispatch.cancelled:
            self._blocks.taken(label)
            self._sharing.give_up(attempt)
            return self._dispatch.was_cancelled(attempt, spending_of(running.driver))
        finished = task.result()
        await self._seal(attempt, key, label, finished)
        return self._dispatch.finished(attempt, spending_of(finished.driver))

    async def _tear_down_if_over(self, lane: Lane) -> None:
        if lane.over and not self._dispatch.stopped:
            await self._sandboxes.experiment_over(lane.experiment.id)
            await self._hooks.tear_down(lane)

    async def _seal(self, attempt: AttemptPlan, key: AttemptKey, label: str, finished: FinishedAttempt) -> None:
        for diagnostic in (*self._blocks.taken(label), *cancelled_tasks(self._keeper, label)):
            finished.driver.log.diagnose(diagnostic)
        verdict = verdict_of(finished, strict=self._plan.strict)
        self._dispatch.settles(attempt)
        # What is doomed is not started, rather than cancelled as unnecessary; and nothing of it starts meanwhile.
        doomed = self._drop_doomed(attempt, finished)
        others = self._close_others(attempt, verdict)
        sealed = seal(
            finished,
            plan=self._plan,
            verdict=verdict,
            artifacts_dir=self._writer.artifacts_dir(stored_name_of(attempt)),
            early_exited=bool(others),
            sources=self._sources,
        )
        with self._sharing.deciding(attempt) if others else nullcontext():
            stored = await self._store(sealed, label)
            if stored:
                self._sharing.stored(attempt, sealed.result.artifacts_dir)
            else:
                self._sharing.give_up(attempt)
        self._tally.add(sealed.result, stored=stored)
        if sealed.result.outcome == "passed" and not sealed.result.assertions:
            self._unasserted.add(key.eval_id)
        self._emit(EvalComplete(key=key, result=sealed.result, stored=stored))
        if sealed.result.sandbox is not None and sealed.result.sandbox.kept:
            self._kept.append(f"{sealed.result.locator}")
        if doomed is not None:
            self._emit(doomed)

    def _close_others(self, attempt: AttemptPlan, verdict: Verdict) -> list[AttemptPlan]:
        """Early exit: cancel what this outcome makes unnecessary, and say so."""
        others = self._dispatch.close_eval(attempt, verdict)
        for other in others:
            running = self._tasks.get(other.index)
            if running is not None:
                running.cancel()
        if others:
            self._emit(
                EarlyExit(
                    experiment_id=attempt.experiment.id,
                    eval_id=attempt.eval.id,
                    after="passed" if verdict == "passed" else "errored",
                    cancelled=attempt_numbers(others),
                )
            )
        return others

    def _drop_doomed(self, attempt: AttemptPlan, finished: FinishedAttempt) -> NotStarted | None:
        """A fatal failure: start nothing that would die of the same cause; and what is to be said of that."""
        fault = finished.driver.fault
        if fault is None or fault.scope == "attempt":
            return None
        experiment_id: str | None = attempt.experiment.id
        eval_id: str | None = None
        if fault.scope == "experiment":
            lane = self._dispatch.lanes[attempt.experiment.id]
            dropped = {lane.experiment.id: self._dispatch.fail_lane(lane, fault.code)}
        else:
            # What the eval itself raised dooms it everywhere; what its agent raised, under this experiment.
            experiment_id = None if fault.phase == "eval" else attempt.experiment.id
            eval_id = attempt.eval.id
            dropped = self._dispatch.drop_eval(eval_id, experiment_id, fault.code)
        if not any(dropped.values()):
            return None
        return NotStarted(
            experiment_id=experiment_id,
            eval_id=eval_id,
            count=sum(dropped.values()),
            code=fault.code,
            message=fault.message,
            by_experiment=tuple(dropped.items()),
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

    def _is_running(self, label: str) -> bool:
        return any(task.get_name() == label for task in self._tasks.values())

    def _on_stuck(self, block: Block) -> None:
        # On the watchdog's thread, with a loop that will never run again: what is sealed is on disk already.
        self._outside.leave(f"{block.label or 'somebody'} holds the event loop at {self._blocks.place(block)} for good")

    def _interrupt(self) -> None:
        # May run in a signal handler, on top of anything: said at once, also where a guest holds the loop.
        if self._interrupted:
            return
        self._interrupted = True
        self._emit(Interrupted(cancelled=len(self._tasks)))
        self._watch.hurry()
        # In a context of its own: this may run on top of a guest, whose context may cancel only what is its own.
        self._loop.call_soon_threadsafe(self._cancel_all, context=Context())

    def _cancel_all(self) -> None:
        self._dispatch.stop()
        self._sandboxes.interrupt()
        for task in list(self._tasks.values()):
            task.cancel()
        for setup in list(self._setups):
            setup.cancel()

    # The end ----------------------------------------------------------------------------------------------------

    def _finish(self, started_at: str, duration_ms: int) -> RunFinished:
        for notice in (*unasserted(self._unasserted), *kept_sandboxes(self._kept), *self._teardowns.said()):
            self._emit(notice)
        for label in tuple(self._keeper.refused):
            for said in cancelled_tasks(self._keeper, label):
                self._emit(RunNotice(code=said.code, level="warning", message=f"{label}: {said.message}"))
        tally = self._tally
        summary = run_summary(
            self._plan,
            self._writer,
            tally,
            self._dispatch,
            started_at=started_at,
            duration_ms=duration_ms,
            interrupted=self._interrupted,
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
