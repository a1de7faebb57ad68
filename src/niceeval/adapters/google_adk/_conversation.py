"""One conversation with an agent: its session, and what it waits for."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from niceeval.adapter import (
    AdapterError,
    AgentContext,
    InputRequest,
    InputResponse,
    RetryableSendError,
    Turn,
    TurnInput,
)
from niceeval.converters.google_adk import APPROVE, CONFIRMATION, INPUT, CallIds, Reading

APP: Final = "niceeval"
USER: Final = "user"
_BUSY: Final = frozenset({429, 503})


class Conversation:
    """A session of an agent, in memory."""

    def __init__(self, agent: Any, name: str, subagents: Mapping[str, str]) -> None:
        from google.adk.runners import InMemoryRunner

        self._agent = agent
        self._name = name
        self._subagents = subagents
        self._runner = InMemoryRunner(agent=agent, app_name=APP)
        self._session: str | None = None
        self._ids = CallIds()
        self._waiting: dict[str, InputRequest] = {}

    async def turn(self, input: TurnInput, ctx: AgentContext) -> Turn:
        """Run the agent until it ends or waits."""
        schema = getattr(self._agent, "output_schema", None)
        if input.output_schema is not None and schema is None:
            raise AdapterError(
                "agent-input",
                agent=self._name,
                problem="the agent has no output_schema, so it has no place for an output schema",
                fix="give the LlmAgent an output_schema, or check t.reply",
            )
        message = self._answers(input.responses, ctx) if input.responses else _message(input)
        fresh = self._session is None
        session = self._session or await self._begin(ctx)
        reading = Reading(
            subagents=self._subagents,
            output_key=getattr(self._agent, "output_key", None),
            text_is_data=schema is not None,
            ids=self._ids,
            data=input.output_schema is not None,
        )
        error = await self._run(session, message, reading)
        if error is not None:
            self._raise_unless_its_own(error, reading, fresh=fresh)
        ctx.session.capture(session)
        collected = reading.finish(error=error)
        self._waiting = {} if error is not None else dict(reading.requests)
        return collected.report(ctx)

    async def _begin(self, ctx: AgentContext) -> str:
        session = await self._runner.session_service.create_session(
            app_name=APP, user_id=USER, session_id=str(uuid.uuid4()), state=dict(ctx.flags)
        )
        self._session = session.id
        return self._session

    async def _run(self, session: str, message: Any, reading: Reading) -> Exception | None:
        stream = self._runner.run_async(user_id=USER, session_id=session, new_message=message)
        try:
            async with contextlib.aclosing(stream):
                async for event in stream:
                    reading.add(event)
        except Exception as error:  # noqa: BLE001 - the agent's own code; what it raises is judged
            return error
        return None

    def _raise_unless_its_own(self, error: Exception, reading: Reading, *, fresh: bool) -> None:
        """Raises what says nothing of the agent: what is raised while no tool runs is its model's, or the setting's."""
        if reading.open_calls:
            return
        if fresh and reading.answers == 0 and getattr(error, "code", None) in _BUSY:
            # The session has the input already: the next try gets another.
            self._session = None
            raise RetryableSendError(f"{type(error).__name__}: {error}") from error
        raise error

    def _answers(self, responses: Sequence[InputResponse], ctx: AgentContext) -> Any:
        from google.genai import types

        parts = []
        for response in responses:
            request = self._waiting.get(response.request_id)
            if request is None:
                raise AdapterError(
                    "agent-input",
                    agent=self._name,
                    problem=f"nothing was asked under {response.request_id!r}",
                    fix="answer a request of the last turn",
                )
            name, value = _answer(request, response)
            answer = types.FunctionResponse(id=request.id, name=name, response=value)
            parts.append(types.Part(function_response=answer))
            if request.options is not None and response.text:
                said = (
                    "the framework tells the model that a call was rejected, and not why: the reason is in the payload"
                )
                ctx.diagnostic("reason-not-passed", "info", said)
        return types.Content(role="user", parts=parts)


def _answer(request: InputRequest, response: InputResponse) -> tuple[str, dict[str, Any]]:
    """The function whose response an answer is, and the response."""
    if request.options is None:
        return request.action or INPUT, {"result": response.text}
    confirmed = response.option_id == APPROVE
    payload = {"payload": {"reason": response.text}} if response.text else {}
    return CONFIRMATION, {"confirmed": confirmed, **payload}


def _message(input: TurnInput) -> Any:
    from google.genai import types

    parts = [types.Part(text=input.text)] if input.text or not input.files else []
    for file in input.files:
        parts.append(types.Part.from_bytes(data=file.data, mime_type=file.mime_type))
    return types.Content(role="user", parts=parts)
