"""One attempt's drive: it sends turns through the guest boundary, keeps the log, and remembers the first fault.

`t`, sessions and turn handles are thin faces of it. After `seal` nothing has an effect any more; what still comes is
counted.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from niceeval._base.callsite import CallSite, call_site
from niceeval._base.errors import AuthorError, NiceevalError, StopEval
from niceeval._base.guest import GuestScope
from niceeval._base.json_values import json_text, normalise_json
from niceeval._base.plain_text import clean_text
from niceeval._drive.collecting import Collected
from niceeval._drive.faults import Fault, error_text, fault_of_error, fault_of_guest
from niceeval._drive.judgements import Asked
from niceeval._drive.log import AttemptLog
from niceeval._drive.own_tasks import others_tasks
from niceeval._drive.retrying import DEFAULT_BACKOFF, Backoff, Classifier, failure_class
from niceeval._drive.send_windows import in_window, results_of
from niceeval._drive.sending import Sending
from niceeval._drive.structured import OutputForm
from niceeval._evidence.coverage import declared, downgrade
from niceeval._evidence.normalise import NormalTurn, normalise_turn
from niceeval._evidence.prices import Price, turn_cost
from niceeval._evidence.scope import Scope, TurnRecord
from niceeval._judge.availability import channel_gap
from niceeval._judge.collector import AssertionHandle, Collector, Entry
from niceeval._judge.evaluation import Evaluation
from niceeval._judging.desk import JudgeDesk
from niceeval._model.agent import Agent, AgentContext, AgentSession, SandboxAgentContext
from niceeval._model.assertion import UnavailableReason
from niceeval._model.coverage import Coverage
from niceeval._model.events import Loc
from niceeval._model.json_types import JsonValue
from niceeval._model.judge import JudgeConfig
from niceeval._model.result import Diagnostic, Phase, Retry
from niceeval._model.sandbox import Sandbox
from niceeval._model.turn_input import TurnInput
from niceeval._sandbox.workspace import Workspace

GROUP: ContextVar[str | None] = ContextVar("niceeval_group", default=None)
"""The title of the group the author's code is in; a context variable, so that parallel tasks have their own."""

CURRENT: ContextVar[Driver | None] = ContextVar("niceeval_attempt", default=None)
"""The attempt whose eval function is being run."""

S = TypeVar("S", bound=StopEval)

MAX_TURNS = 10_000
"""Sends that one attempt may make."""
MAX_LATE = 100
"""Calls after the end that are refused; an eval that catches the refusals and goes on holds the loop for ever."""


async def _rest() -> None:
    await asyncio.get_running_loop().create_future()


class OnProgress(Protocol):
    """Told what the attempt is doing now; for the live display only."""

    def __call__(
        self,
        phase: Phase,
        turn: int | None = None,
        text: str | None = None,
        current: float | None = None,
        total: float | None = None,
    ) -> None: ...


