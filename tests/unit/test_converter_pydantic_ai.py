"""Pydantic AI's runs as turns: real runs of real agents over scripted models, and what is left of runs that raise."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    Compaction,
    ErrorEvent,
    InputRequested,
    Message,
    SubagentCalled,
    SubagentCompleted,
    Thinking,
    Turn,
    Usage,
    derive_facts,
)
from niceeval.converters import pydantic_ai as converter

pytest.importorskip("pydantic_ai", reason="Pydantic AI is not installed: pip install 'niceeval[pydantic-ai]'")

from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    NativeOutput,
    RunContext,
    ToolDenied,
    ToolOutput,
    ToolReturn,
    capture_run_messages,
)
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import (
    BinaryContent,
    CompactionPart,
    FilePart,
    ModelMessagesTypeAdapter,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits


class City(BaseModel):
    name: str
    degrees: int


class Refusal(BaseModel):
    why: str


def script(*answers: Sequence[Any] | ModelResponse) -> FunctionModel:
    """A model that gives these answers in turn; where they are used up, the last again."""

    def answer(messages: list[Any], info: AgentInfo) -> ModelResponse:
        given = sum(isinstance(message, ModelResponse) for message in messages)
        chosen = answers[min(given, len(answers) - 1)]
        return chosen if isinstance(chosen, ModelResponse) else ModelResponse(parts=list(chosen))

    return FunctionModel(answer)


def add(a: int, b: int) -> int:
    return a + b


def raises(why: str) -> str:
    raise ValueError(why)


def fails(why: str) -> str:
    raise ToolFailed(why)


def retries(why: str) -> str:
    raise ModelRetry(why)


def delete(path: str) -> str:
    return f"deleted {path}"


def ask(question: str) -> str:
    raise CallDeferred


def careful(*answers: Any) -> Agent[None, Any]:
    """An agent with a tool that waits for approval, one that waits for a person's words, and one that needs neither."""
    agent: Agent[None, Any] = Agent(script(*answers), output_type=[str, DeferredToolRequests], tools=[add, ask])
    agent.tool_plain(requires_approval=True)(delete)
    return agent


def turn_of(agent: Agent[None, Any], **how: Any) -> Turn:
    return converter.to_turn(asyncio.run(agent.run("go")), **how)


def raised(agent: Agent[None, Any], **run: Any) -> Turn:
    """The turn of a run that raises."""

    async def go() -> Turn:
        with capture_run_messages() as messages:
            try:
                await agent.run("go", **run)
            except Exception as error:  # noqa: BLE001 - whatever the run raised is what is looked at
                return converter.to_turn(messages, error=error)
        raise AssertionError("the run did not raise")

    return asyncio.run(go())


def kinds(turn: Turn) -> list[str]:
    return [type(event).__name__ for event in turn.events]


def lowered(turn: Turn) -> set[str]:
    return set(turn.evidence_coverage or {})


def test_a_run_is_its_calls_their_results_and_what_was_said() -> None:
    """Success: thinking, a call with its result, the answer; nothing is missing, and nothing is said of it."""
    agent = Agent(
        script([ThinkingPart("sum it"), ToolCallPart("add", {"a": 1, "b": 2}, "c1")], [TextPart("It is 3.")]),
        tools=[add],
    )
    found = converter.collected(asyncio.run(agent.run("1+2?")))
    assert found.turn.events == (
        Thinking(text="sum it"),
        ActionCalled(call_id="c1", name="add", input={"a": 1, "b": 2}),
        ActionResult(call_id="c1", status="completed", output=3),
        Message(role="assistant", text="It is 3."),
    )
    assert (found.turn.status, found.turn.data, found.turn.evidence_coverage) == ("completed", None, None)
    assert found.turn.usage is not None
    assert found.turn.usage.requests == 2
    assert found.diagnostics == ()


