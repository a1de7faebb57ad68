"""Models of the OpenAI Agents SDK that answer by a script: the SDK's own models and client, over no network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

hx: Any = pytest.importorskip("httpx2", reason="httpx2 is not installed: pip install 'niceeval[http]'")

USAGE = {
    "input_tokens": 112,
    "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 7},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 8},
    "total_tokens": 132,
}
"""What every scripted answer says that it used."""


def says(*texts: str, refusal: str | None = None) -> dict[str, Any]:
    """A message, of one part for each text."""
    parts: list[dict[str, Any]] = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    if refusal is not None:
        parts.append({"type": "refusal", "refusal": refusal})
    return {"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": parts}


def calls(name: str, id: str, arguments: Mapping[str, Any] | str | None = None) -> dict[str, Any]:
    """A function call."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return {
        "type": "function_call",
        "id": f"fc_{id}",
        "call_id": id,
        "name": name,
        "arguments": text,
        "status": "completed",
    }


def thinks(text: str) -> dict[str, Any]:
    """A summary of the model's reasoning."""
    return {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": text}]}


def response(*output: Mapping[str, Any], usage: Mapping[str, Any] | None = USAGE) -> dict[str, Any]:
    """A whole answer of the Responses API."""
    return {
        "id": "resp",
        "object": "response",
        "created_at": 1,
        "model": "scripted",
        "status": "completed",
        "output": [dict(item) for item in output],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    }


class Script:
    """Answers in turn, the last one again; `asked` holds the bodies of the requests. A number is an error's status."""

    def __init__(self, *answers: Any) -> None:
        self.asked: list[dict[str, Any]] = []
        self._answers = list(answers)

    def __call__(self, request: Any) -> Any:
        body = json.loads(request.content)
        self.asked.append(body)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, int):
            return hx.Response(answer, json={"error": {"message": "not now"}})
        if isinstance(answer, tuple):
            answer = response(*answer)
        if isinstance(answer, dict) and not body.get("stream"):
            return hx.Response(200, json=answer)
        text = answer if isinstance(answer, str) else "".join(map(frame, streamed(answer)))
        return hx.Response(200, text=text, headers={"content-type": "text/event-stream"})

    @property
    def model(self) -> Any:
        """A model of the Responses API."""
        from agents.models.openai_responses import OpenAIResponsesModel

        return OpenAIResponsesModel(model="scripted", openai_client=self._client())

    @property
    def chat_model(self) -> Any:
        """A model of Chat Completions."""
        from agents.models.openai_chatcompletions import OpenAIChatCompletionsModel

        return OpenAIChatCompletionsModel(model="scripted", openai_client=self._client())

    def _client(self) -> Any:
        from openai import AsyncOpenAI

        http = hx.AsyncClient(transport=hx.MockTransport(self))
        return AsyncOpenAI(api_key="none", base_url="http://scripted/v1", max_retries=0, http_client=http)


def frame(event: Mapping[str, Any]) -> str:
    """An event as it goes over the wire."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


def streamed(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The events of a whole answer."""
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {**answer, "output": []}}]
    for index, item in enumerate(answer["output"]):
        events.append({"type": "response.output_item.added", "output_index": index, "item": item})
        for number, part in enumerate(item.get("content", [])):
            place = {"item_id": item["id"], "output_index": index, "content_index": number, "logprobs": []}
            middle = len(part.get("text", "")) // 2
            for piece in (part.get("text", "")[:middle], part.get("text", "")[middle:]):
                events.append({"type": "response.output_text.delta", "delta": piece, **place})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": dict(answer)})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


class Desk(Script):
    """Deletes what it is told to, each after approval, and says what came of it; anything else it repeats."""

    def __init__(self) -> None:
        super().__init__(())

    def __call__(self, request: Any) -> Any:
        given = json.loads(request.content)["input"]
        last = given[-1]
        if last.get("type") == "function_call_output":
            outputs = [item["output"] for item in given if item.get("type") == "function_call_output"]
            self._answers = [(says("; ".join(outputs)),)]
        elif (words := str(last["content"]).split())[0] == "delete":
            self._answers = [tuple(calls("delete", f"call-{path}", {"path": path}) for path in words[1:])]
        else:
            self._answers = [(says(str(last["content"])),)]
        return super().__call__(request)


def desk() -> Any:
    """An agent over that."""
    from agents import Agent, function_tool

    @function_tool(needs_approval=True)
    def delete(path: str) -> str:
        """Delete."""
        return f"{path} is gone"

    return Agent(name="desk", model=Desk().model, tools=[delete])
