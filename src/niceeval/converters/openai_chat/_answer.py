"""One answer of the model, as events. Its text, its reasoning and its calls are fields: their order is not said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from niceeval.converters._client_calls import ClientCalls
from niceeval.converters._plain_json import decoded
from niceeval.turn_building import TurnBuilder, list_of, object_of, text_of

WHOLE: Final = frozenset({"stop", "tool_calls", "function_call"})
"""Reasons to finish that an answer which is whole can have."""
CUT_SHORT: Final[Mapping[str, str]] = {
    "length": "it reached its limit of tokens",
    "content_filter": "it was filtered",
    "error": "the server gave up",
}
"""Reasons to finish of an answer that is not whole -> what happened."""


class AnswerReader:
    """Adds what an assistant's message says to a builder."""

    def __init__(self, builder: TurnBuilder, calls: ClientCalls) -> None:
        self._builder = builder
        self._calls = calls
        self._legacy: dict[str, str] = {}
        self._numbered = 0

    def message(self, message: Mapping[str, Any], whole: bool) -> str:
        """Its reasoning, its text, then its calls. A call of an answer that is not whole counts where its arguments
        are. Returns the text."""
        self._builder.thinking(text_of(message, "reasoning_content") or text_of(message, "reasoning") or "")
        text = self._content(message)
        self._builder.message(text)
        refusal = text_of(message, "refusal")
        if refusal:
            self._builder.message(refusal)
            self._builder.diagnostic("model-refused", "the model refused to answer", level="info")
        if message.get("images"):
            self._no_text("images")
        for call in list_of(message, "tool_calls"):
            self._call(call, whole)
        if object_of(message, "function_call"):
            self._legacy_call(object_of(message, "function_call"), whole)
        return text

    def legacy_result(self, message: Mapping[str, Any]) -> None:
        """The result of a function, in the old form that pairs by name."""
        name = text_of(message, "name") or "unknown"
        self._calls.result(self._legacy.get(name, name), content_text(message.get("content")))

    def _content(self, message: Mapping[str, Any]) -> str:
        texts = []
        for part in list_of(message, "content"):
            kind = text_of(part, "type")
            if kind == "text":
                texts.append(text_of(part, "text") or "")
            elif kind == "refusal":
                texts.append(text_of(part, "refusal") or "")
            elif kind == "thinking":
                self._builder.thinking(content_text(part.get("thinking")) or "")
            else:
                self._no_text(kind or "without a type")
        joined = text_of(message, "content") or "".join(texts)
        return joined or text_of(message, "audio", "transcript") or ""

    def _no_text(self, kind: str) -> None:
        self._builder.incomplete("a part of the answer is no text", ("events", "messages"))
        self._builder.diagnostic("parts-not-read", f"a part of the answer is no text: {kind[:80]}", level="info")

    def _call(self, call: Any, whole: bool) -> None:
        kind = text_of(call, "type") or "function"
        name = text_of(call, kind, "name")
        if kind not in ("function", "custom") or not name:
            self._builder.unknown(f"a tool call: {kind}")
            return
        if kind == "custom":
            given: Any = text_of(call, "custom", "input") or ""
            made = whole
        else:
            given, made = _arguments(call["function"], whole)
        if made:
            self._calls.called(text_of(call, "id") or self._number(), name, given)
        else:
            self._half(name)

    def _legacy_call(self, call: Mapping[str, Any], whole: bool) -> None:
        name = text_of(call, "name") or "unknown"
        given, made = _arguments(call, whole)
        if made:
            self._legacy[name] = self._calls.called(self._number(), name, given)
        else:
            self._half(name)

    def _number(self) -> str:
        self._numbered += 1
        return f"call-{self._numbered}"

    def _half(self, name: str) -> None:
        self._builder.incomplete(f"a call of {name[:80]} was begun and never made", ("events", "actions"))


def _arguments(call: Mapping[str, Any], whole: bool) -> tuple[Any, bool]:
    """The arguments, and whether the call was made: those of a whole answer are what the model wrote, be it no JSON."""
    raw = call.get("arguments")
    if isinstance(raw, dict):
        return raw, True
    text = raw if isinstance(raw, str) else None
    given, is_object = decoded(text)
    return given, whole or (is_object and bool(text))


def content_text(content: Any) -> Any:
    """What a message's content says: a text as it is, of parts their texts; other content as it came."""
    parts = content if isinstance(content, list) else None
    if parts is None:
        return content
    texts = [text_of(part, "text") for part in parts]
    return "".join(text for text in texts if text is not None) if all(text is not None for text in texts) else parts
