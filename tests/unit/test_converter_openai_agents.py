"""Runs of the OpenAI Agents SDK as turns: real runs over scripted models, and what is left of runs that raise."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
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
from niceeval.converters import openai_agents as converter

pytest.importorskip("agents", reason="the OpenAI Agents SDK is not installed: pip install 'niceeval[openai-agents]'")

from agents import Agent, RunConfig, Runner, function_tool
from agents.tool import FunctionTool
from pydantic import BaseModel

from tests.unit.agents_script import Script, calls, frame, response, says, streamed, thinks

QUIET = RunConfig(tracing_disabled=True)
ALL = {"events", "actions", "messages", "usage", "status"}


@function_tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@function_tool
def raises(why: str) -> str:
    """Raise."""
    raise ValueError(why)


@function_tool(failure_error_function=None)
def ends_the_run(why: str) -> str:
    """Raise, and let nobody answer for it."""
    raise ValueError(why)


@function_tool(needs_approval=True)
def delete(path: str) -> str:
    """Delete."""
    return f"deleted {path}"


def agent(*answers: Any, tools: tuple[FunctionTool, ...] = (add, raises, delete), **how: Any) -> Agent[Any]:
    return Agent(name="Desk", model=Script(*answers).model, tools=list(tools), **how)


def ran(desk: Agent[Any], text: Any = "go", **how: Any) -> Any:
    return asyncio.run(Runner.run(desk, text, run_config=QUIET, **how))


def turn_of(desk: Agent[Any], **how: Any) -> Turn:
    return converter.to_turn(ran(desk), **how)


def raised(desk: Agent[Any], **how: Any) -> Turn:
    try:
        ran(desk, **how)
    except Exception as error:  # noqa: BLE001 - whatever the run raised is what is looked at
        return converter.to_turn(None, error=error)
    raise AssertionError("the run did not raise")


def kinds(turn: Turn) -> list[str]:
    return [type(event).__name__ for event in turn.events]


def lowered(turn: Turn) -> set[str]:
    return set(turn.evidence_coverage or {})


def statuses(*turns: Turn) -> list[tuple[str, str]]:
    facts = derive_facts([event for turn in turns for event in turn.events])
    return [(call.call_id, call.status) for call in facts.tool_calls]


def test_a_run_is_its_calls_their_results_and_what_was_said() -> None:
    """Success: thinking, a call with its result, the answer; what is always partial is declared."""
    found = converter.collected(
        ran(agent((thinks("sum it"), calls("add", "c1", {"a": 1, "b": 2})), (says("It is 3."),)))
    )
    assert found.turn.events == (
        Thinking(text="sum it"),
        ActionCalled(call_id="c1", name="add", input={"a": 1, "b": 2}),
        ActionResult(call_id="c1", status="completed", output=3),
        Message(role="assistant", text="It is 3."),
    )
    assert (found.turn.status, found.turn.data, found.turn.evidence_coverage) == ("completed", None, None)
    assert found.diagnostics == ()
    assert converter.coverage["actions"].level == "partial"


def test_a_failure_is_claimed_where_it_is_known_and_the_actions_are_partial() -> None:
    """Tool failure: the SDK has no status. Its own fixed words say it, or the caller does, who was asked to word it."""
    answers = (calls("raises", "c1", {"why": "no disk"}), calls("add", "c2", {"a": "x", "b": 1})), (says("Sorry."),)
    turn = turn_of(agent(*answers))
    assert statuses(turn) == [("c1", "failed"), ("c2", "failed")]
    assert turn.status == "completed"

    told: list[str] = []

    def word(given: Any) -> str:
        told.append(given.call_id)
        return f"went wrong: {given.error}"

    config = RunConfig(tracing_disabled=True, tool_error_formatter=word)
    result = asyncio.run(Runner.run(agent(*answers), "go", run_config=config))
    assert statuses(converter.to_turn(result)) == [("c1", "completed"), ("c2", "completed")]
    assert statuses(converter.to_turn(result, failed=told)) == [("c1", "failed"), ("c2", "failed")]
    assert converter.coverage["actions"].level == "partial"


def test_an_error_that_ends_the_run_keeps_the_turns_before() -> None:
    """A tool that raises for good, a tool that is not there: what finished is evidence, nothing since is complete."""
    turn = raised(
        agent(
            (calls("add", "c1", {"a": 1, "b": 1}),),
            (calls("ends_the_run", "c2", {"why": "no disk"}),),
            tools=(add, ends_the_run),
        )
    )
    assert statuses(turn) == [("c1", "completed")]
    assert turn.status == "failed"
    assert lowered(turn) == {"events", "actions", "messages", "usage"}
    assert "no disk" in turn.events[-1].message  # type: ignore[union-attr]
    assert turn.usage is not None
    assert turn.usage.requests == 2
    turn = raised(agent((calls("nowhere", "c1"),)))
    assert kinds(turn) == ["ErrorEvent"]
    assert {"events", "actions"} <= lowered(turn)


def test_a_limit_of_turns_loses_nothing() -> None:
    """Every turn finished: the run did badly, and all of it is there."""
    turn = raised(agent((calls("add", "c1", {"a": 1, "b": 1}),), (calls("add", "c2", {"a": 1, "b": 1}),)), max_turns=2)
    assert statuses(turn) == [("c1", "completed"), ("c2", "completed")]
    assert (turn.status, lowered(turn)) == ("failed", set())
    assert "MaxTurnsExceeded" in turn.events[-1].message  # type: ignore[union-attr]


def paused() -> tuple[Agent[Any], Any]:
    desk = agent(
        (
            calls("delete", "d1", {"path": "a"}),
            calls("delete", "d2", {"path": "b"}),
            calls("add", "c1", {"a": 1, "b": 2}),
        ),
        (says("Done."),),
    )
    return desk, ran(desk)


def test_a_call_that_waits_for_approval_makes_the_turn_wait() -> None:
    """One request for each call, with the shared options; a sibling that needs none has run."""
    _, result = paused()
    turn = converter.to_turn(result)
    assert turn.status == "waiting"
    requests = [event.request for event in turn.events if isinstance(event, InputRequested)]
    assert [(request.id, request.action, request.input) for request in requests] == [
        ("d1", "delete", {"path": "a"}),
        ("d2", "delete", {"path": "b"}),
    ]
    assert [[option.id for option in request.options or ()] for request in requests] == [["approve", "reject"]] * 2
    assert statuses(turn) == [("d1", "pending"), ("d2", "pending"), ("c1", "completed")]


@pytest.mark.parametrize("reason", [None, "not that one"])
def test_a_refusal_by_a_human_is_rejected_and_nothing_comes_twice(reason: str | None) -> None:
    """Refusal by a human: known by the SDK's words, or by the id. The paused run's items and tokens are cut."""
    desk, first = paused()
    state = first.to_state()
    approve, reject = first.interruptions
    state.approve(approve)
    state.reject(reject, rejection_message=reason)
    second = ran(desk, state)
    assert len(second.new_items) > len(first.new_items)
    ids = converter.CallIds()
    before = converter.to_turn(first, ids=ids)
    turn = converter.to_turn(second, after=first, rejected=["d2"] if reason else [], ids=ids)
    assert turn.events == (
        ActionResult(call_id="d1", status="completed", output="deleted a"),
        ActionResult(call_id="d2", status="rejected", output=reason or "Tool execution was not approved."),
        Message(role="assistant", text="Done."),
    )
    assert statuses(before, turn) == [("d1", "completed"), ("d2", "rejected"), ("c1", "completed")]
    one = Usage(
        input_tokens=100, output_tokens=20, cache_read_tokens=5, cache_write_tokens=7, reasoning_tokens=8, requests=1
    )
    assert (before.usage, turn.usage) == (one, one)


def test_parallel_calls_are_paired_by_their_ids() -> None:
    """Parallel tools: all calls of an answer, then their results, each its own."""
    turn = turn_of(agent((calls("add", "c1", {"a": 1, "b": 1}), calls("add", "c2", {"a": 2, "b": 2})), (says("done"),)))
    assert kinds(turn) == ["ActionCalled", "ActionCalled", "ActionResult", "ActionResult", "Message"]
    assert {call.call_id: call.output for call in derive_facts(turn.events).tool_calls} == {"c1": 2, "c2": 4}


def test_a_handoff_is_a_subagent_until_the_run_ends() -> None:
    """Nested agent, handed over to: its name, what it does, and its end, which is that of the run."""
    other = Agent(
        name="Refunds", model=Script((calls("add", "c1", {"a": 1, "b": 2}),), (says("3"),)).model, tools=[add]
    )
    turn = turn_of(agent((calls("transfer_to_refunds", "h1"),), handoffs=[other]))
    assert turn.events == (
        SubagentCalled(call_id="h1", name="Refunds"),
        ActionCalled(call_id="c1", name="add", input={"a": 1, "b": 2}),
        ActionResult(call_id="c1", status="completed", output=3),
        Message(role="assistant", text="3"),
        SubagentCompleted(call_id="h1", status="completed", output="3"),
    )
    assert turn.evidence_coverage is None


def test_of_two_handoffs_at_once_the_second_did_not_happen() -> None:
    """The SDK takes the first and answers the second with words; both were asked for."""
    one, two = (Agent(name=name, model=Script((says(name),)).model) for name in ("One", "Two"))
    turn = turn_of(agent((calls("transfer_to_one", "h1"), calls("transfer_to_two", "h2")), handoffs=[one, two]))
    called = derive_facts(turn.events).subagent_calls
    assert [(call.name, call.status) for call in called] == [("One", "completed"), ("two", "failed")]


def nested() -> tuple[Agent[Any], Any]:
    inner = Agent(
        name="Cleaner",
        model=Script((calls("delete", "i1", {"path": "a"}),), (says("clean"),)).model,
        tools=[delete],
    )
    desk = Agent(
        name="Desk",
        model=Script((calls("clean", "t1", {"input": "all"}),), (says("It is clean."),)).model,
        tools=[inner.as_tool("clean", "Clean up")],
    )
    return desk, ran(desk)


@pytest.mark.parametrize("approved", [True, False])
def test_an_agent_that_is_a_tool_is_a_subagent_whose_work_is_not_shown(approved: bool) -> None:
    """Nested agent, as a tool: it is named. Its approval comes out, the first that is seen of a call inside."""
    desk, first = nested()
    ids = converter.CallIds()
    before = converter.to_turn(first, ids=ids)
    assert before.events[0] == SubagentCalled(call_id="t1", name="Cleaner")
    assert before.status == "waiting"
    assert {"events", "actions"} <= lowered(before)
    assert statuses(before) == [("i1", "pending")]
    state = first.to_state()
    (inner,) = first.interruptions
    state.approve(inner) if approved else state.reject(inner, rejection_message="no")
    second = ran(desk, state)
    turn = converter.to_turn(second, after=first, ids=ids, rejected=() if approved else ["i1"])
    facts = derive_facts([*before.events, *turn.events])
    assert [(call.name, call.status, call.output) for call in facts.subagent_calls] == [
        ("Cleaner", "completed", "clean")
    ]
    assert [call.status for call in facts.tool_calls] == (["pending"] if approved else ["rejected"])
    assert before.usage is not None
    assert turn.usage is not None
    assert (before.usage.requests, turn.usage.requests) == (2, 2)


def test_an_empty_answer_is_no_message() -> None:
    """Empty answer: nothing was said, and the run is over all the same."""
    turn = turn_of(agent(()))
    assert (turn.events, turn.status) == ((), "completed")
    assert turn.usage is not None


def test_a_refusal_of_the_model_is_what_it_said() -> None:
    """With or without an error that ends the run, the words are a message."""
    turn = raised(agent((says(refusal="I will not."),)))
    assert turn.events[0] == Message(role="assistant", text="I will not.")
    assert turn.status == "failed"
    assert isinstance(turn.events[-1], ErrorEvent)
    found = converter.collected([{"type": "message_output_item", "raw_item": says("So: ", refusal="no.")}])
    assert found.turn.events == (Message(role="assistant", text="So: no."),)
    assert [said.code for said in found.diagnostics] == ["model-refused"]


def test_parts_of_a_message_are_one_text() -> None:
    """Multi-part content: one message is one event; a tool's parts stay what they are, without their bytes."""

    @function_tool
    def look() -> Any:
        """Look."""
        return [{"type": "text", "text": "a dot"}, {"type": "raw", "data": b"abc"}]

    turn = turn_of(agent((calls("look", "c1"),), (says("One, ", "two."),), tools=(look,)))
    assert turn.events[-1] == Message(role="assistant", text="One, two.")
    (call,) = derive_facts(turn.events).tool_calls
    assert call.output == [{"type": "text", "text": "a dot"}, {"type": "raw", "data": {"kind": "binary", "bytes": 3}}]


