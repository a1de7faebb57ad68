"""A scope's turns as text for a judge. What was said is indented, so that none of it can pass for a line of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from niceeval._base.plain_text import cut_text
from niceeval._evidence.facts import IndexedEvent, ToolCall
from niceeval._evidence.scope import Scope
from niceeval._model.events import ActionCalled, ErrorEvent, InputRequested, Message, StreamEvent
from niceeval._model.json_types import JsonValue
from niceeval._model.judge import JudgeMaterial

MAX_VALUE: Final = 4_000
"""Characters of one tool's input or output that a judge sees."""


def turn_material(scope: Scope) -> JudgeMaterial:
    """One turn: what the user said, and the last thing that the agent said; empty where it said nothing."""
    said = [event.text for _, event in scope.events if isinstance(event, Message) and event.role == "assistant"]
    return JudgeMaterial(input=_asked(scope.events), output=said[-1] if said else "")


def conversation_material(scope: Scope) -> JudgeMaterial:
    """Every turn: what the user said, and the whole conversation with its tool calls."""
    calls = {call.event: call for call in scope.tool_calls}
    sessions = {turn.number: turn.session for turn in scope.turns}
    several = len(set(sessions.values())) > 1
    parts: list[str] = []
    for turn in sorted(scope.turns, key=lambda turn: turn.number):
        if several:
            parts.append(f"[conversation {turn.session + 1}]")
        parts += [text for index, event in turn.events if (text := _line(event, calls.get(index)))]
    level, reasons = scope.coverage.get("actions", ("complete", ()))
    if level != "complete":
        parts.append(f"[not every tool call is shown: {'; '.join(reasons)}]")
    return JudgeMaterial(input=_asked(scope.events), output="\n".join(parts))


def _asked(events: Sequence[IndexedEvent]) -> str:
    return "\n\n".join(_user_texts(events))


def _user_texts(events: Sequence[IndexedEvent]) -> Iterator[str]:
    for _, event in events:
        if isinstance(event, Message) and event.role == "user":
            yield event.text


def _line(event: StreamEvent, call: ToolCall | None) -> str | None:
    if isinstance(event, Message):
        return f"[{event.role}]\n{_indented(event.text)}"
    if isinstance(event, ActionCalled) and call is not None:
        output = "" if call.output is None else f"\n{_indented(_value(call.output))}"
        return f"[tool call, {call.status}]\n{_indented(f'{call.name} {_value(call.input)}')}{output}"
    if isinstance(event, InputRequested):
        return f"[the agent asks]\n{_indented(event.request.prompt or event.request.display or event.request.id)}"
    if isinstance(event, ErrorEvent):
        return f"[error]\n{_indented(event.message)}"
    return None


def _value(value: JsonValue) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return cut_text(text, MAX_VALUE)


def _indented(text: str) -> str:
    # By every line break that Python knows: a model may read any of them as one.
    return "\n".join(f"  {line}" for line in text.splitlines()) or "  (nothing)"
