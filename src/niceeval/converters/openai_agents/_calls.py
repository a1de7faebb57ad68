"""What a call's raw item says: its id, its name, what it was given, and, where a provider ran it, what it came to."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from niceeval.converters._attributes import field, items, text_field, without_bytes
from niceeval.turn_building import mcp_name

_GIVEN: Final[Mapping[str, tuple[str, ...]]] = {
    "file_search_call": ("queries",),
    "web_search_call": ("action",),
    "code_interpreter_call": ("code",),
    "image_generation_call": (),
    "computer_call": ("action", "actions"),
    "local_shell_call": ("action",),
    "shell_call": ("action",),
    "apply_patch_call": ("operation",),
    "program": ("code",),
    "tool_search_call": ("arguments",),
}
"""Calls that have no arguments as text -> the fields that hold what they were given."""
_HOSTED: Final[Mapping[str, str | None]] = {
    "mcp_call": "output",
    "file_search_call": "results",
    "web_search_call": None,
    "code_interpreter_call": "outputs",
    "image_generation_call": None,
}
"""Calls that a provider ran: the call is its own result, in this field where there is one."""
CANONICAL: Final[Mapping[str, str]] = {
    "web_search_call": "web_search",
    "local_shell_call": "shell",
    "shell_call": "shell",
    "apply_patch_call": "file_edit",
}
"""What stands for a tool that means the same for every agent."""


def call_id(raw: object) -> str | None:
    """The id that pairs a call with its result. A model without ids of its own gives every item the same `id`."""
    return text_field(raw, "call_id") or text_field(raw, "id")


def call_name(item: object) -> str:
    """The tool's name; of a tool of an MCP server, the one name that such a tool goes by."""
    raw = field(item, "raw_item")
    name = text_field(raw, "name") or text_field(item, "tool_name")
    server = text_field(raw, "server_label")
    origin = field(item, "tool_origin")
    if text_field(origin, "type") == "mcp":
        server = text_field(origin, "mcp_server_name")
    if name is None:
        kind = text_field(raw, "type") or "unknown"
        return kind.removesuffix("_call")
    return mcp_name(server, name) if server else name


def call_input(raw: object) -> Any:
    """What the call was given: arguments that are JSON as a mapping, other text as it came."""
    fields = _GIVEN.get(text_field(raw, "type") or "")
    if fields is not None:
        return {name: plain(field(raw, name)) for name in fields if field(raw, name) is not None}
    given = field(raw, "arguments")
    if given is None:
        given = field(raw, "input")
    if not isinstance(given, str):
        return plain(given) if given is not None else {}
    try:
        read = json.loads(given) if given else {}
    except (ValueError, RecursionError):
        return given
    return read if isinstance(read, dict) else given


def hosted_result(raw: object) -> tuple[Any, bool] | None:
    """What a call that a provider ran came to, and whether it failed; None for one that has its result elsewhere, or
    none yet."""
    kind = text_field(raw, "type") or ""
    if kind not in _HOSTED:
        return None
    error, status = field(raw, "error"), text_field(raw, "status")
    if error is not None:
        return plain(error), True
    if status in ("failed", "incomplete"):
        return None if status == "incomplete" else (None, True)
    name = _HOSTED[kind]
    output = plain(field(raw, name)) if name else None
    return None if status not in ("completed", None) else (output, False)


def agent_behind(item: object) -> str | None:
    """The agent that a tool runs, where the SDK made the tool from it."""
    origin = field(item, "tool_origin")
    return text_field(origin, "agent_name") if text_field(origin, "type") == "agent_as_tool" else None


def plain(value: Any) -> Any:
    """A value without the SDK's classes, as far as they say how; binary content is described."""
    dump: Callable[..., Any] | None = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return without_bytes(dump(mode="json", exclude_none=True))
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in items(value)]
    return without_bytes(value)
