"""The adapters of protocols against servers on sockets: streams as they come, and what a cancelled send leaves."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="pip install 'niceeval[dev]'")

import uvicorn

from niceeval.adapter import Agent, InputRequested, InputResponse, Message, Turn
from niceeval.adapters import a2a_agent, ag_ui_agent, langgraph_server_agent, ui_message_stream_agent
from tests.unit import a2a_app, graph_app, protocol_app
from tests.unit.contexts import Conversation

pytestmark = pytest.mark.slow

WAIT = 60.0
"""Seconds that anything may take that has to happen."""


@contextlib.contextmanager
def serving(make: Callable[[str], Any]) -> Iterator[str]:
    """The address of a server that runs what `make(address)` gives."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(make(url), log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield url
        finally:
            server.should_exit = True
            thread.join(WAIT)
    assert not thread.is_alive()


def said(turn: Turn) -> str:
    return " ".join(event.text for event in turn.events if isinstance(event, Message))


AGENTS: dict[str, tuple[Callable[[str], Any], Callable[[str], Agent]]] = {
    "ui": (lambda url: protocol_app.app(), lambda url: ui_message_stream_agent(f"{url}/ui")),
    "ag-ui": (lambda url: protocol_app.app(), lambda url: ag_ui_agent(f"{url}/ag-ui")),
    "langgraph": (lambda url: graph_app.app([]), lambda url: langgraph_server_agent(url, "desk", subagents={})),
}


@pytest.mark.parametrize("name", AGENTS)
def test_approvals(name: str) -> None:
    """A conversation with an approval and a refusal, over a socket."""
    make, agent_of = AGENTS[name]

    async def body(url: str) -> None:
        conversation = Conversation(agent_of(url))
        waiting = await conversation.send("delete a b")
        asked = [event.request for event in waiting.events if isinstance(event, InputRequested)]
        assert (waiting.status, len(asked)) == ("waiting", 2)
        done = await conversation.respond(
            InputResponse(request_id=asked[0].id, option_id="approve"),
            InputResponse(request_id=asked[1].id, text="it is needed"),
        )
        assert (done.status, "it is needed" in said(done)) == ("completed", True)
        assert "hello" in said(await conversation.send("hello"))

    with serving(make) as url:
        asyncio.run(body(url))


def test_a2a() -> None:
    """A task that asks, is answered, and gives an artifact in pieces in the next one, over a socket."""

    async def body(url: str) -> None:
        conversation = Conversation(a2a_agent(url))
        waiting = await conversation.send("order")
        (asked,) = [event.request for event in waiting.events if isinstance(event, InputRequested)]
        done = await conversation.respond(InputResponse(request_id=asked.id, text="the blue one"))
        assert said(done) == "On it. Ordered: the blue one"
        assert said(await conversation.send("big")) == "One two three."

    with serving(lambda url: a2a_app.app(url=url)) as url:
        asyncio.run(body(url))


class Endless:
    """A server that begins to answer and never ends: it says when a client has asked, and when it has gone."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.gone = asyncio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        port = writer.get_extra_info("sockname")[1]
        if head.startswith("GET"):
            card = a2a_app.card_json(f"http://127.0.0.1:{port}")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n")
            writer.write(f"content-length: {len(card)}\r\n\r\n".encode() + card)
            await writer.drain()
            writer.close()
            return
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: wait\n\n")
        await writer.drain()
        self.asked.set()
        with contextlib.suppress(ConnectionError):
            while await reader.read(65_536):
                pass
        self.gone.set()
        writer.close()


@pytest.mark.parametrize("name", [*AGENTS, "a2a"])
def test_a_cancelled_send(name: str) -> None:
    """A send that is cancelled while the answer comes closes its connection."""

    async def body() -> None:
        endless = Endless()
        server = await asyncio.start_server(endless.answer, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        agent = a2a_agent(url) if name == "a2a" else AGENTS[name][1](url)
        sending = asyncio.create_task(Conversation(agent).send("hello"))
        await asyncio.wait_for(endless.asked.wait(), WAIT)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await asyncio.wait_for(endless.gone.wait(), WAIT)
        server.close()

    asyncio.run(body())
