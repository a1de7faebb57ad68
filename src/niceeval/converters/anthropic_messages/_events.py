"""The events of a streamed message, put together to what the message would have been in one piece."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from niceeval.converters._plain_json import decoded
from niceeval.turn_building import count_of, object_of, text_of

HELPERS: Final = frozenset({"text", "thinking", "signature", "input_json", "citation", "compaction"})
"""Events that the SDK's stream makes of raw ones, which it gives as well."""
KINDS: Final = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
        "error",
    }
)
"""The events of the protocol."""


class _Block:
    def __init__(self, begun: Mapping[str, Any]) -> None:
        self.begun = dict(begun)
        self.texts: list[str] = []
        self.json: list[str] = []
        self.done = False

    def whole(self) -> dict[str, Any]:
        block = dict(self.begun)
        kind = text_of(block, "type") or ""
        if self.texts:
            field = "thinking" if kind == "thinking" else "text"
            block[field] = (text_of(block, field) or "") + "".join(self.texts)
        if self.json:
            block["input"], is_object = decoded("".join(self.json))
            self.done = self.done and is_object
        return block if self.done else {**block, "cut": True}


class Events:
    """One message out of its events."""

    def __init__(self) -> None:
        self.size = 0
        self.error: Any = None
        self.lost = False
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, _Block] = {}

    @property
    def ended(self) -> bool:
        """Whether it says why it ends."""
        return self._message.get("stop_reason") is not None

    def add(self, event: Mapping[str, Any]) -> None:
        """One event of the protocol."""
        kind = text_of(event, "type")
        if kind == "message_start":
            self._message = dict(object_of(event, "message"))
            self._usage = dict(object_of(self._message, "usage"))
        elif kind == "content_block_start":
            self._blocks[self._index(event)] = _Block(object_of(event, "content_block"))
        elif kind == "content_block_delta":
            self._delta(event)
        elif kind == "content_block_stop":
            block = self._blocks.get(self._index(event))
            if block is not None:
                block.done = True
        elif kind == "message_delta":
            delta = object_of(event, "delta")
            self._message |= {key: value for key, value in delta.items() if value is not None}
            # These are totals, and not what has come since.
            self._usage |= {key: value for key, value in object_of(event, "usage").items() if value is not None}
        elif kind == "error":
            self.error = event.get("error")

    def message(self) -> dict[str, Any]:
        """The message so far; blocks that have no end are marked as `cut`."""
        content = [self._blocks[index].whole() for index in sorted(self._blocks)]
        return {**self._message, "role": "assistant", "content": content, "usage": self._usage}

    def _index(self, event: Mapping[str, Any]) -> int:
        index = count_of(event, "index")
        return max(self._blocks, default=0) if index is None else index

    def _delta(self, event: Mapping[str, Any]) -> None:
        block, delta = self._blocks.get(self._index(event)), object_of(event, "delta")
        if block is None:
            self.lost = True
            return
        for name in ("text", "thinking"):
            text = text_of(delta, name)
            if text:
                block.texts.append(text)
                self.size += len(text)
        json = text_of(delta, "partial_json")
        if json:
            block.json.append(json)
            self.size += len(json)
