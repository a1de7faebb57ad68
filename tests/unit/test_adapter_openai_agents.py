"""`openai_agents_agent`: conversations with real agents of the OpenAI Agents SDK over scripted models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from niceeval.adapter import (
    ActionResult,
    AdapterError,
    AgentContext,
    ErrorEvent,
    InputFile,
    InputRequested,
    InputResponse,
    Message,
    RetryableSendError,
    Turn,
    derive_facts,
)
from niceeval.adapters import openai_agents_agent
from tests.unit.contexts import Conversation

pytest.importorskip("agents", reason="the OpenAI Agents SDK is not installed: pip install 'niceeval[openai-agents]'")

from agents import (
    Agent,
    FunctionTool,
    RunConfig,
    RunContextWrapper,
    SQLiteSession,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    function_tool,
    set_trace_processors,
    set_tracing_disabled,
    tool_input_guardrail,
)
from agents.tracing import TracingProcessor
from pydantic import BaseModel

from tests.unit.agents_script import Script, calls, says

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


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


TOOLS = [add, raises, ends_the_run, delete]


def desk(script: Script, **how: Any) -> Agent[Any]:
    return Agent(name="Desk", model=script.model, tools=list(TOOLS), **how)


def requests(turn: Turn) -> list[Any]:
    return [event.request for event in turn.events if isinstance(event, InputRequested)]


def results(turn: Turn) -> list[tuple[str, str, Any]]:
    return [(event.call_id, event.status, event.output) for event in turn.events if isinstance(event, ActionResult)]


def texts(body: dict[str, Any]) -> list[Any]:
    """What a request's user messages say."""
    return [item["content"] for item in body["input"] if item.get("role") == "user"]


def test_a_conversation_goes_on_and_a_new_one_starts_fresh() -> None:
    """Two turns share their history; a new session knows nothing of it, on the same agent."""
    script = Script(
        (calls("add", "c1", {"a": 1, "b": 2}),), (says("It is 3."),), (says("You asked."),), (says("Nothing."),)
    )
    agent = openai_agents_agent(desk(script))
    assert agent.name == "Desk"

    async def talk() -> list[Turn]:
        one, other = Conversation(agent), Conversation(agent)
        return [await one.send("1+2?"), await one.send("What did I ask?"), await other.send("What did I ask?")]

    first, second, third = run(talk())
    assert [type(event).__name__ for event in first.events] == ["ActionCalled", "ActionResult", "Message"]
    assert second.events == (Message(role="assistant", text="You asked."),)
    assert third.events == (Message(role="assistant", text="Nothing."),)
    assert [texts(body) for body in script.asked[2:]] == [["1+2?", "What did I ask?"], ["What did I ask?"]]
    assert second.usage is not None
    assert second.usage.requests == 1


ANSWERS = {
    "approve": (InputResponse(request_id="d1", option_id="approve"), "completed", "deleted a"),
    "reject": (InputResponse(request_id="d1", option_id="reject"), "rejected", "Tool execution was not approved."),
    "free text": (InputResponse(request_id="d1", text="not that one"), "rejected", "not that one"),
}


@pytest.mark.parametrize("how", ANSWERS)
def test_an_approval_is_answered(how: str) -> None:
    """Approve runs the tool, reject and a free text do not; the text is the reason that the model reads."""
    answer, status, output = ANSWERS[how]
    script = Script((calls("delete", "d1", {"path": "a"}),), (says("All right."),), (says("Bye."),))
    talk = Conversation(openai_agents_agent(desk(script)))

    async def three() -> tuple[Turn, Turn, Turn]:
        return await talk.send("tidy up"), await talk.respond(answer), await talk.send("bye")

    first, second, third = run(three())
    assert first.status == "waiting"
    (request,) = requests(first)
    assert (request.id, request.action, request.input) == ("d1", "delete", {"path": "a"})
    assert [(option.id, option.label) for option in request.options] == [("approve", "Approve"), ("reject", "Reject")]
    assert results(second) == [("d1", status, output)]
    assert second.status == "completed"
    assert second.usage is not None
    assert second.usage.requests == 1
    (call,) = derive_facts([*first.events, *second.events]).tool_calls
    assert call.status == status
    assert third.events == (Message(role="assistant", text="Bye."),)
    assert texts(script.asked[-1]) == ["tidy up", "bye"]
    assert talk.said == []


