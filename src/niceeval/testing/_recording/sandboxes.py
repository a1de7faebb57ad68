"""A sandbox that writes down what is asked of it, and one that answers from what was written down."""

from __future__ import annotations

import base64
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from niceeval._base import errors
from niceeval._base.errors import AdapterError, NiceevalError, SandboxError
from niceeval._model.sandbox import CommandResult, Sandbox
from niceeval.sandbox.building import OutputKeeper, shell_argv
from niceeval.testing._recording.recording import MAX_OUTPUT, PRIVATE, WORKDIR, Call, Hiding

OnText = Callable[[str], None] | None
T = TypeVar("T")
_ABOUT = 300


class RecordingSandbox:
    """Hands every call on to a real sandbox, and keeps what came of it in `calls`."""

    def __init__(self, sandbox: Sandbox, hide: Hiding) -> None:
        self.calls: list[Call] = []
        self._sandbox = sandbox
        self._hide = hide

    @property
    def workdir(self) -> str:
        return self._sandbox.workdir

    @property
    def sandbox_id(self) -> str:
        return self._sandbox.sandbox_id

    @property
    def private_dir(self) -> str:
        return self._sandbox.private_dir

    async def run_command(
        self, cmd: str, args: Sequence[str] = (), *, on_stdout: OnText = None, on_stderr: OnText = None, **options: Any
    ) -> CommandResult:
        call = self._begin("run_command", " ".join((cmd, *args)))
        out, err = _Tee(on_stdout), _Tee(on_stderr)
        made = self._sandbox.run_command(cmd, args, on_stdout=out, on_stderr=err, **options)
        result = await self._made(call, made)
        call.stdout, call.stderr = self._hide(out.text), self._hide(err.text)
        call.result = {
            "exit_code": result.exit_code,
            "timed_out": result.timed_out,
            "oom_killed": result.oom_killed,
        }
        return result

    async def run_shell(self, script: str, **options: Any) -> CommandResult:
        cmd, args = shell_argv(script)
        return await self.run_command(cmd, args, **options)

    async def read_file(self, path: str) -> str:
        return (await self.read_bytes(path)).decode("utf-8", "replace")

    async def read_bytes(self, path: str) -> bytes:
        call = self._begin("read_bytes", path)
        data = await self._made(call, self._sandbox.read_bytes(path))
        try:
            call.stdout = self._hide(data.decode("utf-8"))
        except UnicodeDecodeError:
            call.result = base64.b64encode(data).decode("ascii")
        return data

    async def write_files(self, files: Mapping[str, str | bytes], target_dir: str | None = None) -> None:
        call = self._begin("write_files", ", ".join(files))
        await self._made(call, self._sandbox.write_files(files, target_dir))

    async def upload_directory(
        self, local_dir: str | os.PathLike[str], target_dir: str | None = None, *, ignore: Sequence[str] = ()
    ) -> None:
        call = self._begin("upload_directory", str(target_dir or ""))
        await self._made(call, self._sandbox.upload_directory(local_dir, target_dir, ignore=ignore))

    async def download_directory(self, path: str, local_dir: str | os.PathLike[str]) -> None:
        raise _not_recorded("download_directory")

    async def file_exists(self, path: str) -> bool:
        call = self._begin("file_exists", path)
        found = await self._made(call, self._sandbox.file_exists(path))
        call.result = found
        return found

    async def end_processes(self) -> None:
        await self._sandbox.end_processes()

    async def stop(self) -> None:
        await self._sandbox.stop()

    def _begin(self, name: str, about: str) -> Call:
        call = Call(call=name, about=self._hide(about[:_ABOUT]))
        self.calls.append(call)
        return call

    async def _made(self, call: Call, made: Awaitable[T]) -> T:
        try:
            return await made
        except SandboxError as error:
            fields = {key: self._hide(str(value)) for key, value in error.fields.items()}
            call.error = {"class": type(error).__name__, "code": error.code, "fields": fields}
            raise


