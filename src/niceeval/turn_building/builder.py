"""Collecting a turn's events in their order, with what is known to be missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from niceeval._base.json_values import JsonLimits, normalise_json
from niceeval._base.plain_text import clean_text, shorten
from niceeval._model.coverage import Channel, Coverage, EvidenceCoverage
from niceeval._model.events import (
    ActionCalled,
    ActionResult,
    ActionStatus,
    Compaction,
    ErrorEvent,
    InputRequest,
    InputRequested,
    KnownEvent,
    Message,
    SubagentCalled,
    SubagentCompleted,
    SubagentStatus,
    Thinking,
)
from niceeval._model.json_types import JsonValue
from niceeval._model.turn import Turn, TurnStatus
from niceeval._model.usage import Usage
from niceeval.turn_building.collected import Collected, DiagnosticLevel, TurnDiagnostic
from niceeval.turn_building.downgrades import Downgrades
from niceeval.turn_building.json_lines import JsonLines
from niceeval.turn_building.piece_text import PieceText
from niceeval.turn_building.usage_sum import UsageSum

MAX_EVENTS: Final = 20_000
"""The most events that are kept of one turn; what comes after is dropped, and the channels become partial."""
MAX_TURN_CHARS: Final = 12_000_000
"""The most that the texts and values of one turn may come to, in characters of text and bytes of JSON."""
MAX_TEXT_CHARS: Final = 1_000_000
"""The longest text that is kept of a message, a thought, or a tool's output; a longer one is cut."""
MAX_VALUE_BYTES: Final = 1_000_000
"""The largest JSON value that is kept as a tool's input or output; a larger one is cut."""
MAX_DIAGNOSTICS: Final = 50
"""The most diagnostics that are kept of one turn."""
MAX_UNKNOWN_KINDS: Final = 20
"""The most unknown kinds that are named; the rest are counted together."""
MAX_NAME_CHARS: Final = 200
"""The longest name of a tool, a subagent or an unknown kind that is kept."""

FROM_EVENTS: Final[tuple[Channel, ...]] = ("events", "actions", "messages")
"""The channels that the event stream feeds."""
EVIDENCE: Final[tuple[Channel, ...]] = (*FROM_EVENTS, "usage", "status")
"""The channels that a damaged transcript says nothing certain about."""

_OTHERS: Final = "(others)"
_LIMITS: Final = JsonLimits(max_text=MAX_TEXT_CHARS, max_bytes=MAX_VALUE_BYTES)
_EVENT_COST: Final = 50


