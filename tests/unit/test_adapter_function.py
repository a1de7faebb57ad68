"""A Python function as an agent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    AdapterError,
    AgentContext,
    InputFile,
    Message,
    Turn,
    TurnInput,
    Usage,
    complete_evidence_coverage,
)
from niceeval.adapters import function_agent
from niceeval.expect import includes
from niceeval.testing import Probes, check_agent_sync
from tests.unit.contexts import Conversation
from tests.unit.drive_harness import Script, run_eval

FILE = InputFile(filename="a.txt", mime_type="text/plain", data=b"a")
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


def texts(turn: Turn) -> list[str]:
    return [event.text for event in turn.events if isinstance(event, Message)]


def told(text: str) -> str:
    return f"you said {text}"


async def told_later(text: str) -> str:
    await asyncio.sleep(0)
    return f"you said {text}"


def pieces(text: str) -> Iterator[str]:
    yield "you said "
    yield text


async def pieces_later(question: str) -> AsyncIterator[str]:
    yield "you said "
    await asyncio.sleep(0)
    yield question


async def plain_pieces_later(text: str) -> Iterator[str]:
    return pieces(text)


def whole(input: TurnInput, ctx: AgentContext) -> Turn:
    return Turn(events=[Message(role="assistant", text=f"you said {input.text}")])


class Teller:
    def __call__(self, text: str, *, louder: bool = False) -> str:
        return told(text)


FORMS: list[Callable[..., Any]] = [
    told,
    told_later,
    pieces,
    pieces_later,
    plain_pieces_later,
    whole,
    lambda anything: told(anything),
    lambda text, history: told(text),
    lambda text, history=None: told(text),
    lambda *texts: told(*texts),
    Teller(),
    Teller().__call__,
]


@pytest.mark.parametrize("fn", FORMS)
def test_forms(fn: Callable[..., Any]) -> None:
    """Each form of a function is given the text and its answer is one message."""
    turn = asyncio.run(Conversation(function_agent(fn)).send("hello"))
    assert (texts(turn), turn.status) == (["you said hello"], "completed")


WRONG: list[tuple[Callable[..., Any], str]] = [
    (lambda: "", "the function takes ()"),
    (lambda text, other: "", "missing a required argument: 'other'"),
    (lambda *, text: "", "the function takes (*, text)"),
    (lambda text, ctx: "", "write fn(input, ctx)"),
    (lambda input, ctx, more: "", "missing a required argument: 'more'"),
    ("no function", "str cannot be called"),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("fn", "said"), WRONG)
def test_what_cannot_be_called(fn: Callable[..., Any], said: str) -> None:
    """A function that cannot be called so is refused when the agent is made and the error says the forms."""
    with pytest.raises(AdapterError) as raised:
        function_agent(fn, name="shop")
    assert raised.value.code == "agent-invalid"
    assert said in f"{raised.value} {raised.value.next_step()}"


def test_the_history_is_the_conversations() -> None:
    """The history holds what was answered on this conversation and not what raised or what is said now."""
    seen: list[Any] = []

    def remembering(text: str, history: list[dict[str, str]]) -> str:
        seen.append(history)
        if text == "break":
            raise RuntimeError("broken")
        return f"answer {len(history)}"

    agent = function_agent(remembering)

    async def body() -> None:
        line = Conversation(agent)
        await line.send("one")
        with pytest.raises(RuntimeError):
            await line.send("break")
        await line.send("two")
        await Conversation(agent).send("three")

    asyncio.run(body())
    kept = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "answer 0"}]
    assert seen == [[], kept, kept, []]


def test_structured_answers() -> None:
    """A dict is the structured answer where one is wanted and a message either way."""
    agent = function_agent(lambda text: {"n": 1})
    structured = asyncio.run(Conversation(agent).send("x", output_schema=SCHEMA))
    plain = asyncio.run(Conversation(agent).send("x"))
    assert (structured.data, texts(structured)) == ({"n": 1}, ['{"n": 1}'])
    assert (plain.data, texts(plain)) == (None, ['{"n": 1}'])


@pytest.mark.parametrize("answer", [None, 3, ["a"], {"a": object()}, iter([1]), {"self": {1}}])
def test_what_is_no_answer(answer: object) -> None:
    """What is no answer is an error that says what was returned and what may be."""
    with pytest.raises(AdapterError) as raised:
        asyncio.run(Conversation(function_agent(lambda text: answer, name="shop")).send("x"))
    assert (raised.value.code, "shop returned" in str(raised.value)) == ("turn-malformed", True)


def test_files_need_the_whole_input() -> None:
    """A file reaches a function of the whole input and is refused by one of a text."""
    names = function_agent(lambda input, ctx: input.files[0].filename)
    assert texts(asyncio.run(Conversation(names).send("x", files=(FILE,)))) == ["a.txt"]
    with pytest.raises(AdapterError, match="no place for a file"):
        asyncio.run(Conversation(function_agent(told)).send("x", files=(FILE,)))


def calling(text: str) -> Turn:
    events = [
        ActionCalled(call_id="1", name="look", input={}),
        ActionResult(call_id="1", status="completed", output="fine"),
        Message(role="assistant", text="It is fine."),
    ]
    return Turn(events=events, usage=Usage(input_tokens=3, output_tokens=2))


def test_what_is_promised() -> None:
    """Calls are unknown until the author says how complete they are and then they count."""

    async def body(t: Any) -> None:
        turn = await t.send("look")
        turn.message_includes("fine")
        turn.called_tool("look")
        turn.no_failed_actions()

    quiet = run_eval(body, Script(function_agent(lambda text: "It is fine.")))
    undeclared = run_eval(body, Script(function_agent(calling)))
    declared = run_eval(body, Script(function_agent(calling, evidence_coverage=complete_evidence_coverage)))
    assert quiet.outcomes[1:] == ["unavailable", "unavailable"]
    assert declared.outcomes == ["passed", "passed", "passed"]
    assert undeclared.diagnostics == ["coverage-not-declared"]


def test_a_plain_function_runs_beside_the_loop() -> None:
    """A plain function runs in a thread so that it may block and an async one in the loop."""
    threads: list[str] = []

    def plain(text: str) -> str:
        threads.append(threading.current_thread().name)
        return "plain"

    async def later(text: str) -> str:
        threads.append(threading.current_thread().name)
        return "later"

    async def body(t: Any) -> None:
        await t.send("x")

    run_eval(body, Script(function_agent(plain)))
    run_eval(body, Script(function_agent(later)))
    main = threading.current_thread().name
    assert [name == main for name in threads] == [False, True]


def remembering(text: str, history: list[dict[str, str]]) -> str:
    said = [message["content"] for message in history if message["role"] == "user"]
    return f"You said: {said[0]}" if "first" in text and said else "Hello."


async def slowly(text: str, history: list[dict[str, str]]) -> str:
    if text == "slow":
        await asyncio.sleep(60)
    return remembering(text, history)


PROBES = Probes(hello="Good day", memory=("My city is Oslo.", "What did I say first?", includes("Oslo")), slow="slow")


def test_it_keeps_the_contract() -> None:
    """An agent of a function keeps the contract of adapters."""
    check_agent_sync(function_agent(slowly), PROBES).raise_for_failures()