class _Tee:
    """A callback that keeps what it hands on."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._kept: list[str] = []
        self._size = 0

    @property
    def text(self) -> str:
        return "".join(self._kept)

    def __call__(self, text: str) -> None:
        if self._size < MAX_OUTPUT:
            self._kept.append(text)
            self._size += len(text)
        if self._on_text is not None:
            self._on_text(text)


class ReplayingSandbox:
    """Answers calls in the order in which they were recorded; nothing is run. Another call is an AdapterError."""

    def __init__(self, calls: Sequence[Call], folder: str) -> None:
        self._calls = calls
        self._folder = folder
        self._next = 0

    @property
    def workdir(self) -> str:
        return WORKDIR

    @property
    def sandbox_id(self) -> str:
        return "recording"

    @property
    def private_dir(self) -> str:
        return PRIVATE

    async def run_command(
        self, cmd: str, args: Sequence[str] = (), *, on_stdout: OnText = None, on_stderr: OnText = None, **_: Any
    ) -> CommandResult:
        call = self._answer("run_command", " ".join((cmd, *args)))
        if call.result is None:
            problem = f"a command that goes on across calls cannot be recorded ({call.about[:80]})"
            fix = "record agents whose commands end with their turn"
            raise AdapterError("recording", folder=self._folder, problem=problem, fix=fix)
        out, err = OutputKeeper(on_stdout), OutputKeeper(on_stderr)
        out.feed(call.stdout.encode("utf-8", "surrogatepass"))
        err.feed(call.stderr.encode("utf-8", "surrogatepass"))
        stdout, stderr = out.close(), err.close()
        for keeper in (out, err):
            if keeper.error is not None:
                raise keeper.error
        truncated = out.truncated or err.truncated
        return CommandResult(stdout=stdout, stderr=stderr, duration=0.0, truncated=truncated, **call.result)

    async def run_shell(self, script: str, **options: Any) -> CommandResult:
        cmd, args = shell_argv(script)
        return await self.run_command(cmd, args, **options)

    async def read_file(self, path: str) -> str:
        return (await self.read_bytes(path)).decode("utf-8", "replace")

    async def read_bytes(self, path: str) -> bytes:
        call = self._answer("read_bytes", path)
        return call.stdout.encode() if call.result is None else base64.b64decode(call.result)

    async def write_files(self, files: Mapping[str, str | bytes], target_dir: str | None = None) -> None:
        self._answer("write_files", ", ".join(files))

    async def upload_directory(
        self, local_dir: str | os.PathLike[str], target_dir: str | None = None, *, ignore: Sequence[str] = ()
    ) -> None:
        self._answer("upload_directory", str(target_dir or ""))

    async def download_directory(self, path: str, local_dir: str | os.PathLike[str]) -> None:
        raise _not_recorded("download_directory")

    async def file_exists(self, path: str) -> bool:
        return bool(self._answer("file_exists", path).result)

    async def end_processes(self) -> None:
        return None

    async def stop(self) -> None:
        return None

    def _answer(self, name: str, about: str) -> Call:
        call = self._calls[self._next] if self._next < len(self._calls) else None
        if call is None or call.call != name:
            recorded = "nothing more" if call is None else f"{call.call} ({call.about[:80]})"
            problem = f"the agent asks for {name} ({about[:80]}) where {recorded} was recorded"
            raise AdapterError("recording", folder=self._folder, problem=problem, fix="record it again")
        self._next += 1
        if call.error is not None:
            raise _error(call.error)
        return call


def _error(said: Mapping[str, Any]) -> NiceevalError:
    kind = getattr(errors, str(said["class"]), SandboxError)
    known = isinstance(kind, type) and issubclass(kind, SandboxError)
    return (kind if known else SandboxError)(str(said["code"]), **dict(said["fields"]))


def _not_recorded(name: str) -> AdapterError:
    problem = f"{name} cannot be recorded"
    return AdapterError("recording", folder="the sandbox", problem=problem, fix="read the files with read_bytes")
