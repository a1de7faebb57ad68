"""`pydantic_ai_agent`: conversations with real agents of Pydantic AI over scripted models."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

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
from niceeval.adapters import pydantic_ai_agent
from tests.unit.contexts import Conversation

pytest.importorskip("pydantic_ai", reason="Pydantic AI is not installed: pip install 'niceeval[pydantic-ai]'")

from pydantic import BaseModel
from pydantic_ai import Agent, CallDeferred, DeferredToolRequests, RunContext, ToolOutput
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


class Script:
    """A model that gives answers in turn, and keeps what it was asked with."""

    def __init__(self, *answers: Any) -> None:
        self.asked: list[list[Any]] = []
        self.infos: list[AgentInfo] = []
        self._answers = list(answers)

    def __call__(self, messages: list[Any], info: AgentInfo) -> ModelResponse:
        self.asked.append(list(messages))
        self.infos.append(info)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return ModelResponse(parts=[TextPart(answer)] if isinstance(answer, str) else answer)

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self)


def add(a: int, b: int) -> int:
    return a + b


def raises(why: str) -> str:
    raise ValueError(why)


def prompts(messages: list[Any]) -> list[Any]:
    return [part.content for message in messages for part in message.parts if isinstance(part, UserPromptPart)]


def careful(*answers: Any) -> Agent[None, Any]:
    """Deletes after approval, and asks a person."""
    agent: Agent[None, Any] = Agent(Script(*answers).model, output_type=[str, DeferredToolRequests], tools=[add])

    @agent.tool_plain(requires_approval=True)
    def delete(path: str) -> str:
        return f"deleted {path}"

    @agent.tool_plain
    def ask(question: str) -> str:
        raise CallDeferred

    return agent


def deletes(path: str, id: str) -> ToolCallPart:
    return ToolCallPart("delete", {"path": path}, id)


def requests(turn: Turn) -> list[Any]:
    return [event.request for event in turn.events if isinstance(event, InputRequested)]


def results(turn: Turn) -> list[tuple[str, str, Any]]:
    return [(event.call_id, event.status, event.output) for event in turn.events if isinstance(event, ActionResult)]


def test_a_conversation_goes_on_and_a_new_one_starts_fresh() -> None:
    """Two turns share their history; a new session knows nothing of it, on the same agent."""
    script = Script([ToolCallPart("add", {"a": 1, "b": 2}, "c1")], "It is 3.", "You asked for 1+2.", "Nothing.")
    agent = pydantic_ai_agent(Agent(script.model, tools=[add], name="calculator"))
    assert agent.name == "calculator"

    async def talk() -> list[Turn]:
        one, other = Conversation(agent), Conversation(agent)
        return [await one.send("1+2?"), await one.send("What did I ask?"), await other.send("What did I ask?")]

    first, second, third = run(talk())
    assert [type(event).__name__ for event in first.events] == ["ActionCalled", "ActionResult", "Message"]
    assert second.events == (Message(role="assistant", text="You asked for 1+2."),)
    assert third.events == (Message(role="assistant", text="Nothing."),)
    assert [prompts(asked) for asked in script.asked[2:]] == [["1+2?", "What did I ask?"], ["What did I ask?"]]
    assert second.usage is not None
    assert second.usage.requests == 1


ANSWERS = {
    "approve": (InputResponse(request_id="d1", option_id="approve"), "completed", "deleted a"),
    "reject": (InputResponse(request_id="d1", option_id="reject"), "rejected", "The tool call was denied."),
    "free text": (InputResponse(request_id="d1", text="not that one"), "rejected", "not that one"),
}


@pytest.mark.parametrize("how", ANSWERS)
def test_an_approval_is_answered(how: str) -> None:
    """Approve runs the tool, reject and a free text do not; the text is the reason that the model reads."""
    answer, status, output = ANSWERS[how]
    talk = Conversation(pydantic_ai_agent(careful([deletes("a", "d1")], "All right.")))

    async def both() -> tuple[Turn, Turn]:
        return await talk.send("tidy up"), await talk.respond(answer)

    first, second = run(both())
    assert first.status == "waiting"
    (request,) = requests(first)
    assert (request.id, request.action, request.input) == ("d1", "delete", {"path": "a"})
    assert [(option.id, option.label) for option in request.options] == [("approve", "Approve"), ("reject", "Reject")]
    assert results(second) == [("d1", status, output)]
    assert second.status == "completed"
    (call,) = derive_facts([*first.events, *second.events]).tool_calls
    assert call.status == status
    assert talk.said == []


def test_two_requests_at_once_and_a_question() -> None:
    """Each is answered by its id; a question has no options and takes words; the conversation goes on afterwards."""
    question = ToolCallPart("ask", {"question": "which?"}, "q1")
    talk = Conversation(pydantic_ai_agent(careful([deletes("a", "d1"), deletes("b", "d2"), question], "Done.", "Bye.")))

    async def three() -> list[Turn]:
        first = await talk.send("tidy up")
        answers = (
            InputResponse(request_id="d2", option_id="reject"),
            InputResponse(request_id="q1", text="the old one"),
            InputResponse(request_id="d1", option_id="approve"),
        )
        return [first, await talk.respond(*answers), await talk.send("bye")]

    first, second, third = run(three())
    assert [(request.id, request.options is None) for request in requests(first)] == [
        ("d1", False),
        ("d2", False),
        ("q1", True),
    ]
    assert results(second) == [
        ("d1", "completed", "deleted a"),
        ("d2", "rejected", "The tool call was denied."),
        ("q1", "completed", "the old one"),
    ]
    assert third.events == (Message(role="assistant", text="Bye."),)


def test_a_text_in_the_place_of_an_answer_goes_on_without_it() -> None:
    """Who writes something else instead of answering: the call never runs, and nothing waits any more."""
    talk = Conversation(pydantic_ai_agent(careful([deletes("a", "d1")], "Never mind.")))

    async def three() -> Turn:
        await talk.send("tidy up")
        turn = await talk.send("forget it")
        with pytest.raises(AdapterError, match="waits for no answer"):
            await talk.respond(InputResponse(request_id="d1", option_id="approve"))
        return turn

    turn = run(three())
    assert turn.status == "completed"
    assert results(turn) == []


def test_a_tool_that_raises_is_a_failed_turn_and_the_conversation_goes_on() -> None:
    """The exception is the agent's: what it did is kept, and the next turn knows of it."""
    script = Script([ToolCallPart("raises", {"why": "no disk"}, "c1")], "Better now.")
    talk = Conversation(pydantic_ai_agent(Agent(script.model, tools=[raises])))

    async def both() -> tuple[Turn, Turn]:
        return await talk.send("save"), await talk.send("again")

    first, second = run(both())
    assert first.status == "failed"
    assert results(first) == [("c1", "failed", "ValueError: no disk")]
    assert first.usage is not None
    assert first.usage.requests == 1
    assert second.events == (Message(role="assistant", text="Better now."),)
    assert prompts(script.asked[-1]) == ["save", "again"]


