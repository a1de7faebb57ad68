"""An answer of the endpoint: the turn that the converter makes of it, and what goes back with the next request."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from niceeval.adapter import InputRequested, Message, TurnInput
from niceeval.adapters.responses._conversation import Conversation, History, assistant_message
from niceeval.converters import openai_responses
from niceeval.http_service import Answer
from niceeval.tool_loop import Answered, WantedCall, json_events, without_data
from niceeval.turn_building import list_of, object_of, text_of

_ENDS = ("response.completed", "response.incomplete", "response.failed")


async def read_answer(answer: Answer, conversation: Conversation, given: TurnInput, history: History) -> Answered:
    """Read it, streamed or not, and add it to the conversation."""
    seen = _Seen()
    structured = given.output_schema is not None
    if answer.streams_events:
        collected = await openai_responses.collected_stream(seen.watch(json_events(answer)), structured=structured)
    else:
        response = await answer.json()
        seen.response = response if isinstance(response, dict) else {}
        seen.items = _objects(seen.response)
        collected = openai_responses.collected(response, structured=structured)
    turn = collected.turn
    if text_of(seen.response, "status") != "completed" or turn.status == "failed":
        text = "\n".join(event.text for event in turn.events if isinstance(event, Message))
        if text:
            conversation.add(assistant_message(text))
        return Answered(collected=collected, whole=False)
    conversation.answered(text_of(seen.response, "id"), seen.items, history)
    conversation.requests = {
        event.request.id: event.request for event in turn.events if isinstance(event, InputRequested)
    }
    wanted = [_call(item) for item in seen.items if item.get("type") == "function_call"]
    calls = [call for call in wanted if call is not None]
    return Answered(collected=without_data(collected) if calls else collected, calls=calls)


class _Seen:
    """The response and its output items, as they pass by on their way to the converter."""

    def __init__(self) -> None:
        self.response: Mapping[str, Any] = {}
        self.items: list[dict[str, Any]] = []

    async def watch(self, events: AsyncIterator[Mapping[str, Any]]) -> AsyncIterator[Mapping[str, Any]]:
        async for event in events:
            kind = event.get("type")
            if kind == "response.output_item.done" and (item := object_of(event, "item")):
                self.items.append(dict(item))
            elif kind in _ENDS:
                self.response = object_of(event, "response")
                self.items = _objects(self.response) or self.items
            yield event


def _objects(response: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [item for item in list_of(response, "output") if isinstance(item, dict)]


def _call(item: Mapping[str, Any]) -> WantedCall | None:
    call_id, name = text_of(item, "call_id"), text_of(item, "name")
    if not call_id or not name:
        return None
    arguments = text_of(item, "arguments") or "{}"
    try:
        return WantedCall(wire_id=call_id, name=name, arguments=json.loads(arguments))
    except (ValueError, RecursionError):
        return WantedCall(wire_id=call_id, name=name, arguments=arguments)