@pytest.mark.parametrize(
    ("tool", "args", "output"),
    [
        ("fails", '{"why": "no disk"}', "no disk"),
        ("retries", {"why": "say more"}, "say more"),
        ("nowhere", {}, "Unknown tool name"),
        ("add", {"a": "x", "b": 2}, "int_parsing"),
        ("add", '{"a": ', "json_invalid"),
    ],
)
def test_a_tool_call_that_went_wrong_is_failed(tool: str, args: Any, output: str) -> None:
    """Tool failure: raised as such, sent back to the model, unknown, with bad arguments, with no JSON at all."""
    agent = Agent(script([ToolCallPart(tool, args, "c1")], [TextPart("sorry")]), tools=[add, fails, retries])
    turn = turn_of(agent)
    (call,) = derive_facts(turn.events).tool_calls
    assert (call.name, call.status) == (tool, "failed")
    assert output in json.dumps(call.output)
    assert turn.status == "completed"
    assert turn.evidence_coverage is None


def test_a_tool_that_raises_ends_the_run_and_is_the_one_that_failed() -> None:
    """The run is gone with the exception: what its agent did before is evidence, and the open call is what raised."""
    agent = Agent(
        script([ToolCallPart("add", {"a": 1, "b": 2}, "c1")], [ToolCallPart("raises", {"why": "no disk"}, "c2")]),
        tools=[add, raises],
    )
    turn = raised(agent)
    assert [(call.name, call.status) for call in derive_facts(turn.events).tool_calls] == [
        ("add", "completed"),
        ("raises", "failed"),
    ]
    assert turn.status == "failed"
    assert turn.events[-1] == ErrorEvent(message="ValueError: no disk")
    assert turn.evidence_coverage is None


def test_of_several_open_calls_none_is_called_the_one_that_failed() -> None:
    """Two calls are open when a tool raises: neither gets a result, and the actions are partial."""
    agent = Agent(
        script([ToolCallPart("raises", {"why": "a"}, "c1"), ToolCallPart("raises", {"why": "b"}, "c2")]),
        tools=[raises],
    )
    turn = raised(agent)
    assert not [event for event in turn.events if isinstance(event, ActionResult)]
    assert turn.status == "failed"
    assert {"events", "actions"} <= lowered(turn)
    assert "messages" not in lowered(turn)


def test_what_the_framework_stops_is_a_failed_turn() -> None:
    """Too many retries of a tool, a limit of requests: the agent did badly, and what it did is there."""
    again = Agent(script([ToolCallPart("retries", {"why": "more"}, "c1")]), tools=[retries])
    turn = raised(again)
    assert turn.status == "failed"
    assert [call.status for call in derive_facts(turn.events).tool_calls] == ["failed", "failed"]
    limited = Agent(script([ToolCallPart("add", {"a": 1, "b": 1}, "c1")]), tools=[add])
    turn = raised(limited, usage_limits=UsageLimits(request_limit=1))
    assert turn.status == "failed"
    assert "UsageLimitExceeded" in turn.events[-1].message  # type: ignore[union-attr]
    assert [call.status for call in derive_facts(turn.events).tool_calls] == ["completed"]


def test_a_call_that_waits_for_approval_makes_the_turn_wait() -> None:
    """Approvals have the shared options, a call for a person's words has none; a sibling without need has run."""
    agent = careful(
        [
            ToolCallPart("delete", {"path": "a"}, "d1"),
            ToolCallPart("ask", {"question": "which?"}, "q1"),
            ToolCallPart("add", {"a": 1, "b": 2}, "c1"),
        ]
    )
    turn = turn_of(agent)
    assert turn.status == "waiting"
    requests = [event.request for event in turn.events if isinstance(event, InputRequested)]
    assert [(request.id, request.action, request.input) for request in requests] == [
        ("d1", "delete", {"path": "a"}),
        ("q1", "ask", {"question": "which?"}),
    ]
    assert [option.id for option in requests[0].options or ()] == ["approve", "reject"]
    assert requests[1].options is None
    assert [call.status for call in derive_facts(turn.events).tool_calls] == ["pending", "pending", "completed"]
    assert turn.data is None
    assert turn.evidence_coverage is None


