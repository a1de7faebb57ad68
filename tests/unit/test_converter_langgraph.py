"""LangGraph's results and streams as turns: real graphs over scripted models, and what is left of runs that raise."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import AsyncIterator
from typing import Annotated, Any, TypedDict

import pytest

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    Compaction,
    ErrorEvent,
    InputRequested,
    InputResponse,
    Message,
    SubagentCalled,
    SubagentCompleted,
    Thinking,
    Turn,
    Usage,
    derive_facts,
)
from niceeval.converters import langgraph as converter

pytest.importorskip("langchain", reason="LangChain is not installed: pip install 'niceeval[langgraph]'")

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, SummarizationMiddleware, wrap_tool_call
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, message_to_dict
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from tests.unit.langgraph_agents import USAGE, add, ask, delete, raises, says, scripted

CONFIG: Any = {"configurable": {"thread_id": "t"}}
QUESTION: Any = {"messages": [("user", "q")]}
MODES: Any = ["updates", "values"]


class City(BaseModel):
    name: str
    degrees: int


def agent(*answers: Any, tools: Any = (add, delete), **how: Any) -> Any:
    return create_agent(scripted(*answers), list(tools), checkpointer=InMemorySaver(), **how)


def careful(*answers: Any, mode: Any = "batched", tools: Any = (add, delete)) -> Any:
    gate = HumanInTheLoopMiddleware(interrupt_on={"delete": True}, interrupt_mode=mode)
    return agent(*answers, tools=tools, middleware=[gate])


def run(graph: Any, given: Any = QUESTION) -> Any:
    return asyncio.run(graph.ainvoke(given, CONFIG))


def streamed(graph: Any, given: Any = QUESTION, *, modes: Any = MODES, **how: Any) -> Turn:
    subgraphs = how.pop("subgraphs", True)
    version = how.pop("version", "v1")
    stream = graph.astream(given, CONFIG, stream_mode=modes, subgraphs=subgraphs, version=version)
    return asyncio.run(converter.to_turn_stream(stream, **how))


def texts(turn: Turn) -> list[str]:
    return [event.text for event in turn.events if isinstance(event, Message)]


def kinds(turn: Turn) -> list[str]:
    return [type(event).__name__ for event in turn.events]


def statuses(turn: Turn) -> dict[str, str]:
    return {event.call_id: event.status for event in turn.events if isinstance(event, ActionResult)}


def requests(turn: Turn) -> list[Any]:
    return [event.request for event in turn.events if isinstance(event, InputRequested)]


def lowered(turn: Turn) -> set[str]:
    return set(turn.evidence_coverage or {})


def test_success() -> None:
    """A call, its result and the answer come in order, with the tokens of both requests, and nothing is lowered."""
    turn = converter.to_turn(
        run(
            agent(
                says("Let me see.", ("c1", "add", {"a": 1, "b": 2}), usage_metadata=USAGE),
                says("3", usage_metadata=USAGE),
            )
        ),
        subagents={},
    )
    assert turn.events == (
        Message(role="assistant", text="Let me see."),
        ActionCalled(call_id="c1", name="add", input={"a": 1, "b": 2}),
        ActionResult(call_id="c1", output="3", status="completed"),
        Message(role="assistant", text="3"),
    )
    assert turn.status == "completed"
    assert turn.usage == Usage(
        input_tokens=200, output_tokens=18, cache_read_tokens=10, cache_write_tokens=14, reasoning_tokens=6, requests=2
    )
    assert turn.evidence_coverage is None


@pytest.mark.parametrize(
    "modes", [MODES, "updates", "values", ["updates", "messages"], ["updates", "values", "custom"]]
)
@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("subgraphs", [True, False])
def test_streams_say_what_the_result_says(modes: Any, version: str, subgraphs: bool) -> None:
    """Whatever the modes, the version and the namespaces of a stream, each message is taken once."""
    answers = [says("Let me see.", ("c1", "add", {"a": 1, "b": 2})), says("3")]
    whole = converter.to_turn(run(agent(*answers)), subagents={})
    answers = [says("Let me see.", ("c1", "add", {"a": 1, "b": 2})), says("3")]
    turn = streamed(agent(*answers), modes=modes, version=version, subgraphs=subgraphs, subagents={})
    assert turn.events == whole.events
    assert lowered(turn) == {"usage"}


def test_only_pieces_of_texts() -> None:
    """A stream of message pieces alone shows no questions: nothing that it shows is complete."""
    turn = streamed(agent(says("3")), modes="messages")
    assert texts(turn) == ["3"]
    assert {"events", "actions", "messages", "status"} <= lowered(turn)


def test_whether_a_tool_calls_a_graph_has_to_be_known() -> None:
    """A state alone cannot show what a tool's own graph did, so that nothing negative can be said of it unasked."""
    state = run(agent(says("", ("c1", "add", {"a": 1, "b": 2})), says("3", usage_metadata=USAGE)))
    assert {"events", "actions"} <= lowered(converter.to_turn(state))
    assert "actions" not in lowered(converter.to_turn(state, subagents={}))


