"""OpenAI Responses: `/v1/responses`."""

from __future__ import annotations

import json
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
from niceeval.testing._model_server.sse import named

_SESSION_HEADERS = ("thread-id", "session-id", "session_id", "conversation_id")


def _read(body: Body, path: str, headers: Mapping[str, str]) -> ModelRequest:
    items = input_items(body)
    output = an_object(an_object(body.get("text")).get("format"))
    choice = an_object(body.get("tool_choice"))
    session = a_text(body.get("prompt_cache_key")) or next((headers[n] for n in _SESSION_HEADERS if n in headers), None)
    tools = [*objects(body.get("tools")), *(tool for item in items for tool in _found_tools(item))]
    system = [text_of(item.get("content")) for item in items if item.get("role") in ("system", "developer")]
    return ModelRequest(
        protocol="openai-responses",
        model=a_text(body.get("model")),
        stream=body.get("stream") is True,
        system="\n".join([text_of(body.get("instructions")), *system]),
        entries=tuple(entry for item in items for entry in _entries(item)),
        tools=tuple(tool for value in tools for tool in _tools(value, None)),
        searches=tuple(
            a_text(an_object(item.get("arguments")).get("query"))
            for item in items
            if item.get("type") == "tool_search_call"
        ),
        schema=a_schema(output.get("schema")),
        output_tool=a_text(choice.get("name")) or None,
        session_id=session,
        body=body,
    )


def _found_tools(item: Body) -> list[Body]:
    return objects(item.get("tools")) if item.get("type") == "tool_search_output" else []


def input_items(body: Body) -> list[Body]:
    """The items of a request's input, which may also be one text."""
    given_input = body.get("input")
    if isinstance(given_input, str):
        return [{"type": "message", "role": "user", "content": given_input}]
    return objects(given_input)


def _tools(value: Body, namespace: str | None) -> Iterator[OfferedTool]:
    kind = value.get("type")
    if kind == "namespace":
        for inner in objects(value.get("tools")):
            yield from _tools(inner, a_text(value.get("name")) or None)
    elif kind == "custom":
        if name := a_text(value.get("name")):
            yield OfferedTool(name, None, namespace)
    elif kind == "function":
        if (tool := offered(value, "parameters", namespace)) is not None:
            yield tool
    elif isinstance(kind, str):
        yield OfferedTool(kind, {}, namespace)


def _entries(item: Body) -> Iterator[Entry]:
    kind, role = item.get("type", "message"), item.get("role")
    if kind == "message" and role == "user":
        for text in texts_of(item.get("content")):
            yield Entry("user", text)
    elif kind == "message" and role == "assistant":
        yield Entry("assistant", text_of(item.get("content")))
    elif kind in ("function_call", "custom_tool_call"):
        arguments = a_text(item.get("arguments")) or a_text(item.get("input"))
        yield Entry("call", arguments, a_text(item.get("call_id")), a_text(item.get("name")))
    elif kind in ("function_call_output", "custom_tool_call_output"):
        yield Entry("result", text_of(item.get("output")), a_text(item.get("call_id")))


def _call(call: ToolCall) -> dict[str, Any]:
    if call.search:
        search = {"execution": "client", "arguments": call.arguments, "status": "completed"}
        return {"id": f"tsc_{call.id}", "type": "tool_search_call", "call_id": call.id, **search}
    common: dict[str, Any] = {"call_id": call.id, "name": call.name, "status": "completed"}
    if call.namespace is not None:
        common["namespace"] = call.namespace
    if isinstance(call.arguments, str):
        return {"id": f"ctc_{call.id}", "type": "custom_tool_call", "input": call.arguments, **common}
    return {"id": f"fc_{call.id}", "type": "function_call", "arguments": call.arguments_text, **common}


def output_items(answer: Answer) -> list[dict[str, Any]]:
    """The answer's output: reasoning, message, calls."""
    items: list[dict[str, Any]] = []
    if answer.thinking is not None:
        summary = [{"type": "summary_text", "text": answer.thinking}]
        items.append({"id": f"rs_{answer.id}", "type": "reasoning", "summary": summary})
    if answer.text is not None:
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        message = {"id": f"msg_{answer.id}", "type": "message", "role": "assistant", "status": "completed"}
        items.append({**message, "content": content})
    return items + [_call(call) for call in answer.calls]


