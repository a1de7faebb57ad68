"""The kit finds what is wrong: a sandbox that breaks one thing fails the check of it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from niceeval._base.errors import AuthorError
from niceeval.backends.local import open_backend
from niceeval.sandbox import CommandResult, Sandbox, SandboxError, SandboxRequest, define_sandbox, local_sandbox
from niceeval.testing import Report, check_sandbox, check_sandbox_sync
from niceeval.testing._sandbox import ending_checks, output_checks

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the local sandbox needs POSIX processes")


class Passing:
    """A sandbox that hands every call on to a good one."""

    def __init__(self, inner: Sandbox) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def run_shell(self, script: str, **options: Any) -> CommandResult:
        return await self.run_command("bash", ["-c", script], **options)

    async def run_command(self, cmd: str, args: Any = (), **options: Any) -> CommandResult:
        return await self.inner.run_command(cmd, args, **options)


class JoinsArguments(Passing):
    async def run_command(self, cmd: str, args: Any = (), **options: Any) -> CommandResult:
        return await self.inner.run_shell(" ".join([cmd, *(f"'{arg}'" for arg in args)]), **options)


class TellsByCode(Passing):
    async def run_command(self, cmd: str, args: Any = (), **options: Any) -> CommandResult:
        try:
            return await self.inner.run_command(cmd, args, **options)
        except SandboxError as error:
            return CommandResult(stdout=str(error), stderr="", exit_code=127, duration=0.0)


class RunsInRoot(Passing):
    async def run_command(self, cmd: str, args: Any = (), **options: Any) -> CommandResult:
        return await self.inner.run_command(cmd, args, **{**options, "cwd": options.get("cwd") or "/"})


class LosesEnvironment(Passing):
    async def run_command(self, cmd: str, args: Any = (), **options: Any) -> CommandResult:
        return await self.inner.run_command(cmd, args, **{**options, "env": None})


class LosesStdin(Passing):
    async def run_command(self, cmd: str, args: Any = (), **options: Any) -> CommandResult:
        return await self.inner.run_command(cmd, args, **{**options, "stdin": None})


class NoLimit(Passing):
    """Stops waiting at the limit, and leaves the command running."""

    async def run_command(self, cmd: str, args: Any = (), **options: Any) -> CommandResult:
        timeout = options.pop("timeout", None)
        running = asyncio.ensure_future(self.inner.run_command(cmd, args, **options))
        done, _ = await asyncio.wait({running}, timeout=timeout)
        if done:
            return running.result()
        return CommandResult(stdout="", stderr="", exit_code=124, duration=timeout, timed_out=True)


class ForgetsTimedOut(Passing):
    async def run_command(self, cmd: str, args: Any = (), **options: Any) -> CommandResult:
        result = await self.inner.run_command(cmd, args, **options)
        return CommandResult(
            stdout=result.stdout, stderr=result.stderr, exit_code=result.exit_code, duration=result.duration
        )


class RunsOnWhenCancelled(Passing):
    async def run_command(self, cmd: str, args: Any = (), **options: Any) -> CommandResult:
        return await asyncio.shield(self.inner.run_command(cmd, args, **options))


class MixesOutput(Passing):
    async def run_command(self, cmd: str, args: Any = (), **options: Any) -> CommandResult:
        result = await self.inner.run_command(cmd, args, **options)
        return CommandResult(
            stdout=result.stdout + result.stderr, stderr="", exit_code=result.exit_code, duration=result.duration
        )


class TellsAtTheEnd(Passing):
    async def run_command(self, cmd: str, args: Any = (), **options: Any) -> CommandResult:
        told = options.pop("on_stdout", None)
        result = await self.inner.run_command(cmd, args, **options)
        if told is not None:
            told(result.stdout)
        return result


class TidiesOutput(Passing):
    async def run_command(self, cmd: str, args: Any = (), **options: Any) -> CommandResult:
        result = await self.inner.run_command(cmd, args, **options)
        return CommandResult(
            stdout=result.stdout.rstrip("\n"),
            stderr=result.stderr,
            exit_code=result.exit_code,
            duration=result.duration,
            truncated=result.truncated,
            timed_out=result.timed_out,
        )


class RaisesOnFailure(Passing):
    async def run_command(self, cmd: str, args: Any = (), **options: Any) -> CommandResult:
        result = await self.inner.run_command(cmd, args, **options)
        if result.exit_code:
            raise RuntimeError(f"ended with {result.exit_code}")
        return result


class KillsBackground(Passing):
    async def run_command(self, cmd: str, args: Any = (), **options: Any) -> CommandResult:
        result = await self.inner.run_command(cmd, args, **options)
        await self.inner.end_processes()
        return result


class WritesText(Passing):
    async def write_files(self, files: Any, target_dir: str | None = None) -> None:
        texts = {
            path: (content if isinstance(content, str) else content.decode("utf-8", "replace")).replace("\r\n", "\n")
            for path, content in files.items()
        }
        await self.inner.write_files(texts, target_dir)


class QuotesPaths(Passing):
    """Writes with a shell, in quotes that a name may hold."""

    async def write_files(self, files: Any, target_dir: str | None = None) -> None:
        safe = {path: content for path, content in files.items() if "'" not in path}
        await self.inner.write_files(safe, target_dir)


class IgnoresTarget(Passing):
    async def write_files(self, files: Any, target_dir: str | None = None) -> None:
        await self.inner.write_files(files)


class ChangesMode(Passing):
    async def write_files(self, files: Any, target_dir: str | None = None) -> None:
        await self.inner.write_files(files, target_dir)
        for path in files:
            await self.inner.run_command("chmod", ["600", os.path.join(target_dir or ".", path)])


class MissingIsEmpty(Passing):
    async def read_bytes(self, path: str) -> bytes:
        try:
            return await self.inner.read_bytes(path)
        except SandboxError:
            return b""

    async def read_file(self, path: str) -> str:
        return (await self.read_bytes(path)).decode("utf-8", "replace")


class ExistsByName(Passing):
    async def file_exists(self, path: str) -> bool:
        return (await self.inner.run_command("ls", ["-d", "--", path])).exit_code == 0


class FollowsLinks(Passing):
    async def upload_directory(self, local_dir: Any, target_dir: str | None = None, *, ignore: Any = ()) -> None:
        copied = Path(f"{local_dir}-copied")
        shutil.copytree(local_dir, copied, ignore_dangling_symlinks=True)
        await self.inner.upload_directory(copied, target_dir, ignore=ignore)


class IgnoresNothing(Passing):
    async def upload_directory(self, local_dir: Any, target_dir: str | None = None, *, ignore: Any = ()) -> None:
        await self.inner.upload_directory(local_dir, target_dir)


class DropsModes(Passing):
    async def upload_directory(self, local_dir: Any, target_dir: str | None = None, *, ignore: Any = ()) -> None:
        await self.inner.upload_directory(local_dir, target_dir, ignore=ignore)
        await self.inner.run_command("chmod", ["-R", "a-x,a+X", target_dir or "."])
        await self.inner.run_shell(f"find '{target_dir or '.'}' -type f -exec chmod a-x '{{}}' +")


class LetsLinksOut(Passing):
    async def download_directory(self, path: str, local_dir: Any) -> None:
        await self.inner.download_directory(path, local_dir)
        (Path(local_dir) / "absolute").symlink_to("/etc/passwd")


class StopsOnce(Passing):
    stopped = False

    async def stop(self) -> None:
        if self.stopped:
            raise RuntimeError("stopped already")
        self.stopped = True
        await self.inner.stop()


class LeavesProcesses(Passing):
    async def end_processes(self) -> None:
        return None


class PrivateInside(Passing):
    @property
    def private_dir(self) -> str:
        return f"{self.inner.workdir}/.private"


class OneForAll(Passing):
    """Gives the same sandbox each time."""


BROKEN: dict[type[Passing], str] = {
    JoinsArguments: "argv-exact",
    TellsByCode: "start-missing",
    RunsInRoot: "cwd-default",
    LosesEnvironment: "env-given",
    LosesStdin: "stdin-text",
    NoLimit: "timeout-child",
    ForgetsTimedOut: "timeout-result",
    RunsOnWhenCancelled: "cancel-child",
    MixesOutput: "output-apart",
    TellsAtTheEnd: "callback-live",
    TidiesOutput: "output-exact",
    RaisesOnFailure: "exit-code",
    KillsBackground: "background-lives",
    WritesText: "write-bytes",
    QuotesPaths: "path-awkward",
    IgnoresTarget: "target-relative",
    ChangesMode: "write-mode-new",
    MissingIsEmpty: "read-missing",
    ExistsByName: "exists-link",
    FollowsLinks: "upload-links",
    IgnoresNothing: "upload-ignored",
    DropsModes: "upload-modes",
    LetsLinksOut: "download-escapes",
    StopsOnce: "stop-twice",
    LeavesProcesses: "end-processes",
    PrivateInside: "private-outside",
    OneForAll: "two-apart",
}
"""What breaks what, and the check that has to notice it."""


def making(kind: type[Passing], made: list[Sandbox]) -> Callable[[], Awaitable[Sandbox]]:
    """A factory of broken sandboxes; all that it has made are in `made`."""

    async def make() -> Any:
        if kind is OneForAll and made:
            return kind(made[0])
        backend = await open_backend(local_sandbox())
        made.append(await backend.create(SandboxRequest(labels={}, lifetime=600)))
        return kind(made[-1])

    return make


async def tried(kind: type[Passing], *checks: str) -> Report:
    made: list[Sandbox] = []
    try:
        return await check_sandbox(making(kind, made), only=checks)
    finally:
        for sandbox in made:
            await sandbox.stop()


@pytest.mark.parametrize(("kind", "check"), BROKEN.items(), ids=lambda value: getattr(value, "__name__", value))
def test_a_broken_sandbox_fails_its_check(kind: type[Passing], check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check fails, says what it saw and what to do. What comes too late for it comes never: waits are short."""
    monkeypatch.setattr(output_checks, "LIVE_LIMIT", 3.0)
    monkeypatch.setattr(ending_checks, "BEGIN_LIMIT", 3.0)
    found = asyncio.run(tried(kind, check))[check]
    assert found.outcome == "failed"
    assert found.seen
    assert found.next


