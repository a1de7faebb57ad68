"""LangChain's messages, as events. A message is an object of `langchain_core.messages`, or its JSON form."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from niceeval.adapter import Usage
from niceeval.converters._attributes import count_field, field, items, text_field, without_bytes
from niceeval.converters._call_ids import CallIds
from niceeval.turn_building import TurnBuilder

MAX_REASON: Final = 200
"""Characters of a summary that are kept as the reason of a compaction."""
_ROLES: Final[Mapping[str, str]] = {"assistant": "ai", "user": "human", "developer": "system", "AIMessageChunk": "ai"}
_FILES: Final = frozenset({"image", "image_url", "audio", "video", "file", "text-plain"})
_CALLS: Final = frozenset({"tool_call", "tool_call_chunk", "invalid_tool_call", "tool_use", "function_call"})
"""Blocks that say again what a message's `tool_calls` say."""
_TAKEN: Final = "Returning structured response"
"""How the answer begins that LangChain gives itself to the call of a structured answer."""


def kind_of(message: object) -> str:
    """`ai`, `human`, `tool`, `system`, `remove`, or whatever else the message calls itself."""
    kind = text_field(message, "type") or text_field(message, "role") or ""
    return _ROLES.get(kind, kind)


def key_of(message: object) -> str | None:
    """What a message is known by, in every state and stream that has it; None where nothing tells it apart."""
    id = text_field(message, "id")
    if id:
        return id
    call = text_field(message, "tool_call_id")
    return f"tool:{call}" if call else None


def is_message(value: object) -> bool:
    """Whether this is a message at all."""
    if isinstance(value, Mapping):
        return "content" in value and ("type" in value or "role" in value)
    return hasattr(value, "content") and text_field(value, "type") is not None


def is_summary(message: object) -> bool:
    """Whether the message stands in the place of older ones."""
    return (
        kind_of(message) == "human" and text_field(field(message, "additional_kwargs"), "lc_source") == "summarization"
    )


def answer_tools(messages: Collection[object], data: object) -> frozenset[str]:
    """The names of the tools by which the structured answer is given: no actions, and nothing but this tells them."""
    found = set()
    if data is not None and not isinstance(data, (Mapping, str, int, float, list, tuple)):
        found.add(type(data).__name__)
    for message in messages:
        name = text_field(message, "name")
        if kind_of(message) == "tool" and name and text_of_content(field(message, "content")).startswith(_TAKEN):
            found.add(name)
    return frozenset(found)


