"""What a converter is tried with: something that a protocol says, and what really happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from niceeval._model.events import StreamEvent
from niceeval._model.json_types import JsonValue
from niceeval._model.turn import TurnStatus
from niceeval._model.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ConverterSample:
    """One pair. `value` is plain JSON in the protocol's form (of an SDK's object, its `model_dump()`), which the
    converter is given; `events` are what really happened, in order, whatever of it the protocol shows.

    `stream` says that the value is the list of a stream's frames: it may end anywhere. `usage` and `data` are compared
    where they are given. Call ids need not be the protocol's: what counts is which result belongs to which call.
    """

    name: str
    value: Any
    events: Sequence[StreamEvent]
    status: TurnStatus = "completed"
    usage: Usage | None = None
    data: JsonValue = None
    stream: bool = False
