"""A Codex rollout file: the session's own record, which also has the calls that were blocked, and compaction."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

from niceeval.adapter import Usage
from niceeval.adapters.codex._names import SPAWN, TOOLS, mcp_outcome, server_named, usage_of
from niceeval.adapters.codex._skills import skill_read
from niceeval.turn_building import (
    LOAD_SKILL,
    JsonLines,
    JsonObject,
    SeenIds,
    TurnBuilder,
    count_of,
    list_of,
    mcp_name,
    object_of,
    text_of,
    value_of,
)

ActionStatus: TypeAlias = Literal["completed", "failed", "rejected"]

MAX_OPEN_STATES: Final = 20_000
"""The most calls whose outcome is held until their output comes."""
MAX_HELD_CHARS: Final = 8_000_000
"""The most characters of such calls' output that are held; where it is more, the output is what the model was given."""
MAX_CHECKED_CHARS: Final = 4_000
"""How much of the beginning of a tool's output is looked at for its exit code or a refusal."""

_SILENT_TYPES: Final = frozenset({"session_meta", "turn_context", "world_state", "ghost_snapshot", "session_state"})
_SILENT_ITEMS: Final = frozenset({"ghost_snapshot", "compaction", "compaction_summary", "context_compaction", "other"})
_CALLS: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"})
_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
_EXIT: Final = re.compile(r"\A(?:[^\n]*\n){0,4}?(?:Process exited with code|Exit code:)\s*(-?\d{1,10})")
_REFUSED: Final = re.compile(
    r"rejected by user|Rejected\(|approval policy|approval required by policy|blocked by policy|patch rejected", re.I
)
_TOLD_NO: Final = re.compile(
    r"\A\s*(?:user (?:rejected|cancelled|declined) MCP tool call|(?:command|tool call) blocked by PreToolUse hook\b)",
    re.I,
)
_NOT_RUN: Final = re.compile(
    r"\A\s*(?:unsupported (?:custom tool )?call|failed to|exec_command failed|execution error|tool call error|aborted)",
    re.I,
)
_ITEM_STATES: Final[Mapping[str, ActionStatus]] = {
    "completed": "completed",
    "failed": "failed",
    "declined": "rejected",
    "rejected": "rejected",
}
_OWN: Final = frozenset({"shell", "file_edit"})


