"""Neutral operations, translated into the tools that a request offers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from niceeval.testing._model_server.answer import ToolCall, call_id
from niceeval.testing._model_server.model_request import ModelRequest, OfferedTool
from niceeval.testing._model_server.schema_values import simplest
from niceeval.testing._model_server.steps import Operation

NAMES: Mapping[str, tuple[str, ...]] = {
    "shell": ("Bash", "exec_command", "shell_command", "shell", "bash", "run_shell_command"),
    "write": ("Write", "write", "write_file", "fs_write", "fs.write", "apply_patch"),
    "edit": ("Edit", "edit", "replace", "fs_edit", "fs.edit", "apply_patch"),
    "read": ("Read", "read", "read_file", "fs_read", "fs.read"),
    "task": ("Agent", "Task", "spawn_agent", "task", "subagent", "invoke_agent"),
}
"""What tools for an operation are called, in the order in which they are preferred."""

ALIASES: Mapping[str, tuple[str, ...]] = {
    "command": ("command", "cmd", "script"),
    "path": ("file_path", "filePath", "path", "absolute_path", "filename"),
    "content": ("content", "contents", "text", "file_text"),
    "old": ("old_string", "oldString", "old", "old_str", "old_text"),
    "new": ("new_string", "newString", "new", "new_str", "new_text"),
    "prompt": ("prompt", "message", "task", "objective", "instructions"),
    "description": ("description", "instruction", "label"),
}
"""What tools call an argument. A tool's schema decides which of them it is."""

SUBAGENTS: Mapping[str, str] = {
    "Agent": "general-purpose",
    "Task": "general-purpose",
    "task": "general",
    "invoke_agent": "generalist",
}
"""Which subagent a task goes to, where the tool asks."""

TOOL_SEARCH = "tool_search"
"""A tool that brings tools which were not offered yet; the conversation then holds them."""

FINISH = "complete_task"
"""A tool by which a subagent has to give its last answer, where it is offered; a text alone would not end it."""

Arguments: TypeAlias = dict[str, Any] | str


class NoTool(Exception):
    """The request offers no tool for an operation."""


def tool_calls(operations: Sequence[Operation], request: ModelRequest, answer_id: str) -> tuple[ToolCall, ...]:
    """The calls that carry out the operations; or one search, where that may bring a missing tool. Raises NoTool."""
    calls = []
    for number, operation in enumerate(operations):
        try:
            tool, arguments = _translated(operation, request)
        except NoTool:
            query = _query(operation)
            if query is None or query in request.searches or _named(TOOL_SEARCH, request.tools) is None:
                raise
            return (ToolCall(call_id(answer_id, 0), TOOL_SEARCH, {"query": query}, search=True),)
        calls.append(ToolCall(call_id(answer_id, number), tool.name, arguments, tool.namespace))
    return tuple(calls)


def finishing(text: str, request: ModelRequest) -> Operation | None:
    """The call that ends a subagent with this text; None where a text ends it."""
    tool = _named(FINISH, request.tools)
    if tool is None:
        return None
    values = simplest({**(tool.schema or {}), "type": "object"})
    return Operation(
        "tool", {"name": FINISH, "arguments": {n: text if isinstance(v, str) else v for n, v in values.items()}}
    )


def _translated(operation: Operation, request: ModelRequest) -> tuple[OfferedTool, Arguments]:
    arguments = dict(operation.arguments)
    if operation.kind == "tool":
        named = _named(arguments["name"], request.tools)
        return named or OfferedTool(arguments["name"], {}), _free_text(named, dict(arguments["arguments"]))
    if operation.kind == "mcp":
        return _mcp(arguments, request.tools), dict(arguments["arguments"])
    for name in NAMES[operation.kind]:
        tool = _named(name, request.tools)
        if tool is not None:
            return tool, _fitted(operation.kind, arguments, tool)
    return _through_shell(operation, request)


def _query(operation: Operation) -> str | None:
    """What to search for: tools that clients hold back are those of subagents and of MCP servers."""
    if operation.kind == "mcp":
        return f"{operation.arguments['server']} {operation.arguments['tool']}"
    return "spawn_agent subagent" if operation.kind == "task" else None


def _named(name: str, tools: Sequence[OfferedTool]) -> OfferedTool | None:
    return next((tool for tool in tools if tool.name == name), None)


