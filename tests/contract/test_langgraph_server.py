"""The adapter of LangGraph servers, against the real one: `langgraph dev`, from PyPI into a cache."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from niceeval.adapter import InputRequested, InputResponse, Message, Turn, derive_facts
from niceeval.adapters import langgraph_server_agent
from tests.contract.cli_installs import CliInstall, cached
from tests.unit.contexts import Conversation

pytestmark = pytest.mark.slow

SERVER = CliInstall("langgraph-cli", "0.4.40", "langgraph-cli[inmem]", "langgraph", python=(3, 11))
START_SECONDS = 180
"""The most that the server may take to answer."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that runs the graph beside this file."""
    command = cached(SERVER)
    folder = tmp_path_factory.mktemp("graphs")
    shutil.copy(Path(__file__).with_name("langgraph_graphs.py"), folder / "graphs.py")
    (folder / "langgraph.json").write_text('{"dependencies": ["."], "graphs": {"desk": "./graphs.py:desk"}}')
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, "LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGSMITH_TRACING": "false"}
    words = [command, "dev", "--no-browser", "--no-reload", "--port", str(port)]
    log = folder / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            words, cwd=folder, env=env, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True
        )
    try:
        _await(f"http://127.0.0.1:{port}/ok", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _await(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if json.load(answer).get("ok"):
                    return
        except (OSError, urllib.error.URLError, ValueError):
            time.sleep(0.2)
    pytest.skip(f"langgraph dev does not start here: {log.read_text(errors='replace')[-2000:]}")


def said(turn: Turn) -> list[str]:
    return [event.text for event in turn.events if isinstance(event, Message)]


def test_a_conversation(server: str) -> None:
    """Threads, usage, two approvals at once, and the model as a setting of the run."""

    async def body() -> None:
        agent = langgraph_server_agent(server, "desk", subagents={})
        conversation = Conversation(agent, model="m-1", flags={"dark": True})
        first = await conversation.send("hello")
        assert (said(first), first.status, first.evidence_coverage) == (["message 1"], "completed", None)
        assert first.usage is not None
        assert (first.usage.input_tokens, first.usage.cache_read_tokens, first.usage.output_tokens) == (6, 4, 2)
        waiting = await conversation.send("delete a b")
        asked = [event.request for event in waiting.events if isinstance(event, InputRequested)]
        assert (waiting.status, [request.input for request in asked]) == ("waiting", [{"path": "a"}, {"path": "b"}])
        done = await conversation.respond(
            InputResponse(request_id=asked[0].id, option_id="approve"),
            InputResponse(request_id=asked[1].id, text="it is needed"),
        )
        calls = derive_facts([*waiting.events, *done.events]).tool_calls
        assert [(call.status, call.output) for call in calls] == [
            ("completed", "a done"),
            ("rejected", "it is needed"),
        ]
        assert (done.status, said(done)) == ("completed", ["So: it is needed"])
        assert said(await Conversation(agent).send("hello")) == ["message 1"], "a new conversation is a new thread"

    asyncio.run(body())


def test_a_graph_that_breaks(server: str) -> None:
    """A node that raises fails the turn with what the server says; a context is taken instead of a config."""

    async def body() -> None:
        agent = langgraph_server_agent(server, "desk", subagents={}, context={"who": "me"})
        turn = await Conversation(agent, model="m-1").send("break")
        assert turn.status == "failed"
        assert "ValueError: no such desk" in str(turn.events)

    asyncio.run(body())
