"""A thread as its client holds it: messages, state, and what waits for an answer."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from niceeval.adapter import InputResponse, TurnInput
from niceeval.adapters.ag_ui._json_patch import PatchError, patched
from niceeval.converters.ag_ui import asks_for_approval

JsonObject = dict[str, Any]


class Thread:
    """One conversation. `interrupts` are those that wait, by their ids; `open_calls` calls without a result."""

    def __init__(self) -> None:
        self.id = f"niceeval-{uuid.uuid4().hex}"
        self.messages: list[JsonObject] = []
        self.state: Any = {}
        self.interrupts: dict[str, Mapping[str, Any]] = {}
        self.open_calls: frozenset[str] = frozenset()


def user_message(given: TurnInput) -> JsonObject:
    """What the user says; files as parts of their kind."""
    message: JsonObject = {"id": uuid.uuid4().hex, "role": "user", "content": given.text}
    if given.files:
        parts: list[JsonObject] = [
            {
                "type": _kind(file.mime_type),
                "source": {"type": "data", "value": file.base64(), "mimeType": file.mime_type},
                "metadata": {"filename": file.filename},
            }
            for file in given.files
        ]
        message["content"] = [*([{"type": "text", "text": given.text}] if given.text else []), *parts]
    return message


def resume_entry(interrupt: Mapping[str, Any], response: InputResponse) -> JsonObject:
    """The answer to an interrupt: yes or no with a reason, or a text in the form that was asked for."""
    payload: Any
    if asks_for_approval(interrupt):
        payload = {"approved": response.option_id == "approve"}
        if response.text:
            payload["reason"] = response.text
    else:
        payload = _text_payload(interrupt.get("responseSchema"), response.text or response.option_id or "")
    return {"interruptId": response.request_id, "status": "resolved", "payload": payload}


class Fold:
    """A thread's messages and state, as the events of a run change them. `problem` says what could not be applied."""

    def __init__(self, messages: list[JsonObject], state: Any) -> None:
        self.messages = list(messages)
        self.state = state
        self.problem: str | None = None
        self._by_id = {str(message.get("id")): message for message in messages}
        self._calls: dict[str, JsonObject] = {}
        self._last: dict[str, str] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """One event; what changes neither messages nor state is nothing."""
        kind = str(event.get("type"))
        if kind.startswith("TEXT_MESSAGE_"):
            self._text("assistant", kind, event)
        elif kind.startswith("REASONING_MESSAGE_"):
            self._text("reasoning", kind, event)
        elif kind == "TOOL_CALL_RESULT":
            content = event.get("content")
            message = {"role": "tool", "toolCallId": event.get("toolCallId"), "content": content}
            self._message(str(event.get("messageId")), {**message, **_attribution(event)})
        elif kind.startswith("TOOL_CALL_"):
            self._call(kind, event)
        elif kind == "MESSAGES_SNAPSHOT" and isinstance(event.get("messages"), list):
            self._snapshot([dict(message) for message in event["messages"] if isinstance(message, dict)])
        else:
            self._about(kind, event)

    def _snapshot(self, messages: list[JsonObject]) -> None:
        self.messages = messages
        self._by_id = {str(message.get("id")): message for message in messages}
        calls = [call for message in messages for call in _calls_of(message)]
        self._calls = {str(call.get("id")): call for call in calls if isinstance(call.get("function"), dict)}

    def _about(self, kind: str, event: Mapping[str, Any]) -> None:
        if kind == "STATE_SNAPSHOT":
            self.state = event.get("snapshot")
        elif kind == "STATE_DELTA":
            try:
                self.state = patched(self.state, list(event.get("delta") or []))
            except (PatchError, TypeError) as error:
                self.problem = f"a change of the state could not be applied: {error}"
        elif kind == "REASONING_ENCRYPTED_VALUE":
            id = str(event.get("entityId"))
            holder = self._calls.get(id) if event.get("subtype") == "tool-call" else self._by_id.get(id)
            if holder is not None:
                holder["encryptedValue"] = event.get("encryptedValue")

    def _text(self, role: str, kind: str, event: Mapping[str, Any]) -> None:
        id = str(event.get("messageId") or self._last.get(role) or uuid.uuid4().hex)
        self._last[role] = id
        begun = {"role": str(event.get("role") or role), "content": "", **_attribution(event)}
        message = self._by_id.get(id) or self._message(id, begun)
        content = message.get("content") or ""
        if isinstance(event.get("delta"), str) and isinstance(content, str):
            message["content"] = content + event["delta"]

    def _call(self, kind: str, event: Mapping[str, Any]) -> None:
        id = str(event.get("toolCallId") or self._last.get("tool"))
        self._last["tool"] = id
        call = self._calls.get(id)
        if call is None:
            function = {"name": str(event.get("toolCallName") or "unknown"), "arguments": ""}
            call = self._calls[id] = {"id": id, "type": "function", "function": function}
            parent = str(event.get("parentMessageId") or uuid.uuid4().hex)
            holder = self._by_id.get(parent) or self._message(parent, {"role": "assistant", **_attribution(event)})
            holder["toolCalls"] = [*_calls_of(holder), call]
        if isinstance(event.get("delta"), str):
            call["function"]["arguments"] = f"{call['function'].get('arguments') or ''}{event['delta']}"

    def _message(self, id: str, fields: JsonObject) -> JsonObject:
        message = self._by_id[id] = {"id": id, **fields}
        self.messages.append(message)
        return message


def _calls_of(message: JsonObject) -> list[JsonObject]:
    calls = message.get("toolCalls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _attribution(event: Mapping[str, Any]) -> JsonObject:
    by = event.get("subagentRunId")
    return {} if by is None else {"subagentRunId": by}


def _kind(mime_type: str) -> str:
    family = mime_type.partition("/")[0]
    return family if family in ("image", "audio", "video") else "document"


def _text_payload(schema: Any, text: str) -> Any:
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return text
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    properties = schema.get("properties")
    names = list(properties) if isinstance(properties, dict) else []
    wanted = schema.get("required") if isinstance(schema.get("required"), list) else names
    if isinstance(given, dict) or not wanted:
        return given if isinstance(given, dict) else text
    return {str(wanted[0]): text} if len(wanted) == 1 else text