def test_a_refusal_by_a_human_is_rejected() -> None:
    """Refusal by a human: not a failure; the approved call and the answer are completed, and nothing comes twice."""
    agent = careful(
        [
            ToolCallPart("delete", {"path": "a"}, "d1"),
            ToolCallPart("delete", {"path": "b"}, "d2"),
            ToolCallPart("ask", {"question": "which?"}, "q1"),
        ],
        [TextPart("Done.")],
    )

    async def both() -> tuple[Turn, Turn]:
        ids = converter.CallIds()
        first = await agent.run("go")
        answers = DeferredToolResults(
            approvals={"d1": True, "d2": ToolDenied("not that one")}, calls={"q1": "the old one"}
        )
        second = await agent.run(message_history=first.all_messages(), deferred_tool_results=answers)
        return converter.to_turn(first, ids=ids), converter.to_turn(second, ids=ids)

    first, second = asyncio.run(both())
    assert second.events == (
        ActionResult(call_id="d1", status="completed", output="deleted a"),
        ActionResult(call_id="d2", status="rejected", output="not that one"),
        ActionResult(call_id="q1", status="completed", output="the old one"),
        Message(role="assistant", text="Done."),
    )
    assert second.status == "completed"
    assert second.usage is not None
    assert second.usage.requests == 1
    statuses = [call.status for call in derive_facts([*first.events, *second.events]).tool_calls]
    assert statuses == ["completed", "rejected", "completed"]


def test_parallel_calls_are_paired_by_their_ids() -> None:
    """Parallel tools: all calls of an answer, then their results, each its own."""
    agent = Agent(
        script(
            [ToolCallPart("add", {"a": 1, "b": 1}, "c1"), ToolCallPart("add", {"a": 2, "b": 2}, "c2")],
            [TextPart("done")],
        ),
        tools=[add],
    )
    turn = turn_of(agent)
    assert kinds(turn) == ["ActionCalled", "ActionCalled", "ActionResult", "ActionResult", "Message"]
    assert {call.call_id: call.output for call in derive_facts(turn.events).tool_calls} == {"c1": 2, "c2": 4}


def test_a_call_id_that_comes_again_is_another_call() -> None:
    """A model that gives no ids gets one made of the call, which repeats with it; also in the next turn."""
    model = script(
        [ToolCallPart("add", {"a": 1, "b": 1}, "same")],
        [ToolCallPart("add", {"a": 1, "b": 1}, "same")],
        [TextPart("done")],
    )
    agent = Agent(model, tools=[add])
    ids = converter.CallIds()
    first, second = turn_of(agent, ids=ids), turn_of(agent, ids=ids)
    calls = derive_facts([*first.events, *second.events]).tool_calls
    assert [call.call_id for call in calls] == ["same", "same#2", "same#3", "same#4"]
    assert [call.status for call in calls] == ["completed"] * 4
    assert [ids.original(call.call_id) for call in calls] == ["same"] * 4


@pytest.mark.parametrize("shared", [True, False])
def test_an_agent_inside_a_tool_is_a_tool_call(shared: bool) -> None:
    """Nested agent: the outer run shows a call. Where their usage is one, it shows that there was more, and how much of
    it is not shown; where it is not, the author says which tool is an agent."""
    inner = Agent(script([ToolCallPart("add", {"a": 1, "b": 1}, "i1")], [TextPart("two")]), tools=[add])
    outer = Agent(script([ToolCallPart("research", {"topic": "sums"}, "o1")], [TextPart("It is two.")]))

    @outer.tool
    async def research(ctx: RunContext[None], topic: str) -> str:
        return (await inner.run(topic, usage=ctx.usage if shared else None)).output

    result = asyncio.run(outer.run("go"))
    turn = converter.to_turn(result)
    assert kinds(turn) == ["ActionCalled", "ActionResult", "Message"]
    assert turn.usage is not None
    assert turn.usage.requests == (4 if shared else 2)
    assert lowered(turn) == ({"events", "actions"} if shared else set())
    told = converter.to_turn(result, subagents={"research": "librarian"})
    assert told.events[:2] == (
        SubagentCalled(call_id="o1", name="librarian"),
        SubagentCompleted(call_id="o1", status="completed", output="two"),
    )
    assert lowered(told) == {"events", "actions"}


