"""An OpenAI-compatible Chat Completions endpoint, driven through its adapter."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2

from niceeval.adapter import InputFile
from niceeval.adapters import chat_completions_agent
from niceeval.testing import ModelServer
from tests.unit.contexts import Conversation
from tests.unit.endpoint_contract import CITY, EndpointContract, calls, look, said

PICTURE = InputFile(filename="sky.png", mime_type="image/png", data=b"png")
NOISE = InputFile(filename="call.wav", mime_type="audio/wav", data=b"wav")
NOTE = InputFile(filename="note.txt", mime_type="text/plain", data="Grüße".encode())
PAPER = InputFile(filename="paper.pdf", mime_type="application/pdf", data=b"pdf")
BYTES = InputFile(filename="odd.txt", mime_type="text/plain", data=b"\xff\xfe")


class TestChatCompletions(EndpointContract):
    make = staticmethod(chat_completions_agent)

    def test_files(self, server: ModelServer) -> None:
        """Each kind of file goes in the part that the protocol has for it."""
        files = (PICTURE, NOISE, NOTE, PAPER, BYTES)
        asyncio.run(self.line(server).send("What is this? SCENARIO:hello", files=files))
        assert server.requests[-1].body["messages"][0]["content"] == [
            {"type": "text", "text": "What is this? SCENARIO:hello"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
            {"type": "input_audio", "input_audio": {"data": "d2F2", "format": "wav"}},
            {"type": "text", "text": "note.txt:\nGrüße"},
            {"type": "file", "file": {"filename": "paper.pdf", "file_data": "data:application/pdf;base64,cGRm"}},
            {"type": "file", "file": {"filename": "odd.txt", "file_data": "data:text/plain;base64,//4="}},
        ]

    def test_the_request(self, server: ModelServer) -> None:
        """The system text, the effort, the schema and the tools stand where the protocol has them."""
        line = self.line(server, {"reasoning_effort": "low"}, system="Be brief.", tools=[look])
        asyncio.run(line.send("SCENARIO:json", output_schema=CITY))
        body: dict[str, Any] = server.requests[-1].body
        assert body["messages"][0] == {"role": "system", "content": "Be brief."}
        assert body["reasoning_effort"] == "low"
        assert body["stream_options"] == {"include_usage": True}
        assert body["response_format"]["json_schema"]["schema"] == CITY
        (told,) = body["tools"]
        assert (told["function"]["name"], told["function"]["description"]) == ("look", "Look somewhere.")
        assert told["function"]["parameters"]["required"] == ["where"]

    def test_what_goes_back(self, server: ModelServer) -> None:
        """Calls and results go back in pairs, in the protocol's own form."""
        asyncio.run(self.line(server, tools=[look]).send("SCENARIO:look"))
        _, assistant, result = server.requests[-1].body["messages"]
        (call,) = assistant["tool_calls"]
        assert (assistant["content"], call["function"]) == (
            "I look.",
            {"name": "look", "arguments": '{"where": "here"}'},
        )
        assert result == {"role": "tool", "tool_call_id": call["id"], "content": '{"seen": "here"}'}


def told(*answers: str | dict[str, Any], urls: list[str] | None = None) -> httpx2.MockTransport:
    """An endpoint that gives these answers, one for each request: an object, or the text of a stream."""
    coming = iter(answers)

    def answer(request: httpx2.Request) -> httpx2.Response:
        if urls is not None:
            urls.append(str(request.url))
        given = next(coming)
        if isinstance(given, str):
            return httpx2.Response(200, text=given, headers={"content-type": "text/event-stream; charset=utf-8"})
        return httpx2.Response(200, json=given)

    return httpx2.MockTransport(answer)


def completion(message: dict[str, Any], reason: str = "stop") -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": reason}
    return {"id": "c", "object": "chat.completion", "choices": [choice], "usage": None}


def wanted(arguments: str, id: str = "call_0") -> dict[str, Any]:
    return {"tool_calls": [{"id": id, "type": "function", "function": {"name": "look", "arguments": arguments}}]}


def line(transport: httpx2.MockTransport, url: Any = "http://desk/v1", **options: Any) -> Conversation:
    return Conversation(chat_completions_agent(url, api_key_env=None, transport=transport, **options))


def test_ids_that_come_again() -> None:
    """A server that numbers its calls anew in each answer has them told apart, and odd arguments fail the call."""
    answers = [
        completion(wanted('{"where": "here"}')),
        completion(wanted('{"where": "there"}')),
        completion(wanted("{broken")),
        completion({"content": "Done."}),
    ]
    turn = asyncio.run(line(told(*answers), tools=[look]).send("go"))
    assert [(output, status) for _, _, output, status in calls(turn)] == [
        ({"seen": "here"}, "completed"),
        ({"seen": "there"}, "completed"),
        ("the arguments are no JSON object", "failed"),
    ]
    assert said(turn) == ["Done."]


def test_an_answer_in_one_piece_and_odd_streams() -> None:
    """An endpoint may answer in one piece, and a stream with an error, or with what is no JSON, is a failed turn."""
    whole = asyncio.run(line(told(completion({"content": "Plain."}))).send("go"))
    assert (said(whole), whole.status) == (["Plain."], "completed")
    chunk = {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "Half"}}]}
    begun = f"data: {json.dumps(chunk)}\n\n"
    for rest in (
        'data: {"error": {"message": "overloaded"}}\n\n',
        "data: <html>\n\n",
        "data: [1]\n\n",
        "data: [DONE]\n\n",
    ):
        turn = asyncio.run(line(told(begun + rest)).send("go"))
        assert (said(turn), turn.status) == (["Half"], "failed"), rest
        assert (turn.evidence_coverage or {})["status"].level != "complete"


def test_addresses() -> None:
    """The protocol's path is added where it is missing, a query stays, and a callable is asked each time."""
    urls: list[str] = []
    given: list[Any] = [
        "http://desk/v1",
        "http://desk/v1/chat/completions/",
        "http://desk/d?api-version=2",
        lambda: "http://later/v1",
    ]
    for url in given:
        asyncio.run(line(told(completion({"content": "x"}), urls=urls), url).send("go"))
    assert urls == [
        "http://desk/v1/chat/completions",
        "http://desk/v1/chat/completions",
        "http://desk/d/chat/completions?api-version=2",
        "http://later/v1/chat/completions",
    ]


def test_data_after_tools() -> None:
    """Where data is wanted, an answer that calls tools first says nothing of it."""
    answers = [completion(wanted('{"where": "here"}')), completion({"content": '{"city": "Oslo"}'})]
    conversation = line(told(*answers), tools=[look])
    turn = asyncio.run(conversation.send("go", output_schema=CITY))
    assert (turn.data, conversation.said) == ({"city": "Oslo"}, [])
