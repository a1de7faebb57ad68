"""What `opencode run --format json` prints, as one turn."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, Final

from niceeval.adapter import Coverage, EvidenceCoverage, Usage
from niceeval.turn_building import (
    LOAD_SKILL,
    Collected,
    JsonLines,
    JsonObject,
    SeenIds,
    ToolNames,
    TurnBuilder,
    amount_of,
    count_of,
    mcp_name,
    object_of,
    text_of,
)

coverage: Final = EvidenceCoverage(
    events=Coverage.complete,
    actions=Coverage.complete,
    messages=Coverage.complete,
    usage=Coverage.complete,
    status=Coverage.complete,
    data=Coverage.unavailable("opencode's events have no structured answer"),
)
"""What a whole stream shows. A turn that hands work to a subagent is downgraded: its steps are not printed."""

TOOLS: Final = ToolNames(
    {
        "bash": "shell",
        "read": "file_read",
        "write": "file_write",
        "edit": "file_edit",
        "multiedit": "file_edit",
        "patch": "file_edit",
        "apply_patch": "file_edit",
        "glob": "glob",
        "grep": "grep",
        "list": "list_dir",
        "webfetch": "web_fetch",
        "websearch": "web_search",
        "codesearch": "web_search",
        "task": "agent_task",
    }
)
"""opencode's own tools."""

_REJECTED: Final = re.compile(r"rejected permission|rejected this|specified a rule which prevents|dismissed", re.I)
_GOES_ON: Final = frozenset({"tool-calls", "tool_calls"})


