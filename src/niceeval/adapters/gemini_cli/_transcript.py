"""What `gemini --output-format stream-json` prints, as one turn."""

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
    ToolNames,
    TurnBuilder,
    count_of,
    mcp_name,
    object_of,
    text_of,
    value_of,
)

coverage: Final = EvidenceCoverage(
    events=Coverage.partial("Gemini CLI's stream has neither thoughts nor compaction"),
    actions=Coverage.complete,
    messages=Coverage.complete,
    usage=Coverage.complete,
    status=Coverage.complete,
    data=Coverage.unavailable("Gemini CLI's stream has no structured answer"),
)
"""What a whole stream shows. A turn in which a command ran is downgraded: its exit code is not in the stream."""

TOOLS: Final = ToolNames(
    {
        "run_shell_command": "shell",
        "read_file": "file_read",
        "read_many_files": "file_read",
        "write_file": "file_write",
        "replace": "file_edit",
        "edit": "file_edit",
        "glob": "glob",
        "search_file_content": "grep",
        "grep_search": "grep",
        "list_directory": "list_dir",
        "web_fetch": "web_fetch",
        "google_web_search": "web_search",
        "invoke_agent": "agent_task",
        "delegate_to_agent": "agent_task",
    }
)
"""Gemini CLI's own tools."""

_MCP: Final = "mcp_"
_REJECTED: Final = re.compile(r"denied|cancel|policy|reject", re.I)
_EXIT: Final = re.compile(r"(?:Exit Code|exited with code):\s*(\d{1,10})")
NO_EXIT_CODE: Final = "a command's exit code is not in Gemini CLI's stream"