def test_an_empty_answer_is_asked_for_again_and_no_message() -> None:
    """Empty answer: the framework asks again, which is an error that the agent lived through; or did not."""
    agent = Agent(script([], [TextPart("here")]))
    turn = turn_of(agent)
    assert kinds(turn) == ["ErrorEvent", "Message"]
    assert turn.status == "completed"
    assert turn.usage is not None
    assert turn.usage.requests == 2
    never = raised(Agent(script([])))
    assert never.status == "failed"
    assert "Message" not in kinds(never)
    filtered = raised(Agent(script(ModelResponse(parts=[], finish_reason="content_filter"))))
    assert filtered.status == "failed"
    assert "ContentFilterError" in filtered.events[-1].message  # type: ignore[union-attr]


def test_parts_of_one_answer_are_one_text_where_nothing_is_between() -> None:
    """Multi-part content: texts that follow each other are joined; a file has no place in the events, which is said."""
    picture = FilePart(BinaryContent(data=b"abc", media_type="image/png"))
    agent = Agent(script([TextPart("a"), TextPart("b"), ThinkingPart("hm"), TextPart("c"), picture]))
    found = converter.collected(asyncio.run(agent.run(["look", BinaryContent(data=b"x", media_type="image/png")])))
    assert found.turn.events == (
        Message(role="assistant", text="ab"),
        Thinking(text="hm"),
        Message(role="assistant", text="c"),
    )
    assert lowered(found.turn) == {"events", "messages"}
    assert [said.code for said in found.diagnostics] == ["file-left-out"]


def test_binary_content_of_a_tool_is_described() -> None:
    """A tool that returns a picture: its kind and size are in the event, its bytes are not."""

    def draw() -> Any:
        return {"picture": BinaryContent(data=b"abc", media_type="image/png"), "title": "dot"}

    agent = Agent(script([ToolCallPart("draw", {}, "c1")], [TextPart("done")]), tools=[draw])
    (call,) = derive_facts(turn_of(agent).events).tool_calls
    assert call.output == {"picture": {"kind": "binary", "media_type": "image/png", "bytes": 3}, "title": "dot"}


def test_a_model_of_pydantic_that_a_tool_returns_is_plain() -> None:
    """A tool's return value is JSON, whatever it is made of."""

    def look() -> City:
        return City(name="Bern", degrees=3)

    def wrapped() -> ToolReturn:
        return ToolReturn(return_value={"at": City(name="Bern", degrees=3)}, metadata={"secret": 1})

    agent = Agent(
        script([ToolCallPart("look", {}, "c1"), ToolCallPart("wrapped", {}, "c2")], [TextPart("done")]),
        tools=[look, wrapped],
    )
    turn = turn_of(agent)
    bern = {"name": "Bern", "degrees": 3}
    assert [call.output for call in derive_facts(turn.events).tool_calls] == [bern, {"at": bern}]
    assert turn.evidence_coverage is None


def _answer(tool: str) -> list[Any]:
    return [ToolCallPart(tool, {"name": "Bern", "degrees": 3}, "f1")]


@pytest.mark.parametrize(
    ("output_type", "answer"),
    [
        (City, _answer("final_result")),
        ([City, Refusal], _answer("final_result_City")),
        (ToolOutput(City, name="report"), _answer("report")),
        (NativeOutput(City), [TextPart('{"name": "Bern", "degrees": 3}')]),
    ],
    ids=["tool", "union", "named", "native"],
)
def test_a_structured_answer_is_data_and_no_action(output_type: Any, answer: list[Any]) -> None:
    """Structured output: the call that gives it is dropped, by its name; the answer was said, and is the data."""
    agent = Agent(script([ToolCallPart("add", {"a": 1, "b": 2}, "c1")], answer), output_type=output_type, tools=[add])
    turn = turn_of(agent)
    assert kinds(turn) == ["ActionCalled", "ActionResult", "Message"]
    assert json.loads(turn.events[-1].text) == {"name": "Bern", "degrees": 3}  # type: ignore[union-attr]
    assert turn.data == {"name": "Bern", "degrees": 3}
    assert turn.evidence_coverage is None
    assert turn_of(agent, data=False).data is None


