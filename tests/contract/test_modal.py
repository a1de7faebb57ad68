"""Modal's sandboxes through the real SDK, against a service that answers as Modal's: not run live."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("modal", reason="the SDK of Modal is not installed: pip install 'niceeval[modal]'")

from niceeval.backends import modal as backend_module  # noqa: E402
from niceeval.sandbox import Sandbox, SandboxBackend, SandboxRequest, modal_sandbox  # noqa: E402
from niceeval.testing import check_sandbox  # noqa: E402
from tests.contract.simulated.here import LACKS  # noqa: E402
from tests.contract.simulated.modal_service import TOKEN, Service, serving  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="its simulated machines need /proc"),
]
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