def _free_text(tool: OfferedTool | None, arguments: dict[str, Any]) -> Arguments:
    """A tool that takes free text gets the one text that was given for it."""
    texts = list(arguments.values())
    if tool is not None and tool.schema is None and len(texts) == 1 and isinstance(texts[0], str):
        return texts[0]
    return arguments


def _mcp(arguments: Mapping[str, Any], tools: Sequence[OfferedTool]) -> OfferedTool:
    server, name = _plain(arguments["server"]), _plain(arguments["tool"])
    full = f"{server}_{name}"
    for tool in tools:
        offered = _plain(f"{tool.namespace}_{tool.name}" if tool.namespace else tool.name)
        if offered in (full, f"mcp_{full}"):
            return tool
    alone = [tool for tool in tools if _plain(tool.name) == name]
    if len(alone) == 1:
        return alone[0]
    raise NoTool(f"no tool {arguments['tool']} of the MCP server {arguments['server']}; {_offered(tools)}")


def _plain(name: str) -> str:
    return re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_").lower()


def _through_shell(operation: Operation, request: ModelRequest) -> tuple[OfferedTool, Arguments]:
    """What has no tool of its own is done in the shell, where there is one and a command for it."""
    command = _SHELL_FORMS.get(operation.kind)
    shell = next((tool for name in NAMES["shell"] if (tool := _named(name, request.tools)) is not None), None)
    patches = shell is not None and shell.name in ("exec_command", "shell_command")
    if shell is None or command is None or (operation.kind == "edit" and not patches):
        raise NoTool(f"no tool for {operation.kind}; {_offered(request.tools)}")
    return shell, _fitted("shell", {"command": command(operation.arguments)}, shell)


def _offered(tools: Sequence[OfferedTool]) -> str:
    names = [f"{tool.namespace}.{tool.name}" if tool.namespace else tool.name for tool in tools]
    return f"the request offers {', '.join(names)}" if names else "the request offers no tool"


def _written(arguments: Mapping[str, Any]) -> str:
    return f"printf %s {shlex.quote(arguments['content'])} > {shlex.quote(arguments['path'])}"


def _patched(arguments: Mapping[str, Any]) -> str:
    return f"apply_patch <<'PATCH'\n{_patch('edit', arguments)}\nPATCH"


_SHELL_FORMS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "write": _written,
    "read": lambda arguments: f"cat -- {shlex.quote(arguments['path'])}",
    "edit": _patched,
}


def _patch(kind: str, arguments: Mapping[str, Any]) -> str:
    if kind == "write":
        lines = [f"+{line}" for line in arguments["content"].splitlines()]
        change = [f"*** Add File: {arguments['path']}", *lines]
    else:
        old = [f"-{line}" for line in arguments["old"].splitlines()]
        new = [f"+{line}" for line in arguments["new"].splitlines()]
        change = [f"*** Update File: {arguments['path']}", "@@", *old, *new]
    return "\n".join(["*** Begin Patch", *change, "*** End Patch"])


def _fitted(kind: str, neutral: Mapping[str, Any], tool: OfferedTool) -> Arguments:
    """The arguments by the names that the tool's schema has; what it requires beside them gets a simple value."""
    if tool.name == "apply_patch":
        patch = _patch(kind, neutral)
        return patch if tool.schema is None else {_first(("input", "patch"), tool): patch}
    values = dict(neutral)
    if kind in ("shell", "edit"):
        values.setdefault("description", f"scripted {kind}")
    fitted: dict[str, Any] = {}
    for name, value in values.items():
        theirs = _first(ALIASES[name], tool)
        if theirs in _properties(tool) or (name in neutral and name != "description"):
            fitted[theirs] = _as_declared(value, theirs, tool)
    for subagent in ("subagent_type", "agent_name"):
        if kind == "task" and subagent in _properties(tool):
            fitted[subagent] = SUBAGENTS.get(tool.name, "general")
    return {**simplest({**(tool.schema or {}), "type": "object"}), **fitted}


def _properties(tool: OfferedTool) -> Mapping[str, Any]:
    properties = (tool.schema or {}).get("properties")
    return properties if isinstance(properties, dict) else {}


def _first(names: Sequence[str], tool: OfferedTool) -> str:
    properties = _properties(tool)
    return next((name for name in names if name in properties), names[0])


def _as_declared(value: Any, name: str, tool: OfferedTool) -> Any:
    """A command line where the tool takes a list of words: a shell runs it."""
    declared = _properties(tool).get(name)
    if name == "command" and isinstance(declared, dict) and declared.get("type") == "array":
        return ["sh", "-c", value]
    return value
