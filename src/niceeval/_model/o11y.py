"""`o11y.json`: what an attempt did, in figures, derived from its event stream."""

from __future__ import annotations

import msgspec

from niceeval._model.usage import Usage


class ShellCommand(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    command: str
    exit_code: int | None = msgspec.field(name="exitCode", default=None)
    success: bool | None = None


class WebFetch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    url: str
    status: int | None = None
    success: bool | None = None


class TurnSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn: `first_event` is the index of its user message in `events.json`, `last_event` that of its last.

    `session` counts from 0 (the main session). Times are milliseconds since the attempt's start.
    """

    first_event: int = msgspec.field(name="firstEvent")
    last_event: int = msgspec.field(name="lastEvent")
    start_ms: int = msgspec.field(name="startMs")
    end_ms: int = msgspec.field(name="endMs")
    status: str
    session: int = 0
    usage: Usage | None = None


class O11ySummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    total_turns: int = msgspec.field(name="totalTurns")
    tool_calls: dict[str, int] = msgspec.field(name="toolCalls")
    total_tool_calls: int = msgspec.field(name="totalToolCalls")
    files_read: tuple[str, ...] = msgspec.field(name="filesRead")
    files_modified: tuple[str, ...] = msgspec.field(name="filesModified")
    shell_commands: tuple[ShellCommand, ...] = msgspec.field(name="shellCommands")
    web_fetches: tuple[WebFetch, ...] = msgspec.field(name="webFetches")
    errors: tuple[str, ...]
    thinking_blocks: int = msgspec.field(name="thinkingBlocks")
    compactions: int
    duration_ms: int = msgspec.field(name="durationMs")
    turns: tuple[TurnSummary, ...]
    usage: Usage | None = None
    estimated_cost_usd: float | None = msgspec.field(name="estimatedCostUSD", default=None)