def test_a_limit_of_the_framework_is_a_failed_turn() -> None:
    """`run=` has what the app gives to its runs; reaching its limit is the agent's doing."""
    script = Script([ToolCallPart("add", {"a": 1, "b": 1}, "c1")])
    agent = pydantic_ai_agent(Agent(script.model, tools=[add]), run={"usage_limits": UsageLimits(request_limit=1)})
    turn = run(Conversation(agent).send("go"))
    assert turn.status == "failed"
    assert isinstance(turn.events[-1], ErrorEvent)
    assert results(turn) == [("c1", "completed", 2)]


def test_a_model_that_cannot_be_had_says_nothing_of_the_agent() -> None:
    """The error leaves `send`; one of a busy service, before anything was answered, may be sent again."""
    down = Conversation(pydantic_ai_agent(Agent(Script(ModelHTTPError(500, "m", "down")).model)))
    with pytest.raises(ModelHTTPError):
        run(down.send("go"))
    busy = Conversation(pydantic_ai_agent(Agent(Script(ModelHTTPError(429, "m", "slow down")).model)))
    with pytest.raises(RetryableSendError, match="slow down"):
        run(busy.send("go"))
    late = Script([ToolCallPart("add", {"a": 1, "b": 1}, "c1")], ModelHTTPError(429, "m", "slow down"))
    with pytest.raises(ModelHTTPError):
        run(Conversation(pydantic_ai_agent(Agent(late.model, tools=[add]))).send("go"))


def test_what_the_model_itself_raises_is_no_failure_of_the_agent() -> None:
    """An error that is none of a tool's, and none of the framework's verdicts, leaves `send` as it is."""
    with pytest.raises(OSError, match="no route"):
        run(Conversation(pydantic_ai_agent(Agent(Script(OSError("no route")).model))).send("go"))


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
    script = Script([ToolCallPart("final_result", given, "f1")])
    talk = Conversation(pydantic_ai_agent(Agent(script.model)))
    turn = run(talk.send("how warm?", output_schema=schema))
    assert turn.data == data
    assert [type(event).__name__ for event in turn.events] == ["Message"]
    asked = script.infos[0].output_tools[0].parameters_json_schema
    assert set(asked["properties"]) == set(given)
    assert script.infos[0].allow_text_output is False


class Report(BaseModel):
    degrees: int


