"""Tool names that mean the same for every agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from niceeval._base.errors import AdapterError
from niceeval._model.events import CANONICAL_TOOLS

LOAD_SKILL: Final = "load_skill"
"""The name of the action that loads a skill; its input is `{"skill": name}`."""

_MCP: Final = "mcp__"


class ToolNames:
    """An agent's own tool names and the canonical ones they stand for.

    names = ToolNames({"Bash": "shell", "Read": "file_read"})
    names.canonical("Bash")

    Raises AdapterError (`agent-invalid`) for a canonical name that does not exist.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        wrong = sorted(set(names.values()) - CANONICAL_TOOLS)
        if wrong:
            raise AdapterError(
                "agent-invalid",
                problem=f"{wrong[0]!r} is no canonical tool name",
                fix="the canonical names are " + ", ".join(sorted(CANONICAL_TOOLS)),
            )
        self._names = dict(names)

    def canonical(self, name: str) -> str | None:
        """The canonical name; None where the agent's tool has none (an MCP server's tool, a new one)."""
        return self._names.get(name)


def mcp_name(server: str, tool: str) -> str:
    """The one name that a tool of an MCP server goes by, whatever the agent calls it: `mcp__<server>__<tool>`."""
    return f"{_MCP}{server}__{tool}"


def mcp_parts(name: str) -> tuple[str, str] | None:
    """Server and tool of such a name; None for any other."""
    if not name.startswith(_MCP):
        return None
    server, separator, tool = name[len(_MCP) :].partition("__")
    return (server, tool) if separator and server and tool else None
