"""What a turn shows on each channel, in a form that can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from niceeval._model.coverage import CHANNELS, Channel, EvidenceCoverage
from niceeval._model.events import (
    ActionCalled,
    ActionResult,
    Message,
    StreamEvent,
    SubagentCalled,
    SubagentCompleted,
    UnknownEvent,
)
from niceeval._model.json_types import JsonValue
from niceeval._model.turn import Turn
from niceeval.testing._converter.sample import ConverterSample


@dataclass(frozen=True, slots=True)
class Call:
    """A call, and what it came to; `status` is None where nothing says."""

    name: str
    input: str
    status: str | None
    output: str

    def __str__(self) -> str:
        return f"{self.name} ({self.status or 'no result'})"


@dataclass(frozen=True, slots=True)
class Evidence:
    """All of it. `orphans` are results without a call, as status and output."""

    calls: tuple[Call, ...]
    orphans: tuple[tuple[str, str], ...]
    messages: tuple[str, ...]
    events: tuple[str, ...]
    usage: Any
    status: str
    data: Any

    def of(self, channel: Channel) -> Any:
        """What one channel shows."""
        if channel == "actions":
            return (self.calls, self.orphans)
        return getattr(self, channel)


def evidence_of(turn: Turn) -> Evidence:
    """What a turn shows."""
    return _evidence(typed_events(turn.events), turn.usage, turn.status, turn.data)


def typed_events(events: Sequence[StreamEvent | Mapping[str, JsonValue]]) -> tuple[StreamEvent, ...]:
    """Events that are none of the nine types are unknown ones."""
    return tuple(
        UnknownEvent(str(event.get("type")), event) if isinstance(event, Mapping) else event for event in events
    )


def truth_of(sample: ConverterSample) -> Evidence:
    """What really happened."""
    return _evidence(sample.events, sample.usage, sample.status, sample.data)


def claims(turn: Turn, declared: EvidenceCoverage) -> frozenset[Channel]:
    """The channels that are called complete for this turn."""
    lowered = turn.evidence_coverage or {}
    return frozenset(
        channel
        for channel in CHANNELS
        if declared[channel].level == "complete" and (channel not in lowered or lowered[channel].level == "complete")
    )


def difference(channel: Channel, truth: Evidence, shown: Evidence) -> str | None:
    """What a channel that is called complete shows otherwise than it was; None where it is true."""
    if truth.of(channel) == shown.of(channel):
        return None
    if channel == "actions":
        if shown.orphans:
            return "a result has no call"
        return _first_difference([str(call) for call in truth.calls], [str(call) for call in shown.calls])
    if channel in ("events", "messages"):
        return _first_difference(truth.of(channel), shown.of(channel))
    return f"{shown.of(channel)!r}, and it was {truth.of(channel)!r}"


def invented(truth: Evidence, shown: Evidence, *, texts: bool = True) -> str | None:
    """Something that is shown and did not happen; None where there is nothing. Without `texts`, calls and results are
    looked at: what an item that came twice says may be said twice."""
    said = "".join(truth.messages)
    for text in shown.messages if texts else ():
        if not _within(text, said):
            return f"a message {text[:80]!r}"
    made = {(call.name, call.input) for call in truth.calls}
    results = {(call.status, call.output) for call in truth.calls}
    for call in shown.calls:
        if (call.name, call.input) not in made:
            return f"a call of {call.name} with {call.input[:80]}"
        if call.status is not None and (call.status, call.output) not in results:
            return f"a result of {call.name}: {call.status} {call.output[:80]}"
    for orphan in shown.orphans:
        if orphan not in results:
            return f"a result: {orphan[0]} {orphan[1][:80]}"
    return None


def _evidence(events: Iterable[StreamEvent], usage: Any, status: str, data: Any) -> Evidence:
    ids: dict[str, str] = {}
    called: dict[str, tuple[str, str]] = {}
    results: dict[str, tuple[str, str]] = {}
    again: list[Call] = []
    messages, shown = [], []
    for event in events:
        if isinstance(event, (ActionCalled, SubagentCalled)):
            what = (event.name, _json(getattr(event, "input", None)))
            if event.call_id in called:
                again.append(Call(*what, None, "null"))
            called.setdefault(event.call_id, what)
        elif isinstance(event, (ActionResult, SubagentCompleted)):
            results.setdefault(event.call_id, (event.status, _json(event.output)))
        elif isinstance(event, Message):
            if event.role == "user":
                continue
            messages.append(event.text)
        shown.append(_shown(event, ids))
    calls = [Call(*what, *results.get(id, (None, "null"))) for id, what in called.items()]
    orphans = tuple(result for id, result in results.items() if id not in called)
    return Evidence((*calls, *again), orphans, tuple(messages), tuple(shown), usage, status, data)


def _shown(event: StreamEvent, ids: dict[str, str]) -> str:
    if isinstance(event, UnknownEvent):
        return event.type
    plain = msgspec.to_builtins(event)
    if "callId" in plain:
        plain["callId"] = ids.setdefault(plain["callId"], f"call {len(ids) + 1}")
    # Which canonical name a tool has is the converter's knowledge, and did not happen.
    plain.pop("tool", None)
    return _json(plain)


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _first_difference(truth: Sequence[str], shown: Sequence[str]) -> str:
    for one, other in zip(truth, shown, strict=False):
        if one != other:
            return f"{other[:160]}, and it was {one[:160]}"
    if len(truth) > len(shown):
        return f"{truth[len(shown)][:160]} is not shown"
    return (
        f"{shown[len(truth)][:160]} is shown, and did not happen" if len(shown) > len(truth) else "it is not the same"
    )


def _within(text: str, whole: str) -> bool:
    """Whether a text has nothing, in its order, that the whole has not: parts of it may be missing."""
    left = iter(whole)
    return all(character in left for character in text)
