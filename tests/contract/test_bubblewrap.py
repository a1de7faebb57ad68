"""Isolated commands on this machine: the whole contract, and that they see nothing else."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from niceeval.backends.local import open_backend
from niceeval.sandbox import Sandbox, SandboxFileError, SandboxRequest, SandboxUnavailableError, local_sandbox
from niceeval.testing import check_sandbox_sync


def missing() -> str | None:
    """Why commands cannot be isolated here."""
    if shutil.which("bwrap") is None:
        return "bwrap is not installed: apt-get install bubblewrap"
    line = [
        "bwrap",
        "--unshare-pid",
        "--unshare-net",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "true",
    ]
    tried = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
    return None if tried.returncode == 0 else f"bwrap cannot isolate here: {tried.stderr.strip()[:200]}"


WHY = missing()
needs_bwrap = pytest.mark.skipif(WHY is not None, reason=str(WHY))


def within(body: Callable[[Sandbox], Awaitable[None]], *, network: bool = True) -> None:
    async def run() -> None:
        spec = local_sandbox(isolation="bubblewrap", network="bridge" if network else "none")
        backend = await open_backend(spec)
        sandbox = await backend.create(SandboxRequest(labels={}, lifetime=600))
        try:
            assert "warning" not in backend.description
            await body(sandbox)
        finally:
            await sandbox.stop()

    asyncio.run(run())


@pytest.mark.slow
@needs_bwrap
def test_it_keeps_the_contract() -> None:
    """Every check of the kit that this user can make passes."""
    user = "root" if os.geteuid() == 0 else "not root"
    lacks = {"non_root" if user == "root" else "root": f"these tests run as {user}"}
    report = check_sandbox_sync(local_sandbox(isolation="bubblewrap"), lacks=lacks)
    report.raise_for_failures()
    assert len(report.passed) >= 120


@needs_bwrap
def test_the_rest_of_the_machine_is_not_seen(tmp_path: Path) -> None:
    """No file of the host beside its programs, and none of those may be written."""
    (tmp_path / "secret").write_text("of the host")

    async def body(sandbox: Sandbox) -> None:
        seen = await sandbox.run_command("cat", [str(tmp_path / "secret")])
        assert (seen.stdout, seen.exit_code) == ("", 1)
        assert (await sandbox.run_shell("touch /usr/kit /etc/kit")).exit_code != 0
        assert (await sandbox.run_shell("ls /home /root /var 2>/dev/null")).stdout == ""
        assert not await sandbox.file_exists(str(tmp_path / "secret"))
        with pytest.raises(SandboxFileError):
            await sandbox.read_file(str(tmp_path / "secret"))

    within(body)


@needs_bwrap
def test_links_lead_the_eval_nowhere_else(tmp_path: Path) -> None:
    """A link of the agent's making cannot make the eval read or write a file of the host."""
    (tmp_path / "secret").write_text("of the host")

    async def body(sandbox: Sandbox) -> None:
        await sandbox.run_command("ln", ["-s", str(tmp_path / "secret"), "link"])
        await sandbox.run_command("ln", ["-s", str(tmp_path), "folder"])
        for path in ("link", "folder/secret", "folder/new"):
            with pytest.raises(SandboxFileError):
                await sandbox.read_file(path)
            with pytest.raises(SandboxFileError):
                await sandbox.write_files({path: "overwritten"})
            assert not await sandbox.file_exists(path)
        with pytest.raises(SandboxFileError):
            await sandbox.upload_directory(tmp_path, "folder")
        with pytest.raises(SandboxFileError):
            await sandbox.download_directory("folder", tmp_path / "out")

    within(body)
    assert (tmp_path / "secret").read_text() == "of the host"
    assert not (tmp_path / "new").exists()


@needs_bwrap
def test_temporary_files_are_the_sandbox_s_own() -> None:
    """/tmp is one folder for all commands of a sandbox and for its file operations, and none of the machine's."""

    async def body(sandbox: Sandbox) -> None:
        await sandbox.run_shell("echo mine > /tmp/niceeval-kit-file")
        assert (await sandbox.run_shell("cat /tmp/niceeval-kit-file")).stdout == "mine\n"
        assert await sandbox.read_file("/tmp/niceeval-kit-file") == "mine\n"

    within(body)
    assert not Path("/tmp/niceeval-kit-file").exists()


@needs_bwrap
def test_without_a_network_there_is_none() -> None:
    """Only the loopback is there."""

    async def body(sandbox: Sandbox) -> None:
        found = (await sandbox.run_command("cat", ["/proc/net/dev"])).stdout.splitlines()[2:]
        assert [line.split(":")[0].strip() for line in found] == ["lo"]

    within(body, network=False)


@needs_bwrap
def test_other_processes_are_not_seen() -> None:
    """A command sees only its own processes."""

    async def body(sandbox: Sandbox) -> None:
        assert (
            await sandbox.run_shell(f"kill -0 {os.getppid()} 2>/dev/null; ls -d /proc/[0-9]* | wc -l")
        ).stdout.strip() < "9"

    within(body)


def test_without_the_program_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error names bwrap, and what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailableError, match="bwrap is not installed") as raised:
        asyncio.run(open_backend(local_sandbox(isolation="bubblewrap")))
    assert "apt-get install bubblewrap" in str(raised.value.next_step())
