"""The blocks of a message, as events. Their order is the order in which the model came to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from niceeval.converters._client_calls import ClientCalls
from niceeval.turn_building import TurnBuilder, list_of, mcp_name, object_of, text_of, value_of

_RESULT: Final = "_tool_result"
_SILENT: Final = frozenset({"mcp_tool_listing"})
_USERS: Final = frozenset({"text", "image", "document", "search_result", "container_upload"})
"""Blocks that are the user's own."""
_SERVER_TOOLS: Final[Mapping[str, str]] = {
    "web_search": "web_search",
    "web_fetch": "web_fetch",
    "bash_code_execution": "shell",
}
"""Tools that the service runs and that mean the same for every agent."""
_EDITOR: Final[Mapping[str, str]] = {
    "view": "file_read",
    "create": "file_write",
    "str_replace": "file_edit",
    "insert": "file_edit",
}
"""Commands of the editor that the service runs -> what they stand for."""


class BlockReader:
    """Adds blocks to a builder."""

    def __init__(self, builder: TurnBuilder, calls: ClientCalls) -> None:
        self._builder = builder
        self._calls = calls
        self._parsed: Any = None

    def assistant(self, blocks: Sequence[Any], *, whole: bool) -> tuple[str, Any]:
        """What the model said and did. Of a message that is not whole, the last call may lack some of its input, and
        does not count. Returns the last text, and what the SDK made of it where it was to be structured."""
        said, last, parsed = [], "", None
        for place, block in enumerate(blocks):
            kind = text_of(block, "type") or "a block without a type"
            if kind == "text":
                # A text with citations comes in several blocks that follow each other.
                said.append(text_of(block, "text") or "")
                parsed = block.get("parsed_output")
                continue
            last = self._say(said) or last
            cut = value_of(block, "cut") is True or (not whole and place == len(blocks) - 1)
            self._block(kind, block, cut)
        return self._say(said) or last, parsed

    def user(self, blocks: Sequence[Any]) -> None:
        """What the caller sends: the results of the tools that it ran. The rest is the user's own."""
        for block in blocks:
            kind = text_of(block, "type") or "a block without a type"
            if kind.endswith("tool_result"):
                self._result(kind, block)
            elif kind not in _USERS:
                self._builder.unknown(kind)

    def _say(self, said: list[str]) -> str:
        text = "".join(said)
        said.clear()
        self._builder.message(text)
        return text

    def _block(self, kind: str, block: Mapping[str, Any], cut: bool) -> None:
        if kind == "thinking":
            self._thinking(text_of(block, "thinking") or "")
        elif kind == "redacted_thinking":
            self._builder.partial("events", "some of the model's reasoning is redacted")
        elif kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
            self._called(kind, block, cut)
        elif kind.endswith(_RESULT):
            self._result(kind, block)
        elif kind == "compaction":
            self._builder.compaction()
        elif kind == "container_upload":
            self._builder.diagnostic("parts-not-read", "the answer has a file, which no event holds", level="info")
        elif kind == "fallback":
            self._builder.diagnostic("model-fallback", "the service went on with another model", level="info")
        elif kind not in _SILENT:
            self._builder.unknown(kind)

    def _thinking(self, text: str) -> None:
        if text:
            self._builder.thinking(text)
        else:
            self._builder.partial("events", "the model's reasoning is not shown")

    def _called(self, kind: str, block: Mapping[str, Any], cut: bool) -> None:
        id, name = text_of(block, "id"), text_of(block, "name")
        if not id or not name:
            self._builder.unknown(f"{kind} without an id or a name")
            return
        if cut:
            self._builder.incomplete(f"a call of {name[:80]} was begun and never made", ("events", "actions"))
            return
        given, tool = block.get("input"), None
        if kind == "mcp_tool_use":
            name = mcp_name(text_of(block, "server_name") or "unknown", name)
        elif kind == "server_tool_use":
            tool = _SERVER_TOOLS.get(name)
            if name == "text_editor_code_execution":
                tool = _EDITOR.get(text_of(given, "command") or "")
        self._calls.called(id, name, {} if given is None else given, tool)

    def _result(self, kind: str, block: Mapping[str, Any]) -> None:
        id = text_of(block, "tool_use_id")
        if id is None:
            self._builder.unknown(f"{kind} without the id of its call")
            return
        content = block.get("content")
        self._calls.result(id, _without_data(_joined(content)), _outcome(block, content))


def _outcome(block: Mapping[str, Any], content: Any) -> Literal["completed", "failed"]:
    """How a call went. A tool of the service says so in its content: an error of its own kind, or an exit code."""
    error = (text_of(content, "type") or "").endswith("_error") or text_of(content, "error_code") is not None
    if block.get("is_error") is True or error or value_of(content, "return_code") not in (0, None):
        return "failed"
    return "completed"


def _joined(content: Any) -> Any:
    """Blocks of text are one text; other blocks stay as they are."""
    if not isinstance(content, list) or not content:
        return content
    texts = [text_of(part, "text") if text_of(part, "type") == "text" else None for part in content]
    return "".join(text for text in texts if text is not None) if all(text is not None for text in texts) else content


def _without_data(content: Any) -> Any:
    """Pictures and documents are described: no event holds binary content."""
    if not isinstance(content, list):
        return content
    return [_described(part) if text_of(part, "source", "data") else part for part in content]


def _described(part: Mapping[str, Any]) -> dict[str, Any]:
    source = object_of(part, "source")
    data = text_of(source, "data") or ""
    about = {"kind": "binary", "base64_chars": len(data), "media_type": source.get("media_type")}
    return {**part, "source": about}


def blocks_of(content: Any) -> list[Any]:
    """The blocks of a message's content, which may be a text instead."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block if isinstance(block, dict) else {} for block in list_of({"of": content}, "of")]