def test_two_requests_at_once_are_answered_by_their_ids() -> None:
    """In whatever order they are answered."""
    script = Script((calls("delete", "d1", {"path": "a"}), calls("delete", "d2", {"path": "b"})), (says("Done."),))
    talk = Conversation(openai_agents_agent(desk(script)))

    async def both() -> tuple[Turn, Turn]:
        first = await talk.send("tidy up")
        answers = (
            InputResponse(request_id="d2", option_id="reject"),
            InputResponse(request_id="d1", option_id="approve"),
        )
        return first, await talk.respond(*answers)

    first, second = run(both())
    assert [request.id for request in requests(first)] == ["d1", "d2"]
    assert results(second) == [
        ("d1", "completed", "deleted a"),
        ("d2", "rejected", "Tool execution was not approved."),
    ]


def test_a_run_that_waits_twice_says_each_thing_once() -> None:
    """The second pause has the items of the first again: every call and every result is said once, tokens too."""
    script = Script((calls("delete", "d1", {"path": "a"}),), (calls("delete", "d2", {"path": "b"}),), (says("Done."),))
    talk = Conversation(openai_agents_agent(desk(script)))

    async def all_of_it() -> list[Turn]:
        turns = [await talk.send("tidy up")]
        for id in ("d1", "d2"):
            turns.append(await talk.respond(InputResponse(request_id=id, option_id="approve")))
        return turns

    turns = run(all_of_it())
    assert [turn.status for turn in turns] == ["waiting", "waiting", "completed"]
    facts = derive_facts([event for turn in turns for event in turn.events])
    assert [(call.call_id, call.status) for call in facts.tool_calls] == [("d1", "completed"), ("d2", "completed")]
    assert [turn.usage.requests for turn in turns if turn.usage is not None] == [1, 1, 1]


def test_a_text_in_the_place_of_an_answer_goes_on_without_it() -> None:
    """Who writes something else instead of answering: the call never runs, and the model never sees it open."""
    script = Script(
        (calls("delete", "d1", {"path": "a"}), calls("add", "c1", {"a": 1, "b": 1})), (says("Never mind."),)
    )
    talk = Conversation(openai_agents_agent(desk(script)))

    async def three() -> Turn:
        await talk.send("tidy up")
        turn = await talk.send("forget it")
        with pytest.raises(AdapterError, match="waits for no answer"):
            await talk.respond(InputResponse(request_id="d1", option_id="approve"))
        return turn

    turn = run(three())
    assert (turn.status, results(turn)) == ("completed", [])
    assert [item["call_id"] for item in script.asked[-1]["input"] if item.get("type") == "function_call"] == ["c1"]


def lowered(turn: Turn) -> set[str]:
    return set(turn.evidence_coverage or {})


def test_failures_are_heard_of_and_keep_their_words() -> None:
    """The SDK is asked to say which calls failed; an app's own words for it stay as they are. Nothing is missing."""
    config = RunConfig(tool_error_formatter=lambda given: f"no luck: {given.error}")
    script = Script((calls("raises", "c1", {"why": "no disk"}),), (says("Sorry."),))
    agent = openai_agents_agent(desk(script), run_config=config)
    turn = run(Conversation(agent).send("save"))
    assert results(turn) == [("c1", "failed", "no luck: no disk")]
    assert (turn.status, lowered(turn)) == ("completed", set())
    assert agent.evidence_coverage["actions"].level == "complete"


@function_tool(failure_error_function=lambda ctx, error: "all is well")
def hides(why: str) -> str:
    """Raise, and say something else."""
    raise ValueError(why)


@function_tool(timeout=30)
async def hurries() -> str:
    """May be answered for when it is late."""
    return "in time"


