"""Folding an event stream into facts: tool calls with their results, subagent calls, open questions.

Pairing runs over a session: a result closes the open call of the same id, also one of an earlier turn, and the call
belongs to the turn that made it. What cannot be paired is an anomaly, which lowers the `actions` channel of the turn it
is found in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar

from niceeval._model.events import (
    ActionCalled,
    ActionResult,
    Compaction,
    InputRequest,
    InputRequested,
    Message,
    StreamEvent,
    SubagentCalled,
    SubagentCompleted,
)
from niceeval._model.json_types import JsonValue

CallStatus: TypeAlias = Literal["completed", "failed", "rejected", "pending", "unknown"]
IndexedEvent: TypeAlias = tuple[int, StreamEvent]


@dataclass(slots=True, kw_only=True)
class ToolCall:
    """One tool call. `event` and `result_event` are indices in the stream; `turn` is the turn that made the call.

    `pending`: its turn waits for a human; `unknown`: no result was seen. Neither matches an `output` condition.
    """

    call_id: str
    name: str
    tool: str | None
    input: JsonValue
    event: int
    turn: int
    status: CallStatus = "unknown"
    output: JsonValue = None
    result_event: int | None = None


@dataclass(slots=True, kw_only=True)
class SubagentCall:
    """One call of another agent; fields as for a ToolCall."""

    call_id: str
    name: str
    remote_url: str | None
    event: int
    turn: int
    status: CallStatus = "unknown"
    output: JsonValue = None
    result_event: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEvents:
    """One turn's own events. `waiting` says that the turn stopped for a human."""

    turn: int
    waiting: bool
    events: Sequence[IndexedEvent]


@dataclass(slots=True, kw_only=True)
class SessionFacts:
    """What a session's events come to.

    `anomalies` holds, per turn, why its `actions` are not complete; `violations` those of them, as (turn, text), that
    break the adapter contract (a call whose result is not there yet does not).
    """

    tool_calls: list[ToolCall] = field(default_factory=list)
    subagent_calls: list[SubagentCall] = field(default_factory=list)
    anomalies: dict[int, list[str]] = field(default_factory=dict)
    violations: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedFacts:
    """What `derive_facts` finds in a plain stream."""

    tool_calls: tuple[ToolCall, ...]
    subagent_calls: tuple[SubagentCall, ...]
    pending_requests: tuple[InputRequest, ...]
    parked: bool
    message_count: int
    compactions: int


C = TypeVar("C", ToolCall, SubagentCall)


class _Pairing:
    def __init__(self) -> None:
        self.facts = SessionFacts()
        self._open_tools: dict[str, list[ToolCall]] = {}
        self._open_subagents: dict[str, list[SubagentCall]] = {}

    def add(self, turn: int, index: int, event: StreamEvent) -> None:
        if isinstance(event, ActionCalled):
            call = ToolCall(
                call_id=event.call_id, name=event.name, tool=event.tool, input=event.input, event=index, turn=turn
            )
            self.facts.tool_calls.append(call)
            self._open(self._open_tools, call, turn)
        elif isinstance(event, ActionResult):
            self._close(self._open_tools, event, turn, index)
        elif isinstance(event, SubagentCalled):
            subagent = SubagentCall(
                call_id=event.call_id, name=event.name, remote_url=event.remote_url, event=index, turn=turn
            )
            self.facts.subagent_calls.append(subagent)
            self._open(self._open_subagents, subagent, turn)
        elif isinstance(event, SubagentCompleted):
            self._close(self._open_subagents, event, turn, index)

    def _open(self, calls: dict[str, list[C]], call: C, turn: int) -> None:
        if call.call_id in calls:
            self._violation(turn, f"call id {call.call_id} is used more than once")
        calls.setdefault(call.call_id, []).append(call)

    def _close(
        self, calls: Mapping[str, list[C]], event: ActionResult | SubagentCompleted, turn: int, index: int
    ) -> None:
        open_calls = calls.get(event.call_id)
        if open_calls is None:
            self._violation(turn, f"a result for call {event.call_id}, which was never made")
        elif not open_calls:
            self._violation(turn, f"call {event.call_id} has more than one result; the first counts")
        elif len(open_calls) > 1:
            # To guess which call it belongs to could pass an assertion on the wrong one.
            self._violation(turn, f"a result for call {event.call_id}, of which several are open; it counts for none")
        else:
            call = open_calls.pop()
            call.status = event.status
            call.output = event.output
            call.result_event = index

    def _violation(self, turn: int, text: str) -> None:
        self._note(turn, text)
        self.facts.violations.append((turn, text))

    def _note(self, turn: int, text: str) -> None:
        self.facts.anomalies.setdefault(turn, []).append(text)

    def finish(self, last_turn: int, waiting: bool) -> SessionFacts:
        left: list[ToolCall | SubagentCall] = [call for calls in self._open_tools.values() for call in calls]
        left += [call for calls in self._open_subagents.values() for call in calls]
        for call in left:
            if waiting and call.turn == last_turn:
                call.status = "pending"
            else:
                self._note(call.turn, f"{call.call_id} ({call.name}) has no result")
        return self.facts


def fold_session(turns: Iterable[TurnEvents]) -> SessionFacts:
    """The facts of one session's turns, in order. Ids of different sessions never meet, so fold each by itself."""
    pairing = _Pairing()
    last, waiting = -1, False
    for turn in turns:
        last, waiting = turn.turn, turn.waiting
        for index, event in turn.events:
            pairing.add(turn.turn, index, event)
    return pairing.finish(last, waiting)


def derive_facts(events: Iterable[StreamEvent]) -> DerivedFacts:
    """The facts of one session's stream, for every agent alike.

    A user message begins a new turn; questions asked after the last one are pending, and the stream is `parked` while
    there are any.
    """
    turns: list[list[IndexedEvent]] = [[]]
    messages = compactions = 0
    for index, event in enumerate(events):
        if isinstance(event, Message):
            if event.role == "user" and turns[-1]:
                turns.append([])
            messages += event.role == "assistant"
        compactions += isinstance(event, Compaction)
        turns[-1].append((index, event))
    pending = tuple(event.request for _, event in turns[-1] if isinstance(event, InputRequested))
    facts = fold_session(
        TurnEvents(turn=number, waiting=bool(pending) and number == len(turns) - 1, events=own)
        for number, own in enumerate(turns)
    )
    return DerivedFacts(
        tool_calls=tuple(facts.tool_calls),
        subagent_calls=tuple(facts.subagent_calls),
        pending_requests=pending,
        parked=bool(pending),
        message_count=messages,
        compactions=compactions,
    )