class MessageReader:
    """Adds messages to a builder, each once. `subagents` maps tools to the agents behind them; `rejected` are ids of
    calls that a human refused, where the messages do not say so."""

    def __init__(
        self,
        builder: TurnBuilder,
        *,
        ids: CallIds,
        answer_tools: frozenset[str],
        subagents: Mapping[str, str],
        rejected: Collection[str],
        count_usage: bool,
    ) -> None:
        self.builder = builder
        self.answered: str | None = None
        self.tools_ran = False
        self._ids = ids
        self._answer_tools = answer_tools
        self._answer_calls: dict[str, str] = {}
        self._subagents = subagents
        self._subagent_calls: set[str] = set()
        self._rejected = frozenset(rejected)
        self._count_usage = count_usage
        self._counted = self._uncounted = 0
        self._open: dict[str, str] = {}
        self._invalid: dict[str, str] = {}

    def read(self, message: object, *, spoken: bool = True) -> None:
        """One message. `spoken=False`: it was said inside a tool, to nobody but the agent."""
        kind = kind_of(message)
        if kind == "ai":
            self._answer(message, spoken)
        elif kind == "tool":
            self._result(message)
        elif is_summary(message):
            self.builder.compaction(text_of_content(field(message, "content"))[:MAX_REASON] or None)
        elif kind not in ("human", "system", "remove"):
            self.builder.unknown(f"a message of type {kind or '(none)'}")

    def finish(self) -> list[str]:
        """What is left to say; returns the ids of the calls that have no result."""
        for id, why in self._invalid.items():
            if self._open.pop(id, None) is not None:
                self.builder.result(self._ids.result(id), why, "failed")
        if self._count_usage and self._uncounted:
            if self._counted:
                said = f"{self._uncounted} of the model's answers came without token counts"
                self.builder.partial("usage", said)
            else:
                self.builder.unavailable("usage", "the model's answers came without token counts")
        return list(self._open.values())

    # What the model said ----------------------------------------------------------------------------------------

    def _answer(self, message: object, spoken: bool) -> None:
        self._usage(message)
        key = key_of(message) or ""
        calls = {id for id, _ in self._calls_of(message)}
        for block in blocks_of(message):
            self._block(block, key, spoken, calls)
        self.builder.end_text()
        for id, call in self._calls_of(message):
            if text_field(call, "name") is None:
                self.builder.unknown("a tool call without a name")
            else:
                self._called(id, call)
        for id, call in self._calls_of(message, "invalid_tool_calls"):
            self._called(id, call)
            self._invalid[id] = text_field(call, "error") or "the arguments of the call are not valid JSON"
        if text_field(field(message, "response_metadata"), "finish_reason") == "length":
            self.builder.diagnostic("answer-cut", "an answer of the model ended at its limit of tokens")

    def _block(self, block: object, key: str, spoken: bool, calls: Collection[str]) -> None:
        kind = text_field(block, "type") or "a block without a type"
        if kind == "non_standard" and isinstance(field(block, "value"), Mapping):
            self._block(field(block, "value"), key, spoken, calls)
        elif kind in ("text", "output_text", "refusal"):
            if spoken:
                text = text_field(block, "text") or text_field(block, "refusal") or ""
                self.builder.text_delta(text, key=key)
        elif kind in ("reasoning", "thinking"):
            self._thinking(block)
        elif kind in ("redacted_thinking", "encrypted_reasoning"):
            self.builder.partial("events", "the model's reasoning came encrypted")
        elif kind == "server_tool_call":
            self._server_call(block)
        elif kind == "server_tool_result":
            self._server_result(block)
        elif kind == "compaction":
            self.builder.compaction((text_field(block, "content") or "")[:MAX_REASON] or None)
        elif kind in _FILES:
            self.builder.incomplete(f"the model answered with {kind}, which no event holds", ("events", "messages"))
            self.builder.diagnostic("file-left-out", f"the model answered with {kind}, which is not kept")
        elif not self._repeats_a_call(block, kind, calls):
            self.builder.unknown(f"a block of type {kind}")

    @staticmethod
    def _repeats_a_call(block: object, kind: str, calls: Collection[str]) -> bool:
        id = text_field(block, "id") or text_field(block, "call_id")
        return kind == "invalid_tool_call" or (kind in _CALLS and id in calls)

    def _thinking(self, block: object) -> None:
        text = text_field(block, "reasoning") or text_field(block, "thinking") or ""
        if text:
            self.builder.thinking(text)
        else:
            self.builder.partial("events", "the model's reasoning came without a text")

    def _usage(self, message: object) -> None:
        if not self._count_usage:
            return
        usage = usage_of(field(message, "usage_metadata"))
        if usage is None:
            self._uncounted += 1
        else:
            self._counted += 1
            self.builder.add_usage(usage, key=key_of(message))

    # Tools ------------------------------------------------------------------------------------------------------

    @staticmethod
    def _calls_of(message: object, name: str = "tool_calls") -> list[tuple[str, object]]:
        found = []
        for index, call in enumerate(items(field(message, name))):
            found.append((text_field(call, "id") or f"{key_of(message) or name}#{index}", call))
        return found

    def _called(self, id: str, call: object) -> None:
        name, arguments = text_field(call, "name") or "unknown", field(call, "args")
        if name in self._answer_tools:
            self._answer_calls[id] = json_text(arguments)
            return
        unique = self._ids.call(id)
        self._open[id] = unique
        agent = self._subagents.get(name)
        if agent is None:
            self.builder.called(unique, name, without_bytes({} if arguments is None else arguments))
        else:
            self._subagent_calls.add(id)
            self.builder.subagent(unique, agent)

    def _result(self, message: object) -> None:
        id, name = text_field(message, "tool_call_id"), text_field(message, "name")
        status = text_field(message, "status") or "success"
        if id is None:
            self.builder.unknown("a tool's result without a call's id")
            return
        if id in self._answer_calls:
            self._answer_taken(id, message, status)
            return
        self.tools_ran = True
        self._open.pop(id, None)
        unique, output = self._ids.result(id), without_bytes(_output(field(message, "content")))
        if id in self._subagent_calls or name in self._subagents:
            self.builder.subagent_done(unique, output, "completed" if status == "success" else "failed")
        elif status == "success":
            self.builder.result(unique, output, "completed")
        elif status == "error":
            self.builder.result(unique, output, "rejected" if self._refused(id, message) else "failed")
        else:
            self.builder.incomplete(f"a tool call ended as {status}", ("events", "actions"))

    def _refused(self, id: str, message: object) -> bool:
        extra = field(message, "additional_kwargs")
        if text_field(extra, "lc_source") == "hitl_interrupt_decision":
            return text_field(field(extra, "lc_data"), "decision") == "reject"
        return id in self._rejected

    def _answer_taken(self, id: str, message: object, status: str) -> None:
        text = text_of_content(field(message, "content"))
        if status == "success" and not text.startswith("Error"):
            self.answered = self._answer_calls[id]
        else:
            self.builder.error(f"the structured answer was refused: {text}")

    def _server_call(self, block: object) -> None:
        id, name = text_field(block, "id"), text_field(block, "name") or "unknown"
        if id is None:
            self.builder.unknown("a server's tool call without an id")
            return
        unique = self._ids.call(id)
        self._open[id] = unique
        canonical = name if name in ("web_search", "web_fetch") else None
        self.builder.called(unique, name, without_bytes(field(block, "args")), canonical)

    def _server_result(self, block: object) -> None:
        id, status = text_field(block, "tool_call_id"), text_field(block, "status")
        if id is None or status not in ("success", "error"):
            self.builder.incomplete("a server's tool call ended in a way that is not known", ("events", "actions"))
            return
        self._open.pop(id, None)
        output = without_bytes(field(block, "output"))
        self.builder.result(self._ids.result(id), output, "completed" if status == "success" else "failed")


