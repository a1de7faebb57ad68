"""The example's adapter says what the service did, in niceeval's terms."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    Agent,
    AgentContext,
    AgentSession,
    InputFile,
    InputRequested,
    InputResponse,
    Message,
    Turn,
    TurnInput,
    Usage,
)

EXAMPLE = Path(__file__).parents[2] / "examples" / "weather_desk"
OWN_MODULES = ("desk", "service", "local_service", "adapters", "adapters.weather_desk")


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    """The adapter, connected to a service that runs for this module's tests."""
    sys.path.insert(0, str(EXAMPLE))
    try:
        from adapters.weather_desk import weather_desk
        from local_service import LocalService

        service = LocalService()
        service.start()
        try:
            yield weather_desk(service.url)
        finally:
            service.stop()
    finally:
        sys.path.remove(str(EXAMPLE))
        for name in OWN_MODULES:
            sys.modules.pop(name, None)


def context(session: AgentSession, **flags: Any) -> AgentContext:
    return AgentContext(
        session=session,
        model=None,
        reasoning_effort=None,
        flags=flags,
        experiment_id="e",
        eval_id="v",
        attempt=0,
        log=lambda message: None,
        progress=lambda message, *, current=None, total=None: None,
        diagnostic=lambda code, level, message, data=None: None,
        cancelled=threading.Event(),
    )


def send(agent: Agent, session: AgentSession, input: TurnInput, **flags: Any) -> Turn:
    async def drive() -> Turn:
        result = agent.send(input, context(session, **flags))
        assert not isinstance(result, Turn)
        return await result

    return asyncio.run(drive())


def test_calls_results_and_replies_become_events(agent: Agent) -> None:
    """The steps keep their order and their call ids."""
    turn = send(agent, AgentSession(), TurnInput(text="Weather in Oslo?"))
    called, result, message = turn.events
    assert called == ActionCalled(call_id="call_1", name="get_weather", input={"city": "Oslo", "day": "today"})
    assert isinstance(result, ActionResult)
    assert (result.call_id, result.status) == ("call_1", "completed")
    assert message == Message(role="assistant", text="Oslo, today: 4 °C, snow.")
    assert turn.usage == Usage(input_tokens=3, output_tokens=5, requests=1)


def test_the_session_continues_the_conversation(agent: Agent) -> None:
    """The service's session id is captured, and sent with the next turn."""
    session = AgentSession()
    send(agent, session, TurnInput(text="My city is Oslo"))
    turn = send(agent, session, TurnInput(text="And tomorrow?"))
    assert ActionCalled(call_id="call_1", name="get_weather", input={"city": "Oslo", "day": "tomorrow"}) in turn.events


def test_an_approval_is_a_request_and_a_refusal_is_rejected(agent: Agent) -> None:
    """The turn waits with one request; the answer closes the call of the turn before."""
    session = AgentSession()
    asked = send(agent, session, TurnInput(text="Mail the forecast for Oslo to kari@example.com"))
    assert asked.status == "waiting"
    requested = asked.events[-1]
    assert isinstance(requested, InputRequested)
    response = InputResponse(request_id=requested.request.id, option_id="reject")
    answered = send(agent, session, TurnInput(text="reject", responses=(response,)))
    assert isinstance(answered.events[0], ActionResult)
    assert answered.events[0].status == "rejected"


def test_files_schema_and_flag_reach_the_service(agent: Agent) -> None:
    """A picture is measured, data is returned where a schema was given, the flag chooses the style."""
    picture = InputFile(filename="sky.png", mime_type="image/png", data=(EXAMPLE / "evals/files/sky.png").read_bytes())
    measured = send(agent, AgentSession(), TurnInput(text="", files=(picture,)))
    assert measured.events[-1] == Message(role="assistant", text="sky.png is a PNG picture of 48 x 32 pixels.")
    schema = {"type": "object", "properties": {"celsius": {"type": "integer"}}}
    turn = send(agent, AgentSession(), TurnInput(text="Weather in Oslo?", output_schema=schema), prompt="verbose")
    assert turn.data == {"celsius": 4}
    assert isinstance(turn.events[-1], Message)
    assert "umbrella" in turn.events[-1].text


def test_a_refused_request_is_an_error_not_a_verdict(agent: Agent) -> None:
    """An HTTP error is raised, so that the attempt is errored and the agent is not blamed."""
    session = AgentSession()
    session.capture("s-none")
    with pytest.raises(Exception, match="404"):
        send(agent, session, TurnInput(text="hello"))
