"""The events of a streamed response, put together to what the response would have been in one piece."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from niceeval.converters._attributes import count_field, field, text_field
from niceeval.converters._plain_json import plain
from niceeval.turn_building import list_of, object_of, text_of

ENDS: Final = frozenset({"response.completed", "response.failed", "response.incomplete"})
"""The events that a whole stream ends with."""
_PIECES: Final = {
    "response.output_text.delta": ("message", "output_text", "text"),
    "response.refusal.delta": ("message", "refusal", "refusal"),
    "response.reasoning_text.delta": ("reasoning", "reasoning_text", "text"),
    "response.reasoning_summary_text.delta": ("reasoning", "summary_text", "text"),
}
"""Pieces of texts -> the kind of the item and of the part that they are of, and the part's field."""


class Events:
    """One response out of its events. Texts come in pieces, in one piece, in their item and in the response: they are
    read from the item, or from the response at the end; from pieces only where neither came."""

    def __init__(self) -> None:
        self.size = 0
        self.terminal: Mapping[str, Any] | None = None
        self.error: Any = None
        self.lost = False
        self._done: dict[int, Any] = {}
        self._begun: dict[int, Any] = {}
        self._pieces: dict[tuple[int, str, int], list[str]] = {}

    def add(self, kind: str, event: Any) -> bool:
        """One event, of that `type`; False for one that is not of a stream of a response."""
        if kind in ENDS:
            self.terminal = object_of({"of": plain(field(event, "response"))}, "of")
        elif kind == "response.output_item.done":
            self._done[self._index(event)] = plain(field(event, "item"))
        elif kind == "response.output_item.added":
            self._begun[self._index(event)] = plain(field(event, "item"))
        elif kind in _PIECES:
            self._piece(kind, event)
        elif kind == "error":
            self.error = plain(event)
        elif not kind.startswith("response."):
            return False
        return True

    def response(self) -> dict[str, Any]:
        """The response so far. Its `status` is None where the stream has no end."""
        said = dict(self.terminal or {})
        output = list_of(said, "output")
        if len(output) < len(self._done):
            # A response that leaves its items out has said them before.
            self.lost = bool(output)
            output = [self._done[index] for index in sorted(self._done)]
        if self.terminal is None:
            places = sorted({*self._done, *self._begun, *(index for index, _, _ in self._pieces)})
            output = [self._done.get(place) or self._half(place) for place in places]
        return {**said, "output": output}

    def _index(self, event: Any) -> int:
        index = count_field(event, "output_index")
        return index if index is not None else max((*self._done, *self._begun), default=-1) + 1

    def _piece(self, kind: str, event: Any) -> None:
        delta = text_field(event, "delta") or ""
        part = count_field(event, "content_index") or count_field(event, "summary_index") or 0
        self.size += len(delta)
        self._pieces.setdefault((count_field(event, "output_index") or 0, kind, part), []).append(delta)

    def _half(self, place: int) -> dict[str, Any]:
        """An item that was begun: with what has come of its texts, and not whole."""
        found = self._begun.get(place)
        begun = dict(found) if isinstance(found, dict) else {}
        pieces = [(part, kind, "".join(texts)) for (at, kind, part), texts in self._pieces.items() if at == place]
        texts = sorted(pieces)
        if not texts:
            return {**begun, "status": "incomplete"}
        parts = [{"type": _PIECES[kind][1], _PIECES[kind][2]: text} for _, kind, text in texts]
        item_kind = text_of(begun, "type") or _PIECES[texts[0][1]][0]
        return {**begun, "type": item_kind, "content": parts, "summary": [], "status": "incomplete"}
