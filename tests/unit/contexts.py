"""What `send` is given, for tests that call an adapter themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from niceeval.adapter import Agent, AgentContext, AgentSession, InputFile, InputResponse, Turn, TurnInput


def context(
    session: AgentSession | None = None, *, said: list[tuple[str, str]] | None = None, **given: Any
) -> AgentContext:
    """A context of a fresh conversation; diagnostics land in `said`, as code and message."""
    heard = [] if said is None else said
    fields: dict[str, Any] = {
        "model": None,
        "reasoning_effort": None,
        "flags": {},
        "experiment_id": "e",
        "eval_id": "i",
        "attempt": 0,
        "log": lambda message: None,
        "progress": lambda message, *, current=None, total=None: None,
        "diagnostic": lambda code, level, message, data=None: heard.append((code, message)),
    }
    return AgentContext(session=AgentSession() if session is None else session, **{**fields, **given})


class Conversation:
    """One conversation with an agent: every turn on the same session. `said` holds the diagnostics."""

    def __init__(self, agent: Agent, **given: Any) -> None:
        self.said: list[tuple[str, str]] = []
        self._agent = agent
        self._context = context(said=self.said, **given)

    async def send(
        self, text: str = "", *, files: tuple[InputFile, ...] = (), output_schema: Mapping[str, Any] | None = None
    ) -> Turn:
        schema = None if output_schema is None else dict(output_schema)
        return await self._turn(TurnInput(text=text, files=files, output_schema=schema))

    async def respond(self, *answers: InputResponse) -> Turn:
        text = "\n".join(answer.text or answer.option_id or "" for answer in answers)
        return await self._turn(TurnInput(text=text, responses=answers))

    async def _turn(self, given: TurnInput) -> Turn:
        send: Any = self._agent.send
        answered = send(given, self._context)
        return await answered if hasattr(answered, "__await__") else answered
