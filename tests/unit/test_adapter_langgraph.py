"""Graphs of LangGraph as agents: conversations, questions to a human, and what an experiment sets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    AdapterError,
    InputFile,
    InputRequested,
    InputResponse,
    Message,
    RetryableSendError,
    Turn,
    TurnInput,
    Usage,
)
from niceeval.adapters import langgraph_agent
from niceeval.expect import includes
from niceeval.testing import Probes, check_agent_sync
from tests.unit.contexts import Conversation, context

pytest.importorskip("langchain", reason="LangChain is not installed: pip install 'niceeval[langgraph]'")

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, wrap_tool_call
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import BaseModel

from tests.unit.langgraph_agents import USAGE, add, ask, delete, desk, raises, says, scripted


class City(BaseModel):
    name: str
    degrees: int


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]


def texts(turn: Turn) -> list[str]:
    return [event.text for event in turn.events if isinstance(event, Message)]


def statuses(turn: Turn) -> dict[str, str]:
    return {event.call_id: event.status for event in turn.events if isinstance(event, ActionResult)}


def requests(turn: Turn) -> list[Any]:
    return [event.request for event in turn.events if isinstance(event, InputRequested)]


def lowered(turn: Turn) -> set[str]:
    return set(turn.evidence_coverage or {})


def one_node(node: Callable[..., Any], **schema: Any) -> Any:
    builder = StateGraph(State, **schema)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    return builder.compile()


def sent(agent: Any, text: str = "q", *, output_schema: Any = None, **given: Any) -> tuple[Turn, list[tuple[str, str]]]:
    talk = Conversation(agent, **given)
    return asyncio.run(talk.send(text, output_schema=output_schema)), talk.said


def answering(graph: Any, *answers: Callable[[Any], InputResponse], **how: Any) -> tuple[Turn, Turn]:
    """The turn that asks, and the one that goes on after each question was answered in its way."""

    async def go() -> tuple[Turn, Turn]:
        talk = Conversation(langgraph_agent(graph, **how))
        asked = await talk.send("q")
        given = [answer(request) for answer, request in zip(answers, requests(asked), strict=True)]
        return asked, await talk.respond(*given)

    return asyncio.run(go())


def approve(request: Any) -> InputResponse:
    return InputResponse(request_id=request.id, option_id="approve")


def reject(request: Any) -> InputResponse:
    return InputResponse(request_id=request.id, option_id="reject")


def reply(text: str) -> Callable[[Any], InputResponse]:
    return lambda request: InputResponse(request_id=request.id, text=text)


def test_two_turns_and_a_new_session() -> None:
    """Turns of a session go on with its thread, and only the new messages are theirs; another session knows nothing."""
    model = scripted(
        says("one", usage_metadata=USAGE), says("two", usage_metadata=USAGE), says("three", usage_metadata=USAGE)
    )
    agent = langgraph_agent(create_agent(model, []))

    async def go() -> list[Turn]:
        first, second = Conversation(agent), Conversation(agent)
        return [await first.send("a"), await first.send("b"), await second.send("c")]

    turns = asyncio.run(go())
    assert [texts(turn) for turn in turns] == [["one"], ["two"], ["three"]]
    assert [[message.content for message in heard] for heard in model.heard] == [["a"], ["a", "one", "b"], ["c"]]
    assert turns[1].usage == Usage(
        input_tokens=100, output_tokens=9, cache_read_tokens=5, cache_write_tokens=7, reasoning_tokens=3, requests=1
    )
    assert [lowered(turn) for turn in turns] == [set(), set(), set()]


def test_the_graphs_own_checkpointer_is_kept() -> None:
    """A graph that keeps threads keeps them where it does; one that keeps none may stay without."""
    saver = InMemorySaver()
    talk = Conversation(langgraph_agent(create_agent(scripted(says("one")), [], checkpointer=saver)))
    asyncio.run(talk.send("a"))
    assert len(list(saver.list(None))) > 0
    model = scripted(says("one"), says("two"))
    forgetful = langgraph_agent(create_agent(model, []), memory=False)

    async def go() -> None:
        talk = Conversation(forgetful)
        await talk.send("a")
        assert texts(await talk.send("b")) == ["two"]

    asyncio.run(go())
    assert [message.content for message in model.heard[1]] == ["b"]


@pytest.mark.parametrize("mode", ["batched", "per_call"])
@pytest.mark.parametrize(
    ("answer", "status"), [(approve, "completed"), (reject, "rejected"), (reply("keep it"), "rejected")]
)
def test_approval(mode: Any, answer: Callable[[Any], InputResponse], status: str) -> None:
    """Approved, refused, and refused in words: the call is completed or rejected, and the agent hears the words."""
    model = scripted(says("", ("c1", "delete", {"path": "a"})), says("done"))
    gate = HumanInTheLoopMiddleware(interrupt_on={"delete": True}, interrupt_mode=mode)
    asked, turn = answering(create_agent(model, [delete], middleware=[gate]), answer)
    assert asked.status == "waiting"
    request = requests(asked)[0]
    assert (request.action, request.input) == ("delete", {"path": "a"})
    assert [(option.id, option.label) for option in request.options] == [("approve", "Approve"), ("reject", "Reject")]
    assert (statuses(turn), texts(turn), turn.status) == ({"c1": status}, ["done"], "completed")
    assert ("keep it" in str(model.heard[-1])) == (answer not in (approve, reject))


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_two_requests_at_once(mode: Any) -> None:
    """Two calls that wait are decided each for itself."""
    answer = says("", ("c1", "delete", {"path": "a"}), ("c2", "delete", {"path": "b"}))
    gate = HumanInTheLoopMiddleware(interrupt_on={"delete": True}, interrupt_mode=mode)
    graph = create_agent(scripted(answer, says("done")), [delete], middleware=[gate])
    _, turn = answering(graph, reject, approve)
    assert statuses(turn) == {"c1": "rejected", "c2": "completed"}


def test_some_answers_only() -> None:
    """Calls that LangChain decides together cannot be decided in part: the error says what to do."""
    answer = says("", ("c1", "delete", {"path": "a"}), ("c2", "delete", {"path": "b"}))
    gate = HumanInTheLoopMiddleware(interrupt_on={"delete": True})
    agent = langgraph_agent(create_agent(scripted(answer), [delete], middleware=[gate]))

    async def go() -> None:
        talk = Conversation(agent)
        asked = await talk.send("q")
        await talk.respond(approve(requests(asked)[0]))

    with pytest.raises(AdapterError, match="2 calls wait to be decided together") as raised:
        asyncio.run(go())
    assert raised.value.code == "agent-input"


def test_questions() -> None:
    """Two plain questions at once: each gets its own answer."""
    calls = says("", ("c1", "ask", {"question": "Who?"}), ("c2", "ask", {"question": "When?"}))
    asked, turn = answering(create_agent(scripted(calls, says("done")), [ask]), reply("me"), reply("now"))
    assert [(request.prompt, request.options) for request in requests(asked)] == [("Who?", None), ("When?", None)]
    outputs = {event.call_id: event.output for event in turn.events if isinstance(event, ActionResult)}
    assert outputs == {"c1": "they said me", "c2": "they said now"}


def test_one_question_after_another() -> None:
    """A tool that raises after it was answered is the agent's failure; what was asked again is asked again."""

    def node(state: State) -> dict[str, Any]:
        first = interrupt("Who?")
        second = interrupt("When?")
        return {"messages": [AIMessage(f"{first} {second}")]}

    async def go() -> list[Turn]:
        talk = Conversation(langgraph_agent(one_node(node)))
        turns = [await talk.send("q")]
        for text in ("me", "now"):
            turns.append(await talk.respond(reply(text)(requests(turns[-1])[0])))
        return turns

    turns = asyncio.run(go())
    assert [request.prompt for turn in turns for request in requests(turn)] == ["Who?", "When?"]
    assert texts(turns[-1]) == ["me now"]