@lru_cache(maxsize=1024)
def _below(root: Path, file: str) -> str:
    """A source file's path relative to the root, with `/`. Every assertion of a run asks, about a few files."""
    relative = os.path.relpath(file, root) if os.path.isabs(file) else file
    return relative.replace(os.sep, "/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What an attempt is about: fixed before it starts."""

    agent: Agent
    model: str | None
    reasoning_effort: str | None
    flags: Mapping[str, JsonValue]
    experiment_id: str
    eval_id: str
    attempt: int
    root: Path
    folder: Path
    pricing: tuple[Mapping[str, Price], ...]
    judge: JudgeConfig | None = None
    classifiers: tuple[Classifier, ...] = ()
    backoff: Backoff = DEFAULT_BACKOFF


class Driver:
    """The state of one attempt while it runs. `fault` is the first thing that made it errored.

    `workspace` and `sandbox` are those of a sandbox agent's attempt, from when they are ready; None before, and for a
    direct agent. `sandbox` is what agent and eval may use: it refuses once the attempt is over.
    """

    def __init__(self, setting: Setting, scope: GuestScope, on_progress: OnProgress, desk: JudgeDesk) -> None:
        self.setting = setting
        self.scope = scope
        self.log = AttemptLog(declared(setting.agent.evidence_coverage))
        self.collector = Collector()
        self.judgements: list[Asked] = []
        self.desk = desk
        self.fault: Fault | None = None
        self.skip_reason: str | None = None
        self.workspace: Workspace | None = None
        self.sandbox: Sandbox | None = None
        self.collected = Collected()
        self.phase: Phase = "eval"
        self.turn: int | None = None
        self.turn_site: CallSite | None = None
        self.eval_over = False
        self.eval_returned = False
        self.sealed = False
        self.late = 0
        self._on_progress = on_progress
        self._sendings: list[Sending[Any]] = []
        self._busy: dict[int, int] = {}

    # Faults -----------------------------------------------------------------------------------------------------

    def fail(self, fault: Fault) -> StopEval:
        """Remember the attempt's first fault; the result ends the eval when it is raised."""
        if self.sealed:
            self.late += 1
        elif self.fault is None:
            self.fault = fault
        return self.owned(StopEval(fault.message))

    def stop(self, why: str) -> StopEval:
        """Ends the eval for a reason that an assertion entry has recorded already."""
        return self._foreign() or self.owned(StopEval(why))

    def owned(self, stop: S) -> S:
        """A stop of this attempt's eval and of no other."""
        stop.owner = self
        return stop

    def author_fault(self, error: NiceevalError, site: CallSite | None = None) -> StopEval:
        """An author's mistake, at the line that made it."""
        return self._foreign(site) or self.fail(fault_of_error(error, "eval", site or call_site()))

    def require_own(self, site: CallSite | None = None) -> None:
        """Stop the eval of another attempt that uses this one's `t`, sessions or turns: it would end for no reason."""
        foreign = self._foreign(site)
        if foreign is not None:
            raise foreign

    def _foreign(self, site: CallSite | None = None) -> StopEval | None:
        current = CURRENT.get()
        if current is None or current is self:
            return None
        return current.fail(fault_of_error(self.foreign(), "eval", site or call_site()))

    def foreign(self) -> AuthorError:
        """What an eval is told that uses this attempt and is another one's."""
        return AuthorError("foreign-context", eval=self.setting.eval_id)

    def loc(self, site: CallSite) -> Loc | None:
        """A place relative to the project's root; None for code that has no file."""
        if site.line <= 0:
            return None
        return Loc(file=_below(self.setting.root, site.file), line=site.line, column=site.column)

    # Recording --------------------------------------------------------------------------------------------------

    def record(
        self,
        name: str,
        site: CallSite,
        *,
        evaluation: Evaluation | None = None,
        deferred: Callable[[], Evaluation] | None = None,
        **settings: Any,
    ) -> AssertionHandle:
        """One assertion entry, evaluated already or at the end."""
        self.require_recordable(site)
        return self.add(
            Entry(
                name=name,
                site=site,
                group=GROUP.get(),
                evaluation=evaluation,
                deferred=deferred,
                guard=self.require_own,
                **settings,
            )
        )

    def require_recordable(self, site: CallSite) -> None:
        """Stop where nothing can be recorded any more, or where it is another attempt's to record."""
        self.require_own(site)
        self._require_unsealed()
        self._require_in_time(site)

    def add(self, entry: Entry) -> AssertionHandle:
        """Keep an entry; also one of what the eval ended with."""
        try:
            return self.collector.add(entry)
        except AuthorError as error:
            raise self.author_fault(error, entry.site) from None

    def evaluate(self, evaluate: Callable[[Scope], Evaluation], scope: Scope, site: CallSite) -> Evaluation:
        """Evaluate on a scope; a condition that cannot be asked is the author's fault, at the assertion's line."""
        try:
            return evaluate(scope)
        except AuthorError as error:
            raise self.author_fault(error, site) from None

    def evaluate_at_end(self, evaluate: Callable[[Scope], Evaluation], scope: Scope, site: CallSite) -> Evaluation:
        """As `evaluate`, when there is no eval function to stop any more: the entry is unavailable, and says why."""
        try:
            return evaluate(scope)
        except AuthorError as error:
            fault = fault_of_error(error, "eval", site)
        self.fail(fault)
        return Evaluation(reason=UnavailableReason(code=fault.code, message=fault.message))

    # Sending ----------------------------------------------------------------------------------------------------

    def sending(
        self,
        call: str,
        site: CallSite,
        make: Callable[[], Any],
        result_names: frozenset[str],
        kind: type[Sending[Any]] = Sending,
    ) -> Sending[Any]:
        """An awaitable for one send or call of the sandbox, registered so that one nobody awaits is found."""
        if self.late > MAX_LATE:
            return kind(_rest, call, site)
        self.require_own(site)
        self._require_unsealed()
        self._require_in_time(site)
        sending = kind(make, call, site, result_names)
        self._sendings.append(sending)
        if len(self._sendings) > 64:
            self._sendings = [held for held in self._sendings if not held.finished]
        return sending

    def left_sendings(self) -> list[Sending[Any]]:
        """Sends that were never awaited, or that nobody waited for to the end."""
        return [sending for sending in self._sendings if not sending.finished]

    async def send(
        self, session: AgentSession, number: int, input: TurnInput, site: CallSite, form: OutputForm | None
    ) -> tuple[TurnRecord, Any, str | None]:
        """One turn: the record, the converted data, and why there is none (None: none was wanted, or it is there)."""
        self.require_own()
        self._require_free_line(number, site)
        self._busy[number] = site.line
        play = partial(self._play, session, number, input, site, form is not None)
        try:
            workspace = self.workspace
            record = await (play() if workspace is None else in_window(workspace, play, partial(results_of, self.log)))
        finally:
            self._busy.pop(number, None)
            if not self._busy:
                self.phase = "eval"
        data, missing = self._judge_output(record, form, site) if form is not None else (None, None)
        return record, data, missing

    async def _play(
        self, session: AgentSession, number: int, input: TurnInput, site: CallSite, wants_data: bool
    ) -> TurnRecord:
        """The turn itself, from the user's message to the agent's last event."""
        self._require_unsealed()
        record = self.log.begin_turn(number, clean_text(input.text, 1_000_000)[0], self.loc(site))
        self.phase, self.turn, self.turn_site = "send", record.number, site
        self._on_progress("send", record.number + 1)
        normal = await self._call_agent(session, record, input, site, wants_data)
        self._require_unsealed()
        cost, gap = turn_cost(normal.usage, self.setting.model, self.setting.pricing)
        self.log.end_turn(record, normal, cost, gap)
        return record

    def _require_unsealed(self) -> None:
        if self.sealed:
            self.late += 1
            raise self.owned(StopEval("the attempt is sealed"))

    def _require_in_time(self, site: CallSite) -> None:
        if self.eval_over:
            # Where the eval was stopped, what it had started is stopped after it.
            if self.eval_returned:
                self.fail(fault_of_error(AuthorError("recorded-late"), "eval", site))
            # Nobody waits for the exception of a task that was left behind, and asyncio would print one.
            raise asyncio.CancelledError

    def _require_free_line(self, number: int, site: CallSite) -> None:
        self._require_unsealed()
        if self.eval_over:
            # A task that the eval left behind: it was reported, and what it would send now belongs to nobody. Nobody
            # waits for its exception either, and asyncio would print one.
            raise asyncio.CancelledError
        if number in self._busy:
            raise self.author_fault(AuthorError("session-busy", line=self._busy[number]), site)
        if sum(len(turns) for turns in self.log.sessions) >= MAX_TURNS:
            raise self.author_fault(AuthorError("too-many-turns", limit=f"{MAX_TURNS:,}"), site)

    async def _call_agent(
        self, session: AgentSession, record: TurnRecord, input: TurnInput, site: CallSite, wants_data: bool
    ) -> NormalTurn:
        agent = self.setting.agent
        try:
            value = await self._accepted(session, record, input, site)
            return normalise_turn(value, agent=agent.name, declared=agent.evidence_coverage, wants_data=wants_data)
        except asyncio.CancelledError:
            self._lose(record, "was cancelled")
            raise
        except NiceevalError as error:
            self._lose(record, "ended in an error")
            raise self.fail(fault_of_error(error, "send", site)) from None
        except StopEval:
            raise
        except BaseException as error:  # noqa: BLE001 - what was returned may be anything, and raise when it is read
            self._lose(record, "ended in an error")
            raise self.fail(fault_of_guest(error, "send", site, self.setting.root)) from None

    async def _accepted(self, session: AgentSession, record: TurnRecord, input: TurnInput, site: CallSite) -> object:
        """What `send` returns, made again where the input was certainly not accepted."""
        retry = 1
        while True:
            context = self.context(session, record.number)
            try:
                with others_tasks():
                    return await self.scope.call(
                        "send", None, self.setting.agent.send, input, context, on_cancel=context.cancelled.set
                    )
            except (asyncio.CancelledError, NiceevalError):
                raise
            except BaseException as error:  # noqa: BLE001 - a guest: whatever it raises is this attempt's error
                found = failure_class(error, self.setting.classifiers, self._classifier_broke)
                refused = found.retryable and isinstance(error, Exception)
                if not refused or not self._may_retry(retry):
                    record.accepted = not refused
                    self._lose(record, "ended in an error")
                    raise self.fail(fault_of_guest(error, "send", site, self.setting.root, found.scope)) from None
                seconds = self._note_retry(record, retry, error, found.reason)
            await asyncio.sleep(seconds)
            self._require_unsealed()
            self._on_progress("send", record.number + 1, "")
            retry += 1

    def _may_retry(self, retry: int) -> bool:
        backoff = self.setting.backoff
        return retry < backoff.tries_per_send and len(self.log.retries) < backoff.retries_per_attempt

    def _note_retry(self, record: TurnRecord, retry: int, error: BaseException, reason: str) -> float:
        """Say that the input is sent again; after how many seconds."""
        seconds = self.setting.backoff.wait(retry, error)
        said = clean_text(str(reason) or error_text(error), 200)[0]
        self.log.retries.append(Retry(turn=record.number, wait_ms=round(seconds * 1000), reason=said))
        self._on_progress("send", record.number + 1, f"retry {retry} in {math.ceil(seconds)}s ({said})")
        return seconds

    def _classifier_broke(self, problem: str) -> None:
        self.log.diagnose(Diagnostic(code="classify-failed", level="error", message=problem))

    def _lose(self, record: TurnRecord, why: str) -> None:
        if not self.sealed:
            self.log.lose_turn(record, why)

    def context(self, session: AgentSession, turn: int | None) -> AgentContext:
        """What the adapter's callbacks receive."""
        setting = self.setting
        # A sandbox agent's callbacks are called only while there is a sandbox.
        made = AgentContext if self.sandbox is None else partial(SandboxAgentContext, sandbox=self.sandbox)
        return made(
            session=session,
            model=setting.model,
            reasoning_effort=setting.reasoning_effort,
            flags=setting.flags,
            experiment_id=setting.experiment_id,
            eval_id=setting.eval_id,
            attempt=setting.attempt,
            log=lambda message: self._adapter_log(message, turn),
            progress=lambda message, *, current=None, total=None: self._on_progress(
                self.phase, None if turn is None else turn + 1, str(message), current, total
            ),
            diagnostic=lambda code, level, message, data=None: self._diagnose(code, level, message, data, turn),
        )

    def _adapter_log(self, message: str, turn: int | None) -> None:
        if self.sealed:
            self.late += 1
        else:
            self.log.say("adapter", clean_text(str(message), 1_000_000)[0], turn)

    def _diagnose(
        self, code: str, level: Literal["info", "warning", "error"], message: str, data: JsonValue, turn: int | None
    ) -> None:
        if self.sealed:
            self.late += 1
            return
        checked: Literal["info", "warning", "error"] = level if level in ("info", "warning", "error") else "warning"
        self.log.diagnose(
            Diagnostic(
                code=clean_text(str(code), 200)[0],
                level=checked,
                message=clean_text(str(message), 4_000)[0],
                data=normalise_json(data)[0],
                turn=turn,
            )
        )

    def _judge_output(self, record: TurnRecord, form: OutputForm, site: CallSite) -> tuple[Any, str | None]:
        if record.data is None:
            missing = "the agent gave no data"
            gap = channel_gap(record.coverage, "data")
            evaluation = Evaluation(expected=form.name, received="no data", detail=missing, reason=gap)
        else:
            try:
                return form.convert(record.data), None
            except ValueError as error:
                missing = str(error)
                evaluation = Evaluation(expected=form.name, received=json_text(record.data, 2_000), detail=missing)
        self.record("output schema", site, evaluation=evaluation)
        if evaluation.reason is None:
            record.status = "failed"
        else:
            # An answer that does not fit makes a turn failed, and this one's was not seen.
            unseen = Coverage.partial("whether the structured answer fits is not known")
            record.coverage = downgrade(record.coverage, [("status", unseen)])
        return None, missing

    def seal(self) -> None:
        """From here on nothing changes the attempt."""
        if not self.sealed:
            self._diagnose_pairing()
        self.sealed = True

    def _diagnose_pairing(self) -> None:
        for session in range(len(self.log.sessions)):
            for turn, problem in self.log.facts_of(session).violations:
                self.log.diagnose(Diagnostic(code="call-pairing", level="warning", message=problem, turn=turn))
