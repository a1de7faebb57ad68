"""The content blocks of messages, as events. Blocks have no type: what they are is told by their fields."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from niceeval.converters._attributes import field, items, text_field, without_bytes
from niceeval.turn_building import LOAD_SKILL, ToolNames, TurnBuilder

ANSWER_TOOL: Final = "StructuredOutput"
"""The tool by which Claude Code has a structured answer given: no action of the agent."""
AGENT_TOOLS: Final = frozenset({"Agent", "Task"})
TOOLS: Final = ToolNames(
    {
        "Bash": "shell",
        "BashOutput": "shell",
        "Read": "file_read",
        "Write": "file_write",
        "Edit": "file_edit",
        "MultiEdit": "file_edit",
        "NotebookEdit": "file_edit",
        "Glob": "glob",
        "Grep": "grep",
        "LS": "list_dir",
        "WebFetch": "web_fetch",
        "WebSearch": "web_search",
        "web_fetch": "web_fetch",
        "web_search": "web_search",
        "Agent": "agent_task",
        "Task": "agent_task",
    }
)
"""The tools of Claude Code and of the API."""


def has(value: object, name: str) -> bool:
    """Whether there is a field of that name."""
    return name in value if isinstance(value, Mapping) else hasattr(value, name)


class BlockReader:
    """Reads blocks into a builder. `denied` are the calls that a human or a rule refused. A subagent's calls count as
    the turn's; what it says does not, for that is the outcome of its call.

    `background` are the ids of Agent calls whose subagent runs on after the call has its result; `subagents` counts
    subagents; `said` is what each said last; `errors` are the calls that failed or were refused, which only the end of
    a turn tells apart.
    """

    def __init__(self, builder: TurnBuilder, denied: Collection[str]) -> None:
        self.builder = builder
        self.background: set[str] = set()
        self.subagents = 0
        self.said: dict[str, str] = {}
        self.errors: list[str] = []
        self.calls: set[str] = set()
        self._denied = denied
        self._answers: dict[str, str] = {}

    def assistant(self, content: object, *, parent: str | None) -> None:
        """What the model said and called in one message; `parent` is the call whose subagent it is."""
        for block in [{"text": content}] if isinstance(content, str) else items(content):
            if has(block, "tool_use_id"):
                self._server_result(block)
            elif has(block, "thinking"):
                self._thinking(block, parent is not None)
            elif has(block, "name") and has(block, "input"):
                self._call(block)
            elif has(block, "text"):
                self._text(text_field(block, "text") or "", parent)
            else:
                self.builder.unknown("a block without known fields")

    def user(self, content: object, details: object) -> None:
        """The results of tools; what else is in the message is the eval's own text, or the CLI's."""
        for block in items(content):
            if has(block, "tool_use_id"):
                self._result(block, details)
            elif not has(block, "text"):
                self.builder.unknown("a user's block without known fields")

    def _text(self, text: str, parent: str | None) -> None:
        if parent is None:
            self.builder.message(text)
        elif text:
            self.said[parent] = text

    def _thinking(self, block: object, child: bool) -> None:
        thought = text_field(block, "thinking") or ""
        if not thought:
            self.builder.partial("events", "the model's reasoning came encrypted")
        elif not child:
            self.builder.thinking(thought)

    def _call(self, block: object) -> None:
        id, name = text_field(block, "id"), text_field(block, "name")
        if not id or not name:
            self.builder.unknown("a call without id or name")
            return
        given = without_bytes(field(block, "input"))
        skill = text_field(given, "skill") or text_field(given, "command")
        if name == ANSWER_TOOL:
            self._answers[id] = _json_text(given)
            return
        self.calls.add(id)
        if name == "Skill" and skill:
            self.builder.called(id, LOAD_SKILL, {**given, "skill": skill.removeprefix("/")})
            return
        self.builder.called(id, name, given, TOOLS.canonical(name))
        if name in AGENT_TOOLS:
            self.subagents += self.builder.subagent(id, text_field(given, "subagent_type") or name)

    def _server_result(self, block: object) -> None:
        # A tool that the API runs itself: its result is part of the model's message.
        id, content = text_field(block, "tool_use_id") or "", field(block, "content")
        failed = (text_field(content, "type") or "").endswith("_error")
        self.builder.result(id, without_bytes(content), "failed" if failed else "completed")

    def _result(self, block: object, details: object) -> None:
        id, error = text_field(block, "tool_use_id"), field(block, "is_error")
        if not id or error not in (None, True, False):
            self.builder.unknown("a result without an id or a state")
            return
        output = _plain(field(block, "content"))
        if id in self._answers:
            if error:
                self.builder.error(f"the structured answer was refused: {output}")
            else:
                self.builder.message(self._answers[id])
            return
        if id in self._denied:
            self.builder.result(id, output, "rejected")
        elif error or (isinstance(details, Mapping) and details.get("interrupted") is True):
            self.errors.append(id)
            self.builder.result(id, output, "failed")
        else:
            self.builder.result(id, output)
        if self.builder.subagent_open(id):
            self._subagent_result(id, output, details, failed=bool(error))

    def _subagent_result(self, id: str, output: Any, details: object, *, failed: bool) -> None:
        if isinstance(details, Mapping) and (
            details.get("isAsync") is True or details.get("status") == "async_launched"
        ):
            self.background.add(id)
        if failed or id not in self.background:
            said = _plain(details.get("content")) if isinstance(details, Mapping) else None
            self.builder.subagent_done(id, said or output, "failed" if failed else "completed")


def _plain(content: Any) -> Any:
    """A result's blocks as one text, where they are nothing but text."""
    parts = items(content)
    texts = [text_field(part, "text") for part in parts if text_field(part, "type") == "text"]
    if parts and len(texts) == len(parts):
        return "\n".join(text or "" for text in texts)
    return without_bytes(content)


def _json_text(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)
