"""The attempt's own log: the event stream in the order things happened, turns, log lines and diagnostics."""

from __future__ import annotations

import time
from decimal import Decimal

from niceeval._base.clock import utc_text
from niceeval._evidence.coverage import downgrade
from niceeval._evidence.facts import SessionFacts
from niceeval._evidence.normalise import NormalTurn
from niceeval._evidence.prices import CostGap
from niceeval._evidence.scope import Scope, TurnRecord, attempt_scope, session_facts
from niceeval._model.coverage import CHANNELS, Coverage, MergedCoverage
from niceeval._model.events import Loc, Message, StreamEvent
from niceeval._model.o11y import TurnSummary
from niceeval._model.result import Diagnostic, LogLine, Retry

MAX_EVENTS = 200_000
"""Events that one attempt keeps; a turn beyond is kept without its events and its channels become partial."""
MAX_LOG_LINES = 2_000
MAX_LOG_CHARS = 4_000
MAX_DIAGNOSTICS = 200


class AttemptLog:
    """Everything an attempt's turns brought. Sessions and turns count from 0; session 0 is the main one."""

    def __init__(self, coverage: MergedCoverage) -> None:
        self._coverage = coverage
        self._running = _worse(coverage, "a turn has not ended yet: what it does is not seen")
        self._started = time.monotonic()
        self._facts: dict[int, tuple[int, SessionFacts]] = {}
        self._scope: tuple[int, Scope] | None = None
        self._changes = 0
        self.events: list[StreamEvent] = []
        self.sessions: list[list[TurnRecord]] = [[]]
        self.lines: list[LogLine] = []
        self.dropped_lines = 0
        self.diagnostics: list[Diagnostic] = []
        self.retries: list[Retry] = []
        self.dropped_diagnostics = 0
        self._turns = 0

    def elapsed_ms(self) -> int:
        """Milliseconds since the attempt began."""
        return round((time.monotonic() - self._started) * 1000)

    def open_session(self) -> int:
        """The number of a new conversation line."""
        self.sessions.append([])
        return len(self.sessions) - 1

    def begin_turn(self, session: int, text: str, loc: Loc | None) -> TurnRecord:
        """A turn starts: the user's message joins the stream now."""
        record = TurnRecord(
            number=self._turns, session=session, coverage=self._running, start_ms=self.elapsed_ms(), lost=True
        )
        self._turns += 1
        self._append(record, Message(role="user", text=text, loc=loc))
        self.sessions[session].append(record)
        self._changes += 1
        return record

    def end_turn(self, record: TurnRecord, turn: NormalTurn, cost: Decimal | None, cost_gap: CostGap | None) -> None:
        """A turn came back well formed."""
        events = turn.events
        first = record.events[0][1]
        if events and isinstance(events[0], Message) and events[0].role == "user" and isinstance(first, Message):
            # Some protocols echo the input; it is in the stream already.
            events = events[1:] if events[0].text == first.text else events
        downgrades = turn.downgrades
        if len(self.events) + len(events) > MAX_EVENTS:
            reason = Coverage.partial(f"more than {MAX_EVENTS:,} events in one attempt; this turn's were cut")
            downgrades = [*downgrades, *((channel, reason) for channel in CHANNELS[:3])]
            self.diagnose(Diagnostic(code="turn-cut", level="warning", message=reason.reason or "", turn=record.number))
            events = []
        for event in events:
            self._append(record, event)
        record.status, record.data, record.usage = turn.status, turn.data, turn.usage
        record.waits = turn.status == "waiting"
        record.cost, record.cost_gap = cost, cost_gap
        record.coverage = downgrade(self._coverage, downgrades)
        record.lost = False
        record.end_ms = self.elapsed_ms()
        for diagnostic in turn.diagnostics:
            self.diagnose(
                Diagnostic(code=diagnostic.code, level=diagnostic.level, message=diagnostic.message, turn=record.number)
            )
        self._changes += 1

    def lose_turn(self, record: TurnRecord, why: str) -> None:
        """A send did not return a turn: what the agent did in it is not known."""
        record.status = "failed"
        record.end_ms = self.elapsed_ms()
        record.coverage = _worse(self._coverage, f"turn {record.number + 1} {why}: what it did was not seen")
        self._changes += 1

    def facts_of(self, session: int) -> SessionFacts:
        """The session's facts, folded again only when a turn has begun or ended since."""
        held = self._facts.get(session)
        if held is None or held[0] != self._changes:
            held = self._facts[session] = (self._changes, session_facts(self.sessions[session]))
        return held[1]

    def scope(self) -> Scope:
        """What assertions on the whole attempt see, put together again only when a turn has begun or ended since."""
        held = self._scope
        if held is None or held[0] != self._changes:
            held = self._scope = (self._changes, attempt_scope(self.sessions, self.facts_of))
        return held[1]

    def say(self, source: str, text: str, turn: int | None) -> None:
        """Keep a log line, bounded in number and length."""
        if len(self.lines) >= MAX_LOG_LINES:
            self.dropped_lines += 1
            return
        shown = text if len(text) <= MAX_LOG_CHARS else f"{text[:MAX_LOG_CHARS]} [+{len(text) - MAX_LOG_CHARS} chars]"
        self.lines.append(LogLine(at=utc_text(), source=source, text=shown, turn=turn))

    def diagnose(self, diagnostic: Diagnostic) -> None:
        """Keep a diagnostic, bounded in number."""
        if len(self.diagnostics) >= MAX_DIAGNOSTICS:
            self.dropped_diagnostics += 1
        else:
            self.diagnostics.append(diagnostic)

    def turn_summaries(self) -> tuple[TurnSummary, ...]:
        """The turns in order of their start, for `o11y.json`."""
        turns = sorted((turn for session in self.sessions for turn in session), key=lambda turn: turn.number)
        return tuple(
            TurnSummary(
                first_event=turn.events[0][0],
                last_event=turn.events[-1][0],
                start_ms=turn.start_ms,
                end_ms=turn.end_ms or self.elapsed_ms(),
                status="errored" if turn.lost else turn.status,
                session=turn.session,
                usage=turn.usage,
            )
            for turn in turns
        )

    def _append(self, record: TurnRecord, event: StreamEvent) -> None:
        record.events.append((len(self.events), event))
        self.events.append(event)


def _worse(coverage: MergedCoverage, reason: str) -> MergedCoverage:
    """Every channel partial at best."""
    return downgrade(coverage, [(channel, Coverage.partial(reason)) for channel in CHANNELS])