class City(BaseModel):
    name: str
    degrees: int


def test_a_structured_answer_is_data_and_was_said() -> None:
    """Structured output: the text is JSON, the object is the data; a tool's object is plain."""

    @function_tool
    def look() -> City:
        """Look."""
        return City(name="Bern", degrees=3)

    bern = {"name": "Bern", "degrees": 3}
    desk = agent((calls("look", "c1"),), (says(json.dumps(bern)),), tools=(look,), output_type=City)
    turn = turn_of(desk)
    assert kinds(turn) == ["ActionCalled", "ActionResult", "Message"]
    assert derive_facts(turn.events).tool_calls[0].output == bern
    assert turn.data == bern
    assert converter.to_turn(ran(agent((says(json.dumps(bern)),), output_type=City)), data=False).data is None


def test_a_tools_result_that_is_taken_for_the_answer_was_said() -> None:
    """`stop_on_first_tool`: no message of the model, but an answer that the user reads."""

    @function_tool
    def look() -> str:
        """Look."""
        return "3 degrees"

    turn = turn_of(agent((calls("look", "c1"),), tools=(look,), tool_use_behavior="stop_on_first_tool"))
    assert turn.events[-1] == Message(role="assistant", text="3 degrees")


def test_buckets_of_tokens_exclude_each_other() -> None:
    """Cached and reasoning tokens: the former come out of the input, the latter are part of the output."""
    assert turn_of(agent((says("hi"),))).usage == Usage(
        input_tokens=100, output_tokens=20, cache_read_tokens=5, cache_write_tokens=7, reasoning_tokens=8, requests=1
    )