class TurnBuilder:
    """Collects one turn's events in the order they happened, and builds the turn.

    What a transcript repeats is kept once: a call id that was seen, a call's second result, usage under the same key.
    Where the repetition contradicts what it repeats, the channel becomes partial. Everything is bounded, and every cut
    lowers the channels it touches. `declared` is the agent's coverage: a turn only makes it worse.

    `unknown_touches` are the channels that an unknown kind of line may have carried evidence for.

    Raises AdapterError (`coverage-missing`, `coverage-invalid`) for a declaration that is not valid.
    """

    def __init__(
        self,
        declared: EvidenceCoverage | Mapping[str, Coverage],
        *,
        unknown_touches: tuple[Channel, ...] = FROM_EVENTS,
    ) -> None:
        self._downgrades = Downgrades(declared)
        self._unknown_touches = unknown_touches
        self._events: list[KnownEvent | PieceText | None] = []
        self._failed: dict[str, int] = {}
        self._left = MAX_TURN_CHARS
        self._dropped = 0
        self._calls: dict[tuple[str, str], str] = {}
        self._results: dict[tuple[str, str], str] = {}
        self._open: PieceText | None = None
        self._texts_lost = False
        self._usage = UsageSum()
        self._data: JsonValue = None
        self._status: TurnStatus = "completed"
        self._diagnostics: list[TurnDiagnostic] = []
        self._unsaid = 0
        self._unknown: dict[str, int] = {}

    # What happened ----------------------------------------------------------------------------------------------

    def message(self, text: str, role: Literal["assistant", "user"] = "assistant") -> None:
        """Something that was said; an empty text is nothing."""
        self._open = None
        if text:
            kept = self._text(text, "a message", ("events", "messages"))
            self._add(Message(role=role, text=kept), kept)

    def thinking(self, text: str) -> None:
        """A piece of visible reasoning; an empty text is nothing."""
        self._open = None
        if text:
            kept = self._text(text, "a thought", ("events",))
            self._add(Thinking(text=kept), kept)

    def text_delta(self, text: str, *, kind: Literal["message", "thinking"] = "message", key: str = "") -> None:
        """A piece of a text that comes in pieces. Pieces of the same kind and key that follow each other are one text;
        anything else that happens ends it."""
        if self._open is None or not self._open.continues(kind, key):
            self._open = None
            if not text:
                return
            opened = PieceText(kind, key)
            if not self._add(opened):
                return
            self._open = opened
        self._left -= self._open.add(text)

    def text_gap(self) -> None:
        """A piece may be missing here, or have come twice: what comes next does not continue what came before. Of a
        text with gaps the longest part is kept, for a text of several parts would be more messages than were said."""
        if self._open is not None:
            self._open.gap()

    def withdraw_texts(self, reason: str) -> None:
        """The pieces are not in their order: no text that came in pieces is kept, and the channels become partial."""
        self._texts_lost = True
        self.incomplete(reason, ("events", "messages"))

    def end_text(self) -> None:
        """The text that comes in pieces ends here, whatever comes next."""
        self._open = None

    def called(self, call_id: str, name: str, input: JsonValue, tool: str | None = None) -> bool:
        """A tool was called; `tool` is the canonical name. False for a call id that was seen: it is kept once."""
        if not self._first(self._calls, "tool", call_id, name, "is used for calls of"):
            return False
        value = self._value(input, f"the input of {_shown(name)}")
        self._add(ActionCalled(call_id=call_id, name=_name(name), input=value, tool=tool), value)
        return True

    def result(self, call_id: str, output: JsonValue, status: ActionStatus = "completed") -> bool:
        """What a call came to. A second result of a call is not kept, and False is returned."""
        if not self._first(self._results, "tool", call_id, status, "has results that are"):
            return False
        value = self._value(output, "a tool's output")
        if self._add(ActionResult(call_id=call_id, output=value, status=status), value) and status == "failed":
            self._failed[call_id] = len(self._events) - 1
        return True

    def subagent(self, call_id: str, name: str, remote_url: str | None = None) -> bool:
        """Work was handed to another agent. False for a call id that was seen: it is kept once."""
        if not self._first(self._calls, "subagent", call_id, name, "is used for subagents"):
            return False
        self._add(SubagentCalled(call_id=call_id, name=_name(name), remote_url=remote_url))
        return True

    def subagent_done(self, call_id: str, output: JsonValue, status: SubagentStatus = "completed") -> bool:
        """What a subagent came back with; the first time it is said counts."""
        if not self._first(self._results, "subagent", call_id, status, "has outcomes that are"):
            return False
        value = self._value(output, "a subagent's output")
        self._add(SubagentCompleted(call_id=call_id, output=value, status=status), value)
        return True

    def amend(self, call_id: str, status: ActionStatus | None) -> None:
        """Correct what was said of a call that failed, where the source only says later whose fault it was: another
        status replaces `failed`, and None withdraws the result, so that nothing is claimed of the call."""
        place = self._failed.pop(call_id, None)
        if place is None:
            return
        event = self._events[place]
        assert isinstance(event, ActionResult)
        self._events[place] = None
        if status is not None:
            self._events[place] = ActionResult(call_id=call_id, output=event.output, status=status)
            self._results["tool", call_id] = status

    def was_called(self, call_id: str) -> bool:
        """Whether a tool call of this id was collected."""
        return ("tool", call_id) in self._calls

    def subagent_open(self, call_id: str) -> bool:
        """Whether a subagent of this id was called and has not come back."""
        return ("subagent", call_id) in self._calls and ("subagent", call_id) not in self._results

    def requested(self, request: InputRequest) -> None:
        """The agent stopped and asks; the turn waits."""
        self._add(InputRequested(request=request))
        self.waiting()

    def compaction(self, reason: str | None = None) -> None:
        """The agent shortened its own context."""
        self._add(Compaction(reason=None if reason is None else shorten(reason, MAX_NAME_CHARS)))

    def error(self, message: str) -> None:
        """An error that the agent met; one that is the same as the event before it is nothing new."""
        self._open = None
        event = ErrorEvent(message=self._text(message, "an error", ("events",)))
        if not self._events or self._events[-1] != event:
            self._add(event, event.message)

    def add_usage(self, usage: Usage, key: str | None = None) -> None:
        """Tokens that were used. Under a key that was given before, it replaces what that key said."""
        problem = self._usage.add(usage, key)
        if problem:
            self.partial("usage", problem)

    def data(self, value: JsonValue) -> None:
        """The structured answer."""
        plain, problems = normalise_json(value, limits=_LIMITS, root="data")
        if problems:
            self.partial("data", f"the structured answer was changed: {problems[0]}")
        self._data = plain

    # What is missing --------------------------------------------------------------------------------------------

    def partial(self, channel: Channel, reason: str) -> None:
        """Some of the channel's evidence is missing: what exists is evidence, what is missing proves nothing."""
        self._downgrades.add(channel, Coverage.partial(reason))

    def unavailable(self, channel: Channel, reason: str) -> None:
        """None of the channel's evidence can be relied on."""
        self._downgrades.add(channel, Coverage.unavailable(reason))

    def incomplete(self, reason: str, channels: Iterable[Channel] = EVIDENCE) -> None:
        """Several channels are partial for one reason; without `channels`, all but `data`."""
        for channel in channels:
            self.partial(channel, reason)

    def reading(self, lines: JsonLines, what: str) -> None:
        """What the decoder could not read lowers every channel but `data`; `what` names the file or stream."""
        problems = lines.problems()
        if problems:
            text = f"{what}: {'; '.join(problems)}"
            self.incomplete(text)
            self.diagnostic("transcript-damaged", text)

    def unknown(self, kind: str, channels: Iterable[Channel] = ()) -> None:
        """A kind of line that the parser does not know: counted, said once, and the channels that it may have carried
        evidence for become partial. `channels` are added to those that the builder was made with."""
        kind = clean_text(_shown(kind), MAX_NAME_CHARS)[0]
        if kind not in self._unknown and len(self._unknown) >= MAX_UNKNOWN_KINDS:
            kind = _OTHERS
        self._unknown[kind] = self._unknown.get(kind, 0) + 1
        for channel in dict.fromkeys((*self._unknown_touches, *channels)):
            self.partial(channel, "the transcript has lines of a kind that is not known")

    def diagnostic(
        self, code: str, message: str, data: JsonValue = None, *, level: DiagnosticLevel = "warning"
    ) -> None:
        """Something to say about the turn; the same thing is said once."""
        said = TurnDiagnostic(code=code, message=clean_text(message, 2_000)[0], level=level, data=data)
        if said in self._diagnostics:
            return
        if len(self._diagnostics) < MAX_DIAGNOSTICS:
            self._diagnostics.append(said)
        else:
            self._unsaid += 1

    # How it ended -----------------------------------------------------------------------------------------------

    def failed(self, message: str, *, said: bool = True) -> None:
        """The agent did badly and the turn ended in this error. What the agent said itself is kept as an error event;
        what is only concluded (`said=False`), such as an end without a result, is a diagnostic."""
        if said:
            self.error(message)
        else:
            self.diagnostic("turn-ended-badly", message)
        self._status = "failed"

    def waiting(self) -> None:
        """The turn stopped for a human; a turn that failed stays failed."""
        if self._status != "failed":
            self._status = "waiting"

    def build(self, status: TurnStatus | None = None) -> Collected:
        """The turn as it was collected. `status` overrides what `failed` and `waiting` said."""
        self._open = None
        events = tuple(event for event in map(self._finished, self._events) if event is not None)
        if self._dropped:
            reason = f"the turn is larger than what is kept of it: {self._dropped:,} events were left out"
            self.incomplete(reason, FROM_EVENTS)
            self.diagnostic("turn-cut", reason)
        return Collected(
            turn=Turn(
                events=events,
                status=status or self._status,
                data=self._data,
                usage=self._usage.total(),
                evidence_coverage=self._downgrades.coverage(),
            ),
            diagnostics=(*self._diagnostics, *self._summaries()),
        )

    def _summaries(self) -> list[TurnDiagnostic]:
        said = []
        if self._unknown:
            counts = ", ".join(f"{kind} ({count:,})" for kind, count in self._unknown.items())
            message = f"lines of kinds that are not known: {counts}"
            said.append(TurnDiagnostic(code="unknown-lines", message=message, data=dict(self._unknown)))
        if self._unsaid:
            message = f"{self._unsaid:,} more diagnostics were left out"
            said.append(TurnDiagnostic(code="diagnostics-cut", message=message))
        return said

    # Bounds -----------------------------------------------------------------------------------------------------

    def _finished(self, event: KnownEvent | PieceText | None) -> KnownEvent | None:
        if not isinstance(event, PieceText):
            return event
        if self._texts_lost:
            return None
        if event.has_gaps:
            self.incomplete("pieces of a text are missing", ("events", "messages"))
        text = event.longest()
        if not text:
            return None
        if event.kind == "thinking":
            return Thinking(text=self._text(text, "a thought", ("events",)))
        return Message(role="assistant", text=self._text(text, "a message", ("events", "messages")))

    def _text(self, text: str, what: str, channels: tuple[Channel, ...]) -> str:
        kept, change = clean_text(text, MAX_TEXT_CHARS)
        if change:
            self.incomplete(f"{what} was changed: {change}", channels)
        return kept

    def _value(self, value: JsonValue, what: str) -> JsonValue:
        plain, problems = normalise_json(value, limits=_LIMITS)
        if problems:
            self.incomplete(f"{what} was changed: {problems[0]}", ("events", "actions"))
        kept: JsonValue = plain
        return kept

    def _add(self, event: KnownEvent | PieceText, content: JsonValue = None) -> bool:
        self._open = None
        cost = _EVENT_COST + _size(content)
        if len(self._events) >= MAX_EVENTS or cost > self._left:
            # Once full, always full: what is kept is what came first, without holes.
            self._left = 0
            self._dropped += 1
            return False
        self._left -= cost
        self._events.append(event)
        return True

    def _first(self, seen: dict[tuple[str, str], str], kind: str, call_id: str, what: str, verb: str) -> bool:
        known = seen.get((kind, call_id))
        if known is None:
            if len(seen) < 2 * MAX_EVENTS:
                seen[kind, call_id] = what[:MAX_NAME_CHARS]
            return True
        if known != what[:MAX_NAME_CHARS]:
            self.incomplete(f"{_shown(call_id)} {verb} {_shown(known)} and {_shown(what)}", ("events", "actions"))
        return False


def _size(content: JsonValue) -> int:
    if isinstance(content, str):
        return len(content)
    if content is None or isinstance(content, (bool, int, float)):
        return 8
    # What has come so far is plain JSON within the limits of a value.
    total = 2
    open_values: list[JsonValue] = [content]
    while open_values:
        value = open_values.pop()
        if isinstance(value, Mapping):
            total += 2 + sum(len(key) + 4 for key in value)
            open_values.extend(value.values())
        elif isinstance(value, (list, tuple)):
            total += 2 + len(value)
            open_values.extend(value)
        else:
            total += len(value) + 2 if isinstance(value, str) else 8
    return total


def _name(name: str) -> str:
    return clean_text(name, MAX_NAME_CHARS)[0]


def _shown(text: str) -> str:
    return shorten(text, 80)


__all__ = [
    "EVIDENCE",
    "FROM_EVENTS",
    "MAX_DIAGNOSTICS",
    "MAX_EVENTS",
    "MAX_NAME_CHARS",
    "MAX_TEXT_CHARS",
    "MAX_TURN_CHARS",
    "MAX_UNKNOWN_KINDS",
    "MAX_VALUE_BYTES",
    "TurnBuilder",
]