def test_an_agent_with_a_form_of_its_own_keeps_it() -> None:
    """The agent's own output type, under its own tool's name; without a schema there is no data."""
    script = Script([ToolCallPart("report", {"degrees": 3}, "f1")])
    agent: Agent[None, Any] = Agent(script.model, output_type=ToolOutput(Report, name="report"))
    talk = Conversation(pydantic_ai_agent(agent))
    turn = run(talk.send("how warm?", output_schema=SCHEMA))
    assert (turn.data, len(turn.events)) == ({"degrees": 3}, 1)
    assert run(talk.send("how warm?")).data is None


def test_an_agent_that_can_wait_still_can_when_a_schema_is_wanted() -> None:
    """The schema takes the place of text, not of what the agent may stop for."""
    talk = Conversation(
        pydantic_ai_agent(careful([deletes("a", "d1")], [ToolCallPart("final_result", {"degrees": 1}, "f1")]))
    )

    async def both() -> tuple[Turn, Turn]:
        first = await talk.send("go", output_schema=SCHEMA)
        return first, await talk.respond(InputResponse(request_id="d1", option_id="approve"))

    first, _ = run(both())
    assert first.status == "waiting"


def test_files_go_with_the_text() -> None:
    """A file is given as binary content, after the text."""
    script = Script("A dot.")
    talk = Conversation(pydantic_ai_agent(Agent(script.model)))
    picture = InputFile(filename="dot.png", mime_type="image/png", data=b"abc")
    run(talk.send("What is it?", files=(picture,)))
    (content,) = prompts(script.asked[0])
    assert content[0] == "What is it?"
    assert (content[1].data, content[1].media_type) == (b"abc", "image/png")


def test_model_and_effort_are_the_experiments() -> None:
    """A model by the name that `models=` gives it, with the effort among its settings, beside those of `run=`."""
    usual, other = Script("usual"), Script("other")
    thinks = FunctionModel(other, profile={"supports_thinking": True})
    agent = pydantic_ai_agent(
        Agent(usual.model), models={"small": thinks}, run={"model_settings": {"temperature": 0.5}}
    )
    for effort, thinking in (("low", "low"), ("none", False)):
        talk = Conversation(agent, model="small", reasoning_effort=effort)
        assert run(talk.send("go")).events == (Message(role="assistant", text="other"),)
        assert talk.said == []
        assert other.infos[-1].model_settings == {"temperature": 0.5}
        assert other.infos[-1].model_request_parameters.thinking == thinking
    with pytest.raises(AdapterError, match="enormous"):
        run(Conversation(agent, reasoning_effort="enormous").send("go"))


def test_an_effort_that_the_model_does_not_take_is_said() -> None:
    """The framework leaves it out without a word: a diagnostic says it, once for a conversation."""
    talk = Conversation(pydantic_ai_agent(Agent(Script("usual").model)), reasoning_effort="low")

    async def two() -> None:
        await talk.send("go")
        await talk.send("go")

    run(two())
    assert [code for code, _ in talk.said] == ["reasoning-effort-unused"]


@dataclass
class Deps:
    city: str


def test_flags_reach_the_agent_through_functions_of_the_context() -> None:
    """`deps=` or `agent=` as a function reads them, once for each conversation; else it is said."""
    made: list[str] = []

    def deps(ctx: AgentContext) -> Deps:
        made.append(ctx.eval_id)
        return Deps(city=str(ctx.flags["city"]))

    agent = Agent(Script([ToolCallPart("where", {}, "c1")], "There.", "Still.").model, deps_type=Deps)

    @agent.tool
    def where(ctx: RunContext[Deps]) -> str:
        return ctx.deps.city

    talk = Conversation(pydantic_ai_agent(agent, deps=deps), flags={"city": "Bern"})

    async def both() -> Turn:
        first = await talk.send("where?")
        await talk.send("still?")
        return first

    assert results(run(both())) == [("c1", "completed", "Bern")]
    assert (made, talk.said) == (["i"], [])

    async def factory(ctx: AgentContext) -> Agent[None, str]:
        return Agent(Script(str(ctx.flags["city"])).model)

    talk = Conversation(pydantic_ai_agent(factory, name="made"), flags={"city": "Thun"})
    assert run(talk.send("where?")).events == (Message(role="assistant", text="Thun"),)
    assert talk.said == []
    talk = Conversation(pydantic_ai_agent(Agent(Script("hi").model)), flags={"city": "Thun"})
    run(talk.send("go"))
    assert [code for code, _ in talk.said] == ["flags-unused"]


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_an_agent_in_a_tool_is_noticed_whatever_it_shares(named: bool, shared: bool) -> None:
    """What another agent did inside a tool is not shown, and the turn says so; `subagents=` says which it was."""
    inner = Agent(Script([ToolCallPart("add", {"a": 1, "b": 1}, "i1")], "two").model, tools=[add])
    outer = Agent(Script([ToolCallPart("research", {"topic": "sums"}, "o1")], "It is two.", "Yes.").model)

    @outer.tool
    async def research(ctx: RunContext[None], topic: str) -> str:
        return (await inner.run(topic, usage=ctx.usage if shared else None)).output

    talk = Conversation(pydantic_ai_agent(outer, subagents={"research": "librarian"} if named else None))

    async def both() -> tuple[Turn, Turn]:
        return await talk.send("go"), await talk.send("sure?")

    first, second = run(both())
    facts = derive_facts(first.events)
    seen = [(call.name, call.status, call.output) for call in facts.subagent_calls or facts.tool_calls]
    assert seen == [("librarian" if named else "research", "completed", "two")]
    assert bool(facts.subagent_calls) is named
    assert set(first.evidence_coverage or {}) == {"events", "actions"}
    assert first.usage is not None
    assert first.usage.requests == (4 if shared else 2)
    assert second.evidence_coverage is None


