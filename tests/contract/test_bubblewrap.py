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


SWAPS = """
use strict;
# renameat2(AT_FDCWD, "d", AT_FDCWD, "e", RENAME_EXCHANGE), for ever
my ($number) = @ARGV;
my ($one, $other) = ("d", "e");
open(my $ready, ">", "swapping") or die; close($ready);
while (1) { syscall($number + 0, -100, $one, -100, $other, 2) == 0 or die "renameat2: $!"; }
"""
RENAMEAT2 = {"x86_64": 316, "aarch64": 276}
"""The system call's number, by machine."""
ROUNDS = 100
"""How often each operation meets the swapping agent: without isolation some forty in a thousand got through."""


@pytest.mark.slow
@needs_bwrap
@pytest.mark.skipif(shutil.which("perl", path="/usr/bin") is None, reason="needs perl: apt-get install perl")
@pytest.mark.skipif(os.uname().machine not in RENAMEAT2, reason="the number of renameat2 here is not known")
def test_an_agent_that_swaps_a_folder_for_a_link_does_not_get_at_the_host(tmp_path: Path) -> None:
    """Whenever the link is there, an operation fails with a SandboxFileError; the host is not read and not written."""
    host = tmp_path / "host"
    host.mkdir()
    (host / "x").write_text("of the host")
    given = tmp_path / "given"
    given.mkdir()
    (given / "uploaded").write_text("given")
    count = {"done": 0, "refused": 0}

    async def tried(operation: Awaitable[object]) -> object:
        try:
            found = await operation
        except SandboxFileError:
            count["refused"] += 1
            return None
        count["done"] += 1
        return found

    async def body(sandbox: Sandbox) -> None:
        await sandbox.write_files({"d/x": "of the sandbox", "swaps.pl": SWAPS})
        number = RENAMEAT2[os.uname().machine]
        await sandbox.run_shell(
            f"ln -s '{host}' e; perl swaps.pl {number} > said 2>&1 & until [ -e swapping ]; do sleep 0.05; done"
        )
        for turn in range(ROUNDS):
            assert await tried(sandbox.read_file("d/x")) in (None, "of the sandbox")
            await tried(sandbox.write_files({f"d/written-{turn}": "x"}))
            if turn % 10 == 0:
                assert await tried(sandbox.file_exists("d/x")) in (None, True, False)
                await tried(sandbox.upload_directory(given, "d"))
                await tried(sandbox.download_directory("d", tmp_path / "got"))
        assert await sandbox.read_file("said") == "", "the agent did not swap to the end"

    within(body)
    assert sorted(os.listdir(host)) == ["x"]
    assert (host / "x").read_text() == "of the host"
    fetched = tmp_path / "got" / "x"
    assert not fetched.exists() or fetched.read_text() == "of the sandbox"
    assert count["done"] > 0
    assert count["refused"] > 0


@needs_bwrap
def test_an_agent_cannot_choose_what_the_next_command_is_given(tmp_path: Path) -> None:
    """The folders that every command is given cannot be moved, nor links to the host put in their place."""
    (tmp_path / "secret").write_text("of the host")

    async def body(sandbox: Sandbox) -> None:
        root = Path(sandbox.workdir).parent
        tops = [str(root / name) for name in ("tmp", "home", "private", "workspace")]
        if root.is_relative_to("/tmp"):
            tops.append(f"/tmp/{root.parts[2]}")
        for place in tops:
            script = 'mv "$1" "$1-moved"; rmdir "$1"; ln -sfn "$2" "$1"; rm -f "$1/${2##*/}"'
            await sandbox.run_command("sh", ["-c", script, "sh", place, str(tmp_path)], cwd="/")
            for folder in (place, "/tmp"):
                assert not await sandbox.file_exists(f"{folder}/secret")
                seen = await sandbox.run_command("cat", [f"{folder}/secret"], cwd="/")
                assert (seen.stdout, seen.exit_code) == ("", 1)
        await sandbox.write_files({"/tmp/new": "x", "new": "x"})

    within(body)
    assert os.listdir(tmp_path) == ["secret"]


@needs_bwrap
@pytest.mark.skipif(os.geteuid() != 0, reason="only root could have such rights")
def test_root_inside_is_not_root_of_the_machine() -> None:
    """Where niceeval is run as root, commands can neither mount nor make a device, as of the host's disk."""

    async def body(sandbox: Sandbox) -> None:
        assert (await sandbox.run_shell("mknod disk b 254 0")).exit_code != 0
        assert (await sandbox.run_shell("mkdir m && mount -t tmpfs none m")).exit_code != 0

    within(body)


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
