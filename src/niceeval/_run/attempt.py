"""One attempt: set up, run the eval function, evaluate, tear down. An exception in it is this attempt's alone."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from niceeval._base.callsite import CallSite
from niceeval._base.clock import utc_text
from niceeval._base.errors import AuthorError, NiceevalError, SkipEval, StopEval
from niceeval._base.file_reads import AttemptReads, begin_attempt
from niceeval._base.guest import GuestHost, GuestScope, GuestTimeout
from niceeval._discover.specs import MISSING, judge_of
from niceeval._drive.calibrated import check_calibrations, gating
from niceeval._drive.context import EvalContext
from niceeval._drive.driver import CURRENT, Driver, OnProgress, Setting
from niceeval._drive.faults import (
    Fault,
    control_flow,
    error_text,
    fault_of_error,
    fault_of_guest,
    foreign_stop,
    last_project_site,
    leaves,
    user_frames,
)
from niceeval._drive.judgements import settle_all
from niceeval._drive.own_tasks import OWN_TASKS, OwnTasks, watch_tasks
from niceeval._drive.plain_assert import failed_assert
from niceeval._drive.retrying import failure_class
from niceeval._evidence.price_table import built_in_prices
from niceeval._evidence.prices import Price
from niceeval._judge.collector import Entry
from niceeval._judge.verdict import attempt_verdict
from niceeval._judging import records
from niceeval._judging.desk import JudgeDesk
from niceeval._model.agent import AgentSession
from niceeval._model.diff import StoredDiff
from niceeval._model.result import Diagnostic, Phase, SandboxInfo, Verdict
from niceeval._plan.plan import AttemptPlan, RunPlan
from niceeval._run.attempt_sandbox import AttemptSandbox
from niceeval._run.limits import DEFAULT_LIMITS, Limits
from niceeval._run.sandboxes import Sandboxes
from niceeval._run.shielding import shielded
from niceeval.loaders import running_eval


@dataclass(slots=True, kw_only=True)
class FinishedAttempt:
    """An attempt whose guests have ended or were abandoned: what is needed to seal it. `phases` in milliseconds."""

    plan: AttemptPlan
    driver: Driver
    started_at: str
    duration_ms: int
    phases: dict[str, int] = field(default_factory=dict)
    reads: AttemptReads
    sandbox: SandboxInfo | None = None
    diff: StoredDiff | None = None


async def run_attempt(
    attempt: AttemptPlan,
    plan: RunPlan,
    host: GuestHost,
    label: str,
    on_progress: OnProgress,
    limits: Limits = DEFAULT_LIMITS,
) -> FinishedAttempt:
    """Run one attempt to its end.

    Raises CancelledError when it was cancelled from outside, after its teardown; one whose eval was over by then is
    finished all the same.
    """
    desk = JudgeDesk(prices_of(plan))
    try:
        return await RunningAttempt(attempt, plan, host, label, on_progress, limits, desk=desk).run()
    finally:
        await desk.close()


def prices_of(plan: RunPlan) -> tuple[Mapping[str, Price], ...]:
    """The price tables of a plan; the first that has a model's price counts."""
    return (plan.config.pricing, built_in_prices())


