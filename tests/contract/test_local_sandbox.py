"""The local sandbox on this machine: the whole contract, and what is its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from niceeval.backends.local import open_backend, open_standing
from niceeval.sandbox import Sandbox, SandboxGoneError, SandboxRequest, local_sandbox
from niceeval.testing import check_sandbox_sync

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the local sandbox needs POSIX processes")

LIMIT = 60.0
"""Seconds that anything may take on the slowest machine."""
ORPHAN = "setsid sh -c 'echo $$ > orphan; exec sleep 300' & while [ ! -s orphan ]; do sleep 0.05; done"
"""Leaves a process with a session of its own, whose number is in the file `orphan`."""


def lacking() -> dict[str, str]:
    """What the user of this machine cannot show."""
    if os.geteuid() == 0:
        return {"non_root": "these tests run as root"}
    return {"root": "these tests do not run as root"}


@asynccontextmanager
async def opened(**options: object) -> AsyncIterator[Sandbox]:
    backend = await open_backend(local_sandbox(**options))  # type: ignore[arg-type]
    sandbox = await backend.create(SandboxRequest(labels={"niceeval.run": "test"}, lifetime=600))
    try:
        yield sandbox
    finally:
        await sandbox.stop()
        await backend.close()


@pytest.mark.slow
def test_it_keeps_the_contract() -> None:
    """Every check of the kit that this user can make passes."""
    report = check_sandbox_sync(local_sandbox(), lacks=lacking())
    report.raise_for_failures()
    assert len(report.passed) >= 120
    assert len(report.not_checked) == 2


def test_it_says_that_it_isolates_nothing() -> None:
    """The backend's description warns, for a run to say so."""

    async def body() -> None:
        backend = await open_backend(local_sandbox())
        assert "isolates nothing" in str(backend.description["warning"])

    asyncio.run(body())


def test_commands_have_no_keys_and_a_home_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this process's variables only harmless ones are passed on, and HOME is the sandbox's."""
    monkeypatch.setenv("SOME_VENDOR_API_KEY", "secret-of-the-host")

    async def body() -> None:
        async with opened(env={"GIVEN": "yes"}) as sandbox:
            seen = (await sandbox.run_command("env")).stdout
            assert "secret-of-the-host" not in seen
            assert "GIVEN=yes" in seen
            home = (await sandbox.run_shell('echo "$HOME"')).stdout.strip()
            assert home.startswith(str(Path(sandbox.workdir).parent))
            assert not home.startswith(sandbox.workdir)

    asyncio.run(body())


def test_stop_removes_what_was_made_read_only_and_kills_the_rest() -> None:
    """Nothing is left of a stopped sandbox: no folder, no process."""

    async def body() -> None:
        async with opened() as sandbox:
            await sandbox.run_shell("mkdir -p a/b && touch a/b/c && chmod 500 a/b a")
            await sandbox.run_shell(f"({ORPHAN}) > /dev/null 2>&1")
            root = Path(sandbox.workdir).parent
            orphan = int(await sandbox.read_file("orphan"))
            await sandbox.stop()
            assert not root.exists()
            assert not alive(orphan)
            with pytest.raises(SandboxGoneError):
                await sandbox.run_command("true")

    asyncio.run(body())


def test_a_command_that_kills_its_supervisor_is_dead_all_the_same() -> None:
    """What a killed supervisor leaves is found by its variable."""

    async def body() -> None:
        async with opened() as sandbox:
            result = await sandbox.run_shell(f"{ORPHAN}; kill -9 $PPID; sleep 300", timeout=LIMIT)
            assert result.exit_code == 137
            assert not alive(int(await sandbox.read_file("orphan")))
            assert (await sandbox.run_shell("echo on")).stdout == "on\n"

    asyncio.run(body())


BARE = """
env -i setsid /bin/sh -c 'echo $$ > bare; while :; do /bin/sleep 1; done' &
while [ ! -s bare ]; do sleep 0.05; done
"""


@pytest.mark.skipif(sys.platform != "linux", reason="orphans come back to a subreaper on Linux only")
@pytest.mark.parametrize("killed", ["$PPID", "$(cut -d' ' -f4 /proc/$PPID/stat)"], ids=["supervisor", "keeper"])
def test_a_command_that_kills_one_of_its_watchers_leaves_nothing_of_a_bare_environment(killed: str) -> None:
    """What has no variable to be found by goes to the other one."""

    async def body() -> None:
        async with opened() as sandbox:
            result = await sandbox.run_shell(f"{BARE}kill -9 {killed}; sleep 300", timeout=LIMIT)
            assert (result.exit_code, result.timed_out) == (137, False)
            assert not alive(int(await sandbox.read_file("bare")))
            assert (await sandbox.run_shell("echo on")).stdout == "on\n"

    asyncio.run(body())


ESCAPED = """
import asyncio, gc, os, signal
from niceeval.backends.local import open_backend
from niceeval.sandbox import SandboxRequest, local_sandbox

