"""Daytona's sandboxes through the real SDK, against a service that answers as Daytona's: not run live."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from niceeval.sandbox import (
    SandboxBackend,
    SandboxGoneError,
    SandboxRequest,
    SandboxUnavailableError,
    SandboxUnsupportedError,
    daytona_sandbox,
)
from niceeval.testing import check_sandbox
from tests.contract.simulated.daytona_service import KEY, Service, serving
from tests.journey.sandbox_project import AGENT
from tests.journey.whole_runs import command, environment, project

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("daytona") is None, reason="the SDK is missing: pip install 'niceeval[daytona]'"
    ),
    pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="its simulated machines need /proc"),
]
CLOUD = """
from adapters.shell import shell_agent
from niceeval import define_experiment
from niceeval.sandbox import daytona_sandbox

experiment = define_experiment(agent=shell_agent(), sandbox=daytona_sandbox())
"""
ONE = """
from niceeval import define_eval

@define_eval()
async def one(t):
    await t.send("true")
"""
LACKS = {
    "root": "its commands run as one user",
    "cleared_environment": "a process is found by a variable of its environment",
    **({"non_root": "the simulated machine is this one, with its user"} if os.geteuid() == 0 else {}),
}


@asynccontextmanager
async def opened(monkeypatch: pytest.MonkeyPatch, *, key: str = KEY) -> AsyncIterator[tuple[Service, SandboxBackend]]:
    from niceeval.backends.daytona import open_backend

    async with serving() as service:
        monkeypatch.setenv("DAYTONA_API_KEY", key)
        monkeypatch.setenv("DAYTONA_API_URL", f"{service.url}/api")
        backend = await open_backend(daytona_sandbox())
        try:
            yield service, backend
        finally:
            await backend.close()


def test_the_contract_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every check of the kit passes, but for what the service cannot do."""

    async def body() -> None:
        async with opened(monkeypatch) as (_, backend):
            request = SandboxRequest(labels={}, lifetime=600)
            report = await check_sandbox(lambda: backend.create(request), lacks=LACKS)
        report.raise_for_failures()
        assert len(report.passed) >= 110

    asyncio.run(body())


def test_labels_arrive_and_what_stands_is_found_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose a sandbox is can be asked of the service, and removing one twice is no error."""

    async def body() -> None:
        async with opened(monkeypatch) as (service, backend):
            labels = {"niceeval.run": "r1", "niceeval.expires": "1900000000"}
            sandbox = await backend.create(SandboxRequest(labels=labels, lifetime=90))
            (standing,) = await backend.standing()
            assert standing.sandbox_id == sandbox.sandbox_id
            assert standing.labels == {"niceeval": "1", **labels}
            assert (standing.created_at, standing.expires_at) == (1767323045.0, 1900000000.0)
            assert service.sandboxes[sandbox.sandbox_id]["autoDeleteInterval"] == 2
            await backend.remove(sandbox.sandbox_id)
            await backend.remove(sandbox.sandbox_id)
            assert await backend.standing() == []
            with pytest.raises(SandboxGoneError):
                await sandbox.run_command("true")
            await sandbox.stop()

    asyncio.run(body())


def test_a_wrong_key_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names what to correct, and does not repeat the key."""

    async def body() -> None:
        async with opened(monkeypatch, key="dtn_wrong") as (_, backend):
            with pytest.raises(SandboxUnavailableError) as caught:
                await backend.create(SandboxRequest(labels={}, lifetime=60))
        assert caught.value.next_step() == "correct DAYTONA_API_KEY"
        assert "dtn_wrong" not in str(caught.value)

    asyncio.run(body())


def test_a_missing_key_is_told_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key nothing is opened, and the variable is named."""
    from niceeval.backends.daytona import open_backend

    monkeypatch.delenv("DAYTONA_API_KEY", raising=False)
    with pytest.raises(SandboxUnavailableError, match="DAYTONA_API_KEY is not set"):
        asyncio.run(open_backend(daytona_sandbox()))


def test_root_is_refused_where_it_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that needs root is an error, never one that runs without it."""

    async def body() -> None:
        async with opened(monkeypatch) as (_, backend):
            sandbox = await backend.create(SandboxRequest(labels={}, lifetime=60))
            with pytest.raises(SandboxUnsupportedError):
                await sandbox.run_command("true", root=True)
            await sandbox.stop()

    asyncio.run(body())


def test_what_stands_there_is_listed_and_pruned_in_the_project_that_uses_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`niceeval sandbox list` and `prune` ask the service; outside of the project they do not know of it."""
    project(tmp_path / "project", {"adapters/shell.py": AGENT, "experiments/cloud.py": CLOUD, "evals/one_eval.py": ONE})
    (tmp_path / "elsewhere").mkdir()
    told: dict[str, Any] = {}

    def say(*words: str, folder: str = "project") -> str:
        environ = {**environment(), "DOCKER_HOST": "unix:///nowhere/docker.sock", "TMPDIR": str(tmp_path), **told}
        ran = subprocess.run(
            [*command(), *words], cwd=tmp_path / folder, env=environ, capture_output=True, text=True, timeout=120
        )
        return ran.stdout + ran.stderr

    async def body() -> None:
        async with opened(monkeypatch) as (_, backend):
            told.update({name: os.environ[name] for name in ("DAYTONA_API_KEY", "DAYTONA_API_URL")})
            past = {"niceeval.run": "r1", "niceeval.expires": "1000000000"}
            left = await backend.create(SandboxRequest(labels=past, lifetime=60))
            listed = await asyncio.to_thread(say, "sandbox", "list")
            assert f"daytona  {left.sandbox_id}  left over  its time is up" in listed
            assert left.sandbox_id not in await asyncio.to_thread(partial(say, "sandbox", "list", folder="elsewhere"))
            assert "removed 1 sandbox\n" in await asyncio.to_thread(say, "sandbox", "prune", "--yes")
            assert await backend.standing() == []
        told["DAYTONA_API_KEY"] = ""
        assert "not looked at: daytona: DAYTONA_API_KEY is not set" in await asyncio.to_thread(say, "sandbox", "list")

    asyncio.run(body())