def test_answers_in_a_form_of_the_graphs_own() -> None:
    """A node that wants something else than a text gets it from `resume`."""

    def node(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(str(interrupt({"question": "Sure?"})))]}

    _, turn = answering(one_node(node), reply("yes"), resume=lambda value, response: response.text == "yes")
    assert texts(turn) == ["True"]


def test_a_new_text_instead_of_an_answer() -> None:
    """A text in the place of an answer is a new turn of the thread: the question is open no more."""
    gate = HumanInTheLoopMiddleware(interrupt_on={"delete": True})
    graph = create_agent(scripted(says("", ("c1", "delete", {"path": "a"})), says("ok")), [delete], middleware=[gate])

    async def go() -> tuple[Turn, Turn]:
        talk = Conversation(langgraph_agent(graph))
        return await talk.send("q"), await talk.send("never mind")

    asked, turn = asyncio.run(go())
    assert (asked.status, turn.status, texts(turn)) == ("waiting", "completed", ["ok"])
    assert not any(isinstance(event, ActionCalled) for event in turn.events)


def test_a_tool_that_raises() -> None:
    """The run ends in the tool's error: the turn failed, and the siblings' results are kept."""
    answer = says("", ("c1", "raises", {"why": "boom"}), ("c2", "add", {"a": 1, "b": 2}))
    turn, _ = sent(langgraph_agent(create_agent(scripted(answer), [raises, add])))
    assert (turn.status, "status" in lowered(turn)) == ("failed", False)
    assert {"events", "actions"} <= lowered(turn)


