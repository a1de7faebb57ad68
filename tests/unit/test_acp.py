"""An agent that speaks the Agent Client Protocol, driven in a local sandbox."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from niceeval._base.errors import AdapterError, ProjectError
from niceeval._sandbox.labels import labels_of
from niceeval.adapter import (
    ActionCalled,
    ActionResult,
    AgentSession,
    InputRequested,
    InputResponse,
    Message,
    SandboxAgentContext,
    Thinking,
    Turn,
    TurnInput,
    Usage,
)
from niceeval.adapters import acp_agent
from niceeval.backends.local import open_backend
from niceeval.sandbox import Sandbox, SandboxRequest, local_sandbox

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="the local sandbox needs POSIX processes"),
]
COMMAND = [sys.executable, str(Path(__file__).with_name("acp_script.py"))]
LIMIT = 120.0
"""Seconds that one test may take on the slowest machine."""
USAGE = Usage(input_tokens=10, output_tokens=3, cache_read_tokens=4, reasoning_tokens=1)


class Attempt:
    """An attempt's sandbox and agent: `send` a text, or answers, on a line of its own or the first one."""

    def __init__(self, sandbox: Sandbox, **options: Any) -> None:
        self.said: list[tuple[str, str]] = []
        self.sandbox = sandbox
        self.line = AgentSession()
        self._agent = acp_agent(**{"command": COMMAND, "mode": "default", **options})

    async def send(self, text: str = "", *, line: AgentSession | None = None, **answers: str) -> Turn:
        responses = tuple(InputResponse(request_id=id, option_id=option) for id, option in answers.items())
        input = TurnInput(text=text, responses=responses)
        made: Any = self._agent.send(input, self._context(line or self.line))
        turn: Turn = await made
        return turn

    async def end(self) -> None:
        teardown: Any = self._agent.teardown
        await teardown(self._context(self.line))

    def _context(self, line: AgentSession) -> SandboxAgentContext:
        return SandboxAgentContext(
            session=line,
            model=None,
            reasoning_effort=None,
            flags={},
            experiment_id="e",
            eval_id="i",
            attempt=0,
            log=lambda message: None,
            progress=lambda message, *, current=None, total=None: None,
            diagnostic=lambda code, level, message, data=None: self.said.append((code, message)),
            sandbox=self.sandbox,
        )


def attempt(body: Callable[[Attempt], Awaitable[None]], **options: Any) -> None:
    """Run a test's body with a fresh sandbox, and end what it started."""

    async def run() -> None:
        async with asyncio.timeout(LIMIT), opened() as sandbox:
            one = Attempt(sandbox, **options)
            try:
                await body(one)
            finally:
                await one.end()

    asyncio.run(run())


@asynccontextmanager
async def opened() -> AsyncIterator[Sandbox]:
    backend = await open_backend(local_sandbox())
    sandbox = await backend.create(SandboxRequest(labels=labels_of(run="test", lifetime=600), lifetime=600))
    try:
        yield sandbox
    finally:
        await sandbox.stop()
        await backend.close()


def requests(turn: Turn) -> list[str]:
    """The ids of a turn's open requests."""
    return [event.request.id for event in turn.events if isinstance(event, InputRequested)]


def test_what_an_agent_says_and_thinks_is_one_message_each() -> None:
    """Chunks are put together, usage comes with the answer, and the agent's version is told."""

    async def body(it: Attempt) -> None:
        turn = await it.send("hello")
        assert turn.events == (Thinking(text="hm"), Message(role="assistant", text="Hello"))
        assert (turn.status, turn.usage) == ("completed", USAGE)
        assert it.said == [("cli-version", "scripted 1.2")]
        assert it.line.id == "s-1"

    attempt(body)


def test_tool_calls_have_their_input_and_their_outcome() -> None:
    """A call that worked and one that failed, with the canonical name of their kind."""

    async def body(it: Attempt) -> None:
        turn = await it.send("tools")
        assert turn.events == (
            ActionCalled(call_id="a", name="execute", input={"command": "echo a"}, tool="shell"),
            ActionResult(call_id="a", output="a", status="completed"),
            ActionCalled(call_id="b", name="execute", input={"command": "echo b"}, tool="shell"),
            ActionResult(call_id="b", output="no b", status="failed"),
            Message(role="assistant", text="done"),
        )

    attempt(body)


@pytest.mark.parametrize(("option", "status"), [("yes", "completed"), ("no", "rejected")])
def test_a_permission_is_asked_of_the_eval(option: str, status: str) -> None:
    """The turn waits with the agent's options; what is chosen decides, and a refusal is no failure."""

    async def body(it: Attempt) -> None:
        waiting = await it.send("ask")
        (event,) = [event for event in waiting.events if isinstance(event, InputRequested)]
        request = event.request
        assert (waiting.status, request.action, request.input) == ("waiting", "execute", {"command": "echo a"})
        assert [option.id for option in request.options or ()] == ["yes", "no"]
        done = await it.send(**{request.id: option})
        results = [event for event in done.events if isinstance(event, ActionResult)]
        assert [(result.call_id, result.status) for result in results] == [("a", status)]
        assert (done.status, done.events[-1]) == ("completed", Message(role="assistant", text="asked"))

    attempt(body)


