"""What agents ask the model beside the conversation: titles, verdicts, summaries, warm-ups."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from niceeval.testing._model_server.model_request import ModelRequest
from niceeval.testing._model_server.schema_values import simplest
from niceeval.testing._model_server.steps import StepLike

SUMMARY = "Scripted summary of the conversation so far."


@dataclass(frozen=True, slots=True)
class SideRequest:
    """A request that is not part of the scripted conversation.

    `answer` is a step, or a function of the request. With `last_resort` it is asked only when the scenario has no step
    left.
    """

    name: str
    matches: Callable[[ModelRequest], bool]
    answer: StepLike
    last_resort: bool = False


def _by_schema(request: ModelRequest) -> str:
    return json.dumps(simplest(request.schema or {}))


def _json_or(text: str) -> Callable[[ModelRequest], str]:
    def answer(request: ModelRequest) -> str:
        if request.schema is None:
            return text
        properties = request.schema.get("properties")
        names = list(properties) if isinstance(properties, dict) else []
        return json.dumps({names[0]: text}) if names == ["title"] else _by_schema(request)

    return answer


def _asks_for_title(request: ModelRequest) -> bool:
    system, text = request.system.lower(), request.user_text.lower()
    return (
        "you are a title generator" in system
        or ("title" in system and "generate a" in system and not request.tools and len(system) < 8000)
        or text.startswith(("generate a title for this conversation", "please write a 5-10 word title"))
    )


def _asks_for_verdict(request: ModelRequest) -> bool:
    properties = (request.schema or {}).get("properties")
    return isinstance(properties, dict) and ("risk_level" in properties or "next_speaker" in properties)


def _asks_for_summary(request: ModelRequest) -> bool:
    text, system = request.user_text.lower(), request.system.lower()
    return (
        "context checkpoint compaction" in text
        or "create a detailed summary of the conversation" in text
        or "state_snapshot" in system
        or "state_snapshot" in text
    )


def _warms_up(request: ModelRequest) -> bool:
    text = request.user_text.strip().lower()
    return request.body.get("generate") is False or text == "warmup" or (text == "quota" and not request.tools)


def _tells_of_task(request: ModelRequest) -> bool:
    return "<task-notification>" in request.user_text


SIDE_REQUESTS: tuple[SideRequest, ...] = (
    SideRequest("warm-up", _warms_up, "Ready."),
    SideRequest("title", _asks_for_title, _json_or("Scripted conversation")),
    SideRequest("verdict", _asks_for_verdict, _by_schema),
    SideRequest("summary", _asks_for_summary, SUMMARY),
    SideRequest("task notification", _tells_of_task, "Noted.", last_resort=True),
)
"""The side requests that are known, and answered so that the agent goes on."""
