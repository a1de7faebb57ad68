"""The scripted model server, as the real SDK clients and plain HTTP clients see it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import anthropic
import openai
import pytest

from niceeval.adapter import Usage
from niceeval.testing import ModelServer, model_server
from niceeval.testing.scenarios import (
    READY_MADE,
    ModelRequest,
    Scenario,
    call,
    cut,
    fail,
    mcp,
    say,
    shell,
    slow,
    structured,
    tool,
)

KEY = "sk-scripted-0123456789"
FIGURES = Usage(input_tokens=50, cache_read_tokens=30, cache_write_tokens=7, output_tokens=20, reasoning_tokens=6)
COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


def quoted(request: ModelRequest) -> str:
    """A step that depends on the request: it repeats what the tools returned."""
    return "results: " + ", ".join(result.text for result in request.results)


SCENARIOS = (
    *READY_MADE,
    Scenario("text", [say("Twelve degrees.", thinking="Let me see.", usage=FIGURES)]),
    Scenario("tools", [call(shell("echo one"), shell("echo two"), text="I look.", thinking="Hm."), quoted]),
    Scenario("json", [structured({"city": "Oslo"})]),
    Scenario("refused", [fail(401, "no such key")]),
    Scenario("busy", [fail(529, "overloaded", type="overloaded_error")]),
    Scenario("no-usage", [say("Free.", usage=None)]),
    Scenario("other-tool", [call(mcp("files", "list"))]),
)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with model_server(*SCENARIOS) as running:
        yield running


@dataclass(frozen=True)
class Sdks:
    """The clients; what they need is made once, since that takes longer than a test."""

    openai: openai.OpenAI
    anthropic: anthropic.Anthropic


@pytest.fixture(scope="module")
def sdks(server: ModelServer) -> Iterator[Sdks]:
    with (
        openai.OpenAI(base_url=server.openai_url, api_key=KEY, max_retries=0) as one,
        anthropic.Anthropic(base_url=server.url, api_key=KEY, max_retries=0) as other,
    ):
        yield Sdks(one, other)


class Client:
    """One protocol's real SDK: asks a text plainly or in a stream, and says in one form what it parsed."""

    def __init__(self, sdks: Sdks, stream: bool) -> None:
        self.sdks = sdks
        self.stream = stream
        self.openai = sdks.openai
        self.anthropic = sdks.anthropic

    def patient(self) -> Sdks:
        """The same clients, but they ask again where they may."""
        return Sdks(self.openai.with_options(max_retries=2), self.anthropic.with_options(max_retries=2))