class Rollout:
    """Reads what one turn wrote to a rollout file, into the builder that it is given.

    `skip_turns` is the number of earlier turns in the bytes that are fed; 0 where they begin with this one. `servers`
    are the names of the MCP servers that Codex was given.
    After `finish`: `complete` says that the turn is there from its begin to its end and all of it was readable;
    `usage` is what the turn used, `thread_total` the thread's running total, `last_message` the answer.
    """

    def __init__(
        self,
        builder: TurnBuilder,
        *,
        skip_turns: int = 0,
        child: bool = False,
        servers: Collection[str] = (),
        after_message: Callable[[], None] | None = None,
    ) -> None:
        self._builder = builder
        self._lines = JsonLines()
        self._skip = skip_turns
        self._child = child
        self._servers = servers
        self._after_message = after_message
        self._ordinal = -1
        self._out_of_order = False
        self._seen = SeenIds()
        self._states: dict[str, tuple[ActionStatus, str | None]] = {}
        self._held = 0
        self._own: set[str] = set()
        self._spawned: dict[str, str] = {}
        self.turns = 0
        self.ended = False
        self.aborted = False
        self.complete = False
        self.thread_id: str | None = None
        self.usage: Usage | None = None
        self.thread_total: Usage | None = None
        self.last_message: str | None = None
        self.requests = 0
        self.spawn_outputs: dict[str, str] = {}

    def feed(self, chunk: bytes) -> None:
        """Some of the file; it may end anywhere."""
        for line in self._lines.feed(chunk):
            self._line(line)

    def finish(self) -> None:
        """The file ends here."""
        for line in self._lines.finish():
            self._line(line)
        self._builder.reading(self._lines, "the rollout file")
        whole = self.ended and not self._out_of_order and not self._lines.problems()
        self.complete = whole and self.turns > self._skip

    def _line(self, line: JsonObject) -> None:
        kind, payload = text_of(line, "type"), object_of(line, "payload")
        ordinal = count_of(line, "ordinal")
        if ordinal is not None:
            if ordinal == self._ordinal:
                return
            # A gap is a lost line as much as a step back is a moved one.
            self._out_of_order = self._out_of_order or (self._ordinal >= 0 and ordinal != self._ordinal + 1)
            self._ordinal = ordinal
        if kind == "session_meta":
            self.thread_id = text_of(payload, "id") or self.thread_id
        if kind == "event_msg" and text_of(payload, "type") in ("task_started", "turn_started"):
            self.turns += 1
            self.ended = self.aborted = False
        if self.turns <= self._skip:
            return
        if kind == "response_item":
            self._item(payload, summary=value_of(line, "metadata", "compaction_output") is True)
        elif kind == "event_msg":
            self._event(payload)
        elif kind == "compacted":
            if not self._child:
                self._builder.compaction("the context was full")
        elif kind == "token_usage_record":
            self.requests += 1
            self.usage = usage_of(payload.get("turn_token_usage")) or self.usage
            self.thread_total = usage_of(payload.get("thread_token_usage")) or self.thread_total
        elif kind not in _SILENT_TYPES:
            self._builder.unknown(f"rollout/{kind}")

    def _event(self, payload: Any) -> None:
        kind = text_of(payload, "type")
        if kind in ("task_complete", "turn_complete"):
            self.ended = True
            self.last_message = text_of(payload, "last_agent_message")
        elif kind == "turn_aborted":
            self.ended = self.aborted = True
        elif kind == "token_count":
            total = usage_of(value_of(payload, "info", "total_token_usage"))
            self.thread_total = total or self.thread_total
            if text_of(payload, "rate_limits", "rate_limit_reached_type"):
                self._builder.diagnostic("rate-limited", "a rate limit of the account was reached")
        elif kind == "item_completed":
            self._state(text_of(payload, "item", "id"), object_of(payload, "item"))
        elif kind == "exec_command_end":
            self._state(text_of(payload, "call_id"), payload)
        elif kind in ("stream_error", "error"):
            self._builder.error(text_of(payload, "message") or "an error without a message")

    def _state(self, call_id: str | None, item: Any) -> None:
        # What Codex itself says of how a call ended; it comes before the output that the model is given.
        if not call_id or len(self._states) >= MAX_OPEN_STATES:
            return
        code, state = value_of(item, "exit_code"), _ITEM_STATES.get(text_of(item, "status") or "")
        if type(code) is int and state != "rejected":
            state = "completed" if code == 0 else "failed"
        if state is not None:
            output = text_of(item, "aggregated_output")
            if output is None and text_of(item, "type") == "FileChange":
                output = text_of(item, "stdout")
            if text_of(item, "type") == "McpToolCall":
                # The model is given it with how long it took.
                said = mcp_outcome(item)
                output = said if isinstance(said, str) else None
            if output is not None and self._held + len(output) > MAX_HELD_CHARS:
                output = None
            self._held += len(output or "")
            self._states[call_id] = (state, output)

    def _item(self, payload: Any, *, summary: bool) -> None:
        kind = text_of(payload, "type")
        if kind in _CALLS:
            self._call(payload, kind)
        elif kind in _OUTPUTS:
            self._output(payload)
        elif kind == "message":
            # The summary that replaces the context is written by the model and said to nobody.
            if not summary:
                self._message(payload)
        elif kind == "reasoning":
            for part in list_of(payload, "summary") or list_of(payload, "content"):
                if not self._child:
                    self._builder.thinking(text_of(part, "text") or "")
        elif kind == "web_search_call":
            self._web_search(payload)
        elif kind not in _SILENT_ITEMS:
            self._builder.unknown(f"rollout/response_item/{kind}")

    def _message(self, payload: Any) -> None:
        if text_of(payload, "role") != "assistant" or self._child or not self._seen.first(text_of(payload, "id")):
            return
        text = "".join(text_of(part, "text") or "" for part in list_of(payload, "content"))
        self._builder.message(text)
        if self._after_message is not None:
            self._after_message()

    def _call(self, payload: Any, kind: str) -> None:
        call_id = text_of(payload, "call_id") or text_of(payload, "id")
        name = text_of(payload, "name") or {"local_shell_call": "local_shell"}.get(kind, "tool_search")
        if not call_id:
            self._builder.unknown("rollout call without an id")
            return
        space = text_of(payload, "namespace")
        if space is not None and space.startswith("mcp__") and not name.startswith("mcp__"):
            name = mcp_name(server_named(space.removeprefix("mcp__").strip("_"), self._servers), name)
        given = _input(payload, kind)
        tool = TOOLS.canonical(name)
        skill = skill_read(given) if tool == "shell" else None
        if skill is None:
            self._builder.called(call_id, name, given, tool)
        else:
            self._builder.called(call_id, LOAD_SKILL, {**object_of(given), "skill": skill})
        if tool in _OWN and len(self._own) < MAX_OPEN_STATES:
            self._own.add(call_id)
        if name == SPAWN:
            self._builder.subagent(call_id, text_of(given, "agent_type") or "subagent")
            self._spawned[call_id] = name

    def _output(self, payload: Any) -> None:
        call_id, output = text_of(payload, "call_id"), payload.get("output")
        if not call_id:
            self._builder.unknown("rollout output without a call id")
            return
        text = _text(output)
        head = text[:MAX_CHECKED_CHARS]
        if call_id in self._spawned and len(self.spawn_outputs) < 1_000:
            self.spawn_outputs[call_id] = head
        state, own = self._states.pop(call_id, (None, None))
        if own is not None:
            self._held -= len(own)
        said = own if own is not None else text or output
        self._builder.result(call_id, said, state or self._status(call_id, output, text, head))
        self._own.discard(call_id)

    def _status(self, call_id: str, output: Any, text: str, head: str) -> ActionStatus:
        if call_id in self._own:
            code = _exit_code(text, head)
            if code is not None:
                return "completed" if code == 0 else "failed"
            if _REFUSED.search(head):
                return "rejected"
        if _TOLD_NO.match(head):
            return "rejected"
        failed = _NOT_RUN.match(head) is not None or value_of(output, "success") is False
        return "failed" if failed else "completed"

    def _web_search(self, payload: Any) -> None:
        call_id = text_of(payload, "id") or text_of(payload, "call_id")
        if not call_id:
            self._builder.unknown("rollout web search without an id")
            return
        self._builder.called(call_id, "web_search", payload.get("action"), "web_search")
        failed = text_of(payload, "status") == "failed"
        self._builder.result(call_id, None, "failed" if failed else "completed")