class Busy(Exception):
    status_code = 429


@pytest.mark.parametrize(
    ("error", "expected"), [(Busy("busy"), RetryableSendError), (RuntimeError("down"), RuntimeError)]
)
def test_a_model_that_is_not_to_be_had(error: Exception, expected: type[BaseException]) -> None:
    """What a model's service does is no verdict on the agent: the error is raised, and sent again if that is safe."""
    agent = langgraph_agent(create_agent(scripted(error, says("hi")), [add]))

    async def go() -> Turn:
        talk = Conversation(agent)
        with pytest.raises(expected):
            await talk.send("q")
        return await talk.send("q")

    assert texts(asyncio.run(go())) == ["hi"]


def test_a_model_that_breaks_down_later() -> None:
    """Also in the middle of a run, and never sent again: tools have run."""
    answers = [says("", ("c1", "add", {"a": 1, "b": 2})), Busy("busy")]
    with pytest.raises(Busy):
        sent(langgraph_agent(create_agent(scripted(*answers), [add])))


def test_every_model_is_counted() -> None:
    """Models in tools and in agents inside tools are counted with the others; their actions are seen."""
    helper = create_agent(
        scripted(says("", ("i1", "add", {"a": 1, "b": 2}), usage_metadata=USAGE), says("3", usage_metadata=USAGE)),
        [add],
    )
    writer = scripted(says("a poem", usage_metadata=USAGE))

    @tool
    async def help_me(task: str) -> str:
        """Ask a helper."""
        state = await helper.ainvoke({"messages": [("user", task)]})
        poem = await writer.ainvoke("a poem, please")
        return f"{state['messages'][-1].text} {poem.text}"

    answers = [says("", ("c1", "help_me", {"task": "t"}), usage_metadata=USAGE), says("done", usage_metadata=USAGE)]
    turn, _ = sent(langgraph_agent(create_agent(scripted(*answers), [help_me])))
    assert turn.usage is not None
    assert (turn.usage.requests, turn.usage.input_tokens) == (5, 500)
    assert statuses(turn) == {"i1": "completed", "c1": "completed"}
    assert lowered(turn) == set()