def test_only_this_turn() -> None:
    """A thread's state has all its turns: those before are left out by their keys, also after a summary."""
    graph = agent(says("one", usage_metadata=USAGE), says("two"))
    first = run(graph)
    second = run(graph)
    turn = converter.to_turn(second, before=converter.message_keys(first), subagents={})
    assert texts(turn) == ["two"]
    assert len(texts(converter.to_turn(second, subagents={}))) == 2


def test_messages_without_an_id_are_not_taken_for_new() -> None:
    """A message that nothing tells apart from an older one is left out, and the turn says so."""
    turn = converter.to_turn([AIMessage("old or new")], before=["a"])
    assert turn.events == ()
    assert {"messages", "actions"} <= lowered(turn)
    assert texts(converter.to_turn([AIMessage("first")])) == ["first"]


@pytest.mark.parametrize("modes", [MODES, "updates", "values"])
def test_nodes_that_make_their_own_messages(modes: Any) -> None:
    """A node gives messages without an id, and the state gives them one, or does not: each is taken once, or not at all
    where it may be an older one."""

    def graph(adds: Any) -> Any:
        builder = StateGraph(TypedDict("State", {"messages": Annotated[list[Any], adds]}))  # type: ignore[operator]
        builder.add_node("node", lambda state: {"messages": [AIMessage("hi")]})
        builder.add_edge(START, "node")
        builder.add_edge("node", END)
        return builder.compile(checkpointer=InMemorySaver())

    assert texts(streamed(graph(add_messages), modes=modes)) == ["hi"]
    turn = streamed(graph(operator.add), {"messages": [HumanMessage("q")]}, modes=modes)
    assert texts(turn) == ([] if modes == "values" else ["hi"])
    assert ("messages" in lowered(turn)) == (modes == "values")


