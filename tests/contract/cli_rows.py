"""What is tried with every command-line agent: a real CLI in a real sandbox, against a scripted model."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import os
import re
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from niceeval._sandbox.labels import labels_of
from niceeval.adapter import Agent, AgentSession, SandboxAgentContext, Turn, TurnInput
from niceeval.backends import docker, local
from niceeval.sandbox import Mount, Sandbox, SandboxBackend, SandboxRequest, docker_sandbox, local_sandbox
from niceeval.testing import ModelServer, model_server
from niceeval.testing.scenarios import RECALL, Scenario, call, rate_limited, say, shell, write
from tests.contract.cli_installs import cache_folder, installed
from tests.docker_engine import ask, engine_address, image_for_tests, why_no_image

KEY = "scripted-key-8861"
KEY_VARIABLE = "NICEEVAL_TEST_MODEL_ACCESS"
MODEL = "scripted-model"
STARTED_WITHIN = 300.0
"""Seconds that a CLI may take until its first command runs; a busy machine is slow."""

CREATE = Scenario(
    "create", [call(write("note.txt", "hello\n"), text="I will write it.", thinking="A file."), say("Done.")]
)
FAILS = Scenario("fails", [call(shell("echo bad >&2; exit 3")), say("It failed.")])
TWO = Scenario("two", [call(shell("echo one"), shell("echo two")), say("Both ran.")])
PUSH = Scenario("push", [call(shell("git push origin main")), say("Not pushed.")])
LIMITED = Scenario("limited", [rate_limited(1, say("After the limit."))])
HANGS = Scenario("hangs", [call(shell("echo $$ > started; sleep 600; echo > ended")), say("Never said.")])
SCENARIOS = (CREATE, FAILS, TWO, PUSH, LIMITED, HANGS, RECALL)

USED_TWICE = {"inputTokens": 200, "outputTokens": 40}
USED_ONCE = {"inputTokens": 100, "outputTokens": 20}


@dataclass(frozen=True)
class Cli:
    """A CLI under test: how its agent is made from a command and a server, and what in its output varies."""

    name: str
    make: Callable[..., Agent]
    model: str | None = MODEL
    varies: tuple[tuple[str, str], ...] = ()


@dataclass
class Attempt:
    """One attempt in a sandbox, driven as the runner drives it."""

    cli: Cli
    agent: Agent
    sandbox: Sandbox
    server: ModelServer
    logs: list[str] = field(default_factory=list)
    diagnostics: list[tuple[str, str, str]] = field(default_factory=list)

    def context(self, session: AgentSession) -> SandboxAgentContext:
        return SandboxAgentContext(
            session=session,
            model=self.cli.model,
            reasoning_effort=None,
            flags={},
            experiment_id="cli",
            eval_id="rows",
            attempt=0,
            log=self.logs.append,
            progress=lambda message, **_: None,
            diagnostic=lambda code, level, message, data=None: self.diagnostics.append((code, level, message)),
            sandbox=self.sandbox,
        )

    async def send(self, text: str, session: AgentSession | None = None) -> Turn:
        """One turn; without a session, of a new one."""
        turn = await self.agent.send(TurnInput(text=text), self.context(session or AgentSession()))
        assert not self.server.unscripted, [request.problem for request in self.server.unscripted]
        return turn

    @property
    def codes(self) -> list[str]:
        """The diagnostics of turns, by their codes."""
        return [code for code, _, _ in self.diagnostics if code != "cli-version"]


@dataclass(frozen=True)
class Where:
    """A kind of sandbox: its backend, where the CLI's command is in it, and the address at which it reaches us."""

    open: Callable[[], Awaitable[SandboxBackend]]
    command: Callable[[str], str]
    host: str = "127.0.0.1"


def here(name: str) -> Where:
    """A temporary folder of this machine."""
    return Where(lambda: local.open_backend(local_sandbox()), installed)


