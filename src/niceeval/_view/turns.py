"""An attempt's turns: where each was sent from, what it took, and which events belong to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from niceeval._model.events import Loc, Message, StreamEvent
from niceeval._model.o11y import O11ySummary
from niceeval._model.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLine:
    """One turn, counted from 1. `first` and `last` are indexes of `events.json`; what is not known is None."""

    number: int
    first: int
    last: int
    loc: Loc | None
    duration_ms: int | None = None
    usage: Usage | None = None
    status: str | None = None


def turns_of(events: Sequence[StreamEvent] | None, o11y: O11ySummary | None) -> list[TurnLine]:
    """The turns as they were recorded; for a producer that records none, as the user messages divide the stream."""
    stream = events or ()
    if o11y is not None and o11y.turns:
        return [
            TurnLine(
                number=number,
                first=turn.first_event,
                last=turn.last_event,
                loc=_loc_at(stream, turn.first_event),
                duration_ms=turn.end_ms - turn.start_ms,
                usage=turn.usage,
                status=turn.status,
            )
            for number, turn in enumerate(o11y.turns, 1)
        ]
    starts = [index for index, event in enumerate(stream) if isinstance(event, Message) and event.role == "user"]
    ends = [*(start - 1 for start in starts[1:]), len(stream) - 1]
    return [
        TurnLine(number=number, first=first, last=last, loc=_loc_at(stream, first))
        for number, (first, last) in enumerate(zip(starts, ends, strict=False), 1)
    ]


def _loc_at(events: Sequence[StreamEvent], index: int) -> Loc | None:
    event = events[index] if 0 <= index < len(events) else None
    return event.loc if isinstance(event, Message) else None
