"""Runs of smolagents as turns: real agents over scripted models."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    ErrorEvent,
    Message,
    SubagentCalled,
    SubagentCompleted,
    Thinking,
    Turn,
    Usage,
)
from niceeval.converters import smolagents as converter

pytest.importorskip("smolagents", reason="smolagents is not installed: pip install 'niceeval[smolagents]'")

from smolagents import CodeAgent, Model, ToolCallingAgent, tool
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole
from smolagents.monitoring import LogLevel, TokenUsage


class Scripted(Model):
    """Gives its answers in turn; what is an exception is raised."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(model_id="scripted")
        self.answers = list(answers)

    def generate(self, messages: Any, **given: Any) -> ChatMessage:
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def calls(*made: tuple[str, str, Any], text: str | None = None, counted: bool = True) -> ChatMessage:
    return ChatMessage(
        role=MessageRole.ASSISTANT,
        content=text,
        tool_calls=[
            ChatMessageToolCall(
                id=id, type="function", function=ChatMessageToolCallFunction(name=name, arguments=arguments)
            )
            for id, name, arguments in made
        ],
        token_usage=TokenUsage(100, 9) if counted else None,
    )


def says(text: str) -> ChatMessage:
    return ChatMessage(role=MessageRole.ASSISTANT, content=text, token_usage=TokenUsage(100, 9))


def final(answer: Any, **given: Any) -> ChatMessage:
    return calls(("f", "final_answer", {"answer": answer}), **given)


@tool
def add(a: int, b: int) -> int:
    """Add.

    Args:
        a: one
        b: the other
    """
    return a + b


@tool
def raises(why: str) -> str:
    """Raise.

    Args:
        why: why
    """
    raise ValueError(why)


def agent(*answers: Any, **given: Any) -> Any:
    return ToolCallingAgent(tools=[add, raises], model=Scripted(*answers), verbosity_level=LogLevel.OFF, **given)


def run(made: Any, **how: Any) -> Turn:
    return converter.to_turn(made.run("q", return_full_result=True), **{"subagents": {}, **how})


def streamed(made: Any, **how: Any) -> Turn:
    return asyncio.run(converter.to_turn_stream(made.run("q", stream=True), **{"subagents": {}, **how}))


def texts(turn: Turn) -> list[str]:
    return [event.text for event in turn.events if isinstance(event, Message)]


def results(turn: Turn) -> dict[str, tuple[str, Any]]:
    return {event.call_id: (event.status, event.output) for event in turn.events if isinstance(event, ActionResult)}


def lowered(turn: Turn) -> set[str]:
    return set(turn.evidence_coverage or {})


@pytest.mark.parametrize("way", [run, streamed])
def test_success(way: Any) -> None:
    """A call, its result and the answer, which is no action; the tokens of both requests."""
    turn = way(agent(calls(("c1", "add", {"a": 1, "b": 2}), text="Let me."), final("3")))
    assert turn.events == (
        Message(role="assistant", text="Let me."),
        ActionCalled(call_id="c1", name="add", input={"a": 1, "b": 2}),
        ActionResult(call_id="c1", output="3", status="completed"),
        Message(role="assistant", text="3"),
    )
    assert turn.usage == Usage(input_tokens=200, output_tokens=18, requests=2)
    assert (turn.status, turn.evidence_coverage) == ("completed", None)


@pytest.mark.parametrize("way", [run, streamed])
def test_tool_failure(way: Any) -> None:
    """A tool that raises is a failed call, and the run goes on."""
    turn = way(agent(calls(("c1", "raises", {"why": "boom"})), final("sorry")))
    status, output = results(turn)["c1"]
    assert (status, "boom" in str(output), turn.status) == ("failed", True, "completed")
    assert lowered(turn) == set()


def test_parallel_tools() -> None:
    """A stream shows what came of each; a result has it joined, and says so."""
    made = calls(("c1", "add", {"a": 1, "b": 2}), ("c2", "add", {"a": 3, "b": 4}))
    turn = streamed(agent(made, final("ok")))
    assert results(turn) == {"c1": ("completed", "3"), "c2": ("completed", "7")}
    assert lowered(turn) == set()
    joined = run(agent(made, final("ok")))
    assert results(joined) == {"c1": ("completed", None), "c2": ("completed", None)}
    assert lowered(joined) == {"events", "actions"}


@pytest.mark.parametrize("way", [run, streamed])
def test_one_of_several_fails(way: Any) -> None:
    """The framework says that one of them failed: the calls are known from the model's answer."""
    made = calls(("c1", "raises", {"why": "boom"}), ("c2", "raises", {"why": "boom"}))
    turn = way(agent(made, final("sorry")))
    assert [event.call_id for event in turn.events if isinstance(event, ActionCalled)] == ["c1", "c2"]
    assert results(turn) == {}
    assert any(isinstance(event, ErrorEvent) for event in turn.events)
    assert {"events", "actions"} <= lowered(turn)


@pytest.mark.parametrize("way", [run, streamed])
def test_nested_agent(way: Any) -> None:
    """A managed agent is a call; what it did and used is not shown."""
    helper = agent(calls(("i1", "add", {"a": 1, "b": 2})), final("inside"), name="helper", description="helps")
    turn = way(
        agent(calls(("c1", "helper", {"task": "t"})), final("done"), managed_agents=[helper]),
        subagents={"helper": "helper"},
    )
    assert SubagentCalled(call_id="c1", name="helper") in turn.events
    done = next(event for event in turn.events if isinstance(event, SubagentCompleted))
    assert (done.status, "inside" in str(done.output)) == ("completed", True)
    assert {"events", "actions", "usage"} <= lowered(turn)


