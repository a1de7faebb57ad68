"""An OpenAI-compatible Chat Completions endpoint, driven through its adapter."""

from __future__ import annotations

import asyncio
from typing import Any

from niceeval.adapter import InputFile
from niceeval.adapters import chat_completions_agent
from niceeval.testing import ModelServer
from tests.unit.endpoint_contract import CITY, EndpointContract, look

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