class Transcript:
    """Reads a stream as it arrives.

    transcript = Transcript()
    transcript.feed(chunk)
    collected = transcript.finish(exit_code=0)

    Messages come in pieces that have no numbers. Where a piece may be missing or repeated, only a part of the message
    is kept, and where lines are out of order none of them, so that no text is made up.

    `servers` are the names of the MCP servers that it was given: a name such as `mcp_a_b_c` does not say where the
    server's ends.
    """

    def __init__(self, *, servers: Collection[str] = ()) -> None:
        self._servers = servers
        self._lines = JsonLines(mark_holes=True)
        self._builder = TurnBuilder(coverage)
        self._previous: JsonObject | None = None
        self._time = ""
        self._result: JsonObject | None = None
        self._after_result = False
        self._calls: set[str] = set()
        self._shells: set[str] = set()
        self._ran = False
        self.session_id: str | None = None
        self.model: str | None = None

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
        if self._ran:
            builder.partial("actions", NO_EXIT_CODE)
        missing = self._missing(killed)
        if missing:
            builder.incomplete(missing)
        self._usage()
        status = text_of(self._result, "status")
        if self._result is not None and status not in ("success", "error"):
            builder.partial("status", "the result line does not say whether it is an error")
        if status == "error":
            builder.failed(text_of(self._result, "error", "message") or "Gemini CLI reported an error")
        elif self._result is None and exit_code != 0:
            code = "" if exit_code is None else f" (exit code {exit_code})"
            builder.failed(f"Gemini CLI ended without a result{code}", said=False)
        elif exit_code not in (0, None):
            builder.partial("status", f"Gemini CLI reported success and exited with {exit_code}")
            builder.failed(f"exit code {exit_code}", said=False)
        return builder.build()

    def _missing(self, killed: bool) -> str | None:
        if killed:
            return "the CLI was ended before it was done"
        if self._result is None:
            return "the stream has no result line"
        if self._after_result:
            return "the stream goes on after its result line"
        calls = count_of(self._result, "stats", "tool_calls")
        if calls is not None and calls != len(self._calls):
            return f"the CLI counts {calls:,} tool calls and the stream has {len(self._calls):,}"
        return None

    def _line(self, line: JsonObject) -> None:
        if line == self._previous or not line:
            # A hole, or a line that came twice and may be a piece that was said twice.
            self._builder.text_gap()
            if line:
                self._builder.incomplete("a line came twice, and the stream does not number them")
            return
        self._previous = line
        time = text_of(line, "timestamp") or self._time
        if time < self._time:
            self._builder.withdraw_texts("lines are not in their order")
            self._builder.incomplete("lines are not in their order")
        self._time = time
        kind = text_of(line, "type")
        self._after_result = self._result is not None
        if kind == "message":
            self._message(line)
        elif kind == "tool_use":
            self._call(line)
        elif kind == "tool_result":
            self._tool_result(line)
        elif kind == "error":
            self._error(line)
        elif kind == "result":
            self._after_result = False
            self._result = line
        elif kind == "init":
            self.session_id, self.model = text_of(line, "session_id"), text_of(line, "model")
        else:
            self._builder.unknown(kind or "a line without a type", ("usage", "status"))

    def _message(self, line: JsonObject) -> None:
        role, text = text_of(line, "role"), text_of(line, "content")
        if role == "user":
            self._builder.end_text()
        elif role != "assistant" or text is None:
            self._builder.unknown(f"message of {role}")
        elif line.get("delta") is True:
            self._builder.text_delta(text)
        else:
            self._builder.message(text)

    def _error(self, line: JsonObject) -> None:
        message = text_of(line, "message") or "an error without a message"
        self._builder.error(message)
        if "429" in message or "quota" in message.lower():
            self._builder.diagnostic("rate-limited", "the model's API limited the rate")

    def _call(self, line: JsonObject) -> None:
        call_id, name = text_of(line, "tool_id"), text_of(line, "tool_name")
        if not call_id or not name:
            self._builder.unknown("tool_use without an id or name")
            return
        given, tool = line.get("parameters"), TOOLS.canonical(name)
        if len(self._calls) < 100_000:
            self._calls.add(call_id)
        skill = text_of(given, "name") if name == "activate_skill" else None
        if skill:
            self._builder.called(call_id, LOAD_SKILL, {**object_of(given), "skill": skill})
            return
        self._builder.called(call_id, _plain_name(name, self._servers), given, tool)
        if tool == "shell" and len(self._shells) < 100_000:
            self._shells.add(call_id)
        if tool == "agent_task":
            agent = text_of(given, "agent_name") or text_of(given, "agent") or name
            self._builder.subagent(call_id, agent)
            self._builder.incomplete("a subagent's own steps are not in the stream", ("actions",))

    def _tool_result(self, line: JsonObject) -> None:
        call_id, status = text_of(line, "tool_id"), text_of(line, "status")
        if not call_id or status not in ("success", "error"):
            self._builder.unknown("tool_result without an id or status")
            return
        output = value_of(line, "output")
        if output is None:
            output = value_of(line, "error", "message")
        failed = status == "error"
        if failed:
            refused = _REJECTED.search(text_of(line, "error", "type") or "") is not None
            self._builder.result(call_id, output, "rejected" if refused else "failed")
        elif call_id in self._shells:
            self._ran = True
            found = _EXIT.search(output[:2_000]) if isinstance(output, str) else None
            failed = found is not None and int(found[1]) != 0
            self._builder.result(call_id, output, "failed" if failed else "completed")
        else:
            self._builder.result(call_id, output)
        if self._builder.subagent_open(call_id):
            self._builder.subagent_done(call_id, output, "failed" if failed else "completed")

    def _usage(self) -> None:
        if self._result is None:
            return
        usage = _usage(value_of(self._result, "stats"))
        if usage is None:
            self._builder.partial("usage", "the result line has no token counts")
        else:
            self._builder.add_usage(usage)


def parse(chunks: Iterable[bytes], *, exit_code: int | None = None, killed: bool = False) -> Collected:
    """A whole stream as one turn; see `Transcript.finish`."""
    transcript = Transcript()
    for chunk in chunks:
        transcript.feed(chunk)
    return transcript.finish(exit_code=exit_code, killed=killed)


def _plain_name(name: str, servers: Collection[str]) -> str:
    """The tool's name; of an MCP server's tool the name that it has for every agent."""
    if not name.startswith(_MCP):
        return name
    for server in sorted(servers, key=len, reverse=True):
        begin = f"{server}_" if server.startswith(_MCP) else f"{_MCP}{server}_"
        if name.startswith(begin) and name != begin:
            return mcp_name(server, name.removeprefix(begin))
    # A server that an extension brought.
    server, _, tool = name.removeprefix(_MCP).partition("_")
    return mcp_name(server, tool) if server and tool else name


def _usage(stats: Any) -> Usage | None:
    """Gemini's figures: the input contains the cached tokens, and thoughts are in the total alone."""
    given, said = count_of(stats, "input_tokens"), count_of(stats, "output_tokens")
    if given is None or said is None:
        return None
    read, total = count_of(stats, "cached") or 0, count_of(stats, "total_tokens")
    thought = max(total - given - said, 0) if total is not None else None
    return Usage(
        input_tokens=max(given - read, 0),
        output_tokens=said + (thought or 0),
        cache_read_tokens=read,
        reasoning_tokens=thought,
    )