def in_container(name: str) -> Where:
    """A container with node, in which the installed CLIs are mounted read-only; skips where there is no engine."""
    problem = why_no_image("full")
    if problem is not None:
        pytest.skip(problem)
    gateway = bridge_address()
    if gateway is None:
        pytest.skip("containers of this engine do not reach this machine at their bridge's address: use a local engine")
    spec = docker_sandbox(image=image_for_tests("full"), pull="never", mounts=_mounts(installed(name)), memory="4g")
    return Where(lambda: docker.open_backend(spec), installed, gateway)


PLACES = {"here": here, "container": in_container}
"""Where rows are tried: `place`, a fixture, sets which."""
PLACE: ContextVar[Callable[[str], Where]] = ContextVar("place", default=here)


def _mounts(program: str) -> list[Mount]:
    """The installations, at their own places since scripts name them, and what their programs are linked to: the image
    has only the libraries of its own."""
    folder = Path(program).parent.parent
    places = {str(cache_folder())}
    linked = [Path(program).resolve()]
    settings = folder / "pyvenv.cfg"
    if settings.exists():
        (home,) = re.findall(r"^home = (.*)$", settings.read_text("utf-8"), re.MULTILINE)
        base = Path(home).parent
        places.add(str(base))
        linked = [(folder / "bin" / "python").resolve(), *base.glob("lib/python3.*/lib-dynload/*.so")]
        linked += folder.glob("lib/python3.*/site-packages/**/*.so")
    said = subprocess.run(["ldd", *map(str, linked)], capture_output=True, text=True, check=False).stdout
    words = {word for word in said.split() if (word.startswith("/") and word.endswith((".so", ".2"))) or ".so." in word}
    libraries = {word for word in words if word.startswith("/") and os.path.exists(word)}
    pairs = [(place, place) for place in sorted(places)] + [
        (os.path.realpath(path), path) for path in sorted(libraries)
    ]
    return [Mount(source=source, target=target) for source, target in pairs]


def libraries_of(program: str) -> list[Mount]:
    """What an installed program is linked to, and the Python of one that has one, without the installation itself."""
    return [mount for mount in _mounts(program) if mount.target != str(cache_folder())]


def bridge_address() -> str | None:
    """This machine's address on the bridge of containers; None where the engine is another machine's."""
    status, said = ask(engine_address(), "GET", "/networks/bridge")
    settings = (json.loads(said)["IPAM"]["Config"] or [{}])[0] if status == 200 else {}
    address = settings.get("Gateway")
    if not address and settings.get("Subnet"):
        # Some engines say it only of networks that they were told to make.
        address = str(next(ipaddress.ip_network(settings["Subnet"]).hosts()))
    try:
        with socket.socket() as probe:
            probe.bind((address or "", 0))
    except OSError:
        return None
    return address


@contextlib.asynccontextmanager
async def attempt(
    cli: Cli, where: Where | None = None, *, scenarios: Sequence[Scenario] = SCENARIOS, **options: Any
) -> AsyncIterator[Attempt]:
    """An attempt of the CLI, its setup done, in the place that is tried."""
    where = where or PLACE.get()(cli.name)
    command = where.command(cli.name)
    os.environ[KEY_VARIABLE] = KEY
    backend = await where.open()
    async with model_server(*scenarios, models=(cli.model or MODEL,), host=where.host) as server:
        agent = cli.make(command, server, **options)
        sandbox = await backend.create(SandboxRequest(labels=labels_of(run="test", lifetime=3_600), lifetime=3_600))
        try:
            one = Attempt(cli, agent, sandbox, server)
            assert agent.teardown is not None
            if agent.setup is not None:
                await agent.setup(one.context(AgentSession()))
            try:
                yield one
            finally:
                await agent.teardown(one.context(AgentSession()))
        finally:
            await sandbox.stop()
            await backend.close()


