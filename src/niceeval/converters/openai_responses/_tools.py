"""What the many kinds of calls have in common: a name, what they were given, and what they came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from niceeval.converters._plain_json import decoded
from niceeval.turn_building import list_of, mcp_name, object_of, text_of, value_of

Outcome = Literal["completed", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of call. `given` are the fields that hold what it was given. One that the service runs (`hosted`) is its
    own result, in the field `output` where it has one; a hosted result may be `binary`, and is described."""

    name: str
    given: tuple[str, ...] = ()
    tool: str | None = None
    hosted: bool = False
    output: str | None = None
    binary: bool = False


KINDS: Final[Mapping[str, Kind]] = {
    "web_search_call": Kind(name="web_search", given=("action",), tool="web_search", hosted=True),
    "file_search_call": Kind(name="file_search", given=("queries",), hosted=True, output="results"),
    "code_interpreter_call": Kind(name="code_interpreter", given=("code",), hosted=True, output="outputs"),
    "image_generation_call": Kind(
        name="image_generation", given=("revised_prompt",), hosted=True, output="result", binary=True
    ),
    "computer_call": Kind(name="computer", given=("action", "actions")),
    "local_shell_call": Kind(name="local_shell", given=("action",), tool="shell"),
    "shell_call": Kind(name="shell", given=("action",), tool="shell"),
    "apply_patch_call": Kind(name="apply_patch", given=("operation",), tool="file_edit"),
    "program": Kind(name="program", given=("code",)),
    "tool_search_call": Kind(name="tool_search", given=("arguments",)),
}
"""Kinds of calls that are neither functions nor tools of an MCP server."""

OUTPUTS: Final[Mapping[str, str]] = {
    "function_call_output": "output",
    "custom_tool_call_output": "output",
    "computer_call_output": "output",
    "local_shell_call_output": "output",
    "shell_call_output": "output",
    "apply_patch_call_output": "output",
    "program_output": "result",
    "tool_search_output": "tools",
}
"""Items that are a call's result -> the field that has it."""

_OPEN: Final = frozenset({"in_progress", "incomplete", "searching", "interpreting", "generating", "calling"})


def is_open(item: Mapping[str, Any]) -> bool:
    """Whether an item says of itself that it is not whole."""
    return text_of(item, "status") in _OPEN


def given_of(item: Mapping[str, Any], kind: Kind) -> Any:
    """What a call was given."""
    return {name: item[name] for name in kind.given if item.get(name) is not None}


def function_name(item: Mapping[str, Any]) -> str | None:
    """The name of a function, or the one name that a tool of an MCP server goes by."""
    name, server = text_of(item, "name"), text_of(item, "server_label")
    return mcp_name(server, name) if server and name else name


def arguments_of(item: Mapping[str, Any]) -> Any:
    """The arguments of a function: an object, or the text as it came where it is none."""
    raw = item.get("arguments")
    return decoded(raw)[0] if raw is None or isinstance(raw, str) else raw


def hosted_outcome(item: Mapping[str, Any], kind: Kind) -> tuple[Any, Outcome] | None:
    """What a call that the service ran came to; None where it is not done."""
    if is_open(item):
        return None
    if item.get("error") is not None or text_of(item, "status") == "failed":
        return item.get("error"), "failed"
    output = item.get(kind.output) if kind.output else None
    if kind.binary and isinstance(output, str):
        output = {"kind": "binary", "base64_chars": len(output)}
    return output, "completed"


def client_outcome(item: Mapping[str, Any]) -> tuple[Any, Outcome | None]:
    """What an output says, and how the call went where its kind says so."""
    kind = text_of(item, "type") or ""
    output = item.get(OUTPUTS[kind])
    if kind == "shell_call_output":
        return output, _shell(item)
    if kind in ("program_output", "tool_search_output"):
        return output, "completed"
    if text_of(item, "status") == "failed":
        return output, "failed"
    if kind == "apply_patch_call_output":
        return output, "completed"
    return _joined(output), None


def _shell(item: Mapping[str, Any]) -> Outcome | None:
    outcomes = [object_of(part, "outcome") for part in list_of(item, "output")]
    if any(text_of(one, "type") == "timeout" or value_of(one, "exit_code") not in (0, None) for one in outcomes):
        return "failed"
    known = outcomes and all(value_of(one, "exit_code") == 0 for one in outcomes)
    return "completed" if known else None


def _joined(output: Any) -> Any:
    """Parts of text are one text; other parts stay as they are."""
    if not isinstance(output, list):
        return output
    texts = [text_of(part, "text") for part in output]
    return "".join(text for text in texts if text is not None) if all(text is not None for text in texts) else output
