"""An OpenAI Responses endpoint, driven through its adapter."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest

from niceeval.adapter import AdapterError, InputFile, InputResponse
from niceeval.adapters import responses_agent
from niceeval.testing import ModelServer
from tests.unit.contexts import Conversation
from tests.unit.endpoint_contract import CITY, EndpointContract, asked, calls, look, said

MCP = {"type": "mcp", "server_label": "files", "server_url": "http://files", "require_approval": "always"}


class Keeping(httpx2.AsyncBaseTransport):
    """What an endpoint that keeps conversations has in front of its model: it puts what went before in front of what
    comes. Without `stream`, for it reads the answers."""

    def __init__(self) -> None:
        self._kept: dict[str, list[Any]] = {}
        self._network = httpx2.AsyncHTTPTransport()
        self.bodies: list[dict[str, Any]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        self.bodies.append(body)
        before = self._kept[body["previous_response_id"]] if "previous_response_id" in body else []
        whole = {**body, "input": [*before, *body["input"]]}
        whole.pop("previous_response_id", None)
        headers = {name: value for name, value in request.headers.items() if name.lower() != "content-length"}
        asked = httpx2.Request("POST", request.url, json=whole, headers=headers)
        answer = await self._network.handle_async_request(asked)
        content = await answer.aread()
        if answer.status_code == 200:
            found = json.loads(content)
            self._kept[found["id"]] = [*whole["input"], *found["output"]]
        kept = {
            name: value for name, value in answer.headers.items() if name.lower() in ("content-type", "retry-after")
        }
        return httpx2.Response(answer.status_code, headers=kept, content=content)


def keeping(url: str, **options: Any) -> Any:
    return responses_agent(url, **{"transport": Keeping(), **options, "stream": False})


class TestClientHistory(EndpointContract):
    """Each request has the whole conversation."""

    make = staticmethod(functools.partial(responses_agent, history="client"))

    def test_files(self, server: ModelServer) -> None:
        """Each kind of file goes in the part that the protocol has for it."""
        files = (
            InputFile(filename="sky.png", mime_type="image/png", data=b"png"),
            InputFile(filename="note.txt", mime_type="text/plain", data="Grüße".encode()),
            InputFile(filename="paper.pdf", mime_type="application/pdf", data=b"pdf"),
        )
        asyncio.run(self.line(server).send("SCENARIO:hello", files=files))
        assert server.requests[-1].body["input"][0]["content"] == [
            {"type": "input_text", "text": "SCENARIO:hello"},
            {"type": "input_image", "image_url": "data:image/png;base64,cG5n"},
            {"type": "input_text", "text": "note.txt:\nGrüße"},
            {"type": "input_file", "filename": "paper.pdf", "file_data": "data:application/pdf;base64,cGRm"},
        ]

    def test_the_request(self, server: ModelServer) -> None:
        """The system text, the effort, the schema and the tools stand where the protocol has them."""
        options = {"system": "Be brief.", "tools": [look], "extra_body": {"text": {"verbosity": "low"}}}
        line = self.line(server, {"reasoning_effort": "low"}, **options)
        asyncio.run(line.send("SCENARIO:json", output_schema=CITY))
        body: dict[str, Any] = server.requests[-1].body
        assert (body["instructions"], body["reasoning"], body["store"]) == ("Be brief.", {"effort": "low"}, False)
        assert body["text"]["verbosity"] == "low"
        assert body["text"]["format"]["schema"] == CITY
        (told,) = body["tools"]
        assert (told["type"], told["name"], told["strict"]) == ("function", "look", False)

    def test_what_goes_back(self, server: ModelServer) -> None:
        """The answer's own items go back with what its calls came to."""
        asyncio.run(self.line(server, tools=[look]).send("SCENARIO:look"))
        items = server.requests[-1].body["input"]
        assert [item["type"] for item in items] == ["message", "message", "function_call", "function_call_output"]
        assert items[3] == {
            "type": "function_call_output",
            "call_id": items[2]["call_id"],
            "output": '{"seen": "here"}',
        }


