"""The boundary that everything an adapter returns passes: validated, made plain JSON, cut to size, or refused.

What can be used is used, and every loss is said twice: as a diagnostic, and as a downgrade of the channels it touches.
What cannot be used makes the attempt errored, code `turn-malformed`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from niceeval._base.errors import AdapterError
from niceeval._base.json_values import JsonLimits, normalise_json
from niceeval._base.plain_text import clean_text, shorten
from niceeval._evidence.coverage import FROM_EVENTS, channels_of_type
from niceeval._evidence.event_fields import CLEANERS, kind_of
from niceeval._model.coverage import CHANNELS, Channel, Coverage, EvidenceCoverage
from niceeval._model.events import (
    EVENT_CLASSES,
    InputRequested,
    Message,
    StreamEvent,
    Thinking,
    UnknownEvent,
    event_type,
)
from niceeval._model.result import Diagnostic
from niceeval._model.turn import Turn, TurnStatus
from niceeval._model.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimits:
    """The most that one turn may bring; what is over is cut, and the channels it touches become partial."""

    events: int = 20_000
    text_chars: int = 1_000_000
    value_bytes: int = 1_000_000
    turn_bytes: int = 16_000_000


DEFAULT_LIMITS = TurnLimits()


def channels_of(event: StreamEvent) -> tuple[Channel, ...]:
    """The channels that become partial when this event is lost."""
    return channels_of_type(event_type(event))


@dataclass(slots=True, kw_only=True)
class NormalTurn:
    """A turn that is well formed, what had to be said about it, and which channels it made worse."""

    events: list[StreamEvent] = field(default_factory=list)
    status: TurnStatus = "completed"
    data: Any = None
    usage: Usage | None = None
    downgrades: list[tuple[Channel, Coverage]] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def normalise_turn(
    value: object,
    *,
    agent: str,
    declared: EvidenceCoverage,
    wants_data: bool,
    limits: TurnLimits = DEFAULT_LIMITS,
) -> NormalTurn:
    """The normal form of what `send` returned.

    Raises AdapterError (`turn-malformed`) where it is not a Turn, its status or an event of a known type is not what
    the contract says, or it is `waiting` without a request.
    """
    if not isinstance(value, Turn):
        raise _malformed(agent, f"send returned {kind_of(value)}", "return Turn(events=[...], status=...)")
    return _Boundary(agent, limits).turn(value, declared, wants_data)


class _Boundary:
    """One turn on its way in: what is kept, and what had to be said about it."""

    def __init__(self, agent: str, limits: TurnLimits) -> None:
        self._agent = agent
        self._limits = limits
        self._json_limits = JsonLimits(max_text=limits.text_chars, max_bytes=limits.value_bytes)
        self._left = limits.turn_bytes
        self._problems: list[str] = []
        self._out = NormalTurn()

    def turn(self, turn: Turn, declared: EvidenceCoverage, wants_data: bool) -> NormalTurn:
        out = self._out
        if turn.status not in ("completed", "failed", "waiting"):
            raise self.refuse(f"status {turn.status!r}", 'status is "completed", "failed" or "waiting"')
        out.status = turn.status
        self._events(turn.events)
        self._requests()
        self._data(turn.data, wants_data)
        self._usage(turn.usage, declared)
        self._declared_downgrades(turn.evidence_coverage, declared)
        if self._problems:
            shown = "; ".join(self._problems[:5])
            more = f" (and {len(self._problems) - 5} more)" if len(self._problems) > 5 else ""
            self._say("turn-normalised", "warning", shown + more)
        return out

    def refuse(self, problem: str, fix: str) -> AdapterError:
        """The error for what cannot be used."""
        return _malformed(self._agent, problem, fix)

    def _say(self, code: str, level: Literal["info", "warning", "error"], message: str) -> None:
        self._out.diagnostics.append(Diagnostic(code=code, level=level, message=message))

    def _worse(self, channel: Channel, reason: str) -> None:
        self._out.downgrades.append((channel, Coverage.partial(reason)))

    # Events -----------------------------------------------------------------------------------------------------

    def _events(self, events: Iterable[Any]) -> None:
        if isinstance(events, (str, bytes, Mapping)) or not isinstance(events, Iterable):
            raise self.refuse(f"events is {kind_of(events)}", "events is a list of events")
        for number, raw in enumerate(itertools.islice(events, self._limits.events + 1)):
            if number == self._limits.events:
                self._cut(f"more than {self._limits.events:,} events in one turn", FROM_EVENTS)
                return
            event = self._event(raw, number)
            self._left -= _cost(event)
            if self._left < 0:
                self._cut(f"more than {self._limits.turn_bytes:,} bytes of events in one turn", FROM_EVENTS)
                return
            self._out.events.append(event)

    def _cut(self, what: str, channels: tuple[Channel, ...]) -> None:
        reason = f"{what}; the rest was cut"
        self._say("turn-cut", "warning", reason)
        for channel in channels:
            self._worse(channel, reason)

    def _event(self, raw: object, number: int) -> StreamEvent:
        where = f"events[{number}]"
        if isinstance(raw, UnknownEvent):
            # It may be of a type that is known: then it is that event, and has to be one.
            given: object = raw.data
            raw = {**given, "type": raw.type} if isinstance(given, Mapping) else given
        if isinstance(raw, Mapping):
            raw = self._from_mapping(raw, where)
        clean = CLEANERS.get(type(raw))
        if clean is not None:
            known: StreamEvent = clean(self, raw, where)
            return known
        if isinstance(raw, UnknownEvent):
            return self._unknown(raw.type, raw.data, where)
        raise self.refuse(f"{where} is {kind_of(raw)}", "events are niceeval.adapter events, or mappings with a `type`")

    def _from_mapping(self, raw: Mapping[Any, Any], where: str) -> object:
        data = self._fields(raw, where)
        kind = data.get("type") if isinstance(data, dict) else None
        cls = EVENT_CLASSES.get(kind) if isinstance(kind, str) else None
        if cls is None:
            if not isinstance(kind, str):
                raise self.refuse(f"{where} has no text `type`", 'an event mapping has a "type"')
            return UnknownEvent(kind, data)
        try:
            return msgspec.convert(data, cls)
        except msgspec.ValidationError as error:
            raise self.refuse(f"{where} ({kind}): {error}", "see the event's fields in docs/adapters.md") from None

    def _fields(self, raw: Mapping[Any, Any], where: str) -> Any:
        # Each field has the size limit of a value to itself, as in an event that is no mapping.
        if type(raw) is dict and all(type(key) is str and key.isascii() for key in raw):
            return {key: self.value(item, f"{where}.{key}", FROM_EVENTS) for key, item in raw.items()}
        return self.value(raw, where, FROM_EVENTS)

    def _unknown(self, kind: str, data: Mapping[str, Any], where: str) -> UnknownEvent:
        shown = shorten(kind, 100)
        self._worse("events", f"{where} is of the unknown type {shown}")
        self._say("unknown-event", "warning", f"{where}: event type {shown} is not known; it was kept as it came")
        return UnknownEvent(kind, data)

    # Values -----------------------------------------------------------------------------------------------------

    def text(self, value: object, where: str) -> str:
        """A text field: required to be one, cleaned of what cannot be written, cut to the limit."""
        if type(value) is not str:
            raise self.refuse(f"{where} is {kind_of(value)}", "it has to be text")
        cleaned, problem = clean_text(value, self._limits.text_chars)
        if problem is not None:
            self._problems.append(f"{where}: {problem}")
            if len(cleaned) < len(value):
                self._lossy(where, FROM_EVENTS)
        return cleaned

    def optional_text(self, value: object, where: str) -> str | None:
        """As `text`, or None."""
        return None if value is None else self.text(value, where)

    def value(self, value: object, where: str, feeds: tuple[Channel, ...] = ("events", "actions")) -> Any:
        """Any value as plain JSON; what had to be changed is said, and makes the channels it feeds worse."""
        plain, problems = normalise_json(value, limits=self._json_limits, root=where)
        if problems:
            self._problems.extend(problems)
            self._lossy(where, feeds)
        # A guest may go on using the object it handed over; what is evidence must not change under us.
        return msgspec.json.decode(msgspec.json.encode(plain)) if isinstance(plain, (dict, list)) else plain

    def one_of(self, value: object, allowed: tuple[str, ...], where: str) -> Any:
        """One of the words of a closed list."""
        if value not in allowed:
            raise self.refuse(f"{where} is {kind_of(value)}", "it is one of " + ", ".join(allowed))
        return value

    def _lossy(self, where: str, channels: tuple[Channel, ...]) -> None:
        for channel in channels:
            self._worse(channel, f"{where} could not be kept as it was")

    # The rest of the turn ---------------------------------------------------------------------------------------

    def _requests(self) -> None:
        requests = [event.request.id for event in self._out.events if isinstance(event, InputRequested)]
        if self._out.status == "waiting" and not requests:
            raise self.refuse(
                'status is "waiting", but there is no input.requested event',
                "add one InputRequested per open question",
            )
        if len(set(requests)) < len(requests):
            raise self.refuse("two requests have the same id", "give each InputRequest an id of its own")
        if requests and self._out.status != "waiting":
            self._say(
                "requests-without-waiting",
                "warning",
                f'the turn asks {", ".join(requests)} but its status is "{self._out.status}"; nothing is pending',
            )

    def _data(self, data: object, wanted: bool) -> None:
        if data is None:
            return
        if not wanted:
            self._say("data-without-schema", "warning", "data came although no output was asked for; it was dropped")
            return
        self._out.data = self.value(data, "data", ("data",))

    def _usage(self, usage: object, declared: EvidenceCoverage) -> None:
        problem = _usage_problem(usage)
        if problem is not None:
            self._say("usage-malformed", "warning", f"{problem}; usage was dropped")
            self._worse("usage", problem)
        elif usage is None:
            if declared["usage"].level == "complete":
                self._worse("usage", "a turn came without usage")
        else:
            assert isinstance(usage, Usage)
            self._out.usage = usage

    def _declared_downgrades(self, given: object, declared: EvidenceCoverage) -> None:
        if given is None:
            return
        if not isinstance(given, Mapping):
            raise self.refuse(f"evidence_coverage is {kind_of(given)}", "it maps channels to Coverage")
        for channel, coverage in given.items():
            if channel not in CHANNELS or not isinstance(coverage, Coverage) or coverage.problem():
                why = coverage.problem() if isinstance(coverage, Coverage) else f"{kind_of(coverage)} is no Coverage"
                raise self.refuse(
                    f"evidence_coverage[{channel!r}]: {why or 'there is no such channel'}",
                    "the channels are " + ", ".join(CHANNELS),
                )
            if declared[channel].worse_than(coverage):
                self._say(
                    "coverage-upgrade",
                    "warning",
                    f"the turn claims {channel} {coverage.level}, but the agent declares it {declared[channel].level};"
                    " a turn can only make it worse",
                )
            elif coverage.level != "complete":
                self._out.downgrades.append((channel, coverage))


def _malformed(agent: str, problem: str, fix: str) -> AdapterError:
    return AdapterError("turn-malformed", agent=agent, problem=problem, fix=fix)


def _cost(event: StreamEvent) -> int:
    """About how many bytes an event takes; it is plain JSON by now."""
    if isinstance(event, (Message, Thinking)):
        return 50 + len(event.text)
    return len(msgspec.json.encode(event.data if isinstance(event, UnknownEvent) else event))


_TOKEN_FIELDS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "requests",
)


def _usage_problem(usage: object) -> str | None:
    if usage is None:
        return None
    if not isinstance(usage, Usage):
        return f"usage is {kind_of(usage)}, not a Usage"
    for name in _TOKEN_FIELDS:
        count = getattr(usage, name)
        if count is not None and (type(count) is not int or not 0 <= count < 2**63):
            return f"usage.{name} is {kind_of(count)}, not a count"
    cost = usage.cost_usd
    if cost is not None and (type(cost) not in (int, float) or not math.isfinite(cost) or cost < 0):
        return f"usage.cost_usd is {cost!r}, not an amount"
    return None