def test_tokens_that_nobody_counted_are_not_zero() -> None:
    """A compatible server that says nothing of tokens; its items all have the same id, and are still told apart."""
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 1}'}}

    def chat(message: dict[str, Any]) -> dict[str, Any]:
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": None, **message}}
        return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}

    model = Script(chat({"tool_calls": [call, {**call, "id": "c2"}]}), chat({"content": "two"})).chat_model
    turn = turn_of(Agent(name="Desk", model=model, tools=[add]))
    assert statuses(turn) == [("c1", "completed"), ("c2", "completed")]
    assert turn.usage == Usage(requests=2)
    assert turn.evidence_coverage is not None
    assert turn.evidence_coverage["usage"].level == "unavailable"


def test_what_a_provider_ran_is_a_call_with_its_result() -> None:
    """Hosted tools are one item each: the canonical name, the MCP server's name, the error."""
    search = {"type": "web_search_call", "id": "w1", "status": "completed", "action": {"type": "search", "query": "q"}}
    mcp = {"type": "mcp_call", "id": "m1", "name": "find", "server_label": "shop", "arguments": '{"x": 1}'}
    items = [
        {"type": "tool_call_item", "raw_item": raw}
        for raw in (
            search,
            {**mcp, "output": "3"},
            {**mcp, "id": "m2", "error": "down"},
            {**search, "status": "searching", "id": "w2"},
        )
    ]
    turn = converter.to_turn([*items, {"type": "compaction_item", "raw_item": {}}, {"type": "mcp_list_tools_item"}])
    calls_made = derive_facts(turn.events).tool_calls
    assert [(call.name, call.tool, call.status, call.output) for call in calls_made] == [
        ("web_search", "web_search", "completed", None),
        ("mcp__shop__find", None, "completed", "3"),
        ("mcp__shop__find", None, "failed", "down"),
        ("web_search", "web_search", "unknown", None),
    ]
    assert calls_made[1].input == {"x": 1}
    assert kinds(turn)[-1] == "Compaction"


