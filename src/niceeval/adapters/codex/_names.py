"""Codex's tool names, and the figures that its two transcripts write alike."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from niceeval.adapter import Usage
from niceeval.turn_building import ToolNames, count_of, list_of, text_of, value_of

TOOLS: Final = ToolNames(
    {
        "exec_command": "shell",
        "write_stdin": "shell",
        "shell": "shell",
        "shell_command": "shell",
        "local_shell": "shell",
        "container.exec": "shell",
        "unified_exec": "shell",
        "apply_patch": "file_edit",
        "read_file": "file_read",
        "view_image": "file_read",
        "list_dir": "list_dir",
        "grep_files": "grep",
        "web_search": "web_search",
        "spawn_agent": "agent_task",
    }
)
"""The tools of the Codex CLI."""

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_]")
SPAWN: Final = "spawn_agent"
"""The tool that hands work to a subagent."""


def usage_of(figures: object) -> Usage | None:
    """Codex's usage: its input tokens contain the cache buckets, which are taken out. None where there is none."""
    given, read = count_of(figures, "input_tokens"), count_of(figures, "cached_input_tokens")
    written = count_of(figures, "cache_write_input_tokens")
    if given is None:
        return None
    return Usage(
        input_tokens=max(given - (read or 0) - (written or 0), 0),
        output_tokens=count_of(figures, "output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=count_of(figures, "reasoning_output_tokens"),
    )


def difference(later: Usage, earlier: Usage) -> Usage | None:
    """What was used between two running totals; None where the later one is smaller."""
    parts: dict[str, int | None] = {}
    for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens"):
        end, begin = getattr(later, name), getattr(earlier, name)
        parts[name] = None if end is None else end - (begin or 0)
    if any(value is not None and value < 0 for value in parts.values()):
        return None
    return Usage(**parts)


def server_named(shown: str, servers: Collection[str]) -> str:
    """The MCP server of a name that Codex shows its model: it has `_` for what its rules of names do not allow."""
    return next((name for name in servers if _UNSAFE.sub("_", name) == shown), shown)


def mcp_outcome(item: object) -> Any:
    """What a tool of an MCP server answered: as one text where it is nothing but text; or the error."""
    error = value_of(item, "error")
    if error is not None:
        return error
    parts = list_of(item, "result", "content")
    texts = [text_of(part, "text") for part in parts if text_of(part, "type") == "text"]
    whole = texts and len(texts) == len(parts)
    return "\n".join(text or "" for text in texts) if whole else value_of(item, "result")