def test_two_permissions_at_once_are_answered_each() -> None:
    """Both requests are in the waiting turn, and each answer goes to its own."""

    async def body(it: Attempt) -> None:
        waiting = await it.send("ask two")
        first, second = requests(waiting)
        done = await it.send(**{first: "yes", second: "no"})
        results = {event.call_id: event.status for event in done.events if isinstance(event, ActionResult)}
        assert results == {"a": "completed", "b": "rejected"}

    attempt(body)


@pytest.mark.parametrize(("permissions", "status"), [("allow", "completed"), ("deny", "rejected")])
def test_permissions_may_be_given_or_refused_without_asking(permissions: str, status: str) -> None:
    """The turn does not wait, and a refused call is `rejected`."""

    async def body(it: Attempt) -> None:
        turn = await it.send("ask")
        results = [event.status for event in turn.events if isinstance(event, ActionResult)]
        assert (turn.status, results) == ("completed", [status])

    attempt(body, permissions=permissions)


def test_a_new_text_drops_what_waits() -> None:
    """A send while a request is open cancels it, and is a turn of its own."""

    async def body(it: Attempt) -> None:
        assert (await it.send("ask")).status == "waiting"
        turn = await it.send("hello")
        assert turn.events[-1] == Message(role="assistant", text="Hello")

    attempt(body)


def test_a_line_goes_on_and_a_new_one_knows_nothing() -> None:
    """Two turns of a line share the conversation; another line has a process of its own."""

    async def body(it: Attempt) -> None:
        await it.send("hello")
        assert (await it.send("history")).events[-1] == Message(role="assistant", text="hello")
        other = await it.send("history", line=AgentSession())
        assert other.events[-1] == Message(role="assistant", text="nothing")

    attempt(body)


def test_an_agent_that_dies_leaves_what_it_had_said() -> None:
    """The turn is failed and partial, with the last that the agent complained of."""

    async def body(it: Attempt) -> None:
        turn = await it.send("die")
        assert turn.status == "failed"
        assert turn.events[0] == Message(role="assistant", text="so long")
        assert "out of cheese" in str(turn.events[-1])
        assert turn.evidence_coverage is not None
        assert {"events", "actions", "messages"} <= set(turn.evidence_coverage)

    attempt(body)


def test_what_is_not_known_lowers_the_evidence_and_what_is_not_offered_is_refused() -> None:
    """Unknown updates are counted, lines that are no JSON make the turn partial, file requests are answered by no."""

    async def body(it: Attempt) -> None:
        turn = await it.send("odd")
        assert turn.events[0] == ActionCalled(call_id="x", name="7", input={"title": ""}, tool=None)
        assert turn.events[-1] == Message(role="assistant", text="-32601")
        assert ("unknown-lines", "lines of kinds that are not known: brand_new (1)") in it.said
        assert "messages" in (turn.evidence_coverage or {})

    attempt(body)


@pytest.mark.parametrize(("prompt", "said"), [("refuse", "refusal"), ("error", "out of tokens")])
def test_a_turn_that_ends_badly_is_failed(prompt: str, said: str) -> None:
    """A refusal and an error of the protocol are the agent's failure, in words."""

    async def body(it: Attempt) -> None:
        turn = await it.send(prompt)
        assert turn.status == "failed"
        assert said in str(turn.events[-1])

    attempt(body)


def test_a_cancelled_turn_leaves_no_process() -> None:
    """What hangs is dead when the cancelled send has ended, with everything that it started."""

    async def body(it: Attempt) -> None:
        sending = asyncio.create_task(it.send("hang"))
        look = "until [ -s hanging ]; do sleep 0.1; done; cat hanging"
        pid = (await it.sandbox.run_shell(look, timeout=LIMIT)).stdout
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        left = await it.sandbox.run_shell(f"kill -0 {pid} && echo alive; ls ../private")
        assert "alive" not in left.stdout
        assert "acp-" not in left.stdout

    attempt(body)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"command": ["no-such-program"]}, "not found"),
        ({"mode": "other"}, "it refused session/set_mode"),
    ],
)
def test_an_agent_that_cannot_begin_is_an_error(options: dict[str, Any], said: str) -> None:
    """A program that is not there, or a mode that it does not have, is told with what to do."""

    async def body(it: Attempt) -> None:
        with pytest.raises(AdapterError, match=said):
            await it.send("hello")

    attempt(body, **options)


@pytest.mark.parametrize(
    "options", [{"command": []}, {"command": "gemini"}, {"command": ["x"], "permissions": "maybe"}]
)
def test_wrong_arguments_are_told_at_the_call(options: dict[str, Any]) -> None:
    """The factory names the argument that is wrong."""
    with pytest.raises(ProjectError):
        acp_agent(**options)