def test_models_that_are_not_counted() -> None:
    """An answer that no model of LangChain gave, or that came without counts, leaves the usage open."""
    silent, _ = sent(langgraph_agent(create_agent(scripted(says("hi")), [])))
    assert (silent.usage, lowered(silent)) == (None, {"usage"})
    by_hand, _ = sent(langgraph_agent(one_node(lambda state: {"messages": [AIMessage("hi")]})))
    assert (texts(by_hand), lowered(by_hand)) == (["hi"], {"usage"})


def test_what_an_experiment_sets() -> None:
    """Model, effort and flags are in the run's configurable, and in the context where it has a field for them."""
    seen: dict[str, Any] = {}

    @dataclass
    class Wanted:
        user: str
        model: str = "none"
        tone: str = "none"

    def node(state: State, config: RunnableConfig, runtime: Runtime[Wanted]) -> dict[str, Any]:
        seen.update(config["configurable"], context=runtime.context, tags=config["tags"])
        return {"messages": [AIMessage("hi")]}

    graph = one_node(node, context_schema=Wanted)
    agent = langgraph_agent(graph, context={"user": "u"}, config={"tags": ["eval"]})
    sent(agent, model="m", reasoning_effort="high", flags={"tone": "kind", "thread_id": "mine"})
    assert (seen["model"], seen["reasoning_effort"], seen["tone"]) == ("m", "high", "kind")
    assert seen["thread_id"] != "mine"
    assert (seen["context"], seen["tags"]) == (Wanted(user="u", model="m", tone="kind"), ["eval"])


def test_a_graph_for_each_conversation() -> None:
    """A function of the context makes the graph, once for each conversation, with the model that is wanted."""
    made = []

    async def make(ctx: Any) -> Any:
        made.append(ctx.model)
        return create_agent(scripted(says("one"), says("two")), [])

    async def go() -> list[str]:
        talk = Conversation(langgraph_agent(make), model="m")
        return [*texts(await talk.send("a")), *texts(await talk.send("b"))]

    assert asyncio.run(go()) == ["one", "two"]
    assert made == ["m"]


def test_a_model_that_nobody_asks() -> None:
    """An experiment's model that the graph does not use is said, for its figures would be those of another one."""

    class Named(type(scripted())):  # type: ignore[misc]
        def _get_ls_params(self, stop: Any = None, **given: Any) -> Any:
            return {"ls_model_name": "big-1"}

    def agent() -> Any:
        return langgraph_agent(create_agent(Named(answers=[says("hi")], heard=[]), []))

    assert [code for code, _ in sent(agent(), model="small-1")[1]] == ["model-unused"]
    assert sent(agent(), model="vendor:big-1")[1] == []


def test_files() -> None:
    """Files go with the text, as blocks of LangChain's own form."""
    model = scripted(says("seen"))
    talk = Conversation(langgraph_agent(create_agent(model, [])))
    picture = InputFile(filename="a.png", mime_type="image/png", data=b"hi")
    paper = InputFile(filename="b.pdf", mime_type="application/pdf", data=b"hi")
    asyncio.run(talk.send("look", files=(picture, paper)))
    assert model.heard[0][0].content == [
        {"type": "text", "text": "look"},
        {"type": "image", "base64": "aGk=", "mime_type": "image/png", "extras": {"filename": "a.png"}},
        {"type": "file", "base64": "aGk=", "mime_type": "application/pdf", "extras": {"filename": "b.pdf"}},
    ]


def test_structured_answers() -> None:
    """The graph's structured answer is the turn's data; a graph that has no place for one says so, before or after."""
    schema = City.model_json_schema()
    answer = says("", ("c1", "City", {"name": "Oslo", "degrees": 3}))
    turn, _ = sent(
        langgraph_agent(create_agent(scripted(answer), [], response_format=ToolStrategy(City))), output_schema=schema
    )
    assert turn.data == {"name": "Oslo", "degrees": 3}
    without, _ = sent(langgraph_agent(create_agent(scripted(says("hi")), [])), output_schema=schema)
    assert without.evidence_coverage is not None
    assert "response_format" in str(without.evidence_coverage["data"].reason)
    with pytest.raises(AdapterError, match="no place for an output schema"):
        sent(langgraph_agent(one_node(lambda state: {"messages": []})), output_schema=schema)