def _usage(usage: Usage) -> dict[str, Any]:
    counted = total(usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    counts: dict[str, Any] = given(
        input_tokens=counted, output_tokens=usage.output_tokens, total_tokens=total(counted, usage.output_tokens)
    )
    cached = given(cached_tokens=usage.cache_read_tokens, cache_write_tokens=usage.cache_write_tokens)
    counts["input_tokens_details"] = {"cached_tokens": 0, "cache_write_tokens": 0, **cached}
    counts["output_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens or 0}
    return counts


def _plain(answer: Answer, request: ModelRequest) -> dict[str, Any]:
    return {**_head(answer, request), "status": "completed", "output": output_items(answer), "usage": _told(answer)}


def _told(answer: Answer) -> dict[str, Any] | None:
    return None if answer.usage is None else _usage(answer.usage)


def response_id(answer: Answer) -> str:
    """What a later request names as `previous_response_id`."""
    return f"resp_{answer.id}"


def _head(answer: Answer, request: ModelRequest) -> dict[str, Any]:
    return {
        "id": response_id(answer),
        "object": "response",
        "created_at": int(time.time()),
        "model": answer.model,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": request.body.get("previous_response_id"),
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
    }


def _events(answer: Answer, request: ModelRequest) -> Iterator[bytes]:
    head = _head(answer, request)
    numbered = enumerate(_event_bodies(answer, head, _plain(answer, request)))
    for number, body in numbered:
        yield named(body["type"], {**body, "sequence_number": number})


def _event_bodies(answer: Answer, head: Body, whole: Body) -> Iterator[dict[str, Any]]:
    yield {"type": "response.created", "response": head}
    yield {"type": "response.in_progress", "response": head}
    for index, item in enumerate(whole["output"]):
        yield {"type": "response.output_item.added", "output_index": index, "item": _opened(item)}
        place = {"item_id": item["id"], "output_index": index}
        yield from _inner(item, place)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": whole}


def _opened(item: Body) -> dict[str, Any]:
    """The item as it is announced, before anything of it was written."""
    if item["type"] == "tool_search_call":
        return {**item, "status": "in_progress"}
    if item["type"] == "reasoning":
        return {**item, "summary": []}
    written = {"message": "content", "custom_tool_call": "input"}.get(item["type"], "arguments")
    return {**item, written: type(item[written])(), "status": "in_progress"}


def _inner(item: Body, place: Body) -> Iterator[dict[str, Any]]:
    kind = item["type"]
    if kind == "reasoning":
        part = item["summary"][0]
        at = {**place, "summary_index": 0}
        yield {"type": "response.reasoning_summary_part.added", **at, "part": {**part, "text": ""}}
        yield from _text_events("response.reasoning_summary_text", at, "text", part["text"])
        yield {"type": "response.reasoning_summary_part.done", **at, "part": part}
    elif kind == "message":
        part = item["content"][0]
        at = {**place, "content_index": 0}
        yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
        yield from _text_events("response.output_text", {**at, "logprobs": []}, "text", part["text"])
        yield {"type": "response.content_part.done", **at, "part": part}
    elif kind == "custom_tool_call":
        yield from _text_events("response.custom_tool_call_input", place, "input", item["input"])
    elif kind == "function_call":
        named_place = {**place, "name": item["name"]}
        yield from _text_events("response.function_call_arguments", named_place, "arguments", item["arguments"])


def _text_events(name: str, at: Body, whole_field: str, text: str) -> Iterator[dict[str, Any]]:
    for piece in pieces(text):
        yield {"type": f"{name}.delta", **at, "delta": piece}
    yield {"type": f"{name}.done", **at, whole_field: text}


def kept_items(body: Body, answer: Answer) -> list[Body]:
    """What a later request with `previous_response_id` goes on from; its JSON size is bounded by the request's."""
    items = json.loads(json.dumps(output_items(answer)))
    return [*input_items(body), *items]


OPENAI_RESPONSES = Protocol("openai-responses", _read, _plain, _events, openai_error)
