"""Modal's sandboxes through the real SDK, against a service that answers as Modal's: not run live."""

from __future__ import annotations

import asyncio
import io
import os
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("modal", reason="the SDK of Modal is not installed: pip install 'niceeval[modal]'")

from grpclib import Status
from modal_proto import api_pb2

from niceeval._base.errors import NiceevalError
from niceeval.backends import modal as backend_module
from niceeval.backends.modal import _machine as machine_module
from niceeval.sandbox import (
    Sandbox,
    SandboxBackend,
    SandboxError,
    SandboxGoneError,
    SandboxRequest,
    SandboxUnavailableError,
    SandboxUnsupportedError,
    modal_sandbox,
)
from niceeval.testing import check_sandbox
from tests.contract.simulated.here import LACKS
from tests.contract.simulated.modal_service import TOKEN, Service, serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="its simulated machines need /proc"),
]
TIMED_OUT = api_pb2.GenericResult.GENERIC_STATUS_TIMEOUT
LABELS = {"niceeval": "1", "niceeval.run": "r1", "niceeval.owner": "somebody@host", "niceeval.expires": "1900000000"}


@asynccontextmanager
async def opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> AsyncIterator[tuple[Service, SandboxBackend]]:
    """The service, and a backend that talks to it."""
    async with serving() as service:
        told = {"MODAL_TOKEN_ID": TOKEN[0], "MODAL_TOKEN_SECRET": TOKEN[1], "MODAL_SERVER_URL": service.url}
        for name, value in told.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(backend_module, "PRIVATE_PARENT", str(tmp_path))
        backend = await backend_module.open_backend(modal_sandbox(**options))
        try:
            yield service, backend
        finally:
            await backend.close()


async def made(backend: SandboxBackend, tmp_path: Path, **request: Any) -> Sandbox:
    """A new sandbox. The machines of all of them are this one, so each gets a workdir of its own."""
    options: Any = backend._options  # type: ignore[attr-defined]
    options["workdir"] = str(tmp_path / secrets.token_hex(8))
    return await backend.create(SandboxRequest(**{"labels": LABELS, "lifetime": 7_200, **request}))


def test_the_contract_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every check of the kit passes, but for what the simulated machine cannot do."""

    async def body() -> None:
        async with opened(tmp_path, monkeypatch) as (_, backend):
            report = await check_sandbox(lambda: made(backend, tmp_path), lacks=LACKS)
        report.raise_for_failures()
        assert len(report.passed) >= 110

    asyncio.run(body())


def test_labels_and_options_arrive_and_what_stands_is_found_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose a sandbox is can be asked of the service, in any number; a removed one is gone, and twice is no error."""

    async def body() -> None:
        asked = {"image": "python:3.12-slim", "app": "mine", "cpu": 2, "memory": 512, "block_network": True}
        async with opened(tmp_path, monkeypatch, env={"GIVEN": "yes"}, **asked) as (service, backend):
            assert await backend.standing() == []
            assert service.apps == {}
            sandbox, *others = [await made(backend, tmp_path) for _ in range(3)]
            definition = service.boxes[sandbox.sandbox_id].asked.definition
            assert service.images == [["FROM python:3.12-slim"], ["FROM base", "ENTRYPOINT []"]]
            assert (definition.resources.milli_cpu, definition.resources.memory_mb) == (2_000, 512)
            assert definition.network_access.network_access_type == definition.network_access.BLOCKED
            assert (definition.timeout_secs, definition.idle_timeout_secs) == (7_200, int(backend_module.TERM))
            assert TOKEN[1] not in str(service.boxes[sandbox.sandbox_id].asked)
            said = await sandbox.run_shell('printf "%s %s" "$GIVEN" "$MODAL_TOKEN_SECRET"')
            assert said.stdout == "yes "
            standing = {one.sandbox_id: one for one in await backend.standing()}
            assert set(standing) == {one.sandbox_id for one in (sandbox, *others)}
            assert standing[sandbox.sandbox_id].labels == LABELS
            assert standing[sandbox.sandbox_id].expires_at == 1_900_000_000
            assert backend.enter_command(sandbox.sandbox_id) == ("modal", "shell", sandbox.sandbox_id)
            for one in (sandbox, *others, sandbox):
                await backend.remove(one.sandbox_id)
            await backend.remove("sb-never")
            assert await backend.standing() == []
            with pytest.raises(SandboxGoneError):
                await sandbox.run_command("true")
            with pytest.raises(SandboxGoneError):
                await sandbox.write_files({"a": "b"})
            await sandbox.stop()

    asyncio.run(body())


def test_no_sandbox_is_asked_to_live_longer_than_modal_lets_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day is the longest; one that is kept may be idle for an hour."""

    async def body() -> None:
        async with opened(tmp_path, monkeypatch, image_id="im-mine") as (service, backend):
            sandbox = await made(backend, tmp_path, lifetime=500_000, keep=True)
            definition = service.boxes[sandbox.sandbox_id].asked.definition
            assert (definition.image_id, definition.timeout_secs, definition.idle_timeout_secs) == (
                "im-mine",
                86_400,
                3_600,
            )
            await sandbox.stop()

    asyncio.run(body())


@pytest.mark.parametrize("lost", [False, True])
def test_a_running_command_sees_its_sandbox_end(lost: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox that ends while a command runs is an error of that command, also where its machine says nothing."""
    monkeypatch.setattr(machine_module, "LOOK", 0.5)

    async def body() -> None:
        async with opened(tmp_path, monkeypatch) as (service, backend):
            sandbox = await made(backend, tmp_path)
            seen = asyncio.Event()
            running = asyncio.create_task(sandbox.run_shell("echo here; sleep 600", on_stdout=lambda _: seen.set()))
            await asyncio.wait_for(seen.wait(), 60)
            service.lost = lost
            await asyncio.to_thread(service.boxes[sandbox.sandbox_id].end, TIMED_OUT)
            with pytest.raises(SandboxGoneError, match="its time was over" if lost else None) as caught:
                await asyncio.wait_for(running, 60)
            assert "24 hours" in (caught.value.next_step() or "")

    asyncio.run(body())


