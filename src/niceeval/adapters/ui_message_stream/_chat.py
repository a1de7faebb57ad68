"""A chat as its client holds it: UI messages, which the frames of an answer are folded into.

https://ai-sdk.dev/docs/reference/ai-sdk-core/ui-message
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from niceeval.adapter import InputResponse, TurnInput

JsonObject = dict[str, Any]

_OUTCOMES: Final[Mapping[str, tuple[str, str | None]]] = {
    "tool-input-available": ("input-available", "input"),
    "tool-input-error": ("output-error", "errorText"),
    "tool-output-available": ("output-available", "output"),
    "tool-output-error": ("output-error", "errorText"),
    "tool-output-denied": ("output-denied", None),
}
"""Frame -> the state that it brings a tool's part to, and the field that it brings."""


class Chat:
    """One conversation's messages. `open_calls` are calls that have no result yet."""

    def __init__(self) -> None:
        self.id = f"niceeval-{uuid.uuid4().hex}"
        self.messages: list[JsonObject] = []
        self.open_calls: frozenset[str] = frozenset()


def user_message(given: TurnInput) -> JsonObject:
    """What the user says, files as data URLs."""
    parts: list[JsonObject] = [
        {
            "type": "file",
            "mediaType": file.mime_type,
            "filename": file.filename,
            "url": f"data:{file.mime_type};base64,{file.base64()}",
        }
        for file in given.files
    ]
    if given.text or not parts:
        parts.append({"type": "text", "text": given.text})
    return {"id": uuid.uuid4().hex, "role": "user", "parts": parts}


def answered(messages: Sequence[JsonObject], responses: Sequence[InputResponse]) -> list[JsonObject] | None:
    """The messages with approvals answered in the last of them; None where one of the answers has no request there."""
    if not messages:
        return None
    last = {**messages[-1], "parts": [dict(part) for part in messages[-1]["parts"]]}
    asked = {part["approval"].get("id"): part for part in last["parts"] if part.get("state") == "approval-requested"}
    for response in responses:
        part = asked.get(response.request_id)
        if part is None:
            return None
        approval: JsonObject = {"id": response.request_id, "approved": response.option_id == "approve"}
        if response.text:
            approval["reason"] = response.text
        part.update(state="approval-responded", approval=approval)
    return [*messages[:-1], last]


class AssistantMessage:
    """The assistant's message, as the frames of a stream build it. One that goes on continues `message`."""

    def __init__(self, message: JsonObject | None = None) -> None:
        begun: JsonObject = {"id": uuid.uuid4().hex, "role": "assistant", "parts": []}
        self.message = begun if message is None else message
        self._parts: list[JsonObject] = self.message["parts"]
        self._texts: dict[tuple[str, str], JsonObject] = {}
        self._tools = {part["toolCallId"]: part for part in self._parts if "toolCallId" in part}

    def add(self, frame: Mapping[str, Any]) -> None:
        """One frame; what is no part of a message is nothing."""
        kind = str(frame.get("type"))
        if kind in ("start", "finish", "message-metadata"):
            self._about(kind, frame)
        elif kind == "start-step":
            self._texts.clear()
            self._parts.append({"type": "step-start"})
        elif kind.startswith(("text-", "reasoning-")):
            self._text(kind, frame)
        elif kind.startswith("tool-") and isinstance(frame.get("toolCallId"), str):
            self._tool(kind, str(frame["toolCallId"]), frame)
        elif kind in ("file", "source-url", "source-document"):
            self._parts.append(dict(frame))
        elif kind.startswith("data-") and frame.get("transient") is not True:
            self._data(kind, frame)

    def done(self) -> JsonObject | None:
        """The message as it is kept; None where nothing came. A call whose input was cut is not in it."""
        self._parts[:] = [part for part in self._parts if part.get("state") != "input-streaming"]
        return self.message if self._parts else None

    def _about(self, kind: str, frame: Mapping[str, Any]) -> None:
        if kind == "start" and isinstance(frame.get("messageId"), str):
            self.message["id"] = frame["messageId"]
        if isinstance(frame.get("messageMetadata"), dict):
            self.message["metadata"] = {**self.message.get("metadata", {}), **frame["messageMetadata"]}

    def _text(self, kind: str, frame: Mapping[str, Any]) -> None:
        family, _, what = kind.partition("-")
        key = (family, str(frame.get("id")))
        part = self._texts.get(key)
        if part is None or what == "start":
            part = self._texts[key] = {"type": family, "text": "", "state": "streaming"}
            self._parts.append(part)
        if what == "delta" and isinstance(frame.get("delta"), str):
            part["text"] += frame["delta"]
        elif what == "end":
            part["state"] = "done"
        if "providerMetadata" in frame:
            part["providerMetadata"] = frame["providerMetadata"]

    def _tool(self, kind: str, call_id: str, frame: Mapping[str, Any]) -> None:
        part = self._tools.get(call_id)
        if part is None:
            part = self._tools[call_id] = _tool_part(call_id, frame)
            self._parts.append(part)
        if kind == "tool-approval-request":
            part.update(state="approval-requested", approval={"id": frame.get("approvalId") or call_id})
            return
        if kind not in _OUTCOMES or (kind == "tool-input-available" and part["state"] != "input-streaming"):
            return
        part["state"], field = _OUTCOMES[kind]
        if field is not None:
            part[field] = frame.get(field)
        if kind.startswith("tool-input-"):
            part["input"] = frame.get("input")
        if "providerMetadata" in frame:
            part["callProviderMetadata"] = frame["providerMetadata"]

    def _data(self, kind: str, frame: Mapping[str, Any]) -> None:
        part = {key: frame[key] for key in ("type", "id", "data") if key in frame}
        for known in self._parts:
            if "id" in part and (known["type"], known.get("id")) == (kind, part["id"]):
                known["data"] = part.get("data")
                return
        self._parts.append(part)


def _tool_part(call_id: str, frame: Mapping[str, Any]) -> JsonObject:
    name = str(frame.get("toolName") or "unknown")
    part: JsonObject = {"type": f"tool-{name}"}
    if frame.get("dynamic") is True:
        part = {"type": "dynamic-tool", "toolName": name}
    part.update(toolCallId=call_id, state="input-streaming")
    if frame.get("providerExecuted") is True:
        part["providerExecuted"] = True
    return part
