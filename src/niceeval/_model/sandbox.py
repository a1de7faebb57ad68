"""The interfaces of sandboxes: where a sandbox agent's commands run, and who makes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Protocol

from niceeval._model.json_types import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What a command came to. `duration` in seconds; `truncated` says that output was cut.

    Each stream is kept to a bound, 1 MiB where the backend says nothing else. `timed_out`: its limit passed, and its
    whole process tree was killed; `exit_code` is then 124. `oom_killed`: the kernel killed it, or a child of it, for
    memory.
    """

    stdout: str
    stderr: str
    exit_code: int
    duration: float
    truncated: bool = False
    timed_out: bool = False
    oom_killed: bool = False


class Sandbox(Protocol):
    """An isolated file system with commands. Relative paths resolve to `workdir`, which is absolute."""

    @property
    def workdir(self) -> str:
        """Where the agent works: exists, is empty at first, and belongs to the user that commands run as."""
        ...

    @property
    def sandbox_id(self) -> str:
        """The backend's own id of it."""
        ...

    @property
    def private_dir(self) -> str:
        """An absolute folder outside `workdir` that is niceeval's own (the change ledger); exists."""
        ...

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
        """Run an argument vector, without a shell."""
        ...

    async def run_shell(
        self,
        script: str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        root: bool = False,
        stdin: str | bytes | None = None,
        timeout: float | None = None,
        on_stdout: Callable[[str], None] | None = None,
        on_stderr: Callable[[str], None] | None = None,
    ) -> CommandResult:
        """Run a bash script."""
        ...

    async def read_file(self, path: str) -> str: ...

    async def read_bytes(self, path: str) -> bytes: ...

    async def write_files(self, files: Mapping[str, str | bytes], target_dir: str | None = None) -> None: ...

    async def upload_directory(
        self, local_dir: str | PathLike[str], target_dir: str | None = None, *, ignore: Sequence[str] = ()
    ) -> None: ...

    async def download_directory(self, path: str, local_dir: str | PathLike[str]) -> None: ...

    async def file_exists(self, path: str) -> bool: ...

    async def end_processes(self) -> None:
        """Kill every process that commands of this sandbox left running, and return when they are dead.

        Only the backend can know which these are: on the local backend, the user's others are not.
        """
        ...

    async def stop(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """Which sandbox an experiment wants: plain data, made by a factory such as `docker_sandbox(...)`.

    `backend` is the module that knows how to make it, imported when the first one is needed; it defines
    `async def open_backend(spec) -> SandboxBackend`, and, where sandboxes of it can outlive niceeval,
    `async def open_standing(options) -> SandboxBackend`, which makes nothing: it looks at what stands there, removes
    and enters it. `options` is JSON; all of it counts for what a result depends on. `shown` is how people read it.
    `create` is a user's own factory (`define_sandbox`), whose source counts instead.
    """

    name: str
    backend: str
    options: Mapping[str, JsonValue]
    shown: str
    recommended_concurrency: int
    warm_pool: int = 0
    create: Callable[..., Awaitable[Sandbox]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRequest:
    """One sandbox, please. `labels` (`niceeval.run`, `niceeval.owner`, ...) go on it where the backend has labels.

    `lifetime` in seconds: how long it may be needed at most, after which anybody may remove it. `keep` says that it may
    be looked at after niceeval has ended.
    """

    labels: Mapping[str, str]
    lifetime: float
    keep: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingSandbox:
    """A sandbox that stands on a backend, whoever made it. `created_at`, `expires_at`: seconds since the epoch."""

    backend: str
    sandbox_id: str
    labels: Mapping[str, str]
    created_at: float | None = None
    expires_at: float | None = None
    detail: str = ""


class SandboxBackend(Protocol):
    """A backend opened for one spec, for the length of a run. Opening it has proved that sandboxes can be made.

    A backend that leaves something behind when niceeval is killed also has `standing` and `remove`; one that can be
    entered from a terminal has `enter_command`.
    """

    @property
    def description(self) -> Mapping[str, JsonValue]:
        """What is recorded of it, such as the digest that an image's tag resolved to. JSON."""
        ...

    async def create(self, request: SandboxRequest) -> Sandbox:
        """A new sandbox, ready for commands. Raises SandboxError; cancelled, it leaves nothing behind."""
        ...

    async def standing(self) -> Sequence[StandingSandbox]:
        """The sandboxes of niceeval that stand there now, of whatever run."""
        ...

    async def remove(self, sandbox_id: str) -> None:
        """Remove one, running or not. One that is gone already is no error."""
        ...

    def enter_command(self, sandbox_id: str) -> Sequence[str] | None:
        """The command that opens a shell in it on this machine's terminal; None where there is none."""
        ...

    async def close(self) -> None:
        """Release connections. Sandboxes that stand stay."""
        ...