class RunningAttempt:
    """One attempt under way: `run` as `run_attempt` says; `driver` shows what it has come to so far."""

    def __init__(
        self,
        attempt: AttemptPlan,
        plan: RunPlan,
        host: GuestHost,
        label: str,
        on_progress: OnProgress,
        limits: Limits = DEFAULT_LIMITS,
        sandboxes: Sandboxes | None = None,
        *,
        desk: JudgeDesk,
    ) -> None:
        experiment = attempt.experiment
        self._limits = limits
        self._plan = attempt
        self._root = plan.root
        self._scope = GuestScope(host, label)
        self._driver = Driver(
            Setting(
                agent=experiment.agent,
                model=experiment.model,
                reasoning_effort=experiment.reasoning_effort,
                flags=experiment.flags,
                experiment_id=experiment.id,
                eval_id=attempt.eval.id,
                attempt=attempt.attempt,
                root=plan.root,
                folder=attempt.eval.file.parent,
                pricing=prices_of(plan),
                judge=judge_of(attempt.eval, experiment, plan.config.judge),
                classifiers=tuple(
                    classify
                    for classify in (experiment.classify_failure, experiment.agent.classify_failure)
                    if classify is not None
                ),
                backoff=limits.backoff,
            ),
            self._scope,
            on_progress,
            desk,
        )
        self._on_progress = on_progress
        self._sandbox: AttemptSandbox | None = None
        if experiment.sandbox is not None and sandboxes is not None:
            self._sandbox = AttemptSandbox(sandboxes, attempt, self._scope, self._driver, plan.root, limits)
        self._strict = plan.strict
        self._finished = False
        self._tasks = OwnTasks(plan.root)
        self._setup_entered = False
        self._closing: tuple[Phase, int | None, CallSite | None] | None = None
        self._phases: dict[str, int] = {}

    @property
    def driver(self) -> Driver:
        """The attempt's drive."""
        return self._driver

    async def run(self) -> FinishedAttempt:
        """Run it to its end."""
        started_at, started = utc_text(), time.monotonic()
        watch_tasks()
        reads = begin_attempt((self._plan.experiment.id, self._plan.eval.id))
        try:
            await self._guarded_body()
            await self._collect_diff()
            await self._evaluate_deferred()
            await self._judge()
            self._finished = True
        except BaseException:
            await self._end()
            raise
        # What is known is known: a cancellation that comes during the teardown takes nothing away.
        await self._end()
        self._driver.seal()
        return FinishedAttempt(
            plan=self._plan,
            driver=self._driver,
            started_at=started_at,
            duration_ms=round((time.monotonic() - started) * 1000),
            phases=self._phases,
            reads=reads,
            sandbox=None if self._sandbox is None else self._sandbox.info,
            diff=None if self._sandbox is None else self._sandbox.diff,
        )

    async def _guarded_body(self) -> None:
        """The part under the attempt's timeout; whatever it raises becomes a fault, a failed gate or a stop."""
        driver = self._driver
        try:
            await self._scope.call("eval", self._plan.timeout, self._body, on_cancel=self._note_where)
        except GuestTimeout as timeout:
            driver.fail(self._timeout_fault(timeout))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - a guest: what it raises is this attempt's outcome
            self._take(error)

    async def _body(self) -> None:
        agent = self._plan.experiment.agent
        if self._sandbox is not None:
            self._enter("sandbox")
            started = time.monotonic()
            try:
                await self._sandbox.begin()
            finally:
                self._spent("sandbox", started)
        if agent.setup is not None:
            self._enter("setup")
            self._setup_entered = True
            started = time.monotonic()
            try:
                context = self._driver.context(AgentSession(), None)
                await self._scope.call("setup", None, agent.setup, context, on_cancel=context.cancelled.set)
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001 - the agent's hook is a guest
                raise self._driver.fail(self._hook_fault("setup", error)) from None
            finally:
                self._spent("setup", started)
        self._enter("eval")
        started = time.monotonic()
        try:
            await self._call_eval()
        finally:
            self._driver.eval_over = True
            self._spent("eval", started)
        self._find_left_sends()
        await self._find_left_tasks()

    async def _call_eval(self) -> None:
        running_eval.set(True)
        CURRENT.set(self._driver)
        OWN_TASKS.set(self._tasks)
        spec = self._plan.eval
        t = EvalContext(self._driver)
        await (spec.function(t) if spec.row is MISSING else spec.function(t, spec.row))
        self._driver.eval_returned = True

    def _find_left_sends(self) -> None:
        for sending in self._driver.left_sendings():
            code = "send-unfinished" if sending.started else sending.not_awaited
            self._driver.author_fault(AuthorError(code, call=sending.call), sending.site)
            return

    async def _find_left_tasks(self) -> None:
        await self._tasks.settle(self._scope.host.grace)
        self._find_failed_tasks()
        for _, name, site in self._tasks.unfinished():
            self._driver.author_fault(AuthorError("task-unfinished", task=name), site)

    def _find_failed_tasks(self) -> None:
        for error, site in self._tasks.failed():
            fault = fault_of_error(AuthorError("task-failed", error=error_text(error)), "eval", site)
            self._driver.fail(replace(fault, trace=user_frames(error, self._root)))

    def _take(self, error: BaseException) -> None:
        """Decide what an exception of the eval function means."""
        foreign = foreign_stop(error, self._driver)
        if foreign is not None:
            owner = foreign.owner if isinstance(foreign.owner, Driver) else self._driver
            self._driver.fail(fault_of_error(owner.foreign(), "eval", last_project_site(foreign, self._root)))
            return
        if isinstance(control_flow(error), SkipEval):
            self._find_failed_tasks()
        if control_flow(error) is not None:
            if not isinstance(control_flow(error), SkipEval):
                self._driver.skip_reason = None
            return
        real = next((leaf for leaf in leaves(error) if not isinstance(leaf, StopEval)), error)
        failed = failed_assert(real, self._root) if isinstance(real, AssertionError) else None
        if failed is not None:
            name, site, evaluation = failed
            self._driver.add(Entry(name=name, site=site, group=None, evaluation=evaluation))
        elif isinstance(real, NiceevalError):
            # A place that is not absolute is as a person reads it, from the current folder: not to be stored.
            said = real.place if real.place is not None and os.path.isabs(real.place.file) else None
            at = CallSite(said.file, said.line, said.column) if said else last_project_site(real, self._root)
            self._driver.fail(fault_of_error(real, "eval", at))
        else:
            where = last_project_site(real, self._root)
            scope = failure_class(real).scope
            self._driver.fail(fault_of_guest(real, self._driver.phase, where, self._root, scope))

    def _hook_fault(self, phase: Phase, error: BaseException) -> Fault:
        site = last_project_site(error, self._root)
        if isinstance(error, NiceevalError):
            return fault_of_error(error, phase, site)
        return fault_of_guest(error, phase, site, self._root, failure_class(error).scope)

    def _note_where(self) -> None:
        # Once the guests are being cancelled their calls end, and nothing says any more where the time was spent.
        driver = self._driver
        self._closing = (driver.phase, driver.turn, driver.turn_site)

    def _timeout_fault(self, timeout: GuestTimeout) -> Fault:
        driver = self._driver
        phase, turn, site = self._closing or (driver.phase, driver.turn, driver.turn_site)
        where = f"{phase}, turn {turn + 1}" if phase == "send" and turn is not None else phase
        message = f"{timeout.limit:g}s passed in {where}"
        if self._scope.abandoned:
            message += f"; {self._scope.abandoned[0]} ignored the cancellation and was abandoned"
        lines = driver.log.lines
        return Fault(
            code="timeout",
            phase=phase,
            message=message,
            site=site if phase == "send" else None,
            trace=f"last log  {lines[-1].text[:300]}" if lines else None,
        )

    async def _collect_diff(self) -> None:
        if self._sandbox is None:
            return
        started = time.monotonic()
        try:
            await self._sandbox.collect(self._enter)
        finally:
            if self._driver.phase == "diff":
                self._spent("diff", started)

    async def _evaluate_deferred(self) -> None:
        if not self._driver.collector.waiting():
            return
        self._enter("judge")
        # A scope of its own: the eval's may be closing still, for guests that do not end.
        scope = GuestScope(self._scope.host, self._scope.label)
        try:
            await scope.call("evaluation", self._limits.evaluation, self._evaluate_waiting)
        except GuestTimeout as timeout:
            message = f"the assertions at the end took longer than {timeout.limit:g}s"
            self._driver.fail(Fault(code="timeout", phase="judge", message=message))

    async def _evaluate_waiting(self) -> None:
        for entry in self._driver.collector.waiting():
            assert entry.deferred is not None
            try:
                entry.evaluation = entry.deferred()
            except StopEval:
                continue
            except BaseException as error:  # noqa: BLE001 - a predicate that the author gave
                site = last_project_site(error, self._root) or entry.site
                self._driver.fail(fault_of_guest(error, "eval", site, self._root))

    async def _judge(self) -> None:
        """What a model decides: each judgement has its own limit, so that they all end."""
        if gating(self._driver):
            check_calibrations(self._driver, await asyncio.to_thread(records.load, self._root))
        if all(asked.entry.evaluation is not None for asked in self._driver.judgements):
            return
        self._enter("judge")
        started = time.monotonic()
        try:
            await settle_all(self._driver, self._scope.label)
        finally:
            self._spent("judge", started)

    async def _end(self) -> None:
        # A shield is a task of its own, which most attempts have no need of.
        if (
            self._tears_down
            or self._sandbox is not None
            or self._driver.left_sendings()
            or any(self._tasks.unfinished())
        ):
            await shielded(self._clean_up())

    @property
    def _tears_down(self) -> bool:
        agent = self._plan.experiment.agent
        if agent.teardown is None or (self._sandbox is not None and not self._sandbox.is_ready):
            return False
        return agent.setup is None or self._setup_entered

    async def _clean_up(self) -> None:
        await self._cancel_left_tasks()
        if not self._tears_down and self._sandbox is None:
            return
        self._enter("teardown")
        started = time.monotonic()
        try:
            if self._tears_down:
                await self._tear_down()
        finally:
            if self._sandbox is not None:
                await self._sandbox.end(self._verdict() if self._finished else None)
            self._spent("teardown", started)

    def _verdict(self) -> Verdict:
        driver = self._driver
        return attempt_verdict(
            driver.collector.entries,
            errored=driver.fault is not None,
            skipped=driver.skip_reason is not None,
            strict=self._strict,
        )

    async def _tear_down(self) -> None:
        agent = self._plan.experiment.agent
        assert agent.teardown is not None
        scope = GuestScope(self._scope.host, self._scope.label)
        try:
            context = self._driver.context(AgentSession(), None)
            limit = self._limits.teardown
            await scope.call("teardown", limit, agent.teardown, context, on_cancel=context.cancelled.set)
        except BaseException as error:  # noqa: BLE001 - a guest; the verdict stands, the failure is reported
            self._driver.log.diagnose(
                Diagnostic(
                    code="teardown-failed", level="error", message=f"{agent.name}: teardown: {error_text(error)}"
                )
            )

    async def _cancel_left_tasks(self) -> None:
        tasks = {sending.task for sending in self._driver.left_sendings() if sending.task is not None}
        tasks.update(task for task, _, _ in self._tasks.unfinished())
        # What was abandoned has been cancelled and waited for already.
        tasks = {task for task in tasks if not task.done() and task not in self._scope.host.abandoned}
        for task in tasks:
            task.cancel()
        if tasks:
            _, running = await asyncio.wait(tasks, timeout=self._scope.host.grace)
            self._scope.host.abandoned.update(running)

    def _enter(self, phase: Phase) -> None:
        self._driver.phase = phase
        self._on_progress(phase)

    def _spent(self, phase: Phase, started: float) -> None:
        self._phases[phase] = round((time.monotonic() - started) * 1000)