def test_tool_failure() -> None:
    """Bad arguments, an unknown tool and an error that the app catches are failed calls."""

    @wrap_tool_call
    def catch(request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except ValueError as error:
            return ToolMessage(f"oh: {error}", tool_call_id=request.tool_call["id"], status="error")

    graph = create_agent(
        scripted(
            says("", ("c1", "add", {"a": "x", "b": 2}), ("c2", "nope", {}), ("c3", "raises", {"why": "no"})),
            says("sorry"),
        ),
        [add, raises],
        middleware=[catch],
    )
    turn = converter.to_turn(graph.invoke(QUESTION), subagents={})
    assert statuses(turn) == {"c1": "failed", "c2": "failed", "c3": "failed"}
    assert turn.status == "completed"
    assert lowered(turn) == {"usage"}


def test_arguments_that_are_no_json() -> None:
    """A call whose arguments could not be read was never run: it failed, with what the model wrote."""
    broken = {"id": "c1", "name": "add", "args": '{"a": 1', "error": "cut", "type": "invalid_tool_call"}
    turn = converter.to_turn(run(agent(AIMessage("", invalid_tool_calls=[broken]))), subagents={})
    assert turn.events == (
        ActionCalled(call_id="c1", name="add", input='{"a": 1'),
        ActionResult(call_id="c1", output="cut", status="failed"),
    )


def test_error_mid_stream() -> None:
    """A tool that raises ends the run: what came before is kept, its own call stays open, and the turn failed."""
    answer = says(
        "Let me see.", ("c1", "raises", {"why": "boom"}), ("c2", "add", {"a": 1, "b": 2}), usage_metadata=USAGE
    )
    turn = streamed(agent(answer, tools=[add, raises]))
    assert turn.status == "failed"
    assert turn.events[-1] == ErrorEvent(message="ValueError: boom")
    assert [event.call_id for event in turn.events if isinstance(event, ActionCalled)] == ["c1", "c2"]
    assert "c1" not in statuses(turn)
    assert {"events", "actions", "messages", "usage"} <= lowered(turn)
    assert "status" not in lowered(turn)


def test_error_of_the_model_mid_stream() -> None:
    """A model that raises at its second answer: the first is kept."""
    turn = streamed(agent(says("Let me see.", ("c1", "add", {"a": 1, "b": 2})), RuntimeError("gone")))
    assert (texts(turn), statuses(turn), turn.status) == (["Let me see."], {"c1": "completed"}, "failed")


def test_error_and_the_state_that_is_left() -> None:
    """Of a run that raised, a checkpoint has what was finished, also by the tools beside the one that raised."""
    graph = agent(says("", ("c1", "raises", {"why": "boom"}), ("c2", "add", {"a": 1, "b": 2})), tools=[add, raises])
    with pytest.raises(ValueError, match="boom") as raised:
        run(graph)
    turn = converter.to_turn(graph.get_state(CONFIG), error=raised.value)
    assert (statuses(turn), turn.status) == ({"c2": "completed"}, "failed")


def test_recursion_limit() -> None:
    """A run that reaches its limit failed, and hid nothing but what it had begun."""
    answers = [says("", (f"c{turn}", "add", {"a": 1, "b": turn})) for turn in range(20)]
    graph = agent(*answers)
    stream = graph.astream(QUESTION, {**CONFIG, "recursion_limit": 5}, stream_mode=MODES, subgraphs=True)
    turn = asyncio.run(converter.to_turn_stream(stream))
    assert turn.status == "failed"
    assert isinstance(turn.events[-1], ErrorEvent)
    assert "messages" not in lowered(turn)


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_refusal_by_a_human(mode: Any) -> None:
    """Two calls wait for approval, one that needs none does not; what is refused is rejected, not failed."""
    answer = says("", ("c1", "delete", {"path": "a"}), ("c2", "delete", {"path": "b"}), ("c3", "add", {"a": 1, "b": 2}))
    graph = careful(answer, says("done"), mode=mode)
    reading = converter.Reading()
    reading.state(first := run(graph))
    asked = reading.finish().turn
    assert asked.status == "waiting"
    assert [(request.action, request.input) for request in requests(asked)] == [
        ("delete", {"path": "a"}),
        ("delete", {"path": "b"}),
    ]
    assert [option.id for option in requests(asked)[0].options] == ["approve", "reject"]
    ids = [request.id for request in requests(asked)]
    responses = [
        InputResponse(request_id=ids[0], option_id="approve"),
        InputResponse(request_id=ids[1], text="keep it"),
    ]
    values, wrong = converter.resume_values(reading.pauses, responses)
    assert wrong == []
    turn = converter.to_turn(run(graph, Command(resume=values)), before=converter.message_keys(first), subagents={})
    assert (statuses(asked) | statuses(turn)) == {"c1": "completed", "c2": "rejected", "c3": "completed"}
    refused = next(event for event in turn.events if isinstance(event, ActionResult) and event.call_id == "c2")
    assert "keep it" in str(refused.output)
    assert not any(isinstance(event, ActionCalled) for event in turn.events)
    assert turn.status == "completed"


@pytest.mark.parametrize("modes", [MODES, "updates"])
def test_refusal_streamed(modes: Any) -> None:
    """The middleware gives the model's answer again when the run goes on: it is taken once."""
    graph = careful(says("Shall I?", ("c1", "delete", {"path": "a"})), says("done"))
    first = converter.Reading()

    async def both() -> tuple[Turn, Turn]:
        async for part in graph.astream(QUESTION, CONFIG, stream_mode=modes, subgraphs=True):
            first.add(part)
        values, _ = converter.resume_values(
            first.pauses, [InputResponse(request_id=first.pauses[0].request.id, option_id="reject")]
        )
        rest = graph.astream(Command(resume=values), CONFIG, stream_mode=modes, subgraphs=True)
        return first.finish().turn, await converter.to_turn_stream(rest, before=first.seen)

    asked, turn = asyncio.run(both())
    assert kinds(asked) == ["Message", "ActionCalled", "InputRequested"]
    assert kinds(turn) == ["ActionResult", "Message"]
    assert statuses(turn) == {"c1": "rejected"}


def test_a_human_answers_for_the_tool() -> None:
    """A call that may only be responded to takes a person's words as its result; it is no rejection."""
    gate = HumanInTheLoopMiddleware(interrupt_on={"add": {"allowed_decisions": ["respond"]}})
    graph = agent(says("", ("c1", "add", {"a": 1, "b": 2})), says("ok"), middleware=[gate])
    first = run(graph)
    pauses = converter.pauses(first["__interrupt__"])
    assert pauses[0].request.options is None
    values, _ = converter.resume_values(pauses, [InputResponse(request_id=pauses[0].request.id, text="four")])
    turn = converter.to_turn(run(graph, Command(resume=values)), before=converter.message_keys(first))
    assert turn.events[0] == ActionResult(call_id="c1", output="four", status="completed")


def test_questions() -> None:
    """A plain interrupt is a question without options; two at once are answered by their ids, also one of them only."""
    graph = agent(
        says("", ("c1", "ask", {"question": "Who?"}), ("c2", "ask", {"question": "When?"})), says("done"), tools=[ask]
    )
    first = run(graph)
    asked = converter.to_turn(first)
    assert [(request.prompt, request.options) for request in requests(asked)] == [("Who?", None), ("When?", None)]
    pauses = converter.pauses(first["__interrupt__"])
    values, _ = converter.resume_values(pauses, [InputResponse(request_id=pauses[1].request.id, text="now")])
    second = run(graph, Command(resume=values))
    still = converter.to_turn(second, before=converter.message_keys(first))
    assert (still.status, [request.prompt for request in requests(still)]) == ("waiting", ["Who?"])


def test_answers_that_do_not_fit() -> None:
    """Calls that wait together are decided together, and nothing is answered that was not asked."""
    first = run(careful(says("", ("c1", "delete", {"path": "a"}), ("c2", "delete", {"path": "b"}))))
    pauses = converter.pauses(first["__interrupt__"])
    one = InputResponse(request_id=pauses[0].request.id, option_id="approve")
    assert converter.resume_values(pauses, [one])[1] == ["2 calls wait to be decided together, and 1 were"]
    assert converter.resume_values(pauses, [InputResponse(request_id="x", text="y")])[1] == [
        "nothing was asked under 'x'"
    ]


def test_questions_that_are_objects() -> None:
    """A node that interrupts with an object of its own: its question is the prompt, and the answer is what it wants."""

    class State(TypedDict):
        messages: Annotated[list[Any], add_messages]

    def node(state: State) -> dict[str, Any]:
        sure = interrupt({"question": "Sure?", "path": "a"})
        return {"messages": [AIMessage(f"{sure}")]}

    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    graph = builder.compile(checkpointer=InMemorySaver())
    pauses = converter.pauses(run(graph)["__interrupt__"])
    assert (pauses[0].request.prompt, pauses[0].request.input) == ("Sure?", {"question": "Sure?", "path": "a"})
    answer = InputResponse(request_id=pauses[0].request.id, text="yes")
    values, _ = converter.resume_values(pauses, [answer], lambda value, response: {"sure": response.text == "yes"})
    assert texts(converter.to_turn(run(graph, Command(resume=values)), subagents={})) == ["{'sure': True}"]


def test_breakpoint() -> None:
    """A graph that stops at a breakpoint asks nothing: it neither waits for an answer nor is it done."""
    graph = create_agent(scripted(says("hi")), [], checkpointer=InMemorySaver(), interrupt_before=["model"])
    stream = graph.astream(QUESTION, CONFIG, stream_mode=MODES, subgraphs=True)
    collected = asyncio.run(converter.collected_stream(stream))
    assert "status" in lowered(collected.turn)
    assert [said.code for said in collected.diagnostics] == ["graph-paused"]


def test_parallel_tools() -> None:
    """Parallel calls keep their own results."""
    answer = says("", *((f"c{n}", "add", {"a": n, "b": 1}) for n in range(3)))
    turn = streamed(agent(answer, says("done")))
    assert {call.call_id: call.output for call in derive_facts(turn.events).tool_calls} == {
        "c0": "1",
        "c1": "2",
        "c2": "3",
    }
    assert kinds(turn)[:3] == ["ActionCalled"] * 3


def test_call_ids_that_come_again() -> None:
    """A model that numbers the calls of each answer afresh: two calls stay two, also across turns."""
    ids = converter.CallIds()
    graph = agent(
        says("", ("0", "add", {"a": 1, "b": 2})),
        says("", ("0", "add", {"a": 3, "b": 4})),
        says("done"),
        says("", ("0", "add", {"a": 5, "b": 6})),
        says("done"),
    )
    first = run(graph)
    turn = converter.to_turn(first, ids=ids, subagents={})
    assert [(call.input, call.output) for call in derive_facts(turn.events).tool_calls] == [
        ({"a": 1, "b": 2}, "3"),
        ({"a": 3, "b": 4}, "7"),
    ]
    later = converter.to_turn(run(graph), before=converter.message_keys(first), ids=ids, subagents={})
    assert [event.call_id for event in later.events if isinstance(event, ActionCalled)] == ["0#3"]


def nested(*inner: Any) -> Any:
    """An agent whose tool runs another agent."""
    helper = create_agent(scripted(*inner), [add, delete])

    @tool
    async def helper_tool(task: str) -> str:
        """Ask the helper."""
        state = await helper.ainvoke({"messages": [("user", task)]})
        return str(state["messages"][-1].content)

    return agent(says("", ("c1", "helper_tool", {"task": "t"})), says("done"), tools=[helper_tool])


def test_nested_agent() -> None:
    """A stream with namespaces shows what an agent inside a tool did; what it said is no message of the outer one."""
    inner = [says("inside", ("i1", "add", {"a": 1, "b": 2})), says("3")]
    turn = streamed(nested(*inner), subagents={"helper_tool": "helper"})
    assert SubagentCalled(call_id="c1", name="helper") in turn.events
    assert SubagentCompleted(call_id="c1", output="3", status="completed") in turn.events
    assert (texts(turn), statuses(turn)) == (["done"], {"i1": "completed"})
    assert "actions" not in lowered(turn)


def test_nested_agent_in_a_state() -> None:
    """A state has nothing of what an agent inside a tool did, and the turn says so."""
    inner = [says("", ("i1", "add", {"a": 1, "b": 2})), says("3")]
    turn = converter.to_turn(run(nested(*inner)), subagents={"helper_tool": "helper"})
    assert SubagentCalled(call_id="c1", name="helper") in turn.events
    assert statuses(turn) == {}
    assert {"events", "actions"} <= lowered(turn)


def test_a_graph_in_a_graph() -> None:
    """What a subgraph says is said by the whole, once, though the stream has it twice."""

    class State(TypedDict):
        messages: Annotated[list[Any], add_messages]

    inner = create_agent(scripted(says("from inside", ("i1", "add", {"a": 1, "b": 2})), says("3")), [add])
    builder = StateGraph(State)
    builder.add_node("inner", inner)
    builder.add_edge(START, "inner")
    builder.add_edge("inner", END)
    turn = streamed(builder.compile(checkpointer=InMemorySaver()))
    assert (texts(turn), statuses(turn)) == (["from inside", "3"], {"i1": "completed"})


def test_empty_answer() -> None:
    """An answer without a text is a completed turn without a message."""
    turn = converter.to_turn(run(agent(says(""))), subagents={})
    assert (turn.events, turn.status) == ((), "completed")


def test_multi_part_content() -> None:
    """Texts of one answer are one message; reasoning is thought; what the provider says of calls is not said again."""
    parts = [
        {"type": "reasoning", "reasoning": "hm"},
        {"type": "text", "text": "Let "},
        {"type": "text", "text": "me."},
        {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1, "b": 2}},
    ]
    turn = converter.to_turn(run(agent(says(parts, ("c1", "add", {"a": 1, "b": 2})), says("3"))), subagents={})
    assert turn.events[:2] == (Thinking(text="hm"), Message(role="assistant", text="Let me."))
    assert kinds(turn) == ["Thinking", "Message", "ActionCalled", "ActionResult", "Message"]
    assert lowered(turn) == {"usage"}


