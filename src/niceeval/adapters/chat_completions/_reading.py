"""An answer of the endpoint: the turn that the converter makes of it, and what goes back with the next request."""

from __future__ import annotations

from niceeval.adapter import ActionCalled, Message, Turn, TurnInput
from niceeval.adapters.chat_completions._messages import JsonObject, assistant_message
from niceeval.converters import openai_chat
from niceeval.http_service import Answer
from niceeval.tool_loop import Answered, WantedCall, json_events, without_data


async def read_answer(answer: Answer, messages: list[JsonObject], given: TurnInput) -> Answered:
    """Read it, streamed or not, and add what the assistant said to the conversation."""
    structured = given.output_schema is not None
    if answer.streams_events:
        collected = await openai_chat.collected_stream(json_events(answer), structured=structured)
    else:
        collected = openai_chat.collected(await answer.json(), structured=structured)
    turn = collected.turn
    calls = [
        WantedCall(wire_id=event.call_id, name=event.name, arguments=event.input)
        for event in turn.events
        if isinstance(event, ActionCalled)
    ]
    # A call that may lack something is not made, so it cannot go back either: it would have no result.
    whole = _is_whole(turn)
    kept = calls if whole else []
    texts = [event.text for event in turn.events if isinstance(event, Message)]
    message = assistant_message(texts, kept)
    if message is not None:
        messages.append(message)
    return Answered(collected=without_data(collected) if kept else collected, calls=kept, whole=whole)


def _is_whole(turn: Turn) -> bool:
    """Whether all of the answer came. Where something is missing, the converter makes all channels less; an end for a
    reason that is not known is one of the status alone."""
    worse = turn.evidence_coverage or {}
    return turn.status != "failed" and not ("status" in worse and "messages" in worse)
