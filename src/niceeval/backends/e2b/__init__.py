"""The backend of `e2b_sandbox(...)`: sandboxes of E2B, through its Python SDK."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from niceeval.backends.e2b._errors import translated, unavailable
from niceeval.backends.e2b._machine import E2bMachine
from niceeval.sandbox import Sandbox, SandboxBackend, SandboxError, SandboxRequest, SandboxSpec, StandingSandbox
from niceeval.sandbox.remote import RemoteSandbox
from niceeval.sandbox.services import Lease, made_or_removed

if TYPE_CHECKING:
    from e2b import SandboxInfo

KEY = "E2B_API_KEY"
LABEL = "niceeval"
TERM = 900.0
"""Seconds that a sandbox is given at once. It ends by itself within them when niceeval dies."""
KEPT_TERM = 3_600.0
"""Seconds that one is given which is to be looked at afterwards: what every plan of E2B allows."""
WORKDIR = "/home/user/workspace"
PRIVATE_PARENT = "/var/tmp"
"""Where the private folder is made: every user may make one there."""


async def open_backend(spec: SandboxSpec) -> SandboxBackend:
    """Raises SandboxUnavailableError without the SDK, without a key, or with a wrong one."""
    backend = E2bBackend(cast(Mapping[str, Any], spec.options))
    await backend.check()
    return backend


async def open_standing(options: Mapping[str, Any]) -> SandboxBackend:
    """To look at what stands, and to remove it. Raises SandboxUnavailableError without the SDK, or without a key."""
    return E2bBackend(options)


class E2bBackend:
    """See `niceeval.sandbox.SandboxBackend`. `options`: `template`, `env` and `workdir`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        try:
            import e2b  # noqa: F401
        except ModuleNotFoundError:
            raise unavailable("the extra `e2b` is not installed", "pip install 'niceeval[e2b]'") from None
        if not os.environ.get(KEY):
            raise unavailable(f"{KEY} is not set", f"set {KEY}, in the environment or in .env")
        self._options = options
        self._leases: list[Lease] = []

    @property
    def description(self) -> Mapping[str, Any]:
        template = self._options.get("template")
        return {} if template is None else {"template": template}

    async def check(self) -> None:
        """Ask the service for a list. Raises SandboxUnavailableError where the key is refused."""
        from e2b import AsyncSandbox

        with translated():
            await AsyncSandbox.list(limit=1).next_items()

    async def create(self, request: SandboxRequest) -> Sandbox:
        from e2b import AsyncSandbox

        term = min(KEPT_TERM if request.keep else TERM, request.lifetime)
        private = f"{PRIVATE_PARENT}/.niceeval-{secrets.token_hex(6)}"
        making = AsyncSandbox.create(
            self._options.get("template"),
            timeout=max(1, int(term)),
            metadata={LABEL: "1", **request.labels},
        )
        with translated():
            made = await made_or_removed(making, lambda late: E2bMachine(late, private).stop())
        machine = E2bMachine(made, private)
        try:
            sandbox = RemoteSandbox(
                machine,
                name="e2b",
                sandbox_id=made.sandbox_id,
                workdir=self._options.get("workdir") or WORKDIR,
                private_dir=private,
                env=self._options.get("env") or {},
            )
            await sandbox.prepare()
        except BaseException:
            with contextlib.suppress(SandboxError):
                await machine.stop()
            raise
        machine.lease = Lease(machine.extend, term=term, lifetime=request.lifetime)
        self._leases.append(machine.lease)
        return sandbox

    async def standing(self) -> Sequence[StandingSandbox]:
        from e2b import AsyncSandbox, SandboxQuery

        pages = AsyncSandbox.list(query=SandboxQuery(metadata={LABEL: "1"}))
        found: list[StandingSandbox] = []
        while pages.has_next:
            with translated():
                found += [_standing(info) for info in await pages.next_items()]
        return found

    async def remove(self, sandbox_id: str) -> None:
        from e2b import AsyncSandbox

        with translated():
            await AsyncSandbox.kill(sandbox_id)

    def enter_command(self, sandbox_id: str) -> Sequence[str] | None:
        return ("e2b", "sandbox", "connect", sandbox_id)

    async def close(self) -> None:
        """Sandboxes that stand end when their term is over. The SDK's connections are shared by the whole process."""
        for lease in self._leases:
            await lease.end()


def _standing(info: SandboxInfo) -> StandingSandbox:
    return StandingSandbox(
        backend="e2b",
        sandbox_id=info.sandbox_id,
        labels=dict(info.metadata or {}),
        created_at=info.started_at.timestamp(),
        expires_at=info.end_at.timestamp(),
        detail=str(info.template_id),
    )