def test_a_structured_answer_that_was_refused_is_an_error_the_agent_lived_through() -> None:
    """The form is wrong once: an error, no action; the second is the answer."""
    agent = Agent(
        script(
            [ToolCallPart("final_result_City", {"name": "Bern", "degrees": "warm"}, "f1")],
            [ToolCallPart("final_result_Refusal", {"why": "no idea"}, "f2")],
        ),
        output_type=[City, Refusal],
    )
    turn = turn_of(agent)
    assert kinds(turn) == ["ErrorEvent", "Message"]
    assert turn.data == {"why": "no idea"}
    assert not derive_facts(turn.events).tool_calls


def test_a_tool_whose_name_is_only_like_that_of_an_answer_is_an_action() -> None:
    """`final_result_check` is a tool of the agent's own: what it did is not hidden."""

    def final_result_check(mark: int) -> str:
        return "good"

    agent = Agent(
        script([ToolCallPart("final_result_check", {"mark": 1}, "c1")], [TextPart("done")]),
        tools=[final_result_check],
    )
    assert [call.name for call in derive_facts(turn_of(agent).events).tool_calls] == ["final_result_check"]


def test_buckets_of_tokens_exclude_each_other() -> None:
    """Cached and reasoning tokens: the framework counts cached ones as input, and reasoning as output."""
    usage = RequestUsage(
        input_tokens=112, cache_read_tokens=5, cache_write_tokens=7, output_tokens=20, output_reasoning_tokens=8
    )
    agent = Agent(script(ModelResponse(parts=[TextPart("hi")], usage=usage)))
    wanted = Usage(
        input_tokens=100,
        output_tokens=20,
        cache_read_tokens=5,
        cache_write_tokens=7,
        reasoning_tokens=8,
        requests=1,
    )
    result = asyncio.run(agent.run("go"))
    assert converter.to_turn(result).usage == wanted
    assert converter.to_turn(result.new_messages()).usage == wanted


def test_tokens_that_nobody_counted_are_not_zero() -> None:
    """A provider that says nothing of tokens: usage is unavailable; one answer of two without: partial."""
    silent = ModelResponse(parts=[TextPart("hi")], usage=RequestUsage(unmeasured_requests=1))
    turn = converter.to_turn([silent])
    assert turn.usage == Usage(requests=1)
    assert turn.evidence_coverage is not None
    assert turn.evidence_coverage["usage"].level == "unavailable"
    both = {"input_tokens": 5, "output_tokens": 1, "requests": 2, "unmeasured_requests": 1}
    turn = converter.to_turn([silent], usage=both)
    assert turn.evidence_coverage is not None
    assert turn.evidence_coverage["usage"].level == "partial"


def test_only_this_runs_messages_count() -> None:
    """The history of a conversation is not done again: neither its events nor its usage."""
    agent = Agent(
        script([ToolCallPart("add", {"a": 1, "b": 1}, "c1")], [TextPart("two")], [TextPart("hello")]), tools=[add]
    )

    async def second() -> Any:
        first = await agent.run("1+1?")
        return await agent.run("hello", message_history=first.all_messages())

    turn = converter.to_turn(asyncio.run(second()))
    assert turn.events == (Message(role="assistant", text="hello"),)
    assert turn.usage is not None
    assert turn.usage.requests == 1


