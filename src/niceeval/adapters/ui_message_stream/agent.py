"""An agent behind an endpoint that the AI SDK's `useChat` could talk to."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from niceeval.adapter import (
    AdapterError,
    Agent,
    AgentContext,
    EvidenceCoverage,
    SessionSlot,
    Turn,
    TurnInput,
    define_agent,
)
from niceeval.adapters.ui_message_stream._chat import AssistantMessage, Chat, JsonObject, answered, user_message
from niceeval.converters.ui_message_stream import Reading, coverage
from niceeval.http_service import Answer, HttpService

if TYPE_CHECKING:
    import httpx2

_CHAT: SessionSlot[Chat] = SessionSlot("ui-message-stream-chat", default=Chat)

Body = Mapping[str, Any] | Callable[[TurnInput, AgentContext], Mapping[str, Any]]
"""Fields that are added to each request: fixed ones, or made for each turn."""


def ui_message_stream_agent(
    url: str,
    *,
    name: str = "ui-message-stream",
    headers: Mapping[str, str] | None = None,
    body: Body | None = None,
    history: Literal["client", "server"] = "client",
    reports_usage: bool = False,
    timeout: float = 600.0,
    version: str | Callable[[], str] | None = None,
    secret_env: Sequence[str] = (),
    transport: httpx2.AsyncBaseTransport | None = None,
) -> Agent:
    """An app that answers with the AI SDK's UI message stream: `ui_message_stream_agent("http://.../api/chat")`.

    `headers` go with each request (a key belongs here; name its variable in `secret_env`). `body` adds fields to each
    request, also as a callable `(input, ctx) -> mapping`, which is where a model or an effort can be put.
    `history="server"`: the app keeps the messages, and only the newest is sent. `reports_usage`: the app puts the AI
    SDK's usage into the message's metadata. `timeout`: seconds of silence that end a request. `transport` replaces the
    network, for tests.

    Raises AdapterError `extra-missing` without the extra `http`.
    """
    service = HttpService(url, name=name, headers=headers, timeout=timeout, transport=transport)
    driver = _Driver(name, service, body, whole_history=history == "client")
    declared = EvidenceCoverage.complete_except(data=coverage["data"]) if reports_usage else coverage
    return define_agent(name=name, evidence_coverage=declared, send=driver.send, version=version, secret_env=secret_env)


class _Driver:
    def __init__(self, name: str, service: HttpService, body: Body | None, *, whole_history: bool) -> None:
        self._name = name
        self._service = service
        self._body = body
        self._whole_history = whole_history

    async def send(self, input: TurnInput, ctx: AgentContext) -> Turn:
        """One turn: a user's message, or the answers to what was asked."""
        chat = ctx.session.get(_CHAT)
        ctx.session.capture(chat.id)
        messages, message = self._messages(chat, input)
        payload = {
            **self._extra_fields(input, ctx),
            "id": chat.id,
            "messages": messages if self._whole_history else messages[-1:],
            "trigger": "submit-message",
            **({"messageId": message.message["id"]} if input.responses else {}),
        }
        reading = Reading(chat.open_calls if input.responses else ())
        async with self._service.post(payload, ctx) as answer:
            await self._read(answer, reading, message)
            cut = answer.cut
        kept = message.done()
        chat.messages = [*(messages[:-1] if input.responses else messages), *([kept] if kept else [])]
        chat.open_calls = reading.unanswered
        return reading.finish(cut).report(ctx)

    def _messages(self, chat: Chat, given: TurnInput) -> tuple[list[JsonObject], AssistantMessage]:
        if given.output_schema is not None:
            raise self._no_place("an output schema", "ask for JSON in the text, and check t.reply")
        if not given.responses:
            return [*chat.messages, user_message(given)], AssistantMessage()
        messages = answered(chat.messages, given.responses)
        if messages is None:
            raise self._no_place("an answer to what was not asked", "answer a request of the last turn")
        return messages, AssistantMessage(copy.deepcopy(messages[-1]))

    async def _read(self, answer: Answer, reading: Reading, message: AssistantMessage) -> None:
        answer.require_events()
        async for event in answer.events():
            reading.add(event.data)
            if reading.full:
                return
            frame = _frame(event.data)
            if frame is not None:
                message.add(frame)

    def _extra_fields(self, given: TurnInput, ctx: AgentContext) -> Mapping[str, Any]:
        if callable(self._body):
            return self._body(given, ctx)
        for what, value in (("model", ctx.model), ("reasoning effort", ctx.reasoning_effort), ("flags", ctx.flags)):
            if value:
                ctx.diagnostic(
                    "input-not-passed", "warning", f"the protocol has no place for the {what}: pass it with `body=`"
                )
        return self._body or {}

    def _no_place(self, what: str, fix: str) -> AdapterError:
        return AdapterError("agent-input", agent=self._name, problem=f"the protocol has no place for {what}", fix=fix)


def _frame(data: str) -> Mapping[str, Any] | None:
    try:
        frame = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return frame if isinstance(frame, dict) else None