def usage_of(usage: object) -> Usage | None:
    """One answer's tokens. Cached ones are counted among the input, whatever the provider; a Usage keeps them apart."""
    given, output = count_field(usage, "input_tokens"), count_field(usage, "output_tokens")
    if given is None or output is None:
        return None
    inside = field(usage, "input_token_details")
    read, written = count_field(inside, "cache_read"), count_field(inside, "cache_creation")
    # Anthropic's say how long it is kept for, and then leave the sum at zero.
    by_age = [count_field(inside, f"ephemeral_{age}_input_tokens") for age in ("5m", "1h")]
    if any(by_age):
        written = max(written or 0, sum(count or 0 for count in by_age))
    return Usage(
        input_tokens=max(given - (read or 0) - (written or 0), 0),
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=count_field(field(usage, "output_token_details"), "reasoning"),
        requests=1,
    )


def blocks_of(message: object) -> list[Any]:
    """The parts of a message's content in LangChain's own form, where it has one, or as the provider gave them."""
    if not isinstance(message, Mapping):
        try:
            return items(field(message, "content_blocks"))
        except Exception:  # noqa: BLE001 - a provider's odd block: what is there is read as it came
            pass
    content = field(message, "content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [{"type": "text", "text": part} if isinstance(part, str) else part for part in items(content)]


def text_of_content(content: object) -> str:
    """The text of a message's content."""
    if isinstance(content, str):
        return content
    texts = [part if isinstance(part, str) else text_field(part, "text") or "" for part in items(content)]
    return "".join(texts)


def _output(content: object) -> Any:
    parts = items(content)
    if parts and all(isinstance(part, str) or text_field(part, "type") == "text" for part in parts):
        return text_of_content(content)
    return content


def json_text(value: object) -> str:
    """The value as JSON text."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(value)