def test_whether_a_tool_runs_an_agent_has_to_be_known() -> None:
    """Nothing negative can be said unasked."""
    turn = run(agent(calls(("c1", "add", {"a": 1, "b": 2})), final("3")), subagents=None)
    assert {"events", "actions"} <= lowered(turn)


@pytest.mark.parametrize("way", [run, streamed])
def test_empty_answer(way: Any) -> None:
    """An empty answer is a completed turn without a message."""
    turn = way(agent(final("")))
    assert (turn.events, turn.status) == ((), "completed")


@pytest.mark.parametrize("way", [run, streamed])
def test_multi_part_content(way: Any) -> None:
    """A plan is thought, a text beside a call is said."""
    turn = way(agent(says("a plan"), final("done", text="Here:"), planning_interval=3))
    assert isinstance(turn.events[0], Thinking)
    assert "a plan" in turn.events[0].text
    assert texts(turn) == ["Here:", "done"]


@pytest.mark.parametrize("way", [run, streamed])
def test_structured_output(way: Any) -> None:
    """An answer that is an object is the turn's data."""
    assert way(agent(final({"degrees": 3}))).data == {"degrees": 3}
    assert way(agent(final({"degrees": 3})), data=False).data is None
    assert way(agent(final("three"))).data is None


@pytest.mark.parametrize("way", [run, streamed])
def test_limit_of_steps(way: Any) -> None:
    """A run that reaches its limit failed, though it has an answer; the tokens of that one are not known."""
    turn = way(agent(calls(("c1", "add", {"a": 1, "b": 2})), says("gave up"), max_steps=1))
    assert (turn.status, texts(turn)[-1]) == ("failed", "gave up")
    assert lowered(turn) == {"usage"}


@pytest.mark.parametrize("way", [run, streamed])
def test_code(way: Any) -> None:
    """An agent that writes code calls one tool; which tools its code calls is not shown."""
    answers = [says("I add.\n<code>\nprint(add(1, 2))\n</code>"), says("<code>\nfinal_answer(3)\n</code>")]
    turn = way(CodeAgent(tools=[add], model=Scripted(*answers), verbosity_level=LogLevel.OFF))
    names = [event.name for event in turn.events if isinstance(event, ActionCalled)]
    assert names == ["python_interpreter", "python_interpreter"]
    assert "3" in str(next(iter(results(turn).values())))
    assert (turn.data, texts(turn)) == (3, ["3"])
    assert {"events", "actions"} <= lowered(turn)


def test_error_mid_stream() -> None:
    """A model that raises ends the run: what came before is kept, from the stream and from the memory."""
    answers = [calls(("c1", "add", {"a": 1, "b": 2})), RuntimeError("down")]
    turn = streamed(agent(*answers))
    assert (turn.status, results(turn)) == ("failed", {"c1": ("completed", "3")})
    assert {"events", "actions", "messages", "usage"} <= lowered(turn)
    made = agent(*answers)
    with pytest.raises(Exception, match="down") as raised:
        made.run("q")
    left = converter.to_turn(made.memory.steps, error=raised.value)
    assert (left.status, results(left)) == ("failed", {"c1": ("completed", "3")})


def test_a_stream_that_ends_early() -> None:
    """A stream that nobody read to its end has no final answer."""
    events = list(agent(calls(("c1", "add", {"a": 1, "b": 2})), final("3")).run("q", stream=True))
    turn = asyncio.run(converter.to_turn_stream(events[:2]))
    assert turn.status == "failed"
    assert {"events", "actions", "messages", "usage", "status"} <= lowered(turn)


def test_only_this_turn() -> None:
    """A memory keeps all turns: the last one counts. A call id that comes again is told apart."""
    ids = converter.CallIds()
    made = agent(calls(("0", "add", {"a": 1, "b": 2})), final("3"), calls(("0", "add", {"a": 3, "b": 4})), final("7"))
    first = converter.to_turn(made.run("q", return_full_result=True), ids=ids)
    second = converter.to_turn(made.run("q", reset=False, return_full_result=True), ids=ids)
    assert (results(first), results(second)) == ({"0": ("completed", "3")}, {"0#2": ("completed", "7")})


def test_answers_without_token_counts() -> None:
    """What was not counted is not zero."""
    turn = run(agent(final("3", counted=False)))
    assert turn.usage is None
    assert lowered(turn) == {"usage"}


def test_what_cannot_be_read_as_a_call() -> None:
    """An answer of the model that is no call is an error that it is told, and no message."""
    turn = run(agent(says("no call"), final("3")))
    assert isinstance(turn.events[0], Thinking)
    assert isinstance(turn.events[1], ErrorEvent)
    assert (texts(turn), turn.status) == (["3"], "completed")


def test_what_is_unknown() -> None:
    """An event or a step of an unknown kind lowers what it may have carried."""
    assert {"events", "actions", "messages"} <= lowered(asyncio.run(converter.to_turn_stream([object()])))
    assert {"events", "actions", "messages"} <= lowered(converter.to_turn([{"odd": 1}]))
