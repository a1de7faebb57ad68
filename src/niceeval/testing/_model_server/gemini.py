"""Gemini: `models/<model>:generateContent` and `:streamGenerateContent`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from niceeval._model.usage import Usage
from niceeval.testing._model_server.answer import Answer, given, pieces, total
from niceeval.testing._model_server.model_request import Entry, ModelRequest, OfferedTool
from niceeval.testing._model_server.reading import Body, Protocol, a_schema, a_text, an_object, objects, text_of
from niceeval.testing._model_server.sse import unnamed

PATH = re.compile(r"/models/(?P<model>[^/:]+):(?P<method>[A-Za-z]+)$")

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


def _read(body: Body, path: str, headers: Mapping[str, str]) -> ModelRequest:
    found = PATH.search(path)
    config = an_object(body.get("generationConfig"))
    system = an_object(body.get("systemInstruction")) or an_object(body.get("system_instruction"))
    return ModelRequest(
        protocol="gemini",
        model=found["model"] if found else "",
        stream=found is not None and found["method"] == "streamGenerateContent",
        system=text_of(system.get("parts")),
        entries=tuple(entry for content in objects(body.get("contents")) for entry in _entries(content)),
        tools=tuple(_tools(body)),
        schema=a_schema(config.get("responseJsonSchema")) or a_schema(config.get("responseSchema")),
        session_id=None,
        body=body,
    )


def _tools(body: Body) -> Iterator[OfferedTool]:
    for group in objects(body.get("tools")):
        for declared in objects(group.get("functionDeclarations") or group.get("function_declarations")):
            schema = a_schema(declared.get("parametersJsonSchema")) or a_schema(declared.get("parameters")) or {}
            if name := a_text(declared.get("name")):
                yield OfferedTool(name, schema)


def _entries(content: Body) -> Iterator[Entry]:
    of_model = content.get("role") == "model"
    for part in objects(content.get("parts")):
        if called := an_object(part.get("functionCall")):
            arguments = json.dumps(called.get("args", {}), ensure_ascii=False)
            yield Entry("call", arguments, a_text(called.get("id")) or None, a_text(called.get("name")))
        elif result := an_object(part.get("functionResponse")):
            response = an_object(result.get("response"))
            output = response.get("output", response)
            yield Entry("result", text_of(output), a_text(result.get("id")) or None, a_text(result.get("name")))
        elif (text := a_text(part.get("text"))) and part.get("thought") is not True:
            yield Entry("assistant" if of_model else "user", text)


def _usage(usage: Usage) -> dict[str, Any]:
    prompt = total(usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    thoughts = usage.reasoning_tokens
    # Gemini counts thoughts beside the candidates, not in them.
    candidates = None if usage.output_tokens is None else max(0, usage.output_tokens - (thoughts or 0))
    return given(
        promptTokenCount=prompt,
        cachedContentTokenCount=usage.cache_read_tokens,
        candidatesTokenCount=candidates,
        thoughtsTokenCount=thoughts,
        totalTokenCount=total(prompt, usage.output_tokens),
    )


def _calls(answer: Answer) -> list[dict[str, Any]]:
    calls = []
    for call in answer.calls:
        arguments = call.arguments if isinstance(call.arguments, dict) else {"input": call.arguments}
        calls.append({"functionCall": {"id": call.id, "name": call.name, "args": arguments}})
    return calls


def _chunk(answer: Answer, parts: list[dict[str, Any]], last: bool) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    body: dict[str, Any] = {"candidates": [candidate], "modelVersion": answer.model, "responseId": answer.id}
    if last:
        candidate["finishReason"] = "STOP"
        if answer.usage is not None:
            body["usageMetadata"] = _usage(answer.usage)
    return body


def _plain(answer: Answer, request: ModelRequest) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if answer.thinking is not None:
        parts.append({"text": answer.thinking, "thought": True})
    if answer.text is not None:
        parts.append({"text": answer.text})
    return _chunk(answer, parts + _calls(answer), last=True)


def _events(answer: Answer, request: ModelRequest) -> Iterator[bytes]:
    for piece in pieces(answer.thinking or ""):
        yield unnamed(_chunk(answer, [{"text": piece, "thought": True}], last=False))
    for piece in pieces(answer.text or ""):
        yield unnamed(_chunk(answer, [{"text": piece}], last=False))
    for call in _calls(answer):
        yield unnamed(_chunk(answer, [call], last=False))
    yield unnamed(_chunk(answer, [{"text": ""}], last=True))


def _error(status: int, message: str, type: str | None) -> dict[str, Any]:
    known = _STATUSES.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    return {"error": {"code": status, "message": message, "status": type or known}}


GEMINI = Protocol("gemini", _read, _plain, _events, _error)