@pytest.mark.slow
def test_a_good_sandbox_passes_the_same_checks() -> None:
    """It is what is broken that fails them, and not that calls are handed on."""
    asyncio.run(tried(Passing, *BROKEN.values())).raise_for_failures()


def test_what_is_lacking_is_not_checked_and_says_why() -> None:
    """The reason that the caller gave is in the report, and is no failure."""
    report = check_sandbox_sync(
        local_sandbox(), lacks={"symlinks": "the file system has none"}, only=("read-link", "read-empty")
    )
    assert [finding.outcome for finding in report] == ["passed", "not checked"]
    assert "the file system has none" in str(report)
    assert str(report).startswith("sandbox local: 1 passed, 0 failed, 1 not checked")
    report.raise_for_failures()


def test_without_root_it_has_to_refuse() -> None:
    """Who says that there is no root is held to the error of it."""
    report = asyncio.run(
        check_sandbox(
            define_sandbox(name="mine", create=_ignoring_root), lacks={"root": "none"}, only=("root-refused",)
        )
    )
    assert report["root-refused"].outcome == "failed"


async def _ignoring_root(*, timeout: float, runtime: object) -> Any:
    class IgnoresRoot(Passing):
        async def run_command(self, cmd: str, args: Any = (), **options: Any) -> CommandResult:
            return await self.inner.run_command(cmd, args, **{**options, "root": False})

    backend = await open_backend(local_sandbox())
    return IgnoresRoot(await backend.create(SandboxRequest(labels={}, lifetime=timeout)))


@pytest.mark.parametrize("options", [{"lacks": {"wings": "x"}}, {"only": ("no-such",)}, {"parallel": 0}])
def test_arguments_are_checked(options: dict[str, Any]) -> None:
    """What the kit does not know is said before anything is made."""
    with pytest.raises(AuthorError):
        check_sandbox_sync(local_sandbox(), **options)
