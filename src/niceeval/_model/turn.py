"""What one `send` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from niceeval._model.coverage import Coverage
from niceeval._model.events import StreamEvent
from niceeval._model.json_types import JsonValue
from niceeval._model.usage import Usage

TurnStatus: TypeAlias = Literal["completed", "failed", "waiting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An adapter's account of one turn.

    `status="failed"` says that the agent did badly (assertions still run); an exception from `send` says that no
    conclusion can be drawn. `data` is the structured answer, given only when an `output_schema` was. The
    `evidence_coverage` mapping makes single channels worse for this turn, never better.
    """

    events: Sequence[StreamEvent | Mapping[str, JsonValue]] = ()
    status: TurnStatus = "completed"
    data: JsonValue = None
    usage: Usage | None = None
    evidence_coverage: Mapping[str, Coverage] | None = None
