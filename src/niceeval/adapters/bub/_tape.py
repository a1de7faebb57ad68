"""Bub's tape, the transcript that it keeps: `$BUB_HOME/tapes/<workspace>__<session>.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from niceeval.adapter import Coverage, EvidenceCoverage, Usage
from niceeval.turn_building import (
    LOAD_SKILL,
    Collected,
    JsonLines,
    JsonObject,
    ToolNames,
    TurnBuilder,
    amount_of,
    count_of,
    list_of,
    object_of,
    text_of,
    value_of,
)

coverage: Final = EvidenceCoverage(
    events=Coverage.complete,
    actions=Coverage.complete,
    messages=Coverage.complete,
    usage=Coverage.complete,
    status=Coverage.complete,
    data=Coverage.unavailable("Bub's tape has no structured answer"),
)
"""What a whole tape shows. A turn in which tools ran is downgraded: a tape does not say whether a tool failed."""

TOOLS: Final = ToolNames(
    {
        "bash": "shell",
        "bash_output": "shell",
        "fs_read": "file_read",
        "fs_write": "file_write",
        "fs_edit": "file_edit",
        "web_fetch": "web_fetch",
        "web_search": "web_search",
        "subagent": "agent_task",
    }
)
"""Bub's own tools; it writes a dot in some of their names where the model is given an underscore."""

MAX_OPEN_CALLS: Final = 10_000
"""The most calls that wait for their results, which come by position."""

_SILENT_EVENTS: Final = frozenset({"handoff", "loop.step.start", "command", "anchor"})
_SILENT_KINDS: Final = frozenset({"anchor", "system"})
NO_STATE: Final = "a tape does not say whether a tool failed, nor a command's exit code"


