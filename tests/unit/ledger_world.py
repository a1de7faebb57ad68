"""A local sandbox with a workspace in it, and a Python view of its workdir: what is there, and what changed.

Tests run in it with the machine's own tools, and with busybox where it is installed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from niceeval._model.changes import Changes
from niceeval._sandbox.labels import labels_of
from niceeval._sandbox.workspace import Workspace
from niceeval.backends.local import open_backend
from niceeval.sandbox import CommandResult, DiffRules, Sandbox, SandboxRequest, local_sandbox

T = TypeVar("T")

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git: apt-get install git")


@dataclass(frozen=True)
class World:
    """One sandbox; `root` is its workdir on this machine."""

    sandbox: Sandbox
    workspace: Workspace
    root: Path

    async def agent(self, script: str) -> CommandResult:
        """A send in which the agent runs a script."""
        await self.workspace.before_send()
        ran = await self.run(script)
        await self.workspace.after_send()
        return ran

    async def run(self, script: str) -> CommandResult:
        """What anybody runs outside a send; it has to work."""
        ran = await self.sandbox.run_shell(script)
        assert ran.exit_code == 0, ran.stderr
        return ran


def in_world(
    test: Callable[[World], Awaitable[T]],
    *,
    tools: Path | None = None,
    rules: DiffRules | None = None,
    reusable: bool = False,
) -> T:
    """Run the test in a new world. `tools` is the folder of the only programs that are on the path."""

    async def run() -> T:
        backend = await open_backend(local_sandbox(env={} if tools is None else {"PATH": str(tools)}))
        try:
            sandbox = await backend.create(SandboxRequest(labels=labels_of(run="test", lifetime=600), lifetime=600))
            try:
                workspace = Workspace(sandbox, rules, reusable=reusable)
                return await test(World(sandbox, workspace, Path(sandbox.workdir)))
            finally:
                await sandbox.stop()
        finally:
            await backend.close()

    return asyncio.run(run())


def busybox_tools(folder: Path, *, git: bool = True) -> Path:
    """A folder with busybox's tools, bash, and git where it is wanted. Skips the test where there is no busybox."""
    busybox, bash = shutil.which("busybox"), shutil.which("bash")
    if busybox is None or bash is None:
        pytest.skip("needs busybox and bash: apt-get install busybox-static bash")
    assert busybox is not None
    assert bash is not None
    folder.mkdir()
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True, timeout=60).stdout.split()
    for applet in applets:
        (folder / applet).symlink_to(busybox)
    (folder / "bash").unlink(missing_ok=True)
    (folder / "bash").symlink_to(bash)
    if git:
        (folder / "git").symlink_to(shutil.which("git") or "git")
    return folder


def said(changes: Changes) -> dict[str, str | None]:
    """The changes in short: path to its text, `deleted`, or what else it is."""
    assert (changes.problem, changes.gap) == (None, None)
    found: dict[str, str | None] = {path: f"({file.kind})" for path, file in changes.stored.other_files.items()}
    found.update(dict.fromkeys(changes.stored.deleted_files, "(deleted)"))
    found.update(changes.stored.generated_files)
    return found


def is_executable(path: Path) -> bool:
    """Whether its owner may execute it."""
    return bool(stat.S_IMODE(os.lstat(path).st_mode) & stat.S_IXUSR)
