"""The interface of a sandbox: where a sandbox agent's commands run. No backend is part of this version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What a command came to. `duration` in seconds; `truncated` says that output was cut at its bound."""

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
    def workdir(self) -> str: ...

    @property
    def sandbox_id(self) -> str: ...

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

    async def stop(self) -> None: ...