class Messages(Client):
    tools: ClassVar[list[Any]] = [{"name": "Bash", "description": "a shell", "input_schema": COMMAND}]

    def ask(self, history: list[Any], **more: Any) -> anthropic.types.Message:
        arguments = {"model": "m", "max_tokens": 100, "messages": history, "tools": self.tools, **more}
        if not self.stream:
            return self.anthropic.messages.create(**arguments)
        with self.anthropic.messages.stream(**arguments) as stream:
            return stream.get_final_message()

    def said(self, answer: anthropic.types.Message) -> dict[str, Any]:
        return {
            "thinking": "".join(block.thinking for block in answer.content if block.type == "thinking"),
            "text": "".join(block.text for block in answer.content if block.type == "text"),
            "calls": [(block.name, block.input) for block in answer.content if block.type == "tool_use"],
        }

    def with_results(self, history: list[Any], answer: anthropic.types.Message) -> list[Any]:
        ids = [block.id for block in answer.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": id, "content": f"out-{n}"} for n, id in enumerate(ids)]
        return [*history, {"role": "assistant", "content": answer.content}, {"role": "user", "content": results}]

    def usage(self, answer: anthropic.types.Message) -> dict[str, Any]:
        return {
            "input": answer.usage.input_tokens,
            "cached": answer.usage.cache_read_input_tokens,
            "written": answer.usage.cache_creation_input_tokens,
            "output": answer.usage.output_tokens,
        }

    figures: ClassVar[dict[str, int]] = {"input": 50, "cached": 30, "written": 7, "output": 20}


class Chat(Client):
    tools: ClassVar[list[Any]] = [
        {"type": "function", "function": {"name": "bash", "description": "a shell", "parameters": COMMAND}}
    ]

    def ask(self, history: list[Any], **more: Any) -> Any:
        arguments = {"model": "m", "messages": history, "tools": self.tools, **more}
        if not self.stream:
            return self.openai.chat.completions.create(**arguments)
        with self.openai.chat.completions.stream(stream_options={"include_usage": True}, **arguments) as stream:
            return stream.get_final_completion()

    def said(self, answer: Any) -> dict[str, Any]:
        message = answer.choices[0].message
        calls = [(c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or []]
        return {
            "thinking": (message.model_extra or {}).get("reasoning_content") or "",
            "text": message.content or "",
            "calls": calls,
        }

    def with_results(self, history: list[Any], answer: Any) -> list[Any]:
        message = answer.choices[0].message
        calls = [
            {"id": c.id, "type": "function", "function": {"name": c.function.name, "arguments": c.function.arguments}}
            for c in message.tool_calls
        ]
        results = [{"role": "tool", "tool_call_id": c["id"], "content": f"out-{n}"} for n, c in enumerate(calls)]
        return [*history, {"role": "assistant", "content": message.content, "tool_calls": calls}, *results]

    def usage(self, answer: Any) -> dict[str, Any]:
        return {
            "input": answer.usage.prompt_tokens,
            "cached": answer.usage.prompt_tokens_details.cached_tokens,
            "output": answer.usage.completion_tokens,
            "reasoning": answer.usage.completion_tokens_details.reasoning_tokens,
            "total": answer.usage.total_tokens,
        }

    figures: ClassVar[dict[str, int]] = {"input": 87, "cached": 30, "output": 20, "reasoning": 6, "total": 107}


class Responses(Client):
    tools: ClassVar[list[Any]] = [
        {"type": "function", "name": "exec_command", "description": "a shell", "parameters": COMMAND}
    ]

    def ask(self, history: list[Any], **more: Any) -> Any:
        arguments = {"model": "m", "input": history, "tools": self.tools, **more}
        if not self.stream:
            return self.openai.responses.create(**arguments)
        with self.openai.responses.stream(**arguments) as stream:
            return stream.get_final_response()

    def said(self, answer: Any) -> dict[str, Any]:
        reasoning = [part.text for item in answer.output if item.type == "reasoning" for part in item.summary]
        calls = [(item.name, json.loads(item.arguments)) for item in answer.output if item.type == "function_call"]
        return {"thinking": "".join(reasoning), "text": answer.output_text, "calls": calls}

    def with_results(self, history: list[Any], answer: Any) -> list[Any]:
        items = [item.model_dump(mode="json", exclude_none=True) for item in answer.output]
        for item in items:
            item.pop("parsed_arguments", None)
            for part in item.get("content") or []:
                part.pop("parsed", None)
        ids = [item["call_id"] for item in items if item["type"] == "function_call"]
        results = [{"type": "function_call_output", "call_id": id, "output": f"out-{n}"} for n, id in enumerate(ids)]
        # One client tells of results in the order in which they came.
        return [*history, *items, *reversed(results)]

    def usage(self, answer: Any) -> dict[str, Any]:
        return {
            "input": answer.usage.input_tokens,
            "cached": answer.usage.input_tokens_details.cached_tokens,
            "output": answer.usage.output_tokens,
            "reasoning": answer.usage.output_tokens_details.reasoning_tokens,
            "total": answer.usage.total_tokens,
        }

    figures: ClassVar[dict[str, int]] = {"input": 87, "cached": 30, "output": 20, "reasoning": 6, "total": 107}


AnyClient = Messages | Chat | Responses
KINDS = [(kind, stream) for kind in (Messages, Chat, Responses) for stream in (False, True)]


@pytest.fixture(params=KINDS, ids=[f"{kind.__name__}-{'stream' if stream else 'plain'}" for kind, stream in KINDS])
def client(request: pytest.FixtureRequest, sdks: Sdks) -> AnyClient:
    kind, stream = request.param
    made: AnyClient = kind(sdks, stream)
    return made


def user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def test_a_text_arrives_with_its_thoughts_and_its_usage(client: AnyClient) -> None:
    """The SDK parses text, reasoning and every figure of the usage."""
    answer = client.ask(user("SCENARIO:text"))
    assert client.said(answer) == {"thinking": "Let me see.", "text": "Twelve degrees.", "calls": []}
    assert client.usage(answer) == client.figures


def test_parallel_calls_are_mapped_to_the_offered_tool_and_advance_the_script(client: AnyClient) -> None:
    """The shell is what this client calls it; two results are one step, in whichever order they come back."""
    history = user("SCENARIO:tools")
    first = client.ask(history)
    said = client.said(first)
    assert (said["thinking"], said["text"]) == ("Hm.", "I look.")
    assert [arguments["command"] for _, arguments in said["calls"]] == ["echo one", "echo two"]
    assert {name for name, _ in said["calls"]} <= {"Bash", "bash", "exec_command"}
    second = client.said(client.ask(client.with_results(history, first)))
    assert second["calls"] == []
    assert sorted(second["text"].removeprefix("results: ").split(", ")) == ["out-0", "out-1"]


def test_a_structured_answer_is_json(client: AnyClient) -> None:
    """The data comes as the text of the answer."""
    assert json.loads(client.said(client.ask(user("SCENARIO:json")))["text"]) == {"city": "Oslo"}


def test_an_empty_answer_is_an_answer(client: AnyClient) -> None:
    """Nothing was said, and the SDK takes it."""
    assert client.said(client.ask(user("SCENARIO:empty"))) == {"thinking": "", "text": "", "calls": []}


@pytest.mark.parametrize(("scenario", "status"), [("refused", 401), ("error", 500), ("busy", 529)])
def test_an_error_is_the_sdks_own(client: AnyClient, scenario: str, status: int) -> None:
    """The status and the message of a scripted error reach the SDK's exception."""
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as raised:
        client.ask(user(f"SCENARIO:{scenario}"))
    assert raised.value.status_code == status
    expected = {"refused": "no such key", "error": "scripted error", "busy": "overloaded"}[scenario]
    assert expected in str(raised.value)


def test_a_rate_limit_ends_after_its_times(server: ModelServer, client: AnyClient) -> None:
    """The SDK waits as `Retry-After` says, asks again, and gets the answer; another conversation is limited anew."""
    patient = type(client)(client.patient(), client.stream)
    text = f"SCENARIO:rate-limited for {type(client).__name__} {client.stream}"
    answer = patient.ask(user(text))
    assert client.said(answer)["text"] == "After the limit."
    mine = [call for call in server.calls("rate-limited") if call.model and call.model.user_text == text]
    assert [(call.status, call.outcome) for call in mine] == [(429, "error"), (200, "answered")]
    with pytest.raises((openai.RateLimitError, anthropic.RateLimitError)) as raised:
        client.ask(user(f"{text} again"))
    assert raised.value.response.headers["retry-after"] == "0"


def test_a_cut_answer_is_a_broken_connection(client: AnyClient) -> None:
    """An answer that ends in the middle is no answer: the SDK, or what it reads with, raises."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 - each SDK lets another library's error through
        client.ask(user("SCENARIO:cut"))
    assert "Connection" in type(raised.value).__name__ or "Protocol" in type(raised.value).__name__


def test_the_second_turn_sees_the_first_and_a_new_session_sees_nothing(client: AnyClient) -> None:
    """`recall` proves what an adapter carries on."""
    history = user("My name is Kari. SCENARIO:recall")
    first = client.said(client.ask(history))["text"]
    history += [{"role": "assistant", "content": first}, *user("What did I say? SCENARIO:recall")]
    assert (first, client.said(client.ask(history))["text"]) == ("nothing", "You said: My name is Kari.")


def test_what_is_not_scripted_is_told_and_listed(server: ModelServer, client: AnyClient) -> None:
    """A text without a marker, an unknown scenario, a step too many and a missing tool are a 400 that says what."""
    cases = {
        "no marker at all": "holds no SCENARIO:<name>",
        "SCENARIO:unheard-of": "no scenario 'unheard-of'",
        "SCENARIO:other-tool": "no tool list of the MCP server files; the request offers",
    }
    for text, problem in cases.items():
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError), match="unscripted request") as raised:
            client.ask(user(text))
        assert problem in str(raised.value)
        assert problem in (server.unscripted[-1].problem or "")
    history = [*user("SCENARIO:text"), {"role": "assistant", "content": "Twelve degrees."}]
    with pytest.raises((openai.BadRequestError, anthropic.BadRequestError), match="has 1 steps"):
        client.ask(history)


def test_usage_can_be_left_out(sdks: Sdks) -> None:
    """A provider that tells no usage is a case of its own, not a 0."""
    client = sdks.openai
    assert client.chat.completions.create(model="m", messages=user("SCENARIO:no-usage")).usage is None
    assert client.responses.create(model="m", input="SCENARIO:no-usage").usage is None
    chunks = list(client.chat.completions.create(model="m", messages=user("SCENARIO:text"), stream=True))
    assert [chunk.usage for chunk in chunks if chunk.usage is not None] == []


def test_a_response_goes_on_from_an_earlier_one(sdks: Sdks) -> None:
    """`previous_response_id` brings the earlier turns along; one that nobody knows is a 404."""
    client = sdks.openai
    first = client.responses.create(model="m", input="My name is Kari. SCENARIO:recall")
    second = client.responses.create(model="m", input="And? SCENARIO:recall", previous_response_id=first.id)
    assert (first.output_text, second.output_text) == ("nothing", "You said: My name is Kari.")
    with pytest.raises(openai.NotFoundError, match="previous_response_id"):
        client.responses.create(model="m", input="SCENARIO:recall", previous_response_id="resp_unknown")


def test_a_forced_tool_carries_the_structured_answer(sdks: Sdks) -> None:
    """Where the request forces a tool, data is that tool's arguments."""
    answer = sdks.anthropic.messages.create(
        model="m",
        max_tokens=10,
        messages=user("SCENARIO:json"),
        tools=[{"name": "place", "input_schema": CITY}],
        tool_choice={"type": "tool", "name": "place"},
    )
    assert [(block.name, block.input) for block in answer.content if block.type == "tool_use"] == [
        ("place", {"city": "Oslo"})
    ]


def test_models_and_token_counts_are_answered(sdks: Sdks) -> None:
    """Both SDKs list the models and count tokens."""
    assert [model.id for model in sdks.openai.models.list()] == ["scripted-model"]
    assert [model.id for model in sdks.anthropic.models.list()] == ["scripted-model"]
    assert sdks.anthropic.models.retrieve("scripted-model").display_name == "scripted-model"
    assert sdks.anthropic.messages.count_tokens(model="m", messages=user("Hello")).input_tokens > 0


async def _together(server: ModelServer, count: int) -> list[str]:
    async with openai.AsyncOpenAI(base_url=server.openai_url, api_key=KEY) as client:

        async def one(number: int) -> str:
            told = f"I am number {number}. SCENARIO:recall"
            history = [*user(told), {"role": "assistant", "content": "nothing"}, *user("Who? SCENARIO:recall")]
            answer = await client.chat.completions.create(model="m", messages=history)
            return answer.choices[0].message.content or ""

        return await asyncio.gather(*(one(number) for number in range(count)))


def test_conversations_at_the_same_time_stay_apart(server: ModelServer) -> None:
    """One server serves a whole experiment: each conversation gets its own answer."""
    assert asyncio.run(_together(server, 20)) == [f"You said: I am number {number}." for number in range(20)]


def test_credentials_are_not_recorded_but_can_be_asked_for(sdks: Sdks) -> None:
    """No recorded value holds the key; whether the right one came can still be said."""
    with model_server("Hello.") as server:
        client = sdks.openai.with_options(base_url=server.openai_url)
        client.chat.completions.create(model="m", messages=user("Hi"))
        (request,) = server.calls(protocol="openai-chat")
    assert KEY not in repr(request)
    assert request.headers["authorization"] == "[redacted]"
    assert request.sent_credential(KEY)
    assert not request.sent_credential(KEY[:-1])


def test_steps_alone_are_one_scenario_over_several_turns(sdks: Sdks) -> None:
    """Without a marker, each answer in the history is one step."""
    with model_server("First.", tool("look", where="here"), slow("Third.", 0.001)) as server:
        client = sdks.openai.with_options(base_url=server.openai_url)
        history: list[Any] = user("Hi")
        first = client.chat.completions.create(model="m", messages=history)
        history += [{"role": "assistant", "content": first.choices[0].message.content}, *user("Go on")]
        second = client.chat.completions.create(model="m", messages=history)
        (called,) = second.choices[0].message.tool_calls or []
        history += Chat(sdks, False).with_results([], second)
        third = client.chat.completions.create(model="m", messages=history)
        assert not server.unscripted
    assert first.choices[0].message.content == "First."
    assert called.type == "function"
    assert (called.function.name, json.loads(called.function.arguments)) == ("look", {"where": "here"})
    assert third.choices[0].message.content == "Third."


def test_a_cut_can_come_at_once(sdks: Sdks) -> None:
    """Already the first event may be broken off."""
    with model_server(cut("Never.", after=0)) as server:
        client = Chat(Sdks(sdks.openai.with_options(base_url=server.openai_url), sdks.anthropic), stream=True)
        with pytest.raises(Exception, match=r"(?i)incomplete|connection|closed"):
            client.ask(user("Hi"))
        assert server.wait_for(lambda requests: requests[-1].outcome == "cut")