class Transcript:
    """Reads the events of `opencode run --format json` as they arrive.

    transcript = Transcript()
    transcript.feed(chunk)
    collected = transcript.finish(exit_code=0)

    `session_id` is the session's, for `--session`. `servers` are the names of the MCP servers that it was given: their
    tools are told from others by it. `over` says that the model has answered `most_steps` times, and goes on.
    """

    def __init__(self, *, servers: Collection[str] = (), most_steps: int | None = None) -> None:
        self._servers = servers
        self._most_steps = most_steps
        self.over = False
        self._lines = JsonLines()
        self._builder = TurnBuilder(coverage)
        self._seen = SeenIds()
        self._stop: str | None = None
        self._rejected = False
        self._errors: list[str] = []
        self._steps = 0
        self._tasks = 0
        self.session_id: str | None = None

    def feed(self, chunk: bytes) -> None:
        """Some of the stream; it may end anywhere."""
        for line in self._lines.feed(chunk):
            self._line(line)

    def finish(self, *, exit_code: int | None = None, killed: bool = False) -> Collected:
        """The turn. `exit_code` is the CLI's (None: not known); `killed` says that it was ended from outside."""
        for line in self._lines.finish():
            self._line(line)
        builder = self._builder
        builder.reading(self._lines, "the stream")
        if self._tasks:
            builder.incomplete("a subagent's own steps are not in the stream", ("events", "actions", "usage"))
        missing = self._missing(exit_code, killed)
        if missing:
            builder.incomplete(missing)
        if self._steps:
            builder.add_usage(Usage(requests=self._steps))
        if killed and self.over:
            builder.failed(f"opencode was ended: its model went on after {self._steps:,} calls, the limit", said=False)
        elif self._errors and exit_code != 0:
            builder.failed(self._errors[-1], said=False)
        elif exit_code not in (0, None) or (missing and exit_code is None):
            builder.partial("status", "the stream does not say why opencode ended")
            builder.failed(missing or f"exit code {exit_code}", said=False)
        return builder.build()

    def _missing(self, exit_code: int | None, killed: bool) -> str | None:
        if killed:
            return "opencode was ended before it was done"
        if self._errors and exit_code != 0:
            return None
        if self._stop is None:
            return "the stream ends within a step"
        if self._stop in _GOES_ON and not (self._rejected and exit_code == 0):
            # A refused permission ends a run that nobody watches; anything else that was called is answered.
            return "the stream ends after a step that goes on"
        return None

    def _line(self, line: JsonObject) -> None:
        self.session_id = self.session_id or text_of(line, "sessionID")
        kind, part = text_of(line, "type"), object_of(line, "part")
        if not self._seen.first(text_of(part, "id")):
            return
        if kind == "error":
            message = text_of(line, "error", "data", "message") or text_of(line, "error", "name") or "an error"
            self._errors = [*self._errors[-9:], message]
            self._builder.error(message)
            if count_of(line, "error", "data", "statusCode") == 429:
                self._builder.diagnostic("rate-limited", "the model's API limited the rate")
            return
        if kind == "step_finish":
            self._finished(part)
            return
        self._stop = None
        if kind == "text":
            self._builder.message(text_of(part, "text") or "")
        elif kind == "reasoning":
            self._builder.thinking(text_of(part, "text") or "")
        elif kind == "tool_use":
            self._tool(part)
        elif kind in ("compaction", "session_compacted"):
            self._builder.compaction(kind)
        elif kind != "step_start":
            self._builder.unknown(kind or "a line without a type", ("usage", "status"))

    def _finished(self, part: Any) -> None:
        self._stop = text_of(part, "reason") or "tool-calls"
        self._steps += 1
        if self._most_steps is not None and self._steps >= self._most_steps and self._stop in _GOES_ON:
            self.over = True
        tokens = object_of(part, "tokens")
        given, said = count_of(tokens, "input"), count_of(tokens, "output")
        if given is None or said is None:
            self._builder.partial("usage", "a step came without its tokens")
            return
        thought = count_of(tokens, "reasoning") or 0
        # A model without a known price costs 0 here, which is no measurement.
        self._builder.add_usage(
            Usage(
                input_tokens=given,
                output_tokens=said + thought,
                cache_read_tokens=count_of(tokens, "cache", "read"),
                cache_write_tokens=count_of(tokens, "cache", "write"),
                reasoning_tokens=thought,
                cost_usd=amount_of(part, "cost") or None,
            )
        )

    def _tool(self, part: Any) -> None:
        call_id, name, state = text_of(part, "callID"), text_of(part, "tool"), object_of(part, "state")
        if not call_id or not name:
            self._builder.unknown("tool_use without an id or name")
            return
        given, status = state.get("input"), text_of(state, "status")
        tool = TOOLS.canonical(name)
        skill = text_of(given, "name") if name == "skill" else None
        if skill:
            self._builder.called(call_id, LOAD_SKILL, {**object_of(given), "skill": skill})
        else:
            self._builder.called(call_id, name if tool else _plain_name(name, self._servers), given, tool)
        if name == "task":
            self._tasks += self._builder.subagent(call_id, text_of(given, "subagent_type") or "subagent")
        if status == "completed":
            details = object_of(state, "metadata")
            failed = tool == "shell" and "exit" in details and details["exit"] != 0
            self._builder.result(call_id, state.get("output"), "failed" if failed else "completed")
        elif status == "error":
            error = text_of(state, "error") or ""
            refused = _REJECTED.search(error[:1_000]) is not None
            self._rejected = self._rejected or refused
            self._builder.result(call_id, error, "rejected" if refused else "failed")
        elif status not in ("pending", "running"):
            self._builder.unknown(f"tool state {status}")
        if self._builder.subagent_open(call_id) and status in ("completed", "error"):
            done = status == "completed"
            output = state.get("output") if done else state.get("error")
            self._builder.subagent_done(call_id, output, "completed" if done else "failed")


def parse(chunks: Iterable[bytes], *, exit_code: int | None = None, killed: bool = False) -> Collected:
    """A whole stream as one turn; see `Transcript.finish`."""
    transcript = Transcript()
    for chunk in chunks:
        transcript.feed(chunk)
    return transcript.finish(exit_code=exit_code, killed=killed)


def _plain_name(name: str, servers: Collection[str]) -> str:
    """The tool's name; of an MCP server's tool the name that it has for every agent."""
    for server in sorted(servers, key=len, reverse=True):
        begin = f"{server}_"
        if name.startswith(begin) and name != begin:
            return mcp_name(server, name.removeprefix(begin))
    return name
