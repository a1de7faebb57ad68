"""A scope: what one receiver of assertions can see (a turn, a session, the attempt), with its merged coverage.

Scopes are built from turn records, which the driver appends as turns end. Everything here is a pure function of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from niceeval._evidence.coverage import downgrade, merge
from niceeval._evidence.facts import IndexedEvent, SessionFacts, SubagentCall, ToolCall, TurnEvents, fold_session
from niceeval._evidence.prices import CostGap
from niceeval._model.coverage import Coverage, MergedCoverage
from niceeval._model.turn import TurnStatus
from niceeval._model.usage import Usage, add_usage


@dataclass(slots=True, kw_only=True)
class TurnRecord:
    """One turn as the attempt's log holds it. `number` counts all turns of the attempt from 0, in order of their start.

    `events` begin with the user's message; each carries its index in the attempt's stream. `coverage` is the agent's
    declaration made worse by the boundary; pairing may make it worse still. `cost` is None where it is not known, and
    then `cost_gap` says why. `waits` says that the agent stopped for a human, also where the runner calls the turn
    failed: its calls are open all the same. `lost` says that the send ended in an error: its events were never seen;
    `accepted` is false where the agent said that it had not taken the input in.
    """

    number: int
    session: int
    coverage: MergedCoverage
    events: list[IndexedEvent] = field(default_factory=list)
    status: TurnStatus = "completed"
    waits: bool = False
    data: Any = None
    usage: Usage | None = None
    cost: Decimal | None = None
    cost_gap: CostGap | None = None
    lost: bool = False
    accepted: bool = True
    start_ms: int = 0
    end_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What an assertion is evaluated on. `last_status` holds the status of each session's last turn."""

    turns: Sequence[TurnRecord]
    events: Sequence[IndexedEvent]
    tool_calls: Sequence[ToolCall]
    subagent_calls: Sequence[SubagentCall]
    coverage: MergedCoverage
    last_status: Sequence[TurnStatus]

    @property
    def usage(self) -> Usage | None:
        """The sum over the scope's turns; None where no turn reported any."""
        return add_usage(turn.usage for turn in self.turns if turn.usage is not None)


def session_facts(turns: Sequence[TurnRecord]) -> SessionFacts:
    """The facts of one session's turns, lost ones included (they hold the user's message only)."""
    return fold_session(
        TurnEvents(turn=turn.number, waiting=turn.waits and not turn.lost, events=turn.events) for turn in turns
    )


def session_scope(turns: Sequence[TurnRecord], facts: SessionFacts | None = None) -> Scope:
    """The scope of one conversation line."""
    facts = facts or session_facts(turns)
    return Scope(
        turns=turns,
        events=turns[0].events if len(turns) == 1 else [event for turn in turns for event in turn.events],
        tool_calls=facts.tool_calls,
        subagent_calls=facts.subagent_calls,
        coverage=merge([_turn_coverage(turn, facts) for turn in turns]) if turns else {},
        last_status=[turns[-1].status] if turns else [],
    )


def turn_scope(turn: TurnRecord, facts: SessionFacts) -> Scope:
    """The scope of one turn; `facts` are those of its whole session, so that later results close its calls."""
    return Scope(
        turns=[turn],
        events=turn.events,
        tool_calls=[call for call in facts.tool_calls if call.turn == turn.number],
        subagent_calls=[call for call in facts.subagent_calls if call.turn == turn.number],
        coverage=_turn_coverage(turn, facts),
        last_status=[turn.status],
    )


def attempt_scope(
    sessions: Sequence[Sequence[TurnRecord]], facts_of: Callable[[int], SessionFacts] | None = None
) -> Scope:
    """The scope of the whole attempt: every session that had a turn, events in the order they happened.

    `facts_of` gives the facts of a session by its place; without it they are folded here.
    """
    scopes = [
        session_scope(turns, facts_of(number) if facts_of else None) for number, turns in enumerate(sessions) if turns
    ]
    if len(scopes) == 1:
        return scopes[0]
    events = [event for scope in scopes for event in scope.events]
    return Scope(
        turns=sorted((turn for scope in scopes for turn in scope.turns), key=lambda turn: turn.number),
        events=sorted(events, key=lambda indexed: indexed[0]),
        tool_calls=sorted((call for scope in scopes for call in scope.tool_calls), key=lambda call: call.event),
        subagent_calls=sorted((call for scope in scopes for call in scope.subagent_calls), key=lambda call: call.event),
        coverage=merge([scope.coverage for scope in scopes]) if scopes else {},
        last_status=[status for scope in scopes for status in scope.last_status],
    )


def _turn_coverage(turn: TurnRecord, facts: SessionFacts) -> MergedCoverage:
    anomalies = facts.anomalies.get(turn.number)
    if not anomalies:
        return turn.coverage
    return downgrade(
        turn.coverage,
        [("actions", Coverage.partial(f"{anomaly} (turn {turn.number + 1})")) for anomaly in anomalies],
    )