def shown(turn: Turn, one: Attempt) -> list[dict[str, Any]]:
    """The turn's events in their JSON form, with what differs from run to run named: ids, the sandbox's folder."""
    events = msgspec.to_builtins(turn.events)
    ids: dict[str, str] = {}
    for event in events:
        if "callId" in event:
            event["callId"] = ids.setdefault(event["callId"], f"call-{len(ids) + 1}")
        for name in ("output", "message"):
            if isinstance(event.get(name), str):
                event[name] = _steady(event[name], one)
    return [{key: value for key, value in event.items() if value is not None} for event in events]


def parallel(turn: Turn, one: Attempt) -> list[tuple[str, str | None, str | None]]:
    """The events' types, calls and outputs of a turn in which calls ran at once: whichever ended first came first, so
    they are put in the order error, calls, results, messages. No result came before its call."""
    events = [(event["type"], event.get("callId"), event.get("output")) for event in shown(turn, one)]
    called: set[str | None] = set()
    for kind, call_id, _ in events:
        assert kind != "action.result" or call_id in called
        called.add(call_id)
    order = ("error", "action.called", "action.result", "message")
    return sorted(events, key=lambda event: (order.index(event[0]), event[1] or ""))


def _steady(text: str, one: Attempt) -> str:
    text = text.replace(one.sandbox.workdir, "WORKDIR")
    for pattern, instead in one.cli.varies:
        text = re.sub(pattern, instead, text)
    return text


def levels(turn: Turn, one: Attempt) -> dict[str, str]:
    """The channels that are not complete: what the agent declares, and what the turn makes worse."""
    declared: Mapping[str, Any] = dict(one.agent.evidence_coverage.items())
    found = {**declared, **(turn.evidence_coverage or {})}
    return {channel: coverage.level for channel, coverage in found.items() if coverage.level != "complete"}


def used(turn: Turn) -> dict[str, Any]:
    """The turn's usage in its JSON form, without what was 0 or not said."""
    usage = msgspec.to_builtins(turn.usage) if turn.usage is not None else {}
    return {key: value for key, value in usage.items() if value}


# The rows ---------------------------------------------------------------------------------------------------------


async def conversation(cli: Cli, **options: Any) -> tuple[list[Turn], Attempt]:
    """A turn that hits a rate limit and goes on, a second turn of the conversation, and a turn of a new one."""
    async with attempt(cli, **options) as one:
        session = AgentSession()
        limited = await one.send("My word is zebra. SCENARIO:limited", session)
        said = session.id
        assert said
        again = await one.send("SCENARIO:recall What did I say?", session)
        assert session.id == said
        new = await one.send("SCENARIO:recall What did I say?")
        assert all(request.sent_credential(KEY) for request in one.server.calls("limited"))
        assert KEY not in "\n".join(one.logs)
        # Files only: reading the pipe of a program that runs would wait for what it is told next.
        written = await one.sandbox.run_shell(
            f"find {one.sandbox.private_dir} . -type f -exec grep -lF {KEY} {{}} +", timeout=STARTED_WITHIN
        )
        assert written.stdout == ""
        return [limited, again, new], one


async def cancelled(cli: Cli, **options: Any) -> None:
    """A turn that is cancelled while its command runs: nothing of it lives on, nothing it would have done happens."""
    async with attempt(cli, **options) as one:
        sending = asyncio.create_task(one.send("SCENARIO:hangs please"))
        pid = await _started(one, sending)
        sending.cancel()
        done, _ = await asyncio.wait({sending}, timeout=STARTED_WITHIN)
        assert done
        assert sending.cancelled()
        left = await one.sandbox.run_shell(f"[ -e /proc/{pid} ] && echo alive")
        assert left.stdout == ""
        assert not await one.sandbox.file_exists("ended")


async def _started(one: Attempt, sending: asyncio.Task[Turn]) -> int:
    for _ in range(int(STARTED_WITHIN / 0.1)):
        if await one.sandbox.file_exists("started"):
            said = (await one.sandbox.read_file("started")).strip()
            if said:
                return int(said)
        assert not sending.done(), sending
        await asyncio.sleep(0.1)
    raise AssertionError("the command did not start")


def run(main: Any) -> Any:
    """Run a row."""
    return asyncio.run(main)