def test_native_tools_and_compactions() -> None:
    """What a provider ran is an action, with the canonical name where there is one; a summary is a compaction."""
    agent = Agent(
        script(
            [
                CompactionPart("They spoke of Bern.", provider_name="function"),
                NativeToolCallPart("web_search", {"query": "Bern"}, "n1", provider_name="function"),
                NativeToolReturnPart("web_search", ["3 degrees"], "n1", provider_name="function"),
                TextPart("3 degrees"),
            ]
        )
    )
    assert turn_of(agent).events == (
        Compaction(reason="They spoke of Bern."),
        ActionCalled(call_id="n1", name="web_search", input={"query": "Bern"}, tool="web_search"),
        ActionResult(call_id="n1", status="completed", output=["3 degrees"]),
        Message(role="assistant", text="3 degrees"),
    )


def test_the_json_form_of_the_messages_gives_the_same_turn() -> None:
    """Messages that were stored as JSON, with no object of the framework in sight."""
    agent = careful(
        [ThinkingPart("hm"), ToolCallPart("add", '{"a": 1, "b": 2}', "c1"), ToolCallPart("add", {"a": "x"}, "c2")],
        [TextPart("done")],
    )
    result = asyncio.run(agent.run("go"))
    stored = json.loads(ModelMessagesTypeAdapter.dump_json(result.new_messages()))
    assert converter.to_turn(stored) == converter.to_turn(result)


def test_a_part_of_a_kind_that_is_not_known_lowers_the_channels() -> None:
    """A newer version of the framework has parts that this one does not know: nothing is taken for complete."""
    stored = [{"kind": "response", "parts": [{"part_kind": "hologram"}, {"part_kind": "text", "content": "hi"}]}]
    found = converter.collected(stored)
    assert found.turn.events == (Message(role="assistant", text="hi"),)
    assert {"events", "actions", "messages"} <= lowered(found.turn)
    assert [said.code for said in found.diagnostics] == ["unknown-lines"]


@pytest.mark.parametrize("outcome", ["interrupted", "a-new-word"])
def test_a_call_without_an_outcome_is_given_none(outcome: str) -> None:
    """A call that was cut off has no result; one with an outcome that is not known has not succeeded."""
    stored = [
        {"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": "add", "tool_call_id": "c1"}]},
        {"kind": "request", "parts": [{"part_kind": "tool-return", "tool_call_id": "c1", "outcome": outcome}]},
    ]
    turn = converter.to_turn(stored)
    assert kinds(turn) == ["ActionCalled"]
    assert "actions" in lowered(turn)


# Streams ------------------------------------------------------------------------------------------------------------


def streaming(
    *answers: Callable[[], AsyncIterator[Any]], output_type: Any = str, tools: Sequence[Any] = (add,)
) -> Agent[None, Any]:
    async def stream(messages: list[Any], info: AgentInfo) -> AsyncIterator[Any]:
        given = sum(isinstance(message, ModelResponse) for message in messages)
        async for piece in answers[min(given, len(answers) - 1)]():
            yield piece

    return Agent(FunctionModel(stream_function=stream), output_type=output_type, tools=list(tools))


async def calls_add() -> AsyncIterator[Any]:
    yield "Let me "
    yield "see."
    yield {1: DeltaToolCall(name="add", json_args='{"a":1,', tool_call_id="c1")}
    yield {1: DeltaToolCall(json_args='"b":2}')}


async def says_three() -> AsyncIterator[Any]:
    yield "It is "
    yield "3."


async def breaks() -> AsyncIterator[Any]:
    yield "It is "
    raise ConnectionError("reset")


def streamed(agent: Agent[None, Any], stop_after: int | None = None, **how: Any) -> Any:
    async def go() -> Any:
        async with agent.run_stream_events("go") as events:

            async def some() -> AsyncIterator[Any]:
                number = 0
                async for event in events:
                    number += 1
                    if stop_after is not None and number > stop_after:
                        return
                    yield event

            return await converter.collected_stream(some(), **how)

    return asyncio.run(go())