def test_parts_that_no_event_holds() -> None:
    """An image is left out and said; a block of an unknown kind lowers what it may have carried."""
    image = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    collected = converter.collected([AIMessage([{"type": "text", "text": "look"}, image])])
    assert texts(collected.turn) == ["look"]
    assert {"events", "messages"} <= lowered(collected.turn)
    assert [said.code for said in collected.diagnostics] == ["file-left-out"]
    odd = converter.collected([AIMessage([{"type": "hologram", "id": "1"}])])
    assert {"events", "actions", "messages"} <= lowered(odd.turn)


def test_tools_of_the_provider() -> None:
    """A tool that the provider runs is a call and its result within one answer."""
    parts = [
        {"type": "server_tool_call", "id": "s1", "name": "web_search", "args": {"query": "x"}},
        {"type": "server_tool_result", "tool_call_id": "s1", "status": "success", "output": "found"},
        {"type": "text", "text": "done"},
    ]
    turn = converter.to_turn([AIMessage(parts, response_metadata={"output_version": "v1"})])
    assert turn.events[:2] == (
        ActionCalled(call_id="s1", name="web_search", input={"query": "x"}, tool="web_search"),
        ActionResult(call_id="s1", output="found", status="completed"),
    )


def test_structured_output() -> None:
    """The call that gives the structured answer is no action; the answer is the turn's data, and it has been said."""
    answer = says("", ("c1", "City", {"name": "Oslo", "degrees": 3}))
    graph = agent(says("", ("c0", "add", {"a": 1, "b": 2})), answer, response_format=ToolStrategy(City))
    turn = converter.to_turn(run(graph), subagents={})
    assert turn.data == {"name": "Oslo", "degrees": 3}
    assert [call.name for call in derive_facts(turn.events).tool_calls] == ["add"]
    assert texts(turn) == ['{"name": "Oslo", "degrees": 3}']


