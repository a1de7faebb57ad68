"""Agents of Google's ADK: their events as turns, and the adapter that drives them; real agents over scripted models."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    AdapterError,
    ErrorEvent,
    InputFile,
    InputRequested,
    InputResponse,
    Message,
    RetryableSendError,
    SubagentCalled,
    SubagentCompleted,
    Thinking,
    Turn,
    Usage,
)
from niceeval.adapters import google_adk_agent
from niceeval.converters import google_adk as converter
from niceeval.expect import includes
from niceeval.testing import Probes, check_agent_sync
from tests.unit.contexts import Conversation

pytest.importorskip("google.adk", reason="Google's ADK is not installed: pip install 'niceeval[google-adk]'")

from google.adk.events import Event, EventActions
from google.adk.runners import InMemoryRunner
from google.adk.tools import AgentTool, FunctionTool, LongRunningFunctionTool
from google.adk.tools import request_input as request_input_tool
from google.genai import types
from pydantic import BaseModel

from tests.unit.google_adk_agents import USED, add, agent, call, delete, desk, raises, says


class City(BaseModel):
    name: str
    degrees: int


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The framework logs the traceback of every error."""
    logger = logging.getLogger("google_adk")
    before, logger.disabled = logger.disabled, True
    yield
    logger.disabled = before


def careful(*answers: Any) -> Any:
    return agent(*answers, tools=[add, FunctionTool(delete, require_confirmation=True)])


async def events_of(given: Any) -> AsyncIterator[Event]:
    runner = InMemoryRunner(agent=given, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="u")
    message = types.Content(role="user", parts=[types.Part(text="q")])
    async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message):
        yield event


def turn_of(given: Any, **how: Any) -> Turn:
    return asyncio.run(converter.to_turn_stream(events_of(given), **{"subagents": {}, **how}))


def texts(turn: Turn) -> list[str]:
    return [event.text for event in turn.events if isinstance(event, Message)]


def statuses(turn: Turn) -> dict[str, str]:
    return {event.call_id: event.status for event in turn.events if isinstance(event, ActionResult)}


def requests(turn: Turn) -> list[Any]:
    return [event.request for event in turn.events if isinstance(event, InputRequested)]


def lowered(turn: Turn) -> set[str]:
    return set(turn.evidence_coverage or {})


def answering(given: Any, *answers: Callable[[Any], InputResponse]) -> tuple[Turn, Turn]:
    async def go() -> tuple[Turn, Turn]:
        talk = Conversation(google_adk_agent(given))
        asked = await talk.send("q")
        return asked, await talk.respond(*(answer(one) for answer, one in zip(answers, requests(asked), strict=True)))

    return asyncio.run(go())


def approve(request: Any) -> InputResponse:
    return InputResponse(request_id=request.id, option_id="approve")


def reject(request: Any) -> InputResponse:
    return InputResponse(request_id=request.id, option_id="reject")


def reply(request: Any) -> InputResponse:
    return InputResponse(request_id=request.id, text="keep it")


def test_success() -> None:
    """A call, its result and the answer come in order, with the tokens of both requests."""
    turn = turn_of(agent(says("Let me.", call("c1", "add", a=1, b=2)), says("3"), tools=[add]))
    assert turn.events == (
        Message(role="assistant", text="Let me."),
        ActionCalled(call_id="c1", name="add", input={"a": 1, "b": 2}),
        ActionResult(call_id="c1", output=3, status="completed"),
        Message(role="assistant", text="3"),
    )
    assert (turn.status, turn.evidence_coverage) == ("completed", None)


def test_cached_and_reasoning_tokens() -> None:
    """Cached tokens are taken out of the prompt's; thoughts are beside the answer, and are added to it."""
    assert turn_of(agent(says("hi"))).usage == Usage(
        input_tokens=107, output_tokens=9, cache_read_tokens=5, reasoning_tokens=3, requests=1
    )
    none = turn_of(agent(says("hi", usage_metadata=None)))
    assert none.usage is None
    assert lowered(none) == {"usage"}


def test_tool_failure_and_parallel_tools() -> None:
    """Missing arguments and an unknown tool are failed calls; all results come together, each to its call."""
    calls = says(call("c1", "add", a=1, b=2), call("c2", "add", a=1), call("c3", "nope"))
    turn = turn_of(agent(calls, says("done"), tools=[add]))
    assert statuses(turn) == {"c1": "completed", "c2": "failed", "c3": "failed"}
    assert lowered(turn) == set()