async def main():
    backend = await open_backend(local_sandbox())
    sandbox = await backend.create(SandboxRequest(labels={}, lifetime=600))
    try:
        await sandbox.run_shell(os.environ["SCRIPT"], timeout=60)
        return int(await sandbox.read_file("bare"))
    finally:
        await sandbox.stop()
        await backend.close()

bare = asyncio.run(main())
gc.collect()
try:
    os.killpg(bare, signal.SIGKILL)
except ProcessLookupError:
    pass
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a command finds its watchers in /proc")
def test_what_holds_the_output_open_after_all_makes_no_traceback() -> None:
    """A command that kills both of its watchers at once may escape; niceeval's own end is quiet."""
    script = f"{BARE}kill -9 -- -$(cut -d' ' -f5 /proc/$PPID/stat); sleep 300"
    done = subprocess.run(
        [sys.executable, "-c", ESCAPED],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        env={**os.environ, "SCRIPT": script},
    )
    assert (done.returncode, done.stderr) == (0, "")


KILLED = """
import asyncio, os, signal
from niceeval.backends.local import open_backend
from niceeval.sandbox import SandboxRequest, local_sandbox

async def main():
    backend = await open_backend(local_sandbox())
    sandbox = await backend.create(SandboxRequest(labels={"niceeval.run": "killed"}, lifetime=600))
    script = os.environ["SCRIPT"] + "; echo ready; sleep 300"
    def told(text):
        print(sandbox.sandbox_id, sandbox.workdir, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    await sandbox.run_shell(script, on_stdout=told)

asyncio.run(main())
"""


def test_a_killed_niceeval_leaves_no_process_and_a_folder_that_is_found() -> None:
    """The supervisors notice; the folder stands with its labels until it is removed."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        env={**os.environ, "SCRIPT": ORPHAN},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    sandbox_id, workdir = done.stdout.split()
    orphan = int((Path(workdir) / "orphan").read_text())
    deadline = time.monotonic() + LIMIT
    while alive(orphan) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(orphan)

    async def body() -> None:
        backend = await open_standing({})
        found = {standing.sandbox_id: standing for standing in await backend.standing()}
        assert found[sandbox_id].labels == {"niceeval.run": "killed"}
        assert (found[sandbox_id].expires_at or 0) > time.time()
        await backend.remove(sandbox_id)
        await backend.remove(sandbox_id)
        assert sandbox_id not in {standing.sandbox_id for standing in await backend.standing()}

    asyncio.run(body())
    assert not Path(workdir).exists()


@pytest.mark.parametrize("name", ["", ".", "..", "../..", "a/../../b"])
def test_nothing_outside_is_removed(name: str) -> None:
    """An id that is a path is none."""

    async def body() -> None:
        backend = await open_standing({})
        await backend.remove(name)

    before = Path(tempfile.gettempdir(), f"niceeval-local-{os.getuid()}")
    asyncio.run(body())
    assert before.is_dir()


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    if not os.path.isdir("/proc/self"):
        return subprocess.run(["kill", "-0", str(pid)], capture_output=True, check=False).returncode == 0
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