def test_structured_output_that_had_to_be_mended() -> None:
    """An answer that does not fit its form is an error that the model is told; the next one counts."""
    bad, good = {"name": "Oslo"}, {"name": "Oslo", "degrees": 3}
    graph = agent(says("", ("c1", "City", bad)), says("", ("c2", "City", good)), response_format=ToolStrategy(City))
    turn = streamed(graph)
    assert turn.data == good
    assert [kind for kind in kinds(turn) if kind != "Message"] == ["ErrorEvent"]


def test_structured_output_of_an_earlier_turn() -> None:
    """A state keeps the last structured answer: a turn that gave none has none."""
    graph = agent(
        says("", ("c1", "City", {"name": "Oslo", "degrees": 3})), says("hi"), response_format=ToolStrategy(City)
    )
    first = run(graph)
    assert streamed(graph, before=converter.message_keys(first)).data is None
    kept = {
        "messages": [*first["messages"], AIMessage("hi", id="new")],
        "structured_response": first["structured_response"],
    }
    turn = converter.to_turn(kept, before=converter.message_keys(first))
    assert (turn.data, "data" in lowered(turn)) == (None, True)
    assert converter.to_turn(first, data=False).data is None


def test_cached_and_reasoning_tokens() -> None:
    """Cached tokens are taken out of the input, also where Anthropic says how long they are kept."""
    turn = converter.to_turn(run(agent(says("hi", usage_metadata=USAGE))))
    assert turn.usage == Usage(
        input_tokens=100, output_tokens=9, cache_read_tokens=5, cache_write_tokens=7, reasoning_tokens=3, requests=1
    )
    aged = {**USAGE, "input_token_details": {"cache_read": 5, "cache_creation": 0, "ephemeral_5m_input_tokens": 7}}
    usage = converter.to_turn(run(agent(says("hi", usage_metadata=aged)))).usage
    assert usage is not None
    assert (usage.input_tokens, usage.cache_write_tokens) == (100, 7)