def test_error_mid_stream() -> None:
    """A tool that raises ends the run: its call stays open, its sibling's result is kept, the error is said once."""
    calls = says(call("c1", "raises", why="boom"), call("c2", "add", a=1, b=2))
    turn = turn_of(agent(calls, tools=[add, raises]))
    assert (turn.status, statuses(turn)) == ("failed", {"c2": "completed"})
    assert [event.message for event in turn.events if isinstance(event, ErrorEvent)] == ["ValueError: boom"]
    assert {"events", "actions", "messages", "usage"} <= lowered(turn)


def test_answers_that_are_errors() -> None:
    """An answer that is an error and no exception, such as one that was blocked, is a failed turn."""
    turn = turn_of(agent(blocked()))
    assert (turn.status, turn.events) == ("failed", (ErrorEvent(message="SAFETY: blocked"),))


def blocked() -> Any:
    answer = says()
    answer.content = None
    answer.error_code, answer.error_message = "SAFETY", "blocked"
    return answer


def test_whether_a_tool_runs_an_agent_has_to_be_known() -> None:
    """Events do not show what an agent inside a tool did, so that nothing negative can be said unasked."""
    turn = turn_of(agent(says(call("c1", "add", a=1, b=2)), says("3"), tools=[add]), subagents=None)
    assert {"events", "actions"} <= lowered(turn)


def test_nested_agent_as_a_tool() -> None:
    """An agent that is a tool is found by the adapter; what it did inside is not shown, and the turn says so."""
    inner = agent(says(call("s1", "add", a=1, b=2)), says("from inside"), name="inner", tools=[add])
    outer = agent(says(call("c1", "inner", request="x")), says("ok"), tools=[AgentTool(inner)])
    turn = asyncio.run(Conversation(google_adk_agent(outer)).send("q"))
    assert SubagentCalled(call_id="c1", name="inner") in turn.events
    assert SubagentCompleted(call_id="c1", output="from inside", status="completed") in turn.events
    assert {"events", "actions", "usage"} <= lowered(turn)


def test_nested_agent_that_takes_over() -> None:
    """An agent that the work is handed to: what it does is seen, and it ends with the run."""
    sub = agent(says(call("s1", "add", a=1, b=2)), says("from sub"), name="sub", tools=[add])
    turn = turn_of(agent(says(call("c1", "transfer_to_agent", agent_name="sub")), sub_agents=[sub]))
    assert SubagentCalled(call_id="c1", name="sub") in turn.events
    assert turn.events[-1] == SubagentCompleted(call_id="c1", output="from sub", status="completed")
    assert (texts(turn), statuses(turn), lowered(turn)) == (["from sub"], {"s1": "completed"}, set())


def test_empty_answer() -> None:
    """An answer without a text is a completed turn."""
    turn = turn_of(agent(says("")))
    assert (turn.events, turn.status) == ((), "completed")


def test_multi_part_content() -> None:
    """Texts of one answer are one message, thoughts are thoughts, an image is left out and said."""
    image = types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"))
    thought = types.Part(text="hm", thought=True)
    collected = asyncio.run(
        converter.collected_stream(events_of(agent(says(thought, "Hello", " you", image))), subagents={})
    )
    assert collected.turn.events == (Thinking(text="hm"), Message(role="assistant", text="Hello you"))
    assert lowered(collected.turn) == {"events", "messages"}
    assert [said.code for said in collected.diagnostics] == ["file-left-out"]


def test_pieces() -> None:
    """Pieces of an answer that comes whole are not said twice; of one that does not, they are kept."""
    pieces = [says("He", partial=True), says("llo", partial=True)]
    assert texts(turn_of(agent([*pieces, says("Hello")]))) == ["Hello"]

    async def broken() -> AsyncIterator[Any]:
        yield Event(author="desk", partial=True, content=types.Content(role="model", parts=[types.Part(text="He")]))
        raise ConnectionError("gone")

    turn = asyncio.run(converter.to_turn_stream(broken()))
    assert (texts(turn), turn.status) == (["He"], "failed")
    assert "messages" in lowered(turn)


def test_code_that_the_model_runs() -> None:
    """Code that the provider ran is a call with its result."""
    code = types.Part(executable_code=types.ExecutableCode(code="1+1", language="PYTHON"))
    done = types.Part(code_execution_result=types.CodeExecutionResult(outcome="OUTCOME_OK", output="2"))
    turn = turn_of(agent(says(code, done, "2")))
    called = next(event for event in turn.events if isinstance(event, ActionCalled))
    assert (called.name, called.input) == ("code_execution", {"language": "PYTHON", "code": "1+1"})
    assert list(statuses(turn).values()) == ["completed"]


