"""OpenAI Chat Completions: `/v1/chat/completions`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from niceeval._model.usage import Usage
from niceeval.testing._model_server.answer import Answer, ToolCall, given, pieces, total
from niceeval.testing._model_server.model_request import Entry, ModelRequest, OfferedTool
from niceeval.testing._model_server.openai_errors import openai_error
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
from niceeval.testing._model_server.sse import unnamed

DONE = b"data: [DONE]\n\n"


def _read(body: Body, path: str, headers: Mapping[str, str]) -> ModelRequest:
    messages = objects(body.get("messages"))
    tools = [_tool(tool) for tool in objects(body.get("tools"))]
    schema = an_object(an_object(body.get("response_format")).get("json_schema")).get("schema")
    choice = an_object(an_object(body.get("tool_choice")).get("function"))
    return ModelRequest(
        protocol="openai-chat",
        model=a_text(body.get("model")),
        stream=body.get("stream") is True,
        system="\n".join(text_of(m.get("content")) for m in messages if m.get("role") in ("system", "developer")),
        entries=tuple(entry for message in messages for entry in _entries(message)),
        tools=tuple(tool for tool in tools if tool is not None),
        schema=a_schema(schema),
        output_tool=a_text(choice.get("name")) or None,
        session_id=a_text(body.get("prompt_cache_key")) or headers.get("x-session-affinity"),
        body=body,
    )


def _tool(value: Body) -> OfferedTool | None:
    if value.get("type") == "custom":
        name = a_text(an_object(value.get("custom")).get("name"))
        return OfferedTool(name, None) if name else None
    return offered(an_object(value.get("function")), "parameters")


def _entries(message: Body) -> Iterator[Entry]:
    role, content = message.get("role"), message.get("content")
    if role == "user":
        for text in texts_of(content):
            yield Entry("user", text)
    elif role == "tool":
        yield Entry("result", text_of(content), a_text(message.get("tool_call_id")))
    elif role == "assistant":
        if text := text_of(content):
            yield Entry("assistant", text)
        for call in objects(message.get("tool_calls")):
            inner = an_object(call.get("function")) or an_object(call.get("custom"))
            arguments = a_text(inner.get("arguments")) or a_text(inner.get("input"))
            yield Entry("call", arguments, a_text(call.get("id")), a_text(inner.get("name")))


def _is_custom(call: ToolCall) -> bool:
    return isinstance(call.arguments, str)


def _call(call: ToolCall) -> dict[str, Any]:
    if _is_custom(call):
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
    function = {"name": call.name, "arguments": call.arguments_text}
    return {"id": call.id, "type": "function", "function": function}


def _finish(answer: Answer) -> str:
    return "tool_calls" if answer.calls else "stop"


def _usage(usage: Usage) -> dict[str, Any]:
    prompt = total(usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    counts: dict[str, Any] = given(
        prompt_tokens=prompt,
        completion_tokens=usage.output_tokens,
        total_tokens=total(prompt, usage.output_tokens),
    )
    cached = given(cached_tokens=usage.cache_read_tokens, cache_write_tokens=usage.cache_write_tokens)
    if cached:
        counts["prompt_tokens_details"] = cached
    if usage.reasoning_tokens is not None:
        counts["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return counts


def _plain(answer: Answer, request: ModelRequest) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None}
    if answer.thinking is not None:
        message["reasoning_content"] = answer.thinking
    if answer.calls:
        message["tool_calls"] = [_call(call) for call in answer.calls]
    choice = {"index": 0, "message": message, "finish_reason": _finish(answer), "logprobs": None}
    completion = {**_head(answer, "chat.completion"), "choices": [choice]}
    if answer.usage is not None:
        completion["usage"] = _usage(answer.usage)
    return completion


def _head(answer: Answer, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{answer.id}", "object": kind, "created": int(time.time()), "model": answer.model}


def _events(answer: Answer, request: ModelRequest) -> Iterator[bytes]:
    head = _head(answer, "chat.completion.chunk")

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        return unnamed({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(answer.thinking or ""):
        yield chunk({"reasoning_content": piece})
    for piece in pieces(answer.text or ""):
        yield chunk({"content": piece})
    for index, call in enumerate(answer.calls):
        for delta in _call_deltas(call):
            yield chunk({"tool_calls": [{"index": index, **delta}]})
    yield chunk({}, _finish(answer))
    if answer.usage is not None and an_object(request.body.get("stream_options")).get("include_usage") is True:
        yield unnamed({**head, "choices": [], "usage": _usage(answer.usage)})
    yield DONE


def _call_deltas(call: ToolCall) -> Iterator[dict[str, Any]]:
    if _is_custom(call):
        yield _call(call)
        return
    yield {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
    for piece in pieces(call.arguments_text):
        yield {"function": {"arguments": piece}}


OPENAI_CHAT = Protocol("openai-chat", _read, _plain, _events, openai_error)
