"""The session file that Claude Code keeps (`~/.claude/projects/<folder>/<session>.jsonl`), and its subagents' files.

It shows what the stream shows, with each model call's final usage, but a turn's end is marked only by newer versions.
It is what is left where the stream was lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from niceeval.adapter import Coverage, EvidenceCoverage, Usage
from niceeval.adapters.claude_code._blocks import Blocks, usage_of
from niceeval.turn_building import (
    Collected,
    JsonLines,
    JsonObject,
    SeenIds,
    TurnBuilder,
    list_of,
    object_of,
    text_of,
    value_of,
)

file_coverage: Final = EvidenceCoverage(
    events=Coverage.complete,
    actions=Coverage.complete,
    messages=Coverage.complete,
    usage=Coverage.complete,
    status=Coverage.partial("a session file says how its last message ended, not how the CLI did"),
    data=Coverage.unavailable("Claude Code's session file has no structured answer"),
)
"""What a session file with an end mark shows; a turn without one is downgraded."""

_END_MARK: Final = "cost-state"
_SILENT_TYPES: Final = frozenset(
    {
        "agent-name",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "atis-latch",
        "attachment",
        "custom-title",
        "file-history-snapshot",
        "last-prompt",
        "mode",
        "pr-link",
        "progress",
        "queue-operation",
        "summary",
        "tag",
        "tools-used",
    }
)
_SILENT_SYSTEM: Final = frozenset(
    {"away_summary", "bridge_status", "informational", "local_command", "stop_hook_summary", "turn_duration"}
)


class TranscriptFile:
    """Reads the lines that one turn added to a session file: begin where the file ended before the turn.

    file = TranscriptFile()
    file.feed(chunk)
    file.feed_subagent("toolu_1", chunks)
    collected = file.finish()
    """

    def __init__(self) -> None:
        self._lines = JsonLines()
        self._builder = TurnBuilder(file_coverage)
        self._blocks = Blocks(self._builder)
        self._seen = SeenIds()
        self._ended = False
        self._stop: str | None = None
        self._child_stop: str | None = None
        self._child_text: str | None = None
        self._failed: str | None = None
        self._read_subagents: set[str] = set()

    def feed(self, chunk: bytes) -> None:
        """Some of the session file; it may end anywhere."""
        for line in self._lines.feed(chunk):
            self._line(line, child=False)

    def feed_subagent(self, call_id: str, chunks: Iterable[bytes]) -> None:
        """A subagent's whole file; `call_id` is `toolUseId` in the `.meta.json` beside it."""
        lines = JsonLines()
        self._begin_subagent()
        for chunk in chunks:
            for line in lines.feed(chunk):
                self._line(line, child=True)
        for line in lines.finish():
            self._line(line, child=True)
        self._builder.reading(lines, "a subagent's file")
        if self._child_stop in (None, "tool_use"):
            self._builder.incomplete("a subagent's file ends before the subagent did", ("events", "actions", "usage"))
        elif self._builder.subagent_open(call_id):
            # It ran in the background: its call had a result before it was done.
            self._builder.subagent_done(call_id, self._child_text)
        self._read_subagents.add(call_id)

    def _begin_subagent(self) -> None:
        self._child_stop = self._child_text = None

    def finish(self, *, exit_code: int | None = None, killed: bool = False) -> Collected:
        """The turn; `exit_code` is the CLI's, None where it is not known."""
        for line in self._lines.finish():
            self._line(line, child=False)
        self._builder.reading(self._lines, "the session file")
        missing = self._missing(killed)
        if missing:
            self._builder.incomplete(missing)
        if self._blocks.subagents > len(self._read_subagents):
            self._builder.incomplete("a subagent's file was not read", ("events", "actions", "usage"))
        if self._blocks.requests:
            self._builder.add_usage(Usage(requests=self._blocks.requests))
        if self._failed is not None:
            self._builder.failed(self._failed)
        elif killed or exit_code not in (0, None):
            self._builder.failed(missing or f"Claude Code exited with {exit_code}", said=False)
        return self._builder.build()

    def _missing(self, killed: bool) -> str | None:
        if killed:
            return "the CLI was ended before it was done"
        if not self._ended:
            return "the session file has no end mark after its last message"
        if self._stop == "tool_use" and self._failed is None:
            return "the session file ends in a tool call"
        return None

    def _line(self, line: JsonObject, *, child: bool) -> None:
        if not self._seen.first(text_of(line, "uuid")):
            return
        child = child or line.get("isSidechain") is True
        kind = text_of(line, "type")
        if kind == "assistant":
            self._assistant(line, child)
        elif kind == "user":
            self._user(line, child)
        elif kind == "system":
            self._system(line)
        elif kind == _END_MARK:
            self._ended = self._ended or not child
        elif kind not in _SILENT_TYPES:
            self._builder.unknown(kind or "a line without a type", ("usage",))

    def _assistant(self, line: JsonObject, child: bool) -> None:
        message = object_of(line, "message")
        if line.get("isApiErrorMessage") is True:
            texts = [text_of(block, "text") or "" for block in list_of(message, "content")]
            self._failed = "\n".join(texts) or "the model's API failed"
            return
        if child:
            self._child_stop = text_of(message, "stop_reason")
            texts = [text for block in list_of(message, "content") if (text := text_of(block, "text"))]
            self._child_text = "\n".join(texts) or self._child_text
        else:
            self._ended, self._stop, self._failed = False, text_of(message, "stop_reason"), None
        self._blocks.assistant(message, child=child)
        usage, id = usage_of(message.get("usage")), text_of(message, "id")
        if usage is None or id is None:
            self._builder.partial("usage", "a model call is in the session file without its usage")
        else:
            self._builder.add_usage(usage, id)

    def _user(self, line: JsonObject, child: bool) -> None:
        decision = text_of(line, "permissionDecision", "decision")
        refused = frozenset(
            call_id
            for block in list_of(line, "message", "content")
            if decision in ("reject", "deny") and (call_id := text_of(block, "tool_use_id"))
        )
        if self._blocks.user(line, rejected=refused, details=line.get("toolUseResult")):
            if child:
                self._child_stop = None
            else:
                self._ended = False

    def _system(self, line: JsonObject) -> None:
        kind = text_of(line, "subtype") or "nothing"
        if kind in ("compact_boundary", "microcompact_boundary"):
            self._builder.compaction(text_of(line, "compactMetadata", "trigger"))
        elif kind == "api_error":
            status = value_of(line, "error", "status")
            self._builder.error(f"retry {line.get('retryAttempt')} of {line.get('maxRetries')} after {status}")
            if status == 429:
                self._builder.diagnostic("rate-limited", "the model's API limited the rate; the CLI tried again")
        elif kind not in _SILENT_SYSTEM:
            self._builder.unknown(f"system/{kind}")


def parse_file(
    chunks: Iterable[bytes],
    *,
    subagents: Mapping[str, Iterable[bytes]] | None = None,
    exit_code: int | None = None,
    killed: bool = False,
) -> Collected:
    """The lines that a turn added to a session file, as that turn. `subagents` maps the id of an Agent call to the
    chunks of its subagent's file."""
    file = TranscriptFile()
    for chunk in chunks:
        file.feed(chunk)
    for call_id, own in (subagents or {}).items():
        file.feed_subagent(call_id, own)
    return file.finish(exit_code=exit_code, killed=killed)