def test_structured_output() -> None:
    """Its three ways: a key of the state, a tool (which is no action), and the last text."""
    answer = '{"name": "Oslo", "degrees": 3}'
    data = {"name": "Oslo", "degrees": 3}
    with_key = agent(says(answer), output_schema=City, output_key="city")
    assert turn_of(with_key, output_key="city").data == data
    by_tool = agent(says(call("c1", "set_model_response", **data)), says("x"), output_schema=City, tools=[add])
    turn = turn_of(by_tool)
    assert (turn.data, statuses(turn), texts(turn), lowered(turn)) == (data, {}, [answer], set())
    assert turn_of(agent(says(answer), output_schema=City), text_is_data=True).data == data
    assert turn_of(agent(says(answer), output_schema=City)).data is None


def test_compaction() -> None:
    """A summary in the place of older events is a compaction."""
    from google.adk.events.event_actions import EventCompaction

    summary = EventCompaction(
        start_timestamp=1, end_timestamp=2, compacted_content=types.Content(parts=[types.Part(text="we talked")])
    )
    turn = converter.to_turn([Event(author="desk", actions=EventActions(compaction=summary))])
    assert [getattr(event, "reason", None) for event in turn.events] == ["we talked"]


def test_json_forms() -> None:
    """Events as plain data say the same."""

    async def go() -> list[Event]:
        return [
            event
            async for event in events_of(careful(says(call("c1", "delete", path="a"), call("c2", "add", a=1, b=2))))
        ]

    events = asyncio.run(go())
    plain = [event.model_dump(mode="json") for event in events]
    assert converter.to_turn(plain, subagents={}) == converter.to_turn(events, subagents={})


# The adapter -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "status"), [(approve, "completed"), (reject, "rejected"), (reply, "rejected")])
def test_refusal_by_a_human(answer: Callable[[Any], InputResponse], status: str) -> None:
    """Approved, refused, and refused in words: the words of the framework while a call waits are no result."""
    asked, turn = answering(careful(says(call("c1", "delete", path="a")), says("done")), answer)
    request = requests(asked)[0]
    assert (asked.status, request.action, request.input) == ("waiting", "delete", {"path": "a"})
    assert [(option.id, option.label) for option in request.options] == [("approve", "Approve"), ("reject", "Reject")]
    assert statuses(asked) == {}
    assert (statuses(turn), texts(turn), turn.status) == ({"c1": status}, ["done"], "completed")


def test_why_a_call_was_refused() -> None:
    """The framework does not tell the model why: that is said."""

    async def go() -> list[tuple[str, str]]:
        talk = Conversation(google_adk_agent(careful(says(call("c1", "delete", path="a")), says("done"))))
        asked = await talk.send("q")
        await talk.respond(reply(requests(asked)[0]))
        return talk.said

    assert [code for code, _ in asyncio.run(go())] == ["reason-not-passed"]


def test_two_requests_at_once() -> None:
    """Each is decided for itself, and the call beside them that needs no approval has run."""
    calls = says(call("c1", "delete", path="a"), call("c2", "delete", path="b"), call("c3", "add", a=1, b=2))
    asked, turn = answering(careful(calls, says("done")), reject, approve)
    assert statuses(asked) == {"c3": "completed"}
    assert statuses(turn) == {"c1": "rejected", "c2": "completed"}


def test_questions() -> None:
    """A question of the agent takes a text; so does a tool whose result comes from outside."""
    asked, turn = answering(
        agent(says(call("c1", "adk_request_input", message="Which file?")), says("done"), tools=[request_input_tool]),
        reply,
    )
    assert [(request.prompt, request.options) for request in requests(asked)] == [("Which file?", None)]
    assert (asked.status, texts(turn)) == ("waiting", ["done"])

    def ticket(path: str) -> None:
        """Start something that takes long."""

    slow = agent(says(call("c1", "ticket", path="a")), says("done"), tools=[LongRunningFunctionTool(ticket)])
    asked, turn = answering(slow, reply)
    assert [(request.action, request.input) for request in requests(asked)] == [("ticket", {"path": "a"})]
    assert texts(turn) == ["done"]


def test_a_tool_that_goes_on() -> None:
    """What such a tool gives at first is no result."""
    given = agent(says(call("c1", "add", a=1, b=2)), says("it runs"), tools=[LongRunningFunctionTool(add)])
    collected = asyncio.run(converter.collected_stream(events_of(given), subagents={}))
    assert (statuses(collected.turn), collected.turn.status) == ({}, "completed")
    assert [said.code for said in collected.diagnostics] == ["long-running-tool"]


