"""The chunks of a streamed answer, put together to what the answer would have been in one piece."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from niceeval.turn_building import list_of, object_of, text_of, value_of

_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")


class _Call:
    """A call that is still coming: its id and its name are in its first piece."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []

    def add(self, delta: Mapping[str, Any]) -> None:
        self.id = self.id or text_of(delta, "id") or ""
        given = object_of(delta, self.kind)
        self.name = self.name or text_of(given, "name") or ""
        self.arguments.append(text_of(given, "arguments") or text_of(given, "input") or "")

    def whole(self) -> dict[str, Any]:
        text = "".join(self.arguments)
        field = "input" if self.kind == "custom" else "arguments"
        return {"id": self.id, "type": self.kind, self.kind: {"name": self.name, field: text}}


class Chunks:
    """One answer out of its chunks. `size` is how many characters have come."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.size = 0
        self.finish_reason: str | None = None
        self._usage: Any = None
        self._error: Any = None
        self._texts: dict[str, list[str]] = {}
        self._parts: list[Any] = []
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}
        self._legacy: _Call | None = None
        self._said: list[str] = []
        self._images = False

    def add(self, chunk: Mapping[str, Any]) -> None:
        """One chunk. The one that says the usage has no choices."""
        self.id = self.id or text_of(chunk, "id")
        self._usage = chunk.get("usage") or self._usage
        self._error = self._error or chunk.get("error")
        for choice in list_of(chunk, "choices"):
            # Further choices are alternatives to the first; one that has no index is the only one.
            if value_of(choice, "index") in (0, None):
                self.finish_reason = text_of(choice, "finish_reason") or self.finish_reason
                self._delta(object_of(choice, "delta"))

    def completion(self) -> dict[str, Any]:
        """The answer so far, in the form of a completion."""
        message: dict[str, Any] = {"role": "assistant", "audio": {"transcript": "".join(self._said)}}
        message["images"] = [{}] if self._images else []
        for name, pieces in self._texts.items():
            message[name] = "".join(pieces)
        if self._parts:
            text = message.get("content")
            message["content"] = [*([{"type": "text", "text": text}] if text else []), *self._parts]
        message["tool_calls"] = [call.whole() for call in self._calls]
        if self._legacy is not None:
            message["function_call"] = self._legacy.whole()["function"]
        choice = {"index": 0, "finish_reason": self.finish_reason, "message": message}
        return {"id": self.id, "choices": [choice], "usage": self._usage, "error": self._error}

    def _delta(self, delta: Mapping[str, Any]) -> None:
        for name in _TEXTS:
            text = text_of(delta, name)
            if text:
                self.size += len(text)
                self._texts.setdefault(name, []).append(text)
        self._parts += list_of(delta, "content")
        for call in list_of(delta, "tool_calls"):
            if isinstance(call, dict):
                self._call(call)
        if object_of(delta, "function_call"):
            self._legacy = self._legacy or _Call("function")
            self._legacy.add({"function": delta["function_call"]})
        said = text_of(delta, "audio", "transcript")
        if said:
            self.size += len(said)
            self._said.append(said)
        if delta.get("images"):
            self._images = True

    def _call(self, delta: Mapping[str, Any]) -> None:
        index, id = value_of(delta, "index"), text_of(delta, "id")
        known = self._at.get(index) if type(index) is int else (self._calls[-1] if self._calls else None)
        if known is None or (id and known.id and id != known.id):
            # A server without indices, or with the same one for all, tells calls apart by their ids.
            known = _Call("custom" if object_of(delta, "custom") else "function")
            self._calls.append(known)
            if type(index) is int:
                self._at[index] = known
        known.add(delta)
        self.size += len(known.arguments[-1])
