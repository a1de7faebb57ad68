"""The content blocks of Claude Code's messages, which its stream and its session files share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from niceeval.adapter import Usage
from niceeval.turn_building import (
    LOAD_SKILL,
    JsonObject,
    SeenIds,
    ToolNames,
    TurnBuilder,
    count_of,
    list_of,
    object_of,
    text_of,
    value_of,
)

TOOLS: Final = ToolNames(
    {
        "Bash": "shell",
        "BashOutput": "shell",
        "Read": "file_read",
        "NotebookRead": "file_read",
        "Write": "file_write",
        "Edit": "file_edit",
        "MultiEdit": "file_edit",
        "NotebookEdit": "file_edit",
        "Glob": "glob",
        "Grep": "grep",
        "LS": "list_dir",
        "WebFetch": "web_fetch",
        "WebSearch": "web_search",
        "web_search": "web_search",
        "web_fetch": "web_fetch",
        "Agent": "agent_task",
        "Task": "agent_task",
    }
)
"""Claude Code's own tools and the API's server tools."""

_AGENT_TOOLS: Final = frozenset({"Agent", "Task"})
_CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_SILENT: Final = frozenset({"redacted_thinking", "image", "document", "fallback"})
_SYNTHETIC: Final = "<synthetic>"


class Blocks:
    """Reads messages into a builder: what the assistant said and called, and what the tools answered.

    `background` holds the ids of the Agent calls whose subagent runs on after the call has its result. `requests`
    counts the model calls that were seen. A subagent's calls count as the turn's; what it says does not, for that is
    the outcome of its call.
    """

    def __init__(self, builder: TurnBuilder) -> None:
        self._builder = builder
        self.background: set[str] = set()
        self.unsure: set[str] = set()
        self.subagents = 0
        self._requests = SeenIds()

    @property
    def requests(self) -> int:
        """How many model calls were seen."""
        return len(self._requests)

    def assistant(self, message: Mapping[str, Any], *, child: bool) -> None:
        """One message of the model, or one block of it."""
        if text_of(message, "model") != _SYNTHETIC:
            self._requests.first(text_of(message, "id"))
        content = value_of(message, "content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not isinstance(content, list):
            self._builder.unknown("assistant without content")
            return
        for block in content:
            self._assistant_block(block, child)

    def _assistant_block(self, block: object, child: bool) -> None:
        kind = text_of(block, "type") or "nothing"
        if kind in _CALLS:
            self._call(block)
        elif kind == "text" and isinstance(value_of(block, "text"), str):
            if not child:
                self._builder.message(text_of(block, "text") or "")
        elif kind == "thinking" and isinstance(value_of(block, "thinking"), str):
            if not child:
                self._builder.thinking(text_of(block, "thinking") or "")
        elif kind.endswith("_tool_result"):
            self._server_result(block)
        elif kind not in _SILENT:
            self._builder.unknown(f"assistant/{kind}")

    def _call(self, block: object) -> None:
        call_id, name = text_of(block, "id"), text_of(block, "name")
        if not call_id or not name:
            self._builder.unknown("tool_use without id or name")
            return
        given = value_of(block, "input")
        server = text_of(block, "server_name")
        if server is not None and not name.startswith("mcp__"):
            name = f"mcp__{server}__{name}"
        skill = text_of(given, "skill") or text_of(given, "command")
        if name == "Skill" and skill:
            self._builder.called(call_id, LOAD_SKILL, {**object_of(given), "skill": skill.removeprefix("/")})
            return
        self._builder.called(call_id, name, given, TOOLS.canonical(name))
        if name in _AGENT_TOOLS:
            self.subagents += self._builder.subagent(call_id, text_of(given, "subagent_type") or name)

    def _server_result(self, block: object) -> None:
        # A tool that the API runs itself: its result is part of the assistant's message.
        call_id, content = text_of(block, "tool_use_id"), value_of(block, "content")
        if not call_id:
            self._builder.unknown("server tool result without an id")
            return
        failed = (text_of(content, "type") or "").endswith("_error") or value_of(block, "is_error") is True
        self._builder.result(call_id, content, "failed" if failed else "completed")

    def user(self, line: JsonObject, *, rejected: frozenset[str], details: object) -> list[str]:
        """The tool results of a user line; the rest of it is the eval's own or the CLI's. Returns the calls' ids.

        `rejected` are the calls whose permission was refused; `details` is what the CLI keeps beside the result.
        """
        content = value_of(line, "message", "content")
        if not isinstance(content, (str, list)):
            self._builder.unknown("user without content")
            return []
        found = []
        for block in content if isinstance(content, list) else ():
            kind = text_of(block, "type")
            if kind == "tool_result":
                found += self._result(block, rejected, details)
            elif kind not in ("text", "image", "document"):
                self._builder.unknown(f"user/{kind}")
        return found

    def _result(self, block: object, rejected: frozenset[str], details: object) -> list[str]:
        call_id, error = text_of(block, "tool_use_id"), value_of(block, "is_error")
        if not call_id or not (error is None or isinstance(error, bool)):
            self._builder.unknown("tool_result without an id or a state")
            return []
        output = _plain(value_of(block, "content"))
        if call_id in rejected:
            self._builder.result(call_id, output, "rejected")
        elif error or value_of(details, "interrupted") is True:
            self._builder.result(call_id, output, "failed")
        else:
            self._builder.result(call_id, output)
        self._subagent_result(call_id, output, details, failed=call_id in rejected or error is True)
        return [call_id]

    def _subagent_result(self, call_id: str, output: Any, details: object, *, failed: bool) -> None:
        if not self._builder.subagent_open(call_id):
            return
        if value_of(details, "isAsync") is True or value_of(details, "status") == "async_launched":
            self.background.add(call_id)
        if call_id in self.background and not failed:
            return
        said = list_of(details, "content")
        self._builder.subagent_done(call_id, _plain(said) if said else output, "failed" if failed else "completed")


def usage_of(figures: object) -> Usage | None:
    """The API's usage: its input tokens are without the cache buckets already. None where there is none."""
    details = object_of(figures, "output_tokens_details")
    usage = Usage(
        input_tokens=count_of(figures, "input_tokens"),
        output_tokens=count_of(figures, "output_tokens"),
        cache_read_tokens=count_of(figures, "cache_read_input_tokens"),
        cache_write_tokens=count_of(figures, "cache_creation_input_tokens"),
        reasoning_tokens=count_of(details, "thinking_tokens"),
    )
    return None if usage == Usage() else usage


def _plain(content: Any) -> Any:
    """A result's blocks as one text, where they are nothing but text."""
    if not isinstance(content, list):
        return content
    texts = [text_of(block, "text") for block in content if text_of(block, "type") == "text"]
    if texts and len(texts) == len(content):
        return "\n".join(text for text in texts if text is not None)
    return content
