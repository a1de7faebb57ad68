"""Anthropic Messages: `/v1/messages`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from niceeval._model.usage import Usage
from niceeval.testing._model_server.answer import Answer, given, pieces
from niceeval.testing._model_server.model_request import Entry, ModelRequest
from niceeval.testing._model_server.reading import (
    Body,
    Protocol,
    a_schema,
    a_text,
    an_object,
    objects,
    offered,
    text_of,
    texts_of,
)
from niceeval.testing._model_server.sse import named

SIGNATURE = "scripted-signature"
"""What a thinking block is signed with."""

_UNWRITTEN: Mapping[str, Mapping[str, Any]] = {
    "thinking": {"thinking": "", "signature": ""},
    "text": {"text": ""},
    "tool_use": {"input": {}},
}
"""Blocks as they are announced, before anything of them was written."""

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def _read(body: Body, path: str, headers: Mapping[str, str]) -> ModelRequest:
    tools = [offered(tool, "input_schema") for tool in objects(body.get("tools"))]
    choice = an_object(body.get("tool_choice"))
    output = an_object(an_object(body.get("output_config")).get("format")) or an_object(body.get("output_format"))
    return ModelRequest(
        protocol="anthropic",
        model=a_text(body.get("model")),
        stream=body.get("stream") is True,
        system=text_of(body.get("system")),
        entries=tuple(entry for message in objects(body.get("messages")) for entry in _entries(message)),
        tools=tuple(tool for tool in tools if tool is not None),
        schema=a_schema(output.get("schema")),
        output_tool=a_text(choice.get("name")) or None,
        session_id=headers.get("x-claude-code-session-id") or _session(body),
        body=body,
    )


def _session(body: Body) -> str | None:
    return a_text(an_object(body.get("metadata")).get("user_id")) or None


def _entries(message: Body) -> Iterator[Entry]:
    role, content = message.get("role"), message.get("content")
    if role == "assistant":
        for block in objects(content):
            if block.get("type") == "tool_use":
                arguments = json.dumps(block.get("input"), ensure_ascii=False)
                yield Entry("call", arguments, a_text(block.get("id")), a_text(block.get("name")))
            elif block.get("type") == "text":
                yield Entry("assistant", a_text(block.get("text")))
        if isinstance(content, str):
            yield Entry("assistant", content)
    elif role == "user":
        blocks = objects(content)
        for block in blocks:
            if block.get("type") == "tool_result":
                yield Entry("result", text_of(block.get("content")), a_text(block.get("tool_use_id")))
        texts = content if isinstance(content, str) else [b for b in blocks if b.get("type") == "text"]
        for text in texts_of(texts):
            yield Entry("user", text)


def _blocks(answer: Answer) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if answer.thinking is not None:
        blocks.append({"type": "thinking", "thinking": answer.thinking, "signature": SIGNATURE})
    if answer.text is not None:
        blocks.append({"type": "text", "text": answer.text})
    for call in answer.calls:
        arguments = call.arguments if isinstance(call.arguments, dict) else {"input": call.arguments}
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": arguments})
    return blocks


def _usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    counts: dict[str, Any] = given(
        input_tokens=usage.input_tokens,
        cache_creation_input_tokens=usage.cache_write_tokens,
        cache_read_input_tokens=usage.cache_read_tokens,
        output_tokens=usage.output_tokens,
    )
    if usage.reasoning_tokens is not None:
        counts["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return counts


def _plain(answer: Answer, request: ModelRequest) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": _blocks(answer),
        "stop_reason": "tool_use" if answer.calls else "end_turn",
        "stop_sequence": None,
        "usage": _usage(answer.usage),
    }


def _events(answer: Answer, request: ModelRequest) -> Iterator[bytes]:
    message = _plain(answer, request)
    start_usage = {**message["usage"]}
    start_usage.pop("output_tokens_details", None)
    if "output_tokens" in start_usage:
        start_usage["output_tokens"] = min(1, start_usage["output_tokens"])
    start = {**message, "content": [], "stop_reason": None, "usage": start_usage}
    yield named("message_start", {"type": "message_start", "message": start})
    yield named("ping", {"type": "ping"})
    for index, block in enumerate(message["content"]):
        yield from _block_events(index, block)
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield named("message_delta", {"type": "message_delta", "delta": delta, "usage": message["usage"]})
    yield named("message_stop", {"type": "message_stop"})


def _block_events(index: int, block: Body) -> Iterator[bytes]:
    kind = block["type"]
    start = {"type": "content_block_start", "index": index, "content_block": {**block, **_UNWRITTEN[kind]}}
    yield named("content_block_start", start)
    for delta in _deltas(kind, block):
        yield named("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta})
    yield named("content_block_stop", {"type": "content_block_stop", "index": index})


def _deltas(kind: str, block: Body) -> Iterator[dict[str, Any]]:
    if kind == "tool_use":
        for piece in pieces(json.dumps(block["input"], ensure_ascii=False)):
            yield {"type": "input_json_delta", "partial_json": piece}
    elif kind == "text":
        for piece in pieces(block["text"]):
            yield {"type": "text_delta", "text": piece}
    else:
        for piece in pieces(block["thinking"]):
            yield {"type": "thinking_delta", "thinking": piece}
        yield {"type": "signature_delta", "signature": block["signature"]}


def _error(status: int, message: str, type: str | None) -> dict[str, Any]:
    known = _ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": type or known, "message": message}}


ANTHROPIC = Protocol("anthropic", _read, _plain, _events, _error)