def test_an_item_of_a_kind_that_is_not_known_lowers_the_channels() -> None:
    """A newer version of the SDK has items that this one does not know: nothing is taken for complete."""
    found = converter.collected([{"type": "hologram_item"}, {"type": "message_output_item", "raw_item": says("hi")}])
    assert found.turn.events == (Message(role="assistant", text="hi"),)
    assert {"events", "actions", "messages"} <= lowered(found.turn)


def test_a_call_id_that_comes_again_is_another_call() -> None:
    """Ids of a conversation are each used once, whatever a model gives."""
    ids = converter.CallIds()
    turns = [turn_of(agent((calls("add", "same", {"a": 1, "b": 1}),), (says("two"),)), ids=ids) for _ in range(2)]
    assert statuses(*turns) == [("same", "completed"), ("same#2", "completed")]


def test_what_is_said_twice_counts_once() -> None:
    """Items that come again within a run are no second call; a run that does not begin with the paused one says so."""
    result = ran(agent((calls("add", "c1", {"a": 1, "b": 1}),), (says("two"),)))
    call, output, message = result.new_items
    turn = converter.to_turn([call, call, output, output, message])
    assert statuses(turn) == [("c1", "completed")]
    desk, first = paused()
    state = first.to_state()
    for item in first.interruptions:
        state.approve(item)
    second = ran(desk, state)
    turn = converter.to_turn([*second.new_items[1:], second.new_items[0]], after=first)
    assert [event.call_id for event in turn.events if isinstance(event, ActionResult)] == ["d1", "d2"]
    assert lowered(turn) == {"events", "actions", "messages"}


