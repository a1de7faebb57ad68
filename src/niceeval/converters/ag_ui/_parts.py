"""What a turn is put together from while AG-UI's events arrive."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from niceeval.adapter import Usage
from niceeval.turn_building import count_of, text_of

ResultStatus = Literal["completed", "failed", "rejected"]


class Text:
    """A text that is still coming: it stands where it began. `kind` is empty for one that is not the agent's own."""

    def __init__(self, kind: Literal["message", "thinking", ""]) -> None:
        self.kind = kind
        self.parts: list[str] = []
        self.open = True


class Call:
    """A tool call whose arguments are still coming: it stands where it began."""

    def __init__(self, id: str, name: str) -> None:
        self.id = id
        self.name = name
        self.parts: list[str] = []
        self.open = True

    @property
    def input(self) -> Any:
        """The arguments; as they came, where they are no JSON."""
        text = "".join(self.parts)
        try:
            return json.loads(text) if text.strip() else {}
        except (ValueError, RecursionError):
            return text


class Result:
    """What a call came to. `sure`: it was said whether it failed."""

    def __init__(self, call_id: str, output: Any, message_id: str | None, status: ResultStatus = "completed") -> None:
        self.call_id = call_id
        self.output = output
        self.message_id = message_id
        self.status: ResultStatus = status
        self.sure = False


def decoded(event: str | Mapping[str, Any]) -> Mapping[str, Any] | None:
    if isinstance(event, str):
        try:
            event = json.loads(event)
        except (ValueError, RecursionError):
            return None
    return event if isinstance(event, dict) else None


def content_of(content: Any) -> Any:
    """A tool's output: its text, where it has nothing else."""
    parts = [text_of(part, "text") for part in content] if isinstance(content, list) else []
    return "".join(part for part in parts if part is not None) if parts and None not in parts else content


def usage_of(used: object) -> Usage | None:
    """One model's tokens. What was read from a cache, or written to one, is part of the input here."""
    total, output = count_of(used, "inputTokens"), count_of(used, "outputTokens")
    if total is None and output is None:
        return None
    read, written = count_of(used, "cachedInputTokens"), count_of(used, "cacheWriteInputTokens")
    return Usage(
        input_tokens=None if total is None else max(total - (read or 0) - (written or 0), 0),
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=count_of(used, "reasoningTokens"),
    )