@tool_input_guardrail
def refuses(given: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
    """Answer in the place of the tool."""
    return ToolGuardrailFunctionOutput.reject_content("no, thank you")


@function_tool(tool_input_guardrails=[refuses])
def guarded() -> str:
    """Never run."""
    return "ran"


by_hand = FunctionTool(
    name="by_hand",
    description="Answers for itself.",
    params_json_schema={"type": "object", "properties": {}},
    on_invoke_tool=lambda ctx, text: asyncio.sleep(0, "error: no disk"),
)


@pytest.mark.parametrize(
    ("tool", "why"),
    [(hides, "hides"), (hurries, "hurries"), (by_hand, "by_hand"), (guarded, "guardrail")],
    ids=lambda value: getattr(value, "name", ""),
)
def test_where_a_failure_may_not_be_heard_of_the_actions_are_partial(tool: FunctionTool, why: str) -> None:
    """A tool with words of its own for failures, one that may be late, one made by hand, one behind a guardrail."""
    arguments = {"why": "no disk"} if tool is hides else {}
    script = Script((calls(tool.name, "c1", arguments),), (says("Done."),))
    agent = Agent(name="Desk", model=script.model, tools=[tool])
    turn = run(Conversation(openai_agents_agent(agent)).send("go"))
    assert [id for id, _, _ in results(turn)] == ["c1"]
    assert turn.evidence_coverage is not None
    assert turn.evidence_coverage["actions"].level == "partial"
    assert why in str(turn.evidence_coverage["actions"].reason)


def test_an_error_of_the_agent_is_a_failed_turn_and_the_conversation_goes_on() -> None:
    """A tool that nobody answers for: what had finished is kept, for the turn and for the next one."""
    script = Script(
        (calls("add", "c1", {"a": 1, "b": 1}),),
        (calls("ends_the_run", "c2", {"why": "no disk"}),),
        (says("Better now."),),
    )
    talk = Conversation(openai_agents_agent(desk(script)))

    async def both() -> tuple[Turn, Turn]:
        return await talk.send("save"), await talk.send("again")

    first, second = run(both())
    assert first.status == "failed"
    assert results(first) == [("c1", "completed", 2)]
    assert isinstance(first.events[-1], ErrorEvent)
    assert second.events == (Message(role="assistant", text="Better now."),)
    assert texts(script.asked[-1]) == ["save", "again"]
    turn = run(
        Conversation(openai_agents_agent(desk(Script((calls("add", "c", {"a": 1, "b": 1}),))), max_turns=1)).send("go")
    )
    assert (turn.status, results(turn)) == ("failed", [("c", "completed", 2)])


def test_what_says_nothing_of_the_agent_leaves_send() -> None:
    """A service that is down; one that is busy before anything was answered may be asked again; a wrong set-up."""
    from openai import APIStatusError

    with pytest.raises(APIStatusError):
        run(Conversation(openai_agents_agent(desk(Script(500)))).send("go"))
    with pytest.raises(RetryableSendError, match="not now"):
        run(Conversation(openai_agents_agent(desk(Script(429)))).send("go"))
    late = Script((calls("add", "c1", {"a": 1, "b": 1}),), 429)
    with pytest.raises(APIStatusError):
        run(Conversation(openai_agents_agent(desk(late))).send("go"))


SCHEMA = {"type": "object", "properties": {"degrees": {"type": "integer"}}, "required": ["degrees"]}


@pytest.mark.parametrize(
    ("schema", "given", "data"),
    [
        (SCHEMA, {"degrees": 3}, {"degrees": 3}),
        ({"$ref": "#/$defs/W", "$defs": {"W": SCHEMA}}, {"degrees": 3}, {"degrees": 3}),
        ({"type": "array", "items": {"type": "integer"}}, {"answer": [1, 2]}, [1, 2]),
        ({"type": "array", "items": {"$ref": "#/$defs/W"}, "$defs": {"W": SCHEMA}}, {"answer": []}, []),
    ],
    ids=["object", "reference", "list", "list of references"],
)
def test_a_schema_is_asked_of_the_agent(schema: Any, given: Any, data: Any) -> None:
    """An agent that answers in text is asked for the schema; what is no object goes in a field and out of it again."""
    script = Script((says(json.dumps(given)),))
    turn = run(Conversation(openai_agents_agent(desk(script))).send("how warm?", output_schema=schema))
    assert turn.data == data
    assert [type(event).__name__ for event in turn.events] == ["Message"]
    asked = script.asked[0]["text"]["format"]["schema"]
    assert (asked["type"], set(asked["properties"])) == ("object", set(given))


class Report(BaseModel):
    degrees: int


def test_an_agent_with_a_form_of_its_own_keeps_it() -> None:
    """The agent's own output type; an answer that is no JSON is a failed turn; without a schema there is no data."""
    script = Script((says('{"degrees": 3}'),))
    talk = Conversation(openai_agents_agent(desk(script, output_type=Report)))
    assert run(talk.send("how warm?", output_schema={"type": "array"})).data == {"degrees": 3}
    assert run(Conversation(openai_agents_agent(desk(script, output_type=Report))).send("how warm?")).data is None
    turn = run(Conversation(openai_agents_agent(desk(Script((says("warm"),))))).send("?", output_schema=SCHEMA))
    assert (turn.status, turn.data) == ("failed", None)


def test_files_go_with_the_text() -> None:
    """An image as an image, anything else as a file, after the text."""
    script = Script((says("A dot."),))
    files = (
        InputFile(filename="dot.png", mime_type="image/png", data=b"abc"),
        InputFile(filename="a.pdf", mime_type="application/pdf", data=b"abc"),
    )
    run(Conversation(openai_agents_agent(desk(script))).send("What is it?", files=files))
    (content,) = texts(script.asked[0])
    assert [part["type"] for part in content] == ["input_text", "input_image", "input_file"]
    assert content[1]["image_url"] == "data:image/png;base64,YWJj"
    assert (content[2]["filename"], content[2]["file_data"]) == ("a.pdf", "data:application/pdf;base64,YWJj")


def test_model_and_effort_are_the_experiments() -> None:
    """A model by the name that `models=` gives it, with the effort among its settings, beside those of the app."""
    usual, other = Script((says("usual"),)), Script((says("other"),))
    config = {"model_settings": {"temperature": 0.5}}
    agent = openai_agents_agent(desk(usual), models={"small": other.model}, run_config=config)
    turn = run(Conversation(agent, model="small", reasoning_effort="low").send("go"))
    assert turn.events == (Message(role="assistant", text="other"),)
    assert (other.asked[0]["reasoning"], other.asked[0]["temperature"]) == ({"effort": "low"}, 0.5)
    with pytest.raises(AdapterError, match="enormous"):
        run(Conversation(agent, reasoning_effort="enormous").send("go"))
    assert usual.asked == []


@dataclass
class Shop:
    city: str


@function_tool
def where(ctx: RunContextWrapper[Shop]) -> str:
    """Where."""
    return ctx.context.city


def test_flags_reach_the_agent_through_functions_of_the_context() -> None:
    """`context=` or `agent=` as a function reads them, once for each conversation; else it is said."""
    made: list[str] = []

    def context(ctx: AgentContext) -> Shop:
        made.append(ctx.eval_id)
        return Shop(city=str(ctx.flags["city"]))

    script = Script((calls("where", "c1"),), (says("There."),), (says("Still."),))
    agent = Agent(name="Desk", model=script.model, tools=[where])
    talk = Conversation(openai_agents_agent(agent, context=context), flags={"city": "Bern"})

    async def both() -> Turn:
        first = await talk.send("where?")
        await talk.send("still?")
        return first

    assert results(run(both())) == [("c1", "completed", "Bern")]
    assert (made, talk.said) == (["i"], [])

    def factory(ctx: AgentContext) -> Agent[Any]:
        return desk(Script((says(str(ctx.flags["city"])),)))

    talk = Conversation(openai_agents_agent(factory, name="made"), flags={"city": "Thun"})
    assert run(talk.send("where?")).events == (Message(role="assistant", text="Thun"),)
    assert talk.said == []
    talk = Conversation(openai_agents_agent(desk(Script((says("hi"),)))), flags={"city": "Thun"})
    run(talk.send("go"))
    assert [code for code, _ in talk.said] == ["flags-unused"]


@pytest.mark.parametrize(
    ("start", "spoke"), [("given", ["desk", "other", "desk"]), ("last", ["desk", "other", "other"])]
)
def test_after_a_handoff_the_app_says_who_begins(start: Any, spoke: list[str]) -> None:
    """Each turn with the agent that was given, or with the one that the turn before ended with."""
    order: list[str] = []

    class Named(Script):
        def __init__(self, name: str, *answers: Any) -> None:
            super().__init__(*answers)
            self.name = name

        def __call__(self, request: Any) -> Any:
            order.append(self.name)
            return super().__call__(request)

    other = Agent(name="Refunds", model=Named("other", (says("Done."),)).model)
    first = desk(Named("desk", (calls("transfer_to_refunds", "h1"),), (says("Hello."),)), handoffs=[other])
    talk = Conversation(openai_agents_agent(first, start=start))

    async def both() -> Turn:
        turn = await talk.send("my money")
        await talk.send("and?")
        return turn

    (call,) = derive_facts(run(both()).events).subagent_calls
    assert (call.name, call.status, call.output) == ("Refunds", "completed", "Done.")
    assert order == spoke


def test_a_session_of_the_sdk_keeps_the_history_where_the_app_wants_it() -> None:
    """`session=` makes one for each conversation; a run that waits goes on in it."""
    script = Script((calls("delete", "d1", {"path": "a"}),), (says("Done."),), (says("Bye."),))
    talk = Conversation(openai_agents_agent(desk(script), session=lambda ctx: SQLiteSession(ctx.eval_id)))

    async def three() -> list[Turn]:
        return [
            await talk.send("tidy up"),
            await talk.respond(InputResponse(request_id="d1", option_id="approve")),
            await talk.send("bye"),
        ]

    _, second, third = run(three())
    assert results(second) == [("d1", "completed", "deleted a")]
    assert third.events == (Message(role="assistant", text="Bye."),)
    assert texts(script.asked[-1]) == ["tidy up", "bye"]


class Traces(TracingProcessor):
    """Counts what is traced in this process under one name."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def on_trace_start(self, trace: Any) -> None:
        self.names.append(trace.name)

    def on_trace_end(self, trace: Any) -> None:
        pass

    def on_span_start(self, span: Any) -> None:
        pass

    def on_span_end(self, span: Any) -> None:
        pass

    def shutdown(self) -> None:
        pass

    def force_flush(self) -> None:
        pass


def test_nothing_is_traced_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK sends traces home as soon as there is a key; these runs have none, and nothing else of the process is
    touched."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    # Whatever the environment says, this process could be traced.
    monkeypatch.delenv("OPENAI_AGENTS_DISABLE_TRACING", raising=False)
    set_tracing_disabled(False)
    traces = Traces()
    # In the place of what would send them home.
    set_trace_processors([traces])
    config = RunConfig(workflow_name="niceeval-trace-test")
    inner = Agent(name="Inner", model=Script((says("done"),)).model)

    def outer() -> Agent[Any]:
        script = Script((calls("inner", "t1", {"input": "x"}),), (says("hi"),))
        return Agent(name="Outer", model=script.model, tools=[inner.as_tool("inner", "Inner")])

    run(Conversation(openai_agents_agent(outer(), run_config=config)).send("go"))
    assert "niceeval-trace-test" not in traces.names
    run(Conversation(openai_agents_agent(outer(), run_config=config, tracing=True)).send("go"))
    assert "niceeval-trace-test" in traces.names


def test_conversations_at_once_keep_apart() -> None:
    """One agent serves many attempts at the same time: each has its own history."""
    script = Script((says("yes"),))
    agent = openai_agents_agent(desk(script))

    async def talk(word: str) -> None:
        conversation = Conversation(agent)
        await conversation.send(word)
        await conversation.send(f"{word} again")

    async def all_of_them() -> None:
        await asyncio.gather(*(talk(f"w{number}") for number in range(6)))

    run(all_of_them())
    asked = sorted(texts(body) for body in script.asked)
    assert asked == sorted(said for n in range(6) for said in ([f"w{n}"], [f"w{n}", f"w{n} again"]))


@pytest.mark.parametrize(
    ("given", "word"),
    [({"agent": 3}, "agent"), ({"start": "first"}, "start"), ({"session": "s"}, "session")],
)
def test_what_cannot_be_used_is_said_at_once(given: Any, word: str) -> None:
    """A wrong argument names itself, before anything runs."""
    with pytest.raises(AdapterError, match=word):
        openai_agents_agent(**{"agent": desk(Script((says("hi"),))), **given})