@pytest.mark.parametrize("streams_on", [True, False])
def test_a_resumed_run_may_be_streamed(streams_on: bool) -> None:
    """Its events are new ones only, its items are not: either way, nothing comes twice."""
    desk, first = paused()

    async def go() -> Turn:
        state = first.to_state()
        for item in first.interruptions:
            state.approve(item)
        if not streams_on:
            return converter.to_turn(await Runner.run(desk, state, run_config=QUIET), after=first)
        running = Runner.run_streamed(desk, state, run_config=QUIET)
        return await converter.to_turn_stream(running, after=first)

    turn = asyncio.run(go())
    assert kinds(turn) == ["ActionResult", "ActionResult", "Message"]
    assert turn.usage is not None
    assert turn.usage.requests == 1


# Streams ------------------------------------------------------------------------------------------------------------


def streams(desk: Agent[Any], stop_after: int | None = None, **how: Any) -> Any:
    async def go() -> Any:
        running = Runner.run_streamed(desk, "go", run_config=QUIET)
        if stop_after is None:
            return await converter.collected_stream(running, **how)

        async def some() -> AsyncIterator[Any]:
            number = 0
            async for event in running.stream_events():
                number += 1
                if number > stop_after:
                    running.cancel()
                    return
                yield event

        return await converter.collected_stream(some(), **how)

    return asyncio.run(go())


def talkative() -> Agent[Any]:
    other = Agent(name="Refunds", model=Script((says("It is done."),)).model)
    return agent(
        (says("Let me see."), calls("add", "c1", {"a": 1, "b": 2})),
        (calls("transfer_to_refunds", "h1"),),
        handoffs=[other],
    )


def test_a_stream_gives_the_turn_of_its_run() -> None:
    """Texts come as pieces and again as items, and are said once."""
    found = streams(talkative())
    assert found.turn == converter.to_turn(ran(talkative()))
    assert kinds(found.turn).count("Message") == 2
    assert (found.turn.status, found.turn.evidence_coverage, found.diagnostics) == ("completed", None, ())


def test_a_stream_that_breaks_keeps_what_arrived() -> None:
    """Error mid-stream: the finished turn and the half text are there, and nothing is complete."""
    half = "".join(map(frame, streamed(response(says("It is three.")))[:3]))
    turn = streams(agent((calls("add", "c1", {"a": 1, "b": 2}),), half)).turn
    assert turn.events[:3] == (
        ActionCalled(call_id="c1", name="add", input={"a": 1, "b": 2}),
        ActionResult(call_id="c1", status="completed", output=3),
        Message(role="assistant", text="It is "),
    )
    assert isinstance(turn.events[3], ErrorEvent)
    assert turn.status == "failed"
    assert lowered(turn) == ALL
    assert turn.usage is None


def test_a_stream_that_is_cut_anywhere_says_nothing_that_the_whole_one_contradicts() -> None:
    """Cut after every event: what is said of calls, subagents and texts is said by the whole one too."""
    whole = streams(talkative()).turn
    texts = [event.text for event in whole.events if isinstance(event, Message)]
    seen_most = 0
    for length in range(0, 40, 2):
        turn = streams(talkative(), stop_after=length).turn
        assert turn.status == "failed"
        assert lowered(turn) == ALL
        for event in turn.events:
            if isinstance(event, Message):
                assert any(text.startswith(event.text) for text in texts)
            elif not isinstance(event, SubagentCompleted):
                assert event in whole.events
        seen_most = max(seen_most, len(turn.events))
    assert seen_most >= 4


def test_the_converter_and_the_adapter_load_nothing_of_the_sdk() -> None:
    """The SDK is imported when an agent of it is run, not before."""
    program = (
        "import sys; import niceeval.converters.openai_agents, niceeval.adapters.openai_agents.agent; "
        "print([name for name in sys.modules if name.partition('.')[0] in ('agents', 'openai', 'pydantic', 'httpx2')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


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
