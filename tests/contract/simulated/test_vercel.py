"""Vercel's sandboxes, through its SDK: only the service behind it is simulated, and runs its commands here."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from niceeval.sandbox import (
    Sandbox,
    SandboxBackend,
    SandboxError,
    SandboxGoneError,
    SandboxRequest,
    SandboxUnavailableError,
    vercel_sandbox,
)
from niceeval.testing import check_sandbox

options = pytest.importorskip(
    "vercel.sandbox._internal.options", reason="the SDK of Vercel is not installed: pip install 'niceeval[vercel]'"
)
needs_proc = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="needs /proc, as the machines of Vercel have it"
)

from niceeval.backends import vercel as backend_module  # noqa: E402
from tests.contract.simulated.here import LACKS  # noqa: E402
from tests.contract.simulated.vercel_service import KEYS, Service, serving  # noqa: E402

LABELS = {"niceeval": "1", "niceeval.run": "r1", "niceeval.owner": "somebody@host", "niceeval.expires": "1900000000"}


@asynccontextmanager
async def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Service, SandboxBackend]]:
    """The service, and a backend that talks to it."""
    async with serving() as (service, url):
        for name, value in KEYS.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(options, "DEFAULT_SANDBOX_API_BASE_URL", url)
        monkeypatch.setattr(backend_module, "PRIVATE_PARENT", str(tmp_path))
        backend = await backend_module.open_backend(vercel_sandbox(snapshot_id="snap_mine", env={"GIVEN": "yes"}))
        yield service, backend
        await backend.close()


async def made(backend: SandboxBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int = 0) -> Sandbox:
    """A new sandbox, with a workdir of its own."""
    monkeypatch.setattr(backend_module, "WORKDIR", str(tmp_path / f"workspace-{number}"))
    labels = LABELS | {"niceeval.attempt": "not a tag"}
    return await backend.create(SandboxRequest(labels=labels, lifetime=7_200))


@needs_proc
@pytest.mark.slow
def test_the_whole_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every check of the kit passes through the real SDK."""

    async def check() -> None:
        async with opened(tmp_path, monkeypatch) as (_, backend):
            numbers = iter(range(1_000))

            async def make() -> Sandbox:
                return await made(backend, tmp_path, monkeypatch, next(numbers))

            report = await check_sandbox(make, lacks=LACKS)
            report.raise_for_failures()
            assert len(report.passed) >= 110

    asyncio.run(check())


@needs_proc
@pytest.mark.slow
def test_labels_users_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels and the snapshot arrive, root is asked for, what stands is found and removed, and gone is gone."""

    async def check() -> None:
        async with opened(tmp_path, monkeypatch) as (service, backend):
            sandbox = await made(backend, tmp_path, monkeypatch)
            asked = service.boxes[sandbox.sandbox_id].asked
            assert asked["tags"] == LABELS
            assert asked["source"] == {"type": "snapshot", "snapshotId": "snap_mine"}
            assert (asked["timeout"], asked["persistent"]) == (int(backend_module.TERM * 1_000), False)
            said = await sandbox.run_shell('printf "%s %s" "$GIVEN" "$MORE"', env={"MORE": "here"})
            assert said.stdout == "yes here"
            assert service.roots == {False}
            await sandbox.run_command("true", root=True)
            assert service.roots == {False, True}
            (standing,) = await backend.standing()
            assert (standing.sandbox_id, standing.labels) == (sandbox.sandbox_id, LABELS)
            assert standing.expires_at == 1_900_000_000
            await backend.remove(sandbox.sandbox_id)
            await backend.remove(sandbox.sandbox_id)
            assert await backend.standing() == []
            with pytest.raises(SandboxGoneError):
                await sandbox.run_command("true")
            with pytest.raises(SandboxGoneError):
                await sandbox.write_files({"a": "b"})
            await sandbox.stop()

    asyncio.run(check())


@needs_proc
@pytest.mark.slow
def test_an_ended_session_is_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session whose time is over is an error of the command that runs and of the next; no empty one is begun."""

    async def check() -> None:
        monkeypatch.setattr(backend_module, "TERM", 6.0)
        async with opened(tmp_path, monkeypatch) as (service, backend):
            sandbox = await made(backend, tmp_path, monkeypatch)
            box = service.boxes[sandbox.sandbox_id]
            async with asyncio.timeout(120):
                while len(box.added) < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert sum(box.added) > 2_000
            seen = asyncio.Event()
            running = asyncio.create_task(sandbox.run_shell("echo here; sleep 600", on_stdout=lambda _: seen.set()))
            await asyncio.wait_for(seen.wait(), 60)
            service.end(sandbox.sandbox_id)
            with pytest.raises(SandboxGoneError):
                await asyncio.wait_for(running, 60)
            with pytest.raises(SandboxGoneError):
                await sandbox.run_command("true")
            assert box.stopped
            await sandbox.stop()
            assert service.boxes == {}

    asyncio.run(check())


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, a wrong key and no SDK are errors that say what to do; a limit of the account is one too."""

    async def refused(kind: type[SandboxError]) -> str:
        with pytest.raises(kind) as caught:
            await backend_module.open_backend(vercel_sandbox())
        return f"{caught.value}; {caught.value.next_step()}"

    async def check() -> None:
        async with opened(tmp_path, monkeypatch) as (service, _):
            service.refuse = (402, "payment required")
            assert "lower max_concurrency" in await refused(SandboxError)
            service.refuse = None
            monkeypatch.setenv("VERCEL_API_TOKEN", "wrong")
            assert "correct VERCEL_API_TOKEN" in await refused(SandboxUnavailableError)
            monkeypatch.delenv("VERCEL_TEAM_ID")
            assert "set VERCEL_TEAM_ID" in await refused(SandboxUnavailableError)
            monkeypatch.setitem(sys.modules, "vercel.sandbox", None)
            assert "pip install 'niceeval[vercel]'" in await refused(SandboxUnavailableError)

    asyncio.run(check())