def test_answers_without_token_counts() -> None:
    """What was not counted is not zero."""
    none = converter.to_turn(run(agent(says("hi"))))
    assert none.usage is None
    assert none.evidence_coverage is not None
    assert none.evidence_coverage["usage"].level == "unavailable"
    some = converter.to_turn(run(agent(says("", ("c1", "add", {"a": 1, "b": 2}), usage_metadata=USAGE), says("3"))))
    assert some.evidence_coverage is not None
    assert some.evidence_coverage["usage"].level == "partial"


def test_compaction() -> None:
    """A summary in the place of older messages is a compaction, and those that it keeps are not said again."""
    model = scripted(says("one"), says("two"), says("three"), says("four"))
    middle = SummarizationMiddleware(
        model=scripted(says("we talked")), trigger=("messages", 4), keep=("messages", 2), token_counter=len
    )
    graph = create_agent(model, [], middleware=[middle], checkpointer=InMemorySaver())
    seen: frozenset[str] = frozenset()
    turns = []

    async def turn(seen: frozenset[str]) -> tuple[Turn, frozenset[str]]:
        reading = converter.Reading(before=seen)
        async for part in graph.astream(QUESTION, CONFIG, stream_mode=MODES, subgraphs=True):
            reading.add(part)
        return reading.finish().turn, reading.seen

    for _ in range(3):
        done, seen = asyncio.run(turn(seen))
        turns.append(done)
    assert [kinds(done) for done in turns] == [["Message"], ["Message"], ["Compaction", "Message"]]
    assert "we talked" in str(next(event.reason for event in turns[2].events if isinstance(event, Compaction)))