def test_an_input_of_the_graphs_own() -> None:
    """A graph whose state has other keys gets its input from a function."""

    class Talk(TypedDict):
        topic: str
        talk: Annotated[list[Any], add_messages]

    builder = StateGraph(Talk)
    builder.add_node("node", lambda state: {"talk": [AIMessage(f"about {state['topic']}")]})
    builder.add_edge(START, "node")
    agent = langgraph_agent(builder.compile(), make_input=lambda input, ctx: {"topic": input.text}, messages_key="talk")
    assert texts(sent(agent, "rain")[0]) == ["about rain"]


@pytest.mark.parametrize(
    ("made", "problem"),
    [(lambda: StateGraph(State), "not compiled"), (lambda: "graph", "is str")],
)
def test_what_is_no_graph(made: Callable[[], Any], problem: str) -> None:
    """What cannot be run is refused when the agent is made."""
    with pytest.raises(AdapterError, match=problem):
        langgraph_agent(made())


def test_names() -> None:
    """An agent is named as its graph is, unless it is named otherwise."""
    assert langgraph_agent(create_agent(scripted(), [], name="desk")).name == "desk"
    assert langgraph_agent(create_agent(scripted(), [])).name == "langgraph"
    assert langgraph_agent(create_agent(scripted(), []), name="mine").name == "mine"


def test_graphs_that_are_not_async() -> None:
    """A part that has no async form is said, with what helps; then the graph runs as `invoke` runs it."""

    @wrap_tool_call
    def catch(request: Any, handler: Any) -> Any:
        return handler(request)

    def graph() -> Any:
        answers = [says("", ("c1", "ask", {"question": "Who?"})), says("done")]
        return create_agent(scripted(*answers), [ask], middleware=[catch])

    with pytest.raises(AdapterError, match="runs only synchronously"):
        sent(langgraph_agent(graph()))
    agent: Any = langgraph_agent(graph(), sync=True)
    ctx = context()
    asked = agent.send(TurnInput(text="q"), ctx)
    turn = agent.send(TurnInput(text="me", responses=(reply("me")(requests(asked)[0]),)), ctx)
    assert (asked.status, statuses(turn), texts(turn)) == ("waiting", {"c1": "completed"}, ["done"])


def test_a_synchronous_graph_that_is_cancelled() -> None:
    """A thread cannot be ended, but the graph takes no further step."""
    ctx = context()

    def node(state: State) -> dict[str, Any]:
        ctx.cancelled.set()
        return {"messages": [AIMessage("first")]}

    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_node("second", lambda state: {"messages": [AIMessage("second")]})
    builder.add_edge(START, "node")
    builder.add_edge("node", "second")
    agent: Any = langgraph_agent(builder.compile(), sync=True)
    assert "second" not in texts(agent.send(TurnInput(text="q"), ctx))


def test_cancelling_ends_the_run() -> None:
    """A cancelled turn cancels the graph."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def node(state: State) -> dict[str, Any]:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return {}

    async def go() -> None:
        task = asyncio.ensure_future(Conversation(langgraph_agent(one_node(node))).send("q"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(ended.wait(), 30)

    asyncio.run(go())


@pytest.mark.slow
@pytest.mark.parametrize("sync", [False, True])
def test_the_contract(sync: bool) -> None:
    """Nothing of the contract for adapters fails, and little is not checked."""
    gate = HumanInTheLoopMiddleware(interrupt_on={"delete": True})
    agent = langgraph_agent(create_agent(desk(), [add, delete], middleware=[gate]), sync=sync)
    memory = ("My name is Kari", "recall", includes("Kari"))
    probes = Probes(hello="hello", tool="add", failing_tool="bad", approval="delete a b", memory=memory)
    report = check_agent_sync(agent, probes, timeout=120)
    report.raise_for_failures()
    assert {finding.check for finding in report.not_checked} == {"hooks-run", "attempts-apart", "output-given"}
