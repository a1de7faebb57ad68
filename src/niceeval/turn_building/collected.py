"""What a parser or converter comes back with: a turn, and what has to be said about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from niceeval._model.agent import AgentContext
from niceeval._model.json_types import JsonValue
from niceeval._model.turn import Turn

DiagnosticLevel = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDiagnostic:
    """One thing to say about a turn; the arguments of `AgentContext.diagnostic`."""

    code: str
    message: str
    level: DiagnosticLevel = "warning"
    data: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """A turn as it was collected, and the diagnostics that belong to it."""

    turn: Turn
    diagnostics: tuple[TurnDiagnostic, ...] = ()

    def report(self, ctx: AgentContext) -> Turn:
        """Send the diagnostics to `ctx.diagnostic`, so that they are kept in the result; returns the turn."""
        for said in self.diagnostics:
            ctx.diagnostic(said.code, said.level, said.message, said.data)
        return self.turn