def test_json_forms() -> None:
    """Messages that were written as JSON, as LangGraph's server sends them, say the same."""
    graph = careful(says("Shall I?", ("c1", "delete", {"path": "a"}), usage_metadata=USAGE))
    state = run(graph)
    plain = {
        "messages": [{**message_to_dict(message)["data"]} for message in state["messages"]],
        "__interrupt__": [{"id": pause.id, "value": pause.value} for pause in state["__interrupt__"]],
    }
    assert converter.to_turn(plain) == converter.to_turn(state)


def test_states_without_messages() -> None:
    """A graph that keeps no messages shows nothing of what it did."""
    turn = converter.to_turn({"answer": 4})
    assert {"events", "actions", "messages", "usage"} <= lowered(turn)
    odd = converter.to_turn({"talk": [HumanMessage("q", id="1"), AIMessage("a", id="2")]}, messages_key="talk")
    assert texts(odd) == ["a"]


def test_text_that_never_came_whole() -> None:
    """A stream that breaks within an answer keeps what came of it."""
    from langchain_core.messages import AIMessageChunk

    async def broken() -> AsyncIterator[Any]:
        yield ((), "messages", (AIMessageChunk("Half ", id="m1"), {}))
        yield ((), "messages", (AIMessageChunk("of it", id="m1"), {}))
        raise ConnectionError("gone")

    turn = asyncio.run(converter.to_turn_stream(broken()))
    assert texts(turn) == ["Half of it"]
    assert turn.status == "failed"
    assert "messages" in lowered(turn)


def test_situations() -> None:
    """Every situation is one that is tested here."""
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