def test_of_calls_at_once_the_one_that_raised_is_known() -> None:
    """The others have no result, and the actions are partial."""
    script = Script([ToolCallPart("raises", {"why": "no disk"}, "c1"), ToolCallPart("slow", {}, "c2")])

    async def slow() -> str:
        await asyncio.Event().wait()
        return "never"

    turn = run(Conversation(pydantic_ai_agent(Agent(script.model, tools=[raises, slow]))).send("go"))
    assert turn.status == "failed"
    assert results(turn) == [("c1", "failed", "ValueError: no disk")]
    assert {"events", "actions"} <= set(turn.evidence_coverage or {})


def test_the_apps_own_capabilities_stay() -> None:
    """What the app gives to its runs is given, beside what the adapter listens with."""

    class Seen(AbstractCapability[Any]):
        names: ClassVar[list[str]] = []

        async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
            self.names.append(call.tool_name)
            return args

    script = Script([ToolCallPart("add", {"a": 1, "b": 2}, "c1")], "3")
    agent = pydantic_ai_agent(Agent(script.model, tools=[add]), run={"capabilities": [Seen()]})
    assert results(run(Conversation(agent).send("go"))) == [("c1", "completed", 3)]
    assert Seen.names == ["add"]


def test_a_model_that_falls_back_on_others_takes_an_effort() -> None:
    """It does not say what it takes; nothing is claimed of it."""
    model = FallbackModel(Script("hi").model, Script("ho").model)
    talk = Conversation(pydantic_ai_agent(Agent(model)), reasoning_effort="low")
    assert run(talk.send("go")).events == (Message(role="assistant", text="hi"),)
    assert talk.said == []


def test_the_same_call_in_two_turns_is_two_calls() -> None:
    """Ids that are made of the call repeat; the conversation's are each used once, also when a call waits."""
    same = ToolCallPart("delete", {"path": "a"}, "same")
    talk = Conversation(pydantic_ai_agent(careful([same], "Done.", [same], "Again.")))

    async def four() -> list[Turn]:
        turns = []
        for _ in range(2):
            turns.append(await talk.send("tidy up"))
            (request,) = requests(turns[-1])
            turns.append(await talk.respond(InputResponse(request_id=request.id, option_id="approve")))
        return turns

    turns = run(four())
    calls = derive_facts([event for turn in turns for event in turn.events]).tool_calls
    assert [(call.call_id, call.status) for call in calls] == [("same", "completed"), ("same#2", "completed")]


def test_conversations_at_once_keep_apart() -> None:
    """One agent serves many attempts at the same time: each has its own history."""

    def echo(messages: list[Any], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart(" ".join(map(str, prompts(messages))))])

    agent = pydantic_ai_agent(Agent(FunctionModel(echo)))

    async def talk(word: str) -> str:
        conversation = Conversation(agent)
        await conversation.send(word)
        turn = await conversation.send("again")
        return turn.events[-1].text  # type: ignore[union-attr]

    async def all_of_them() -> list[str]:
        return await asyncio.gather(*(talk(f"w{number}") for number in range(8)))

    assert run(all_of_them()) == [f"w{number} again" for number in range(8)]


@pytest.mark.parametrize(
    ("given", "word"),
    [({"agent": 3}, "agent"), ({"agent": Agent("test"), "run": {"deps": 1}}, "'deps'")],
)
def test_what_cannot_be_used_is_said_at_once(given: Any, word: str) -> None:
    """A wrong argument names itself, before anything runs."""
    with pytest.raises(AdapterError, match=word):
        pydantic_ai_agent(**given)