def test_two_turns_and_a_new_session() -> None:
    """Turns of a session go on with it; another one knows nothing, and begins with the flags in its state."""
    given = agent(says("one"), says("two"), says("three"), instruction="Be {tone}.")
    adapter = google_adk_agent(given)

    async def go() -> list[Turn]:
        first, second = Conversation(adapter, flags={"tone": "kind"}), Conversation(adapter, flags={"tone": "brief"})
        return [await first.send("a"), await first.send("b"), await second.send("c")]

    assert [texts(turn) for turn in asyncio.run(go())] == [["one"], ["two"], ["three"]]
    heard = given.model.heard  # type: ignore[union-attr]
    assert [len(request.contents) for request in heard] == [1, 3, 1]
    assert ["kind" in request.config.system_instruction for request in heard] == [True, True, False]


def test_call_ids_that_come_again() -> None:
    """A model that numbers its calls afresh: the calls of two turns stay two."""
    given = agent(says(call("0", "add", a=1, b=2)), says("3"), says(call("0", "add", a=3, b=4)), says("7"), tools=[add])

    async def go() -> list[Turn]:
        talk = Conversation(google_adk_agent(given))
        return [await talk.send("a"), await talk.send("b")]

    assert [statuses(turn) for turn in asyncio.run(go())] == [{"0": "completed"}, {"0#2": "completed"}]


class Busy(Exception):
    code = 429


@pytest.mark.parametrize(
    ("error", "expected"), [(Busy("busy"), RetryableSendError), (RuntimeError("down"), RuntimeError)]
)
def test_a_model_that_is_not_to_be_had(error: Exception, expected: type[BaseException]) -> None:
    """What a model's service does is no verdict on the agent."""

    async def go() -> Turn:
        talk = Conversation(google_adk_agent(agent(error, says("hi"))))
        with pytest.raises(expected):
            await talk.send("q")
        return await talk.send("q")

    assert texts(asyncio.run(go())) == ["hi"]


def test_a_tool_that_raises_in_the_adapter() -> None:
    """It is the agent's failure."""
    given = agent(says(call("c1", "raises", why="boom")), tools=[raises])
    assert asyncio.run(Conversation(google_adk_agent(given)).send("q")).status == "failed"


def test_files_schemas_and_what_has_no_place() -> None:
    """Files are parts; a schema needs one of the agent's own; a model needs a function that makes the agent."""
    given = agent(says("seen"))
    file = InputFile(filename="a.png", mime_type="image/png", data=b"hi")
    talk = Conversation(google_adk_agent(given), model="m")
    asyncio.run(talk.send("look", files=(file,)))
    parts = given.model.heard[0].contents[0].parts  # type: ignore[union-attr]
    assert (parts[0].text, parts[1].inline_data.data) == ("look", b"hi")
    assert [code for code, _ in talk.said] == ["input-not-passed"]
    with pytest.raises(AdapterError, match="no place for an output schema"):
        asyncio.run(talk.send("q", output_schema={"type": "object"}))
    made = google_adk_agent(
        lambda ctx: agent(says('{"name": "Oslo", "degrees": 3}'), name=ctx.model, output_schema=City)
    )
    talk = Conversation(made, model="m")
    assert asyncio.run(talk.send("q", output_schema=City.model_json_schema())).data == {"name": "Oslo", "degrees": 3}
    assert talk.said == []
    with pytest.raises(AdapterError, match="is str"):
        google_adk_agent("agent")


def test_usage_of_many() -> None:
    """Answers of which only some were counted make the usage partial."""
    given = agent(says(call("c1", "add", a=1, b=2), usage_metadata=None), says("3", usage_metadata=USED), tools=[add])
    turn = turn_of(given)
    assert turn.evidence_coverage is not None
    assert turn.evidence_coverage["usage"].level == "partial"


@pytest.mark.slow
def test_the_contract() -> None:
    """Nothing of the contract for adapters fails, and little is not checked."""
    given = google_adk_agent(desk(tools=[add, FunctionTool(delete, require_confirmation=True)]))
    memory = ("My name is Kari", "recall", includes("Kari"))
    probes = Probes(hello="hello", tool="add", failing_tool="bad", approval="delete a b", memory=memory)
    report = check_agent_sync(given, probes, timeout=120)
    report.raise_for_failures()
    assert {finding.check for finding in report.not_checked} == {"hooks-run", "attempts-apart", "output-given"}