def test_a_stream_gives_the_turn_of_its_result() -> None:
    """Text before a call does not end it, pieces are one text, and nothing comes twice."""
    agent = streaming(calls_add, says_three)
    found = streamed(agent)
    assert found.turn.events == (
        Message(role="assistant", text="Let me see."),
        ActionCalled(call_id="c1", name="add", input={"a": 1, "b": 2}),
        ActionResult(call_id="c1", status="completed", output=3),
        Message(role="assistant", text="It is 3."),
    )
    assert (found.turn.status, found.turn.evidence_coverage, found.diagnostics) == ("completed", None, ())


def test_a_stream_that_raises_keeps_what_arrived() -> None:
    """Error mid-stream: the call and its result are evidence, the half text is there, and nothing is complete."""
    turn = streamed(streaming(calls_add, breaks)).turn
    assert turn.events == (
        Message(role="assistant", text="Let me see."),
        ActionCalled(call_id="c1", name="add", input={"a": 1, "b": 2}),
        ActionResult(call_id="c1", status="completed", output=3),
        Message(role="assistant", text="It is "),
        ErrorEvent(message="ConnectionError: reset"),
    )
    assert turn.status == "failed"
    assert lowered(turn) == {"events", "actions", "messages", "usage", "status"}
    assert turn.usage is None


def test_a_stream_that_is_cut_anywhere_says_nothing_that_the_whole_one_contradicts() -> None:
    """Cut after every event: a prefix of the whole turn's events, failed, and complete in nothing."""
    agent = streaming(calls_add, says_three)
    whole = streamed(agent).turn.events
    for length in range(12):
        turn = streamed(agent, stop_after=length).turn
        assert turn.status == "failed"
        assert lowered(turn) == {"events", "actions", "messages", "usage", "status"}
        for seen, real in zip(turn.events, whole, strict=False):
            if isinstance(seen, Message) and isinstance(real, Message):
                assert real.text.startswith(seen.text)
            else:
                assert seen == real


def test_a_cut_stream_has_no_structured_answer_as_an_action() -> None:
    """The call that gives the answer is no action in a stream either."""

    async def answers() -> AsyncIterator[Any]:
        yield {0: DeltaToolCall(name="final_result", json_args='{"name":"Bern","degrees":3}', tool_call_id="f1")}

    agent = streaming(answers, output_type=City)
    assert streamed(agent).turn.data == {"name": "Bern", "degrees": 3}
    assert streamed(agent, stop_after=5).turn.events == ()


def test_a_stream_forgets_the_ids_that_it_read_twice() -> None:
    """The result has every call of the stream again: it is the same call."""
    ids = converter.CallIds()
    agent = streaming(calls_add, says_three)
    first, second = streamed(agent, ids=ids).turn, streamed(agent, ids=ids).turn
    calls = derive_facts([*first.events, *second.events]).tool_calls
    assert [call.call_id for call in calls] == ["c1", "c1#2"]


def test_a_streamed_run_that_waits_makes_the_turn_wait() -> None:
    """Deferred calls end a stream as they end a run."""

    async def wants() -> AsyncIterator[Any]:
        yield {0: DeltaToolCall(name="delete", json_args='{"path":"a"}', tool_call_id="d1")}

    agent = streaming(wants, output_type=[str, DeferredToolRequests], tools=())
    agent.tool_plain(requires_approval=True)(delete)
    assert streamed(agent).turn.status == "waiting"
    assert streamed(agent, stop_after=3).turn.status == "failed"


def test_every_situation_has_a_word() -> None:
    """The ten situations, in their order, each tested here or with the reason why there is none."""
    assert list(converter.situations) == [
        "success",
        "tool failure",
        "refusal by a human",
        "parallel tools",
        "nested agent",
        "empty answer",
        "multi-part content",
        "structured output",
        "cached and reasoning tokens",
        "error mid-stream",
    ]
    assert all(converter.situations.values())


def test_the_converter_and_the_adapter_load_nothing_of_the_framework() -> None:
    """The framework is imported when an agent of it is run, not before."""
    program = (
        "import sys; import niceeval.converters.pydantic_ai, niceeval.adapters.pydantic_ai.agent; "
        "print([name for name in sys.modules if name.partition('.')[0] in ('pydantic_ai', 'pydantic', 'httpx2')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
