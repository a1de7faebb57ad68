"""One command in a container: started, read, fed, and dead when it has to be."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

from niceeval.backends.docker._engine import Engine, EngineError, gone
from niceeval.backends.docker._frames import FrameReader
from niceeval.sandbox import CommandResult, SandboxError, SandboxGoneError
from niceeval.sandbox.building import Command, OutputKeeper, command_result, not_started

COMMAND = "NICEEVAL_COMMAND"
"""The variable that marks every process of a command."""
SANDBOX = "NICEEVAL_SANDBOX"
"""The variable that every process of the container has, unless it was started without an environment."""
FIRST_LOOK = 0.3
"""Seconds until it is asked whether a command has ended whose output is still open."""
NEXT_LOOK = 1.0
"""Seconds between the later times."""
HELD_OPEN = 0.3
"""Seconds that output is waited for after the command has ended, where what it left running holds it open."""
KILL_LIMIT = 30.0
"""Seconds that the killing command may take before the container is started anew."""
_START_FAILED = ("oci runtime exec failed", "oci runtime error", "oci runtime attempted", "unable to start container")

KILLER = f"""
marker=$1 alone=$2 rounds=0
while [ $rounds -lt 500 ]; do
  rounds=$((rounds + 1)) found=
  for place in $(grep -lF "$marker" /proc/[0-9]*/environ 2>/dev/null); do
    pid=${{place#/proc/}}; kill -9 "${{pid%/environ}}" 2>/dev/null && found=1
  done
  if [ "$alone" = yes ]; then
    for place in $(grep -LF "{SANDBOX}=" /proc/[0-9]*/environ 2>/dev/null); do
      pid=${{place#/proc/}} pid=${{pid%/environ}}
      [ "$pid" = 1 ] && continue
      read -r line 2>/dev/null < "/proc/$pid/stat" || continue
      case "$line" in *") Z "*) continue ;; esac
      kill -9 "$pid" 2>/dev/null && found=1
    done
  fi
  [ -n "$found" ] || exit 0
done
exit 1
"""
"""Kills what carries a marker, and, alone, what has cleared its environment, until a look finds none.

Run as the command's own user: root without CAP_KILL may not kill others.
"""


class Executor:
    """Runs the commands of one container."""

    def __init__(self, engine: Engine, container: str, *, user: str, path: str | None = None) -> None:
        self._engine = engine
        self._container = container
        self._user = user
        self._running: set[str] = set()

    async def run(
        self,
        command: Command,
        *,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
    ) -> CommandResult:
        """Run a command to its end or its limit; cancelled, its tree is dead when this returns."""
        execution = _Execution(self._engine, self._container, command, "0:0" if command.root else self._user)
        self._running.add(execution.marker)
        out, err = OutputKeeper(on_stdout), OutputKeeper(on_stderr)
        started, since = time.monotonic(), time.time()
        timed_out = False
        try:
            async with asyncio.timeout(command.timeout) as limit:
                code = await execution.run(out, err)
        except TimeoutError:
            if not limit.expired():
                raise
            code, timed_out = 137, True
            await self._shielded(self._kill(execution))
        except asyncio.CancelledError:
            await self._shielded(self._kill(execution))
            raise
        finally:
            self._running.discard(execution.marker)
        oom = code != 0 and not timed_out and await self._ran_out_of_memory(since)
        return command_result(
            out, err, exit_code=code, duration=time.monotonic() - started, timed_out=timed_out, oom_killed=oom
        )

    async def simple(self, argv: Sequence[str], *, root: bool = False, stdin: bytes | None = None) -> CommandResult:
        """A command of our own, in the container's root folder."""
        return await self.run(
            Command(argv=tuple(argv), cwd="/", env={}, stdin=stdin, timeout=KILL_LIMIT, root=root)
        )

    async def _kill(self, execution: _Execution) -> None:
        """Kill the command's tree; where that cannot be done inside, by starting the container anew."""
        alone = "yes" if self._running <= {execution.marker} else "no"
        argv = ("sh", "-c", KILLER, "sh", f"{COMMAND}={execution.marker}", alone)
        killer = _Execution(
            self._engine,
            self._container,
            Command(argv=argv, cwd="/", env={}, stdin=None, timeout=None, root=False),
            execution.user,
        )
        try:
            async with asyncio.timeout(KILL_LIMIT):
                if await killer.run(OutputKeeper(), OutputKeeper()) == 0:
                    return
        except SandboxGoneError:
            return
        except (TimeoutError, SandboxError):
            pass
        await self._engine.request("POST", f"/containers/{self._container}/restart", t=0)

    async def _shielded(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        cancelled = False
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                cancelled = True
        task.result()
        if cancelled:
            raise asyncio.CancelledError

    async def _ran_out_of_memory(self, since: float) -> bool:
        """Whether the kernel killed something of the container for memory meanwhile: the engine keeps such events."""
        try:
            response = await self._engine.request(
                "GET",
                "/events",
                since=int(since),
                until=int(time.time()) + 1,
                filters={"container": [self._container], "event": ["oom"]},
            )
        except SandboxError:
            return False
        return b'"oom"' in response.content


class _Execution:
    """One exec instance of the engine."""

    def __init__(self, engine: Engine, container: str, command: Command, user: str) -> None:
        self._engine = engine
        self._container = container
        self._command = command
        self.user = user
        self.marker = secrets.token_hex(12)

    async def run(self, out: OutputKeeper, err: OutputKeeper) -> int:
        """Its exit code. Raises SandboxCommandError where it could not be started."""
        command = self._command
        body = {
            "Cmd": list(command.argv),
            "Env": [*(f"{name}={value}" for name, value in command.env.items()), f"{COMMAND}={self.marker}"],
            "User": self.user,
            "WorkingDir": command.cwd,
            "AttachStdin": command.stdin is not None,
            "AttachStdout": True,
            "AttachStderr": True,
            "Tty": False,
        }
        made = await self._engine.json("POST", f"/containers/{self._container}/exec", body)
        id = str(made["Id"])
        head = bytearray()
        try:
            code, pid = await self._attached(id, out, err, head)
        except EngineError as error:
            if any(sign in error.said.lower() for sign in (*_START_FAILED, "executable file", "no such file")):
                raise not_started(command.argv[0], _start_problem(error.said, command.cwd)) from None
            raise
        text = head.decode("utf-8", "replace")
        if code in (126, 127) and (pid == 0 or self._engine.podman):
            said = text.lower()
            if any(sign in said for sign in _START_FAILED):
                raise not_started(command.argv[0], _start_problem(text, command.cwd))
        return code

    async def _attached(self, id: str, out: OutputKeeper, err: OutputKeeper, head: bytearray) -> tuple[int, int]:
        body = {"Detach": False, "Tty": False}
        async with self._engine.stream("POST", f"/exec/{id}/start", body, upgrade=True) as response:
            stream = response.extensions.get("network_stream")
            if response.status_code != 101 or stream is None:
                raise EngineError(response.status_code, "the engine gave no stream", fix="see the engine's log")
            reading = asyncio.create_task(_read(stream, out, err, head))
            feeding = asyncio.create_task(_feed(stream, self._command.stdin))
            looking = asyncio.create_task(self._look(id))
            try:
                await asyncio.wait({reading, looking}, return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    await asyncio.wait({reading}, timeout=HELD_OPEN)
            finally:
                for task in (reading, feeding, looking):
                    task.cancel()
                await asyncio.gather(reading, feeding, looking, return_exceptions=True)
        return await self._ended(id)

    async def _look(self, id: str) -> None:
        """Return when the command has ended: its output may stay open, held by what it left running."""
        await asyncio.sleep(FIRST_LOOK)
        while True:
            if not (await self._engine.json("GET", f"/exec/{id}/json"))["Running"]:
                return
            await asyncio.sleep(NEXT_LOOK)

    async def _ended(self, id: str) -> tuple[int, int]:
        """Its exit code and process id once it is over."""
        delay = 0.005
        while True:
            found = await self._engine.json("GET", f"/exec/{id}/json")
            if not found["Running"]:
                code = found.get("ExitCode")
                if code is None:
                    raise gone("the container ended while a command ran")
                return int(code), int(found.get("Pid") or 0)
            await asyncio.sleep(delay)
            delay = min(delay * 2, 0.5)


async def _read(stream: Any, out: OutputKeeper, err: OutputKeeper, head: bytearray) -> None:
    frames = FrameReader()
    while True:
        try:
            data = await stream.read(65_536)
        except OSError:
            return
        if not data:
            return
        for number, piece in frames.feed(data):
            if len(head) < 1_000:
                head += piece[:1_000]
            (err if number == 2 else out).feed(piece)


async def _feed(stream: Any, data: bytes | None) -> None:
    if data is None:
        return
    with contextlib.suppress(OSError):
        for start in range(0, len(data), 262_144):
            await stream.write(data[start : start + 262_144])
        # Only the half that is ours is closed: the command's output comes on the other.
        raw = stream.get_extra_info("socket")
        if raw is not None:
            raw.shutdown(socket.SHUT_WR)


def _start_problem(said: str, cwd: str) -> str:
    lowered = said.lower()
    if "chdir" in lowered or "cwd" in lowered or "working directory" in lowered:
        return f"its folder {cwd} cannot be used"
    if "permission denied" in lowered:
        return "permission denied"
    if "not found" in lowered or "no such file" in lowered:
        return "no such file or directory"
    return " ".join(said.split())[:300]
