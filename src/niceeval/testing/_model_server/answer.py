"""A step that was fitted to one request: what the protocols write."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import Any

from niceeval._model.usage import Usage
from niceeval.testing._model_server.model_request import CALL_PREFIX

PIECES = 6
"""A text is streamed in at most this many pieces."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool that was offered. `arguments` is an object, or free text for a tool that takes text.

    `search` is a search for tools, which is no step of the script.
    """

    id: str
    name: str
    arguments: dict[str, Any] | str
    namespace: str | None = None
    search: bool = False

    @property
    def arguments_text(self) -> str:
        """The arguments as they are sent: JSON text, or the free text."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is sent. `id` is new for each answer, and part of its calls' ids."""

    id: str
    model: str
    thinking: str | None = None
    text: str | None = None
    calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None


def new_id() -> str:
    """An id that no other answer has."""
    return secrets.token_hex(8)


def call_id(answer_id: str, number: int) -> str:
    """The id of an answer's call; `answers_after` finds the answer's id in it."""
    return f"call_{CALL_PREFIX}{answer_id}_{number}"


def pieces(text: str) -> list[str]:
    """The text in at most `PIECES` pieces, none of them empty."""
    size = max(1, -(-len(text) // PIECES))
    return [text[start : start + size] for start in range(0, len(text), size)]


def given(**counts: int | None) -> dict[str, int]:
    """The counts that are known."""
    return {name: count for name, count in counts.items() if count is not None}


def total(*counts: int | None) -> int | None:
    """The sum of the counts that are known; None where none is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
