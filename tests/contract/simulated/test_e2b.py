"""E2B's sandboxes, through its SDK: only the service behind it is simulated, and runs its commands here."""

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
    e2b_sandbox,
)
from niceeval.testing import check_sandbox

pytest.importorskip("e2b", reason="the SDK of E2B is not installed: pip install 'niceeval[e2b]'")
needs_proc = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="needs /proc, as the machines of E2B have it"
)

from niceeval.backends import e2b as backend_module  # noqa: E402
from tests.contract.simulated.e2b_service import KEY, Service, serving  # noqa: E402
from tests.contract.simulated.here import LACKS  # noqa: E402

LABELS = {"niceeval": "1", "niceeval.run": "r1", "niceeval.owner": "somebody@host"}


@asynccontextmanager
async def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Service, SandboxBackend]]:
    """The service, and a backend that talks to it."""
    async with serving() as service:
        for name, value in {"E2B_API_KEY": KEY, "E2B_API_URL": service.url, "E2B_SANDBOX_URL": service.url}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(backend_module, "PRIVATE_PARENT", str(tmp_path))
        backend = await backend_module.open_backend(e2b_sandbox(template="mine", env={"GIVEN": "yes"}))
        yield service, backend
        await backend.close()


async def made(backend: SandboxBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int = 0) -> Sandbox:
    """A new sandbox, with a workdir of its own."""
    monkeypatch.setattr(backend_module, "WORKDIR", str(tmp_path / f"workspace-{number}"))
    return await backend.create(SandboxRequest(labels=LABELS, lifetime=7_200))


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
    """Labels and the template arrive, root is asked for by name, what stands is found and removed, and gone is gone."""

    async def check() -> None:
        async with opened(tmp_path, monkeypatch) as (service, backend):
            sandbox = await made(backend, tmp_path, monkeypatch)
            box = service.boxes[sandbox.sandbox_id]
            assert box.asked["metadata"] == LABELS
            assert box.asked["templateID"] == "mine"
            assert box.terms == [int(backend_module.TERM)]
            said = await sandbox.run_shell('printf "%s %s" "$GIVEN" "$PATH"', env={"PATH": "/mine:/usr/bin:/bin"})
            assert said.stdout == "yes /mine:/usr/bin:/bin"
            assert service.users == {""}
            await sandbox.run_command("true", root=True)
            assert service.users == {"", "root"}
            (standing,) = await backend.standing()
            assert (standing.sandbox_id, standing.labels) == (sandbox.sandbox_id, LABELS)
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
def test_a_running_command_sees_its_sandbox_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox that ends while a command runs is an error of that command, and no result."""

    async def check() -> None:
        async with opened(tmp_path, monkeypatch) as (service, backend):
            sandbox = await made(backend, tmp_path, monkeypatch)
            seen = asyncio.Event()
            running = asyncio.create_task(sandbox.run_shell("echo here; sleep 600", on_stdout=lambda _: seen.set()))
            await asyncio.wait_for(seen.wait(), 60)
            service.end(sandbox.sandbox_id)
            with pytest.raises(SandboxGoneError):
                await asyncio.wait_for(running, 60)

    asyncio.run(check())


@needs_proc
@pytest.mark.slow
def test_its_time_is_extended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a sandbox is in use its time is extended, also after the service refused it once."""

    async def check() -> None:
        monkeypatch.setattr(backend_module, "TERM", 3.0)
        async with opened(tmp_path, monkeypatch) as (service, backend):
            sandbox = await made(backend, tmp_path, monkeypatch)
            box = service.boxes[sandbox.sandbox_id]
            async with asyncio.timeout(120):
                while len(box.terms) < 3:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            service.refuse = (429, "too many requests")
            await asyncio.sleep(1.2)
            service.refuse, before = None, len(box.terms)
            async with asyncio.timeout(120):
                while len(box.terms) <= before:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert set(box.terms) == {3}
            await sandbox.stop()

    asyncio.run(check())


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, a wrong key and no SDK are errors that say what to do; a limit of the account is one too."""

    async def refused(kind: type[SandboxError]) -> str:
        with pytest.raises(kind) as caught:
            await backend_module.open_backend(e2b_sandbox())
        return f"{caught.value}; {caught.value.next_step()}"

    async def check() -> None:
        async with opened(tmp_path, monkeypatch) as (service, _):
            service.refuse = (429, "too many sandboxes")
            assert "lower max_concurrency" in await refused(SandboxError)
            service.refuse = None
            monkeypatch.setenv("E2B_API_KEY", "e2b_wrong")
            assert "correct E2B_API_KEY" in await refused(SandboxUnavailableError)
            monkeypatch.delenv("E2B_API_KEY")
            assert "E2B_API_KEY is not set" in await refused(SandboxUnavailableError)
            monkeypatch.setitem(sys.modules, "e2b", None)
            assert "pip install 'niceeval[e2b]'" in await refused(SandboxUnavailableError)

    asyncio.run(check())