def test_a_commands_end_is_seen_where_the_service_waits_for_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a command left running holds its output, and neither its end nor its exit code waits for that."""

    async def body() -> None:
        async with opened(tmp_path, monkeypatch) as (service, backend):
            sandbox = await made(backend, tmp_path)
            service.patient = True
            said = await asyncio.wait_for(sandbox.run_shell("sleep 600 & echo out; echo err >&2; exit 7"), 60)
            assert (said.exit_code, said.stdout, said.stderr) == (7, "out\n", "err\n")
            await sandbox.stop()

    asyncio.run(body())


def test_what_modal_takes_no_argument_of_goes_through_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long arguments, and bytes that are no text in arguments and variables, arrive as they are."""

    async def body() -> None:
        async with opened(tmp_path, monkeypatch) as (_, backend):
            sandbox = await made(backend, tmp_path)
            script = 'printf "%s" "$1" | wc -c; printf "%s%s" "$2" "$ODD" | od -An -tx1'
            said = await sandbox.run_command(
                "sh", ["-c", script, "sh", "x" * 100_000, "a\udcff'"], env={"ODD": "\udcfe b"}
            )
            assert said.stdout.split() == ["100000", "61", "ff", "27", "fe", "20", "62"]
            left = await sandbox.run_command("find", [str(tmp_path), "-name", "line-*"])
            assert (left.exit_code, left.stdout) == (0, "")
            await sandbox.stop()

    asyncio.run(body())


def test_a_file_that_cannot_be_moved_is_an_error_that_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is told with the words of the machine; a file that is not there, as that."""

    async def body() -> None:
        async with opened(tmp_path, monkeypatch) as (_, backend):
            sandbox = await made(backend, tmp_path)
            machine = sandbox._machine  # type: ignore[attr-defined]
            with pytest.raises(SandboxError, match="No space left"):
                await machine.put("/dev/full", io.BytesIO(b"x" * 3_000_000))
            with pytest.raises(FileNotFoundError):
                [piece async for piece in machine.get(str(tmp_path / "nothing"))]
            await sandbox.stop()

    asyncio.run(body())


def test_it_is_kept_from_being_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While niceeval lives, something runs in a sandbox now and then, also after the service refused it once."""
    monkeypatch.setattr(backend_module, "TERM", 1.5)

    async def body() -> None:
        async with opened(tmp_path, monkeypatch) as (service, backend):
            sandbox = await made(backend, tmp_path)
            for _ in range(2):
                before = service.commands
                async with asyncio.timeout(120):
                    while service.commands < before + 2:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                service.refuse_next = True
            await sandbox.stop()

    asyncio.run(body())


def test_root_is_refused_where_the_image_has_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that needs root is an error, never one that runs without it."""
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "id").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    async def body() -> None:
        async with opened(tmp_path, monkeypatch) as (_, backend):
            sandbox = await made(backend, tmp_path)
            with pytest.raises(SandboxUnsupportedError):
                await sandbox.run_command("true", root=True)
            assert (await sandbox.run_command("true")).exit_code == 0
            await sandbox.stop()

    asyncio.run(body())


def test_what_is_missing_or_refused_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, a wrong key, a limit, no image and no SDK are errors that say what to do; no key is in one."""

    async def refused(kind: type[SandboxError], **options: Any) -> str:
        async def make() -> None:
            backend = await backend_module.open_backend(modal_sandbox(**options))
            try:
                await backend.create(SandboxRequest(labels={}, lifetime=60))
            finally:
                await backend.close()

        with pytest.raises(kind) as caught:
            await make()
        return f"{caught.value}; {caught.value.next_step()}"

    async def body() -> None:
        async with opened(tmp_path, monkeypatch) as (service, _):
            assert "no such image" in await refused(SandboxError, image="no/such:image")
            assert "correct what modal_sandbox(...) names" in await refused(SandboxError, image_id="im-none")
            service.refuse = (Status.RESOURCE_EXHAUSTED, "too many sandboxes")
            assert "lower max_concurrency" in await refused(SandboxError)
            service.refuse = None
            monkeypatch.setenv("MODAL_TOKEN_SECRET", "as-wrong")
            said = await refused(SandboxUnavailableError)
            assert "correct MODAL_TOKEN_ID and MODAL_TOKEN_SECRET" in said
            assert "as-wrong" not in said
            for key in ("MODAL_TOKEN_SECRET", "MODAL_TOKEN_ID"):
                monkeypatch.setenv(key, "")
                assert f"{key} is not set" in await refused(SandboxUnavailableError)
            monkeypatch.setitem(sys.modules, "modal", None)
            assert "pip install 'niceeval[modal]'" in await refused(SandboxUnavailableError)

    asyncio.run(body())


@pytest.mark.parametrize(
    "options",
    [
        {"image": "a", "image_id": "im-b"},
        {"workdir": "relative"},
        {"workdir": "/"},
        {"cpu": 0},
        {"memory": 0.5},
        {"block_network": 1},
    ],
)
def test_a_wrong_option_is_told_where_it_is_written(options: dict[str, Any]) -> None:
    """The error names the option, before anything is made."""
    with pytest.raises(NiceevalError, match=next(iter(options))):
        modal_sandbox(**options)
