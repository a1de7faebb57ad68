"""Running a scenario as one attempt of the runner: same boundary, same hooks, same log as in a real run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from niceeval._base.errors import Place
from niceeval._base.guest import GuestHost
from niceeval._discover.specs import ConfigSpec, EvalSpec, ExperimentSpec
from niceeval._drive.context import EvalContext
from niceeval._drive.driver import Driver
from niceeval._drive.faults import Fault
from niceeval._evidence.facts import SubagentCall, ToolCall
from niceeval._evidence.scope import TurnRecord
from niceeval._model.agent import Agent
from niceeval._model.events import InputRequest, InputRequested
from niceeval._model.json_types import JsonValue
from niceeval._model.result import Diagnostic
from niceeval._plan.plan import AttemptPlan, RunPlan
from niceeval._run.attempt import run_attempt

NAME = "check_agent"
Call: TypeAlias = ToolCall | SubagentCall


@dataclass(slots=True)
class Notes:
    """What a scenario writes down while it runs: the ids of its conversation lines, at each time they were read."""

    session_ids: list[tuple[int, str]] = field(default_factory=list)

    def session_id(self, line: int, id: str | None) -> None:
        """Keep an id that the adapter captured; None is none."""
        if id is not None:
            self.session_ids.append((line, id))


Body: TypeAlias = Callable[[EvalContext, Notes], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """One scenario that was run: its turns, in conversation lines, and what made it end early, if anything."""

    name: str
    driver: Driver
    notes: Notes

    @property
    def fault(self) -> Fault | None:
        """What made the attempt errored."""
        return self.driver.fault

    @property
    def lines(self) -> list[list[TurnRecord]]:
        """The conversation lines with the turns that came back; line 0 is the main one."""
        return [[turn for turn in line if not turn.lost] for line in self.driver.log.sessions]

    @property
    def turns(self) -> list[TurnRecord]:
        """Every turn that came back."""
        return [turn for line in self.lines for turn in line]

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """What the boundary and the adapter had to say."""
        return self.driver.log.diagnostics

    def calls(self, line: int = 0) -> list[Call]:
        """Tool and subagent calls of one line, in order."""
        facts = self.driver.log.facts_of(line)
        calls: list[Call] = [*facts.tool_calls, *facts.subagent_calls]
        return sorted(calls, key=lambda call: call.event)

    def waiting_calls(self, turn: TurnRecord) -> list[Call]:
        """The calls of a waiting turn that had no result when it stopped."""
        last = turn.events[-1][0]
        return [
            call
            for call in self.calls(turn.session)
            if call.turn == turn.number and (call.result_event is None or call.result_event > last)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What every scenario runs under; `timeout` in seconds, for one scenario."""

    agent: Agent
    host: GuestHost
    model: str | None
    reasoning_effort: str | None
    flags: Mapping[str, JsonValue]
    timeout: float


async def drive(name: str, body: Body, conditions: Conditions) -> Drive:
    """Run one scenario. Whatever the agent does, it ends here, at the latest when its time has passed."""
    notes = Notes()

    async def function(t: EvalContext) -> None:
        await body(t, notes)

    attempt = _attempt(name, function, conditions)
    plan = RunPlan(
        root=Path.cwd(),
        config=ConfigSpec(),
        attempts=(attempt,),
        experiments=(attempt.experiment,),
        concurrency=1,
        strict=False,
        title=NAME,
    )
    finished = await run_attempt(attempt, plan, conditions.host, name, _unwatched)
    return Drive(name=name, driver=finished.driver, notes=notes)


def _attempt(name: str, function: Callable[[EvalContext], Awaitable[None]], conditions: Conditions) -> AttemptPlan:
    eval_spec = EvalSpec(
        id=name, function=function, file=Path.cwd() / NAME, path=NAME, line=1, column=1, base=name, case=None
    )
    experiment = ExperimentSpec(
        id=NAME,
        path=NAME,
        place=Place(NAME, 1, 1),
        agent=conditions.agent,
        model=conditions.model,
        reasoning_effort=conditions.reasoning_effort,
        flags=conditions.flags,
    )
    return AttemptPlan(index=0, eval=eval_spec, experiment=experiment, attempt=0, timeout=conditions.timeout)


def _unwatched(
    phase: object, turn: object = None, text: object = None, current: object = None, total: object = None
) -> None:
    """Nobody watches the progress of a scenario."""


def asked(turn: TurnRecord) -> list[InputRequest]:
    """The requests that a turn waits for; none where it does not wait."""
    if turn.lost or turn.status != "waiting":
        return []
    return [event.request for _, event in turn.events if isinstance(event, InputRequested)]


def with_agent(conditions: Conditions, agent: Agent) -> Conditions:
    """The same conditions for a changed agent."""
    return replace(conditions, agent=agent)
