"""A container as a sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from niceeval.backends.docker import _killing
from niceeval.backends.docker._container import PRIVATE_DIR, Options
from niceeval.backends.docker._engine import Engine, EngineRefused, refused, to_the_end
from niceeval.backends.docker._execs import (
    HELD_OPEN,
    Ended,
    Exec,
    attach,
    create_exec,
    exec_refused,
    start_problem,
    stop_reading,
    wait_for_end,
)
from niceeval.backends.docker._files import ContainerFiles
from niceeval.sandbox import CommandResult, SandboxError, SandboxGoneError, SandboxUnsupportedError
from niceeval.sandbox.building import (
    ByCommand,
    Command,
    OutputKeeper,
    checked_command,
    command_result,
    contents_of,
    not_started,
    resolve_path,
)

KILL_LIMIT = 30.0
"""Seconds that killing a command's processes one by one may take before the container is restarted."""
OWN_LIMIT = 20.0
"""Seconds that a command of niceeval's own, such as reading a counter, may take."""
COUNTER_TRIES = 10
"""Times that the counter of processes killed for memory is asked for."""
REMEMBERED = 100
"""Markers of commands that have ended which are kept, to spare what they have just left running."""
_ROOT = "0:0"
_NOT_STARTED = (126, 127, 255)


class DockerSandbox(ByCommand):
    """See `niceeval.sandbox.Sandbox`."""

    def __init__(self, engine: Engine, container: str, options: Options) -> None:
        self._engine = engine
        self._container = container
        self._options = options
        self._files = ContainerFiles(engine, container, options.uid, options.gid)
        self._left: set[Exec] = set()
        self._running: set[str] = set()
        self._ended: deque[str] = deque(maxlen=REMEMBERED)
        self._starting_or_killing = asyncio.Lock()
        self._memory_kills = 0
        self._was_root = False
        self._stopped = False
        self._stopping: asyncio.Task[None] | None = None

    @property
    def workdir(self) -> str:
        return self._options.workdir

    @property
    def sandbox_id(self) -> str:
        return self._container[:12]

    @property
    def private_dir(self) -> str:
        return PRIVATE_DIR

    async def run_command(
        self,
        cmd: str,
        args: Sequence[str] = (),
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        root: bool = False,
        stdin: str | bytes | None = None,
        timeout: float | None = None,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
    ) -> CommandResult:
        self._require_there()
        command = checked_command(self.workdir, cmd, args, cwd=cwd, env=env, root=root, stdin=stdin, timeout=timeout)
        self._was_root = self._was_root or root
        async with self._asked(f"running {cmd[:100]}"):
            return await self._run(cmd, command, OutputKeeper(on_stdout), OutputKeeper(on_stderr))

    async def read_bytes(self, path: str) -> bytes:
        self._require_there()
        async with self._asked(f"reading {path[:200]}"):
            return await self._files.read(resolve_path(self.workdir, path, doing="read"), path)

    async def write_files(self, files: Mapping[str, str | bytes], target_dir: str | None = None) -> None:
        self._require_there()
        contents = contents_of(files, self.workdir, target_dir)
        async with self._asked("writing files"):
            await self._files.write(contents)

    async def upload_directory(
        self, local_dir: str | os.PathLike[str], target_dir: str | None = None, *, ignore: Sequence[str] = ()
    ) -> None:
        self._require_there()
        where = resolve_path(self.workdir, target_dir or ".", doing="upload to")
        async with self._asked(f"uploading to {where[:200]}"):
            await self._files.upload(os.fspath(local_dir), where, ignore)

    async def download_directory(self, path: str, local_dir: str | os.PathLike[str]) -> None:
        self._require_there()
        where = resolve_path(self.workdir, path, doing="download")
        async with self._asked(f"downloading {where[:200]}"):
            await self._files.download(where, os.fspath(local_dir), path)

    async def file_exists(self, path: str) -> bool:
        self._require_there()
        async with self._asked(f"looking for {path[:200]}"):
            return await self._files.exists(resolve_path(self.workdir, path, doing="look for"))

    async def end_processes(self) -> None:
        self._require_there()
        async with self._asked("ending processes"):
            await to_the_end(self._end_all())

    async def stop(self) -> None:
        # Several may ask, and whoever asks is answered when it is done.
        self._stopped = True
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        try:
            await remove_container(self._engine, self._container)
        finally:
            left, self._left = self._left, set()
            for command in left:
                await stop_reading(command)

    async def _run(self, cmd: str, command: Command, out: OutputKeeper, err: OutputKeeper) -> CommandResult:
        async with self._marked() as marker:
            return await self._run_marked(cmd, command, marker, out, err)

    @asynccontextmanager
    async def _marked(self) -> AsyncIterator[str]:
        """A marker that counts as a running command's. None is given out while another command is being killed."""
        marker = uuid.uuid4().hex
        async with self._starting_or_killing:
            self._running.add(marker)
        try:
            yield marker
        finally:
            self._running.discard(marker)
            self._ended.append(marker)

    async def _run_marked(
        self, cmd: str, command: Command, marker: str, out: OutputKeeper, err: OutputKeeper
    ) -> CommandResult:
        kills_before = self._memory_kills
        exec_id = await self._create_exec(cmd, command, marker)
        began = time.monotonic()
        running: Exec | None = None
        feeding: asyncio.Task[None] | None = None
        ended: Ended | None = None
        try:
            async with asyncio.timeout(command.timeout) as limit:
                running = await attach(self._engine, exec_id, marker, out, err)
                if command.stdin is not None:
                    feeding = asyncio.create_task(running.exchange.feed(command.stdin))
                ended = await wait_for_end(self._engine, running)
        except TimeoutError:
            if not limit.expired():
                raise
            await to_the_end(self._kill(exec_id, marker, began, command.root))
        except (asyncio.CancelledError, SandboxError):
            await to_the_end(self._give_up(exec_id, marker, began, command.root, running))
            raise
        except EngineRefused as error:
            raise (await self._gone_or(error)) or exec_refused(cmd, error) from None
        finally:
            if feeding is not None:
                feeding.cancel()
        return await self._result(cmd, running, ended, out, err, time.monotonic() - began, kills_before)

    async def _create_exec(self, cmd: str, command: Command, marker: str) -> str:
        try:
            "\0".join((*command.argv, command.cwd, *command.env, *command.env.values())).encode()
        except UnicodeEncodeError:
            raise not_started(cmd, "an argument is no UTF-8 text", "give such bytes by stdin or a file") from None
        if command.stdin is not None and not self._engine.can_end_input:
            raise SandboxUnsupportedError(
                "sandbox-unsupported",
                backend="docker",
                problem="stdin over an encrypted connection",
                fix="write the input to a file, or reach the engine by a socket (`ssh -L`)",
            )
        body = self._exec_body(command.argv, marker, root=command.root)
        body |= {
            "AttachStdin": command.stdin is not None,
            "Env": [f"{name}={value}" for name, value in {**command.env, _killing.MARKER: marker}.items()],
            "WorkingDir": command.cwd,
        }
        try:
            return await create_exec(self._engine, self._container, body)
        except EngineRefused as error:
            raise (await self._gone_or(error)) or exec_refused(cmd, error) from None

    def _exec_body(self, argv: Sequence[str], marker: str, *, root: bool) -> dict[str, Any]:
        return {
            "AttachStdin": False,
            "AttachStdout": True,
            "AttachStderr": True,
            "Tty": False,
            "Cmd": list(argv),
            "Env": [f"{_killing.MARKER}={marker}"],
            "User": _ROOT if root else self._options.user,
        }

    async def _result(
        self,
        cmd: str,
        running: Exec | None,
        ended: Ended | None,
        out: OutputKeeper,
        err: OutputKeeper,
        duration: float,
        kills_before: int,
    ) -> CommandResult:
        if running is not None and running.draining is not None:
            await asyncio.wait({running.draining}, timeout=HELD_OPEN)
            running.over = True
            if ended is None:
                await stop_reading(running)
            elif not running.draining.done():
                self._left = {command for command in self._left if command.draining and not command.draining.done()}
                self._left.add(running)
        oom_killed = False
        if ended is not None and ended.exit_code != 0:
            oom_killed = await self._count_memory_kills() > kills_before
        result = command_result(
            out,
            err,
            exit_code=-1 if ended is None or ended.exit_code is None else ended.exit_code,
            duration=duration,
            timed_out=ended is None,
            oom_killed=oom_killed,
        )
        if ended is not None and not ended.ran and ended.exit_code in _NOT_STARTED:
            system = bytes(running.system).decode("utf-8", "replace") if running is not None else ""
            problem = start_problem(cmd, f"{system} {result.stdout} {result.stderr}")
            if problem is not None:
                raise problem
        return result

    async def _own(self, argv: Sequence[str], *, root: bool = False, limit: float = OWN_LIMIT) -> tuple[int, str]:
        """Run a command of niceeval's own: its exit code and its output. Raises EngineRefused, TimeoutError."""
        async with self._marked() as marker:
            return await self._exec_own(argv, marker, root=root, limit=limit)

    async def _exec_own(self, argv: Sequence[str], marker: str, *, root: bool, limit: float) -> tuple[int, str]:
        out = OutputKeeper(limit=65_536)
        async with asyncio.timeout(limit):
            exec_id = await create_exec(self._engine, self._container, self._exec_body(argv, marker, root=root))
            running = await attach(self._engine, exec_id, marker, out, out)
            try:
                ended = await wait_for_end(self._engine, running)
            finally:
                await stop_reading(running)
        return -1 if ended.exit_code is None else ended.exit_code, out.close()

    async def _count_memory_kills(self) -> int:
        """How many processes the kernel has killed for memory in this container. Raises SandboxGoneError."""
        said = ""
        for _ in range(COUNTER_TRIES):
            with contextlib.suppress(TimeoutError):
                said = await self._read_memory_kills()
            if said.endswith(_killing.READ):
                break
            # Where memory has just run out, what reads the counter may itself be killed.
            await asyncio.sleep(0.1)
        for line in said.splitlines():
            _, _, number = line.partition(" ")
            if line.startswith("oom_kill ") and number.strip().isdecimal():
                self._memory_kills = max(self._memory_kills, int(number))
        return self._memory_kills

    async def _read_memory_kills(self) -> str:
        try:
            _, said = await self._own(_killing.memory_kills())
        except EngineRefused as error:
            if (gone := await self._gone_or(error)) is not None:
                raise gone from None
            return ""
        return said.strip()

    async def _give_up(self, exec_id: str, marker: str, began: float, root: bool, running: Exec | None) -> None:
        if not self._stopped:
            await self._kill(exec_id, marker, began, root)
        if running is not None:
            await stop_reading(running)

    async def _kill(self, exec_id: str, marker: str, began: float, root: bool) -> None:
        """Kill all that a command started; returns when it is dead. Raises SandboxGoneError where the container is."""
        async with self._starting_or_killing:
            try:
                others = self._running - {marker}
                elapsed = time.monotonic() - began
                killing = _killing.kill_marked(marker, elapsed, others=others, earlier=self._ended)
                code, _ = await self._exec_own(killing, uuid.uuid4().hex, root=root, limit=KILL_LIMIT)
                if code == 0 and await self._has_ended(exec_id):
                    return
            except TimeoutError:
                # It starts processes faster than they are found, or none can be started to find them.
                pass
            except EngineRefused as error:
                if (gone := await self._gone_or(error)) is not None:
                    raise gone from None
            await self._restart()

    async def _has_ended(self, exec_id: str) -> bool:
        for _ in range(50):
            found = await self._engine.call("GET", f"/exec/{exec_id}/json")
            if not found.get("Running"):
                return True
            await asyncio.sleep(0.1)
        return False

    async def _end_all(self) -> None:
        try:
            # Root would kill what keeps the container running.
            if not self._was_root:
                code, _ = await self._own(_killing.kill_all())
                if code == 0:
                    return
        except TimeoutError:
            pass
        except EngineRefused as error:
            if (gone := await self._gone_or(error)) is not None:
                raise gone from None
        await self._restart()

    async def _restart(self) -> None:
        """End everything in the container at once; its files stay. Raises SandboxError."""
        try:
            await self._engine.call("POST", f"/containers/{self._container}/restart", {"t": "0"})
        except EngineRefused as error:
            raise (await self._gone_or(error)) or refused("restarting the container", error) from None

    @asynccontextmanager
    async def _asked(self, doing: str) -> AsyncIterator[None]:
        """What the engine refuses is said as what was being done; a container that has gone, as that."""
        try:
            yield
        except EngineRefused as error:
            raise (await self._gone_or(error)) or refused(doing, error) from None

    async def _gone_or(self, error: EngineRefused) -> SandboxGoneError | None:
        """The error of a container that is not there or does not run any more; None where it runs."""
        if self._stopped:
            return _gone("it was stopped")
        if error.status not in (404, 409, 500):
            return None
        try:
            found = await self._engine.call("GET", f"/containers/{self._container}/json")
        except EngineRefused as other:
            return _gone("its container was removed") if other.status == 404 else None
        state = found.get("State") or {}
        if state.get("Running"):
            return None
        if state.get("OOMKilled"):
            return _gone("its container was killed for memory", "give it more: memory=")
        code = state.get("ExitCode")
        if code == 0:
            return _gone("its container ended: its lifetime passed, or somebody stopped it")
        return _gone(f"its container ended with exit code {code}")

    def _require_there(self) -> None:
        if self._stopped:
            raise _gone("it was stopped")


def _gone(problem: str, fix: str = "make a new one") -> SandboxGoneError:
    return SandboxGoneError("sandbox-gone", backend="docker", problem=problem, fix=fix)


async def remove_container(engine: Engine, container: str) -> None:
    """Remove a container, running or not; one that has gone is no error. Raises SandboxError."""
    try:
        await engine.call("DELETE", f"/containers/{container}", {"force": "true", "v": "true"})
    except EngineRefused as error:
        if error.status == 404 or "in progress" in error.message:
            return
        raise refused("removing the container", error) from None