class Tape:
    """Reads a tape.

    tape = Tape(skip_turns=0)
    tape.feed(chunk)
    collected = tape.finish(exit_code=0)

    `skip_turns` is the number of earlier turns in the tape (`Tape.turns` of the one before); 0 for bytes that begin
    with this turn.
    """

    def __init__(self, *, skip_turns: int = 0) -> None:
        self._lines = JsonLines()
        self._builder = TurnBuilder(coverage)
        self._skip = skip_turns
        self._last_id = 0
        self._order: str | None = None
        self._moved = False
        self._open: list[str] = []
        self._ended: str | None = None
        self._error: str | None = None
        self._calls = 0
        self._subagents: dict[str, str] = {}
        self._between_steps = False
        self.turns = 0

    def feed(self, chunk: bytes) -> None:
        """Some of the tape; it may end anywhere."""
        for line in self._lines.feed(chunk):
            self._line(line)

    def finish(self, *, exit_code: int | None = None, killed: bool = False, stopped: str | None = None) -> Collected:
        """The turn. `exit_code` is Bub's, None where it is not known; `killed` says that it was ended from outside.
        `stopped` is why Bub says it went no further after a step, which is not on the tape."""
        for line in self._lines.finish():
            self._line(line)
        if self._moved:
            # Which turn a line belongs to, and which call a result, follows from its place.
            self._builder = TurnBuilder(coverage)
            self._calls, self._subagents = 0, {}
            self._order = "the lines of the tape are not in their order, so none of them was used"
        builder = self._builder
        builder.reading(self._lines, "the tape")
        if self._calls:
            builder.partial("actions", NO_STATE)
        if self._subagents:
            builder.incomplete("a subagent's own steps are not on the tape", ("events", "actions", "usage"))
        stopped_whole = stopped is not None and self._between_steps and self._order is None
        missing = None if stopped_whole and not killed else self._missing(killed)
        if missing:
            builder.incomplete(missing)
        if stopped is not None and self._ended is None:
            builder.failed(stopped)
        elif self._ended == "error":
            builder.failed(self._error or "Bub reported an error")
        elif self._ended is None and exit_code != 0:
            code = "" if exit_code is None else f" (exit code {exit_code})"
            builder.failed(f"the tape has no end of the turn{code}", said=False)
        elif self._ended is not None and exit_code not in (0, None):
            builder.partial("status", f"the tape ends well and Bub exited with {exit_code}")
            builder.failed(f"exit code {exit_code}", said=False)
        return builder.build()

    def _missing(self, killed: bool) -> str | None:
        if killed:
            return "Bub was ended before it was done"
        if self.turns <= self._skip:
            return "the tape does not have this turn"
        if self._ended is None:
            return "the tape has no end of the turn"
        return self._order

    def _line(self, line: JsonObject) -> None:
        number = count_of(line, "id")
        if number is not None:
            if number == self._last_id:
                return
            self._moved = self._moved or number < self._last_id
            if self._last_id and number != self._last_id + 1:
                self._order = "lines of the tape are missing"
                self._open.clear()
            self._last_id = number
        self._between_steps = False
        kind, payload = text_of(line, "kind"), object_of(line, "payload")
        if kind == "event" and text_of(payload, "name") == "loop.start":
            self.turns += 1
        if self.turns <= self._skip:
            return
        if kind == "event":
            self._event(line, payload)
        elif kind == "message":
            self._message(payload)
        elif kind == "tool_call":
            self._tool_calls(payload)
        elif kind == "tool_result":
            self._tool_results(payload)
        elif kind == "error":
            self._builder.error(text_of(payload, "message") or text_of(payload, "error") or "an error")
        elif kind not in _SILENT_KINDS:
            self._builder.unknown(kind or "a line without a kind", ("usage", "status"))

    def _event(self, line: JsonObject, payload: Any) -> None:
        name, data = text_of(payload, "name") or "nothing", object_of(payload, "data")
        if name == "loop.start":
            self._ended = None
        elif name == "run":
            self._run(line, data)
        elif name == "loop.step":
            self._step(data)
        elif name in ("compaction", "auto_handoff", "context.compact"):
            self._builder.compaction(name)
        elif name not in _SILENT_EVENTS:
            self._builder.unknown(f"event/{name}")

    def _step(self, data: Any) -> None:
        status = text_of(data, "status")
        if status in ("ok", "error"):
            self._ended, self._error = status, text_of(data, "error")
        elif status == "continue":
            self._ended = None
            self._between_steps = True
        else:
            self._ended = None
            self._builder.unknown(f"loop.step status {status}", ("status",))

    def _run(self, line: JsonObject, data: Any) -> None:
        usage, key = _usage(data.get("usage")), text_of(line, "meta", "run_id")
        if usage is None:
            self._builder.partial("usage", "a model call is on the tape without its usage")
        else:
            self._builder.add_usage(usage, key)
        if text_of(data, "status") not in ("ok", None):
            self._builder.error(text_of(data, "error") or f"a model call ended as {text_of(data, 'status')}")

    def _message(self, payload: Any) -> None:
        if text_of(payload, "role") != "assistant":
            return
        self._thoughts(payload)
        self._builder.message(_text(payload.get("content")))

    def _thoughts(self, payload: Any) -> None:
        self._builder.thinking(text_of(payload, "reasoning") or text_of(payload, "reasoning_content") or "")

    def _tool_calls(self, payload: Any) -> None:
        self._thoughts(payload)
        self._builder.message(_text(payload.get("content")))
        if self._open:
            self._order = "calls of the tape have no results"
        # Results come by position: those of an earlier line can no longer be told apart.
        self._open.clear()
        for call in list_of(payload, "calls")[:MAX_OPEN_CALLS]:
            call_id, name = text_of(call, "id"), text_of(call, "function", "name")
            if not call_id or not name:
                self._builder.unknown("a call without an id or name")
                self._open.append("")
                continue
            self._calls += 1
            self._open.append(call_id)
            self._called(call_id, name, _arguments(value_of(call, "function", "arguments")))

    def _called(self, call_id: str, name: str, given: Any) -> None:
        skill = text_of(given, "name") or text_of(given, "skill")
        if name == "skill" and skill:
            self._builder.called(call_id, LOAD_SKILL, {**object_of(given), "skill": skill})
            return
        self._builder.called(call_id, name, given, TOOLS.canonical(name.replace(".", "_")))
        if name == "subagent" and self._builder.subagent(call_id, text_of(given, "agent") or "subagent"):
            self._subagents[call_id] = name

    def _tool_results(self, payload: Any) -> None:
        results = list_of(payload, "results")
        if len(results) != len(self._open):
            self._order = "results of the tape do not fit its calls"
        for call_id, output in zip(self._open, results, strict=False):
            if not call_id or len(results) != len(self._open):
                continue
            failed = text_of(output, "kind") is not None and text_of(output, "message") is not None
            self._builder.result(call_id, output, "failed" if failed else "completed")
            if call_id in self._subagents:
                self._builder.subagent_done(call_id, output, "failed" if failed else "completed")
        self._open.clear()


def parse(
    chunks: Iterable[bytes], *, skip_turns: int = 0, exit_code: int | None = None, killed: bool = False
) -> Collected:
    """A tape's turn after the first `skip_turns`; see `Tape`."""
    tape = Tape(skip_turns=skip_turns)
    for chunk in chunks:
        tape.feed(chunk)
    return tape.finish(exit_code=exit_code, killed=killed)


def _usage(figures: object) -> Usage | None:
    """Chat Completions' or Anthropic's figures, whose buckets overlap in the former; None where there are none."""
    output = count_of(figures, "completion_tokens")
    given = count_of(figures, "prompt_tokens")
    if given is None or output is None:
        return _anthropic_usage(figures)
    read = count_of(figures, "prompt_tokens_details", "cached_tokens")
    return Usage(
        input_tokens=max(given - (read or 0), 0),
        output_tokens=output,
        cache_read_tokens=read,
        reasoning_tokens=count_of(figures, "completion_tokens_details", "reasoning_tokens"),
        requests=1,
        cost_usd=amount_of(figures, "cost"),
    )


def _anthropic_usage(figures: object) -> Usage | None:
    given, output = count_of(figures, "input_tokens"), count_of(figures, "output_tokens")
    if given is None or output is None:
        return None
    return Usage(
        input_tokens=given,
        output_tokens=output,
        cache_read_tokens=count_of(figures, "cache_read_input_tokens"),
        cache_write_tokens=count_of(figures, "cache_creation_input_tokens"),
        requests=1,
    )


def _arguments(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except (ValueError, RecursionError):
        return given


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(text_of(part, "text") or "" for part in parts)
