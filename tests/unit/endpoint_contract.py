"""What every adapter of a model's endpoint has to do, against the scripted model server; its tests inherit these.

`make(url, **options)` is the adapter's factory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import httpx2
import pytest

from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    AdapterError,
    Agent,
    InputFile,
    InputRequest,
    InputRequested,
    InputResponse,
    Message,
    RetryableSendError,
    Turn,
    Usage,
    derive_facts,
)
from niceeval.expect import includes
from niceeval.testing import ModelServer, Probes, check_agent_sync, model_server
from niceeval.testing.scenarios import (
    READY_MADE,
    ModelRequest,
    Scenario,
    call,
    cut,
    rate_limited,
    say,
    slow,
    structured,
    tool,
)
from tests.unit.contexts import Conversation

KEY = "sk-scripted-0123456789"
FIGURES = Usage(input_tokens=50, cache_read_tokens=30, output_tokens=20, reasoning_tokens=6)
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def quoted(request: ModelRequest) -> str:
    """A step that repeats what the tools returned."""
    return "results: " + ", ".join(result.text for result in request.results)


def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


def look(where: str, closely: bool = False) -> dict[str, str]:
    """Look somewhere."""
    if where == "nowhere":
        raise LookupError("there is nothing there")
    return {"seen": f"{where}{' closely' if closely else ''}"}


async def look_later(where: str) -> str:
    """Look, later."""
    await asyncio.sleep(0)
    return f"later {where}"


TWO = call(tool("delete", path="a"), tool("delete", path="b"), text="I will ask.")
SCENARIOS = (
    *READY_MADE,
    Scenario("text", [say("Twelve degrees.", thinking="Let me see.", usage=FIGURES)]),
    Scenario("look", [call(tool("look", where="here"), text="I look."), quoted]),
    Scenario("two", [call(tool("look", where="here", closely=True), tool("look_later", where="there")), quoted]),
    Scenario("fails", [call(tool("look", where="nowhere")), quoted]),
    Scenario("wrong", [call(tool("look", where=3)), call(tool("fly", to="there")), quoted]),
    Scenario("circles", [tool("look", where="here")], repeats=True),
    Scenario("delete", [TWO, quoted, say("And now?")]),
    Scenario("mixed", [call(tool("look", where="here"), tool("delete", path="a")), quoted]),
    Scenario("busy-later", [tool("look", where="here"), rate_limited(2, say("At last."))]),
    Scenario("cut-call", [cut(call(tool("look", where="here"), text="I look."), after=6), quoted]),
    Scenario("json", [structured({"city": "Oslo"})]),
    Scenario("no-json", [say("Oslo, I think.")]),
    Scenario("hang", [slow(say("A long answer."), 30.0)]),
)


def said(turn: Turn) -> list[str]:
    return [event.text for event in turn.events if isinstance(event, Message)]


def asked(turn: Turn) -> list[InputRequest]:
    return [event.request for event in turn.events if isinstance(event, InputRequested)]


def calls(*turns: Turn) -> list[tuple[str, Any, Any, str]]:
    facts = derive_facts([event for turn in turns for event in turn.events])
    return [(each.name, each.input, each.output, each.status) for each in facts.tool_calls]


class EndpointContract:
    """Inherit it, and say how the adapter is made."""

    make: ClassVar[Callable[..., Agent]]

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls) -> Iterator[ModelServer]:
        with model_server(*SCENARIOS) as running:
            yield running

    @pytest.fixture(autouse=True)
    def _key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)

    def agent(self, server: ModelServer, **options: Any) -> Agent:
        return type(self).make(server.openai_url, **{"model": "scripted", **options})

    def line(self, server: ModelServer, context: Mapping[str, Any] | None = None, **options: Any) -> Conversation:
        return Conversation(self.agent(server, **options), **(context or {}))

    @pytest.mark.parametrize("stream", [True, False])
    def test_an_answer(self, server: ModelServer, stream: bool) -> None:
        """An answer is a message with its usage and the key goes with the request."""
        turn = asyncio.run(self.line(server, stream=stream).send("SCENARIO:text"))
        assert (said(turn), turn.status) == (["Twelve degrees."], "completed")
        assert turn.usage is not None
        counted = (turn.usage.input_tokens, turn.usage.cache_read_tokens, turn.usage.output_tokens)
        assert (*counted, turn.usage.reasoning_tokens, turn.usage.requests) == (50, 30, 20, 6, 1)
        assert server.requests[-1].sent_credential(KEY)

    @pytest.mark.parametrize("stream", [True, False])
    def test_memory(self, server: ModelServer, stream: bool) -> None:
        """Two turns remember and a new conversation remembers nothing."""

        async def body() -> list[list[str]]:
            line = self.line(server, stream=stream)
            turns = [await line.send(f"{text} SCENARIO:recall") for text in ("I am Kari.", "Who am I?")]
            return [*map(said, turns), said(await self.line(server, stream=stream).send("Who? SCENARIO:recall"))]

        assert asyncio.run(body()) == [["nothing"], ["You said: I am Kari."], ["nothing"]]

    @pytest.mark.parametrize("stream", [True, False])
    def test_tools(self, server: ModelServer, stream: bool) -> None:
        """Tools are run and the model is told what they came to and the calls are complete evidence."""
        options = {"tools": [look, look_later], "stream": stream}
        one = asyncio.run(self.line(server, **options).send("SCENARIO:look"))
        assert calls(one) == [("look", {"where": "here"}, {"seen": "here"}, "completed")]
        assert said(one) == ["I look.", 'results: {"seen": "here"}']
        assert (one.status, dict(one.evidence_coverage or {}).get("actions")) == ("completed", None)
        assert one.usage is not None
        assert (one.usage.requests, one.usage.input_tokens) == (2, 200)
        two = asyncio.run(self.line(server, **options).send("SCENARIO:two"))
        assert calls(two) == [
            ("look", {"where": "here", "closely": True}, {"seen": "here closely"}, "completed"),
            ("look_later", {"where": "there"}, "later there", "completed"),
        ]
        assert self.agent(server, **options).evidence_coverage["actions"].level == "complete"
        assert self.agent(server).evidence_coverage["actions"].level in ("partial", "complete")

    def test_tools_that_fail(self, server: ModelServer) -> None:
        """A tool that raises and one that is called wrongly failed and the model is told why."""
        turn = asyncio.run(self.line(server, tools=[look]).send("SCENARIO:fails"))
        assert calls(turn) == [
            ("look", {"where": "nowhere"}, "LookupError: there is nothing there", "failed"),
        ]
        assert (said(turn), turn.status) == (["results: LookupError: there is nothing there"], "completed")
        wrong = asyncio.run(self.line(server, tools=[look]).send("SCENARIO:wrong"))
        assert [status for *_, status in calls(wrong)] == ["failed", "failed"]
        assert "Expected `str`" in said(wrong)[0]
        assert "the tools are look" in said(wrong)[0]

    def test_a_model_that_runs_in_circles(self, server: ModelServer) -> None:
        """A model that only calls tools fails after its steps and the next turn may go on."""

        async def body() -> tuple[Turn, Turn]:
            line = self.line(server, tools=[look], max_steps=3)
            return await line.send("SCENARIO:circles"), await line.send("SCENARIO:text")

        turn, after = asyncio.run(body())
        assert (len(calls(turn)), turn.status) == (3, "failed")
        assert (said(after), after.status) == (["Twelve degrees."], "completed")

    def test_calls_that_nothing_runs(self, server: ModelServer) -> None:
        """Without tools a call has no result and the turn says so and the next turn may go on."""

        async def body() -> tuple[Turn, Turn, list[tuple[str, str]]]:
            line = self.line(server)
            return await line.send("SCENARIO:look"), await line.send("SCENARIO:text"), line.said

        turn, after, heard = asyncio.run(body())
        assert [status for *_, status in calls(turn)] == ["unknown"]
        assert "call-not-run" in {code for code, _ in heard}
        assert said(after) == ["Twelve degrees."]

    # Humans ---------------------------------------------------------------------------------------------------------

    def test_approvals(self, server: ModelServer) -> None:
        """Two calls wait at once and one is approved and one refused with a reason."""

        async def body() -> tuple[Turn, Turn]:
            line = self.line(server, tools=[delete], approve=["delete"])
            waiting = await line.send("SCENARIO:delete")
            first, second = asked(waiting)
            assert [(each.action, each.input) for each in (first, second)] == [
                ("delete", {"path": "a"}),
                ("delete", {"path": "b"}),
            ]
            assert [option.id for option in first.options or ()] == ["approve", "reject"]
            return waiting, await line.respond(
                InputResponse(request_id=second.id, text="it is needed"),
                InputResponse(request_id=first.id, option_id="approve"),
            )

        waiting, done = asyncio.run(body())
        assert (waiting.status, done.status) == ("waiting", "completed")
        assert [(output, status) for _, _, output, status in calls(waiting, done)] == [
            ("a is gone", "completed"),
            ("it is needed", "rejected"),
        ]
        assert not [event for event in done.events if isinstance(event, ActionCalled)], (
            "the calls are of the turn before"
        )
        assert "a is gone" in said(done)[0]
        assert "it is needed" in said(done)[0]

    def test_some_answers(self, server: ModelServer) -> None:
        """What has no answer yet is asked again and then the model goes on."""

        async def body() -> list[Turn]:
            line = self.line(server, tools=[delete], approve=["delete"])
            waiting = await line.send("SCENARIO:delete")
            first, second = asked(waiting)
            still = await line.respond(InputResponse(request_id=first.id, option_id="reject"))
            assert [each.id for each in asked(still)] == [second.id]
            return [waiting, still, await line.respond(InputResponse(request_id=second.id, option_id="approve"))]

        turns = asyncio.run(body())
        assert [turn.status for turn in turns] == ["waiting", "waiting", "completed"]
        assert [status for *_, status in calls(*turns)] == ["rejected", "completed"]

    def test_what_needs_no_approval_runs_at_once(self, server: ModelServer) -> None:
        """Beside a call that waits another is run and the model is told of both at once."""

        async def body() -> tuple[Turn, Turn]:
            line = self.line(server, tools=[look, delete], approve=["delete"])
            waiting = await line.send("SCENARIO:mixed")
            (request,) = asked(waiting)
            return waiting, await line.respond(InputResponse(request_id=request.id, option_id="approve"))

        waiting, done = asyncio.run(body())
        assert [status for *_, status in calls(waiting)] == ["completed", "pending"]
        assert [status for *_, status in calls(waiting, done)] == ["completed", "completed"]
        assert "a is gone" in said(done)[0]
        assert '{"seen": "here"}' in said(done)[0]

    def test_a_user_who_goes_on(self, server: ModelServer) -> None:
        """A message while calls wait lets them lapse and an answer to nothing is refused."""

        async def body() -> tuple[Turn, Turn]:
            line = self.line(server, tools=[delete], approve=["delete"])
            waiting = await line.send("SCENARIO:delete")
            after = await line.send("SCENARIO:text")
            with pytest.raises(AdapterError) as raised:
                await line.respond(InputResponse(request_id=asked(waiting)[0].id, option_id="approve"))
            assert raised.value.code == "agent-input"
            return waiting, after

        waiting, after = asyncio.run(body())
        assert [status for *_, status in calls(waiting, after)] == ["rejected", "rejected"]
        assert said(after) == ["Twelve degrees."]

    # What goes wrong ------------------------------------------------------------------------------------------------

    def test_refusals(self, server: ModelServer) -> None:
        """A rate limit may be tried again and nothing was kept and any other refusal is an error that says it."""

        async def body() -> list[str]:
            line = self.line(server)
            with pytest.raises(RetryableSendError):
                await line.send("one SCENARIO:rate-limited")
            await line.send("one SCENARIO:rate-limited")
            return said(await line.send("two SCENARIO:recall"))

        with pytest.raises(AdapterError, match=r"500: .*scripted error"):
            asyncio.run(self.line(server).send("SCENARIO:error"))
        assert asyncio.run(body()) == ["You said: one"]

    def test_a_limit_after_tools(self, server: ModelServer) -> None:
        """A rate limit after tools were run is waited for since the turn cannot be sent again."""
        turn = asyncio.run(self.line(server, tools=[look]).send("SCENARIO:busy-later"))
        assert (said(turn), [status for *_, status in calls(turn)]) == (["At last."], ["completed"])

    def test_cut_streams(self, server: ModelServer) -> None:
        """A cut stream keeps what came and lowers the coverage and no cut call is run."""
        ran: list[str] = []

        def look(where: str) -> None:
            ran.append(where)

        async def body() -> tuple[Turn, Turn, Turn]:
            text, line = self.line(server), self.line(server, tools=[look])
            cut_text = await text.send("SCENARIO:cut")
            return cut_text, await line.send("SCENARIO:cut-call"), await line.send("SCENARIO:text")

        cut_text, cut_call, after = asyncio.run(body())
        for turn in (cut_text, cut_call):
            worse = turn.evidence_coverage or {}
            assert worse["status"].level != "complete"
            assert worse["messages"].level != "complete"
        assert worse["actions"].level != "complete"
        assert ran == []
        assert said(after) == ["Twelve degrees."]

    def test_no_endpoint(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where nothing listens the send may be made again and without its key nothing is asked."""

        def refuse(request: httpx2.Request) -> httpx2.Response:
            raise httpx2.ConnectError("nobody listens")

        agent = type(self).make("http://desk/v1", model="m", transport=httpx2.MockTransport(refuse))
        with pytest.raises(RetryableSendError):
            asyncio.run(Conversation(agent).send("hello"))
        monkeypatch.delenv("OPENAI_API_KEY")
        with pytest.raises(AdapterError, match="OPENAI_API_KEY, which is not set"):
            asyncio.run(Conversation(agent).send("hello"))
        assert agent.secret_env == ("OPENAI_API_KEY",)

    # Options --------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("stream", [True, False])
    def test_structured_answers(self, server: ModelServer, stream: bool) -> None:
        """A structured answer is data and one that is none is only a text."""
        line = self.line(server, stream=stream)
        turn = asyncio.run(line.send("SCENARIO:json", output_schema=CITY))
        assert (turn.data, turn.status) == ({"city": "Oslo"}, "completed")
        other = asyncio.run(self.line(server, stream=stream).send("SCENARIO:no-json", output_schema=CITY))
        assert (other.data, said(other)) == (None, ["Oslo, I think."])

    def test_what_is_passed(self, server: ModelServer) -> None:
        """The experiment's model goes before the adapter's and allowed flags become fields and others are told."""
        given = {
            "model": "other",
            "flags": {"temperature": 0.5, "style": "short"},
            "telemetry_headers": {"traceparent": "00-aa-bb-01"},
        }
        options = {"flags": ["temperature"], "extra_body": {"seed": 7, "temperature": 1}, "headers": {"x-team": "a"}}
        line = self.line(server, given, **options)
        asyncio.run(line.send("SCENARIO:text"))
        request = server.requests[-1]
        assert [request.body[name] for name in ("model", "temperature", "seed")] == ["other", 0.5, 7]
        assert "style" not in request.body
        assert [code for code, message in line.said if "style" in message] == ["input-not-passed"]
        assert (request.headers["traceparent"], request.headers["x-team"]) == ("00-aa-bb-01", "a")

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ({"tools": [lambda *all: None]}, "the tool <lambda>"),
            ({"tools": [look, look]}, "two tools are called look"),
            ({"tools": ["look"]}, "a tool is str"),
            ({"tools": [look], "approve": ["delete"]}, "approve names 'delete'"),
            ({"approve": "look", "tools": [look]}, "approve is 'look'"),
            ({"flags": "temperature"}, "flags is 'temperature'"),
            ({"extra_body": {"model": "m"}}, "'model' is what the adapter says itself"),
            ({"max_steps": 0}, "max_steps is 0"),
        ],
    )
    def test_what_cannot_be_meant(self, options: dict[str, Any], problem: str) -> None:
        """Options that cannot be meant are refused when the agent is made."""
        with pytest.raises(AdapterError) as raised:
            type(self).make("http://desk/v1", **options)
        assert raised.value.code == "agent-invalid"
        assert problem in str(raised.value)

    def test_it_keeps_the_contract(self, server: ModelServer) -> None:
        """The adapter keeps the contract of adapters."""
        agent = self.agent(server, tools=[look, look_later, delete], approve=["delete"])
        probes = Probes(
            hello="Good day SCENARIO:hello",
            tool="SCENARIO:look",
            failing_tool="SCENARIO:fails",
            memory=("I am Kari SCENARIO:recall", "Who am I? SCENARIO:recall", includes("Kari")),
            approval="SCENARIO:delete",
            output=("SCENARIO:json", dict[str, str]),
            slow="SCENARIO:hang",
        )
        check_agent_sync(agent, probes).raise_for_failures()


__all__ = ["CITY", "KEY", "SCENARIOS", "ActionResult", "EndpointContract", "InputFile", "asked", "calls", "said"]