def read_children(
    builder: TurnBuilder, main: Rollout, children: Iterable[Iterable[bytes]], servers: Collection[str] = ()
) -> bool:
    """The rollouts of subagents: their calls, what they used, and how they ended. Whether all of them were whole."""
    whole, found = True, 0
    for chunks in children:
        child = Rollout(builder, child=True, servers=servers)
        for chunk in chunks:
            child.feed(chunk)
        child.finish()
        whole = whole and child.complete
        found += 1
        if child.usage is not None:
            builder.add_usage(child.usage)
            builder.add_usage(Usage(requests=child.requests))
        else:
            builder.partial("usage", "a subagent's rollout has no usage")
        call_id = _call_of(main, child.thread_id)
        if call_id is not None and child.ended:
            builder.subagent_done(call_id, child.last_message, "failed" if child.aborted else "completed")
    return whole and found >= len(main.spawn_outputs)


def _call_of(main: Rollout, thread_id: str | None) -> str | None:
    if not thread_id:
        return None
    return next((call for call, output in main.spawn_outputs.items() if thread_id in output), None)


def _input(payload: Any, kind: str) -> Any:
    if kind == "local_shell_call":
        return payload.get("action")
    given = payload.get("input") if kind == "custom_tool_call" else payload.get("arguments")
    if isinstance(given, str) and kind != "custom_tool_call":
        try:
            return json.loads(given)
        except (ValueError, RecursionError):
            return given
    return given


def _exit_code(text: str, head: str) -> int | None:
    found = _EXIT.match(head)
    if found is not None:
        return int(found[1])
    if head.startswith('{"output"'):
        try:
            code = value_of(json.loads(text), "metadata", "exit_code")
        except (ValueError, RecursionError):
            return None
        return code if type(code) is int else None
    return None


def _text(output: Any) -> str:
    if isinstance(output, str):
        return output
    if isinstance(output, dict):
        return _text(output.get("content") or output.get("output") or "")
    parts = output if isinstance(output, list) else []
    return "\n".join(text_of(part, "text") or "" for part in parts)