class TestServerHistory(EndpointContract):
    """Each request names the response before it."""

    make = staticmethod(keeping)

    def test_cut_streams(self, server: ModelServer) -> None:
        """An answer in one piece that is cut is no answer, and nothing of it is kept."""

        async def body() -> list[str]:
            line = self.line(server)
            with pytest.raises(AdapterError):
                await line.send("one SCENARIO:cut")
            return said(await line.send("two SCENARIO:recall"))

        assert asyncio.run(body()) == ["nothing"]

    def test_only_what_is_new_is_sent(self, server: ModelServer) -> None:
        """Each request has what is new, and the id of the response before it."""
        transport = Keeping()
        line = self.line(server, tools=[look], transport=transport)

        async def body() -> None:
            await line.send("SCENARIO:look")
            await line.send("SCENARIO:recall")

        asyncio.run(body())
        kinds = [[item["type"] for item in sent["input"]] for sent in transport.bodies]
        assert kinds == [["message"], ["function_call_output"], ["message"]]
        assert ["previous_response_id" in sent for sent in transport.bodies] == [False, True, True]
        assert all(sent["store"] is True for sent in transport.bodies)


# An MCP server of the endpoint's own ----------------------------------------------------------------------------------


def approval(number: int) -> dict[str, Any]:
    return {
        "type": "mcp_approval_request",
        "id": f"mcpr_{number}",
        "server_label": "files",
        "name": "delete",
        "arguments": json.dumps({"path": f"file-{number}"}),
    }


def mcp_call(number: int) -> dict[str, Any]:
    return {
        **approval(number),
        "type": "mcp_call",
        "id": f"mcp_{number}",
        "approval_request_id": f"mcpr_{number}",
        "output": "gone",
        "error": None,
        "status": "completed",
    }


def message(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


OUTPUTS = ("mcp_approval_request", "mcp_call")


def answering(sent: list[dict[str, Any]]) -> httpx2.MockTransport:
    """An endpoint whose MCP server asks twice, and that tells what was answered."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        sent.append(body)
        outputs = [at for at, item in enumerate(body["input"]) if item["type"] in OUTPUTS or "status" in item]
        new = body["input"][max(outputs, default=-1) + 1 :]
        answers = [item for item in new if item["type"] == "mcp_approval_response"]
        output: list[Mapping[str, Any]] = [approval(1), approval(2)]
        if answers:
            approved = [int(item["approval_request_id"][5:]) for item in answers if item["approve"]]
            reasons = [item.get("reason", "") for item in answers if not item["approve"]]
            output = [*map(mcp_call, approved), message(f"refused: {reasons}")]
        response = {"id": f"resp_{len(sent)}", "object": "response", "status": "completed", "output": output}
        return httpx2.Response(200, json={**response, "error": None, "incomplete_details": None, "usage": None})

    return httpx2.MockTransport(answer)


@pytest.mark.parametrize("history", ["server", "client"])
def test_approvals_of_the_endpoint(history: Any) -> None:
    """Requests of the endpoint's own are answered in its words and what is not answered is asked again."""
    sent: list[dict[str, Any]] = []
    agent = responses_agent(
        "http://desk/v1",
        api_key_env=None,
        hosted_tools=[MCP],
        history=history,
        stream=False,
        transport=answering(sent),
    )

    async def body() -> None:
        line = Conversation(agent)
        waiting = await line.send("Delete them")
        assert waiting.status == "waiting"
        first, second = asked(waiting)
        assert [(each.action, each.input) for each in (first, second)] == [
            ("mcp__files__delete", {"path": "file-1"}),
            ("mcp__files__delete", {"path": "file-2"}),
        ]
        still = await line.respond(InputResponse(request_id=first.id, option_id="approve"))
        assert [each.id for each in asked(still)] == [second.id]
        assert len(sent) == 1, "nothing is sent before all is answered"
        done = await line.respond(InputResponse(request_id=second.id, text="it is needed"))
        assert (done.status, said(done)) == ("completed", ["refused: ['it is needed']"])
        assert [status for *_, status in calls(waiting, still, done)] == ["completed", "rejected"]
        assert sent[0]["tools"] == [MCP]
        waiting = await line.send("Again")
        after = await line.send("Never mind")
        assert said(after) == ["refused: ['', '']"]
        assert [status for *_, status in calls(waiting, after)] == ["rejected", "rejected"]

    asyncio.run(body())
