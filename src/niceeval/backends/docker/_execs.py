"""One command in a container: its output as it comes, its end, and what is done when it has to end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import Any

from niceeval.backends.docker._engine import Engine, EngineRefused
from niceeval.backends.docker._frames import STDERR, SYSTEM, FrameError, FrameParser
from niceeval.backends.docker._http import EngineLost, Exchange
from niceeval.sandbox import SandboxCommandError
from niceeval.sandbox.building import OutputKeeper, not_started

FIRST_LOOK = 0.1
"""Seconds until the engine is first asked whether a command has ended whose output goes on."""
LAST_LOOK = 0.8
"""Seconds between looks in the end."""
HELD_OPEN = 0.3
"""Seconds that output is waited for after the command has ended, where what it left running holds it open."""
END_LIMIT = 30.0
"""Seconds that the engine may take to know the end of a command whose output has ended, when it was killed."""
_RUNTIME_WORDS = (
    "OCI runtime",
    "oci runtime",
    "runtime exec failed",
    "crun:",
    "runc:",
    "unable to find user",
    "executable file",
)


@dataclass(slots=True, eq=False)
class Exec:
    """A command that has been started. `draining` reads its output, to the end also when nobody keeps it."""

    exec_id: str
    marker: str
    exchange: Exchange
    began: float = field(default_factory=time.monotonic)
    system: bytearray = field(default_factory=bytearray)
    draining: asyncio.Task[None] | None = None
    over: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a command. `exit_code` is None where the engine does not know it: its container has gone."""

    exit_code: int | None
    ran: bool


async def create_exec(engine: Engine, container: str, body: dict[str, Any]) -> str:
    """The id of a command that is not started yet. Raises EngineRefused, SandboxUnavailableError."""
    found = await engine.call("POST", f"/containers/{container}/exec", json_body=body)
    return str(found["Id"])


async def attach(engine: Engine, exec_id: str, marker: str, out: OutputKeeper, err: OutputKeeper) -> Exec:
    """Start it, and read its output. Raises EngineRefused, SandboxUnavailableError."""
    exchange = await engine.exchange(
        "POST",
        f"/exec/{exec_id}/start",
        body=b'{"Detach":false,"Tty":false}',
        headers={"Content-Type": "application/json", "Connection": "Upgrade", "Upgrade": "tcp"},
        limit=None,
    )
    command = Exec(exec_id, marker, exchange)
    command.draining = asyncio.create_task(_drain(command, out, err))
    return command


async def _drain(command: Exec, out: OutputKeeper, err: OutputKeeper) -> None:
    parser = FrameParser()
    try:
        async for data in command.exchange.body():
            for kind, part in parser.feed(data):
                if command.over:
                    continue
                if kind == SYSTEM:
                    command.system += part[:4096]
                else:
                    (err if kind == STDERR else out).feed(part)
    except (EngineLost, FrameError):
        # The engine, or the container, went away: whoever waits for the end asks the engine, which says so.
        return
    finally:
        command.exchange.close()


async def wait_for_end(engine: Engine, command: Exec) -> Ended:
    """Wait until the command itself has ended, whoever holds its output. Raises EngineRefused where it is unknown."""
    assert command.draining is not None
    pause = FIRST_LOOK
    while True:
        await asyncio.wait({command.draining}, timeout=pause)
        found = await engine.call("GET", f"/exec/{command.exec_id}/json")
        if not found.get("Running") and found.get("ExitCode") is not None:
            break
        # The end of the output comes a little before the engine knows that of the command.
        pause = min(pause * 2, LAST_LOOK)
        if command.draining.done():
            await asyncio.sleep(min(pause, 0.02 if pause <= 4 * FIRST_LOOK else 0.2))
    await asyncio.wait({command.draining}, timeout=HELD_OPEN)
    command.over = True
    return Ended(int(found["ExitCode"]), bool(found.get("Pid")))


async def stop_reading(command: Exec) -> None:
    """Drop the connection; what was read stays."""
    command.over = True
    if command.draining is not None:
        command.draining.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await command.draining
    command.exchange.close()


def start_problem(command: str, said: str) -> SandboxCommandError | None:
    """The error of a command that the runtime could not start, from its words; None where these are not its words."""
    text = " ".join(said.split())
    if not any(word in text for word in _RUNTIME_WORDS):
        return None
    low = text.lower()
    if "chdir" in low or "cwd" in low:
        return not_started(
            command, "its folder does not exist, or may not be entered", "correct cwd=, or make the folder"
        )
    if "permission denied" in low:
        return not_started(
            command, "it may not be executed", "make it executable (chmod +x), or run it by an interpreter"
        )
    if "exec format error" in low:
        return not_started(command, "it is no program for this machine", "correct its first line or its architecture")
    if "argument list too long" in low:
        return not_started(command, "its arguments are too long", "give the input by stdin or a file")
    if "not found" in low or "no such file" in low:
        return not_started(command, "it is not in the container")
    return not_started(command, text[:300], "see what the engine says")


def exec_refused(command: str, error: EngineRefused) -> SandboxCommandError:
    """The error of a command that the engine did not even take."""
    return start_problem(command, f"OCI runtime {error.message}") or not_started(command, error.message[:300])
