"""The backend of `vercel_sandbox(...)`: Vercel Sandboxes, through Vercel's Python SDK."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from niceeval.backends.vercel._errors import translated, unavailable
from niceeval.backends.vercel._machine import VercelMachine, removed
from niceeval.sandbox import (
    Sandbox,
    SandboxBackend,
    SandboxError,
    SandboxGoneError,
    SandboxRequest,
    SandboxSpec,
    StandingSandbox,
)
from niceeval.sandbox.remote import RemoteSandbox
from niceeval.sandbox.services import Lease, made_or_removed

if TYPE_CHECKING:
    from vercel.sandbox import Sandbox as VercelSandbox

KEYS = ("VERCEL_API_TOKEN", "VERCEL_TEAM_ID", "VERCEL_PROJECT_ID")
LABEL = "niceeval"
TAGS = (LABEL, "niceeval.owner", "niceeval.run", "niceeval.expires", "niceeval.kept")
"""The labels that become tags: Vercel takes five, and these are what finding and removing needs."""
TERM = 900.0
"""Seconds that a sandbox is given at once. It ends by itself within them when niceeval dies."""
KEPT_TERM = 2_700.0
"""Seconds that one is given which is to be looked at afterwards: what every plan of Vercel allows."""
WORKDIR = "/vercel/sandbox"
PRIVATE_PARENT = "/var/tmp"
"""Where the private folder is made: every user may make one there."""


async def open_backend(spec: SandboxSpec) -> SandboxBackend:
    """Raises SandboxUnavailableError without the SDK, without a key, or with a wrong one."""
    backend = VercelBackend(cast(Mapping[str, Any], spec.options))
    try:
        await backend.check()
    except BaseException:
        await backend.close()
        raise
    return backend


async def open_standing(options: Mapping[str, Any]) -> SandboxBackend:
    """To look at what stands, and to remove it. Raises SandboxUnavailableError without the SDK, or without a key."""
    return VercelBackend(options)


class VercelBackend:
    """See `niceeval.sandbox.SandboxBackend`. `options`: `snapshot_id`, `image` and `env`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        try:
            from vercel.sandbox import SandboxClient, SandboxCredentials, SandboxServiceOptions
        except ModuleNotFoundError:
            raise unavailable("the extra `vercel` is not installed", "pip install 'niceeval[vercel]'") from None
        missing = [name for name in KEYS if not os.environ.get(name)]
        if missing:
            names = " and ".join(missing)
            raise unavailable(f"{names} not set", f"set {names}, in the environment or in .env")
        token, team, project = (os.environ[name] for name in KEYS)

        async def credentials() -> SandboxCredentials:
            return SandboxCredentials(token=token, team_id=team, project_id=project)

        self._options = options
        self._leases: list[Lease] = []
        self._client = SandboxClient.create(options=SandboxServiceOptions(credentials_factory=credentials))

    @property
    def description(self) -> Mapping[str, Any]:
        return {name: self._options[name] for name in ("snapshot_id", "image") if self._options.get(name) is not None}

    async def check(self) -> None:
        """Ask the service for a list. Raises SandboxUnavailableError where the key is refused."""
        with translated():
            async for _ in self._client.query_sandboxes(page_size=1):
                break

    async def create(self, request: SandboxRequest) -> Sandbox:
        from vercel.sandbox import SnapshotSource

        term = min(KEPT_TERM if request.keep else TERM, request.lifetime)
        labels = {LABEL: "1", **request.labels}
        snapshot = self._options.get("snapshot_id")
        operation = self._client.create_sandbox(
            source=None if snapshot is None else SnapshotSource(snapshot_id=snapshot),
            image=self._options.get("image"),
            execution_time_limit=term,
            persistent=False,
            tags={name: labels[name] for name in TAGS if name in labels},
        )

        async def making() -> VercelSandbox:
            return await operation

        with translated():
            made = await made_or_removed(making(), removed)
        try:
            return await self._prepared(made, term, request.lifetime)
        except BaseException:
            with contextlib.suppress(SandboxError):
                await removed(made)
            raise

    async def _prepared(self, made: VercelSandbox, term: float, lifetime: float) -> Sandbox:
        session = made.current_session
        if session is None:
            problem, fix = "it was made without a session", "try again"
            raise SandboxGoneError("sandbox-gone", backend="vercel", problem=problem, fix=fix)
        machine = VercelMachine(made, session, term=term)
        sandbox = RemoteSandbox(
            machine,
            name="vercel",
            sandbox_id=made.name,
            workdir=WORKDIR,
            private_dir=f"{PRIVATE_PARENT}/.niceeval-{secrets.token_hex(6)}",
            env=self._options.get("env") or {},
        )
        await sandbox.prepare()
        machine.lease = Lease(machine.extend, term=term, lifetime=lifetime)
        self._leases.append(machine.lease)
        return sandbox

    async def standing(self) -> Sequence[StandingSandbox]:
        from vercel.sandbox import SandboxQueryByCreatedAt, SandboxStatus, TagFilter

        over = {SandboxStatus.STOPPED, SandboxStatus.FAILED, SandboxStatus.ABORTED}
        query = SandboxQueryByCreatedAt(tag=TagFilter(key=LABEL, value="1"))
        with translated():
            found = [sandbox async for sandbox in self._client.query_sandboxes(query=query)]
        return [_standing(sandbox) for sandbox in found if sandbox.status not in over]

    async def remove(self, sandbox_id: str) -> None:
        try:
            with translated():
                sandbox = await self._client.get_sandbox(name=sandbox_id)
        except SandboxGoneError:
            return
        await removed(sandbox)

    def enter_command(self, sandbox_id: str) -> Sequence[str] | None:
        return ("npx", "sandbox", "connect", sandbox_id)

    async def close(self) -> None:
        """Sandboxes that stand end when their term is over."""
        for lease in self._leases:
            await lease.end()
        await self._client.aclose()


def _standing(sandbox: VercelSandbox) -> StandingSandbox:
    labels = dict(sandbox.tags or {})
    expires = labels.get("niceeval.expires", "")
    created = sandbox.created_at
    return StandingSandbox(
        backend="vercel",
        sandbox_id=sandbox.name,
        labels=labels,
        created_at=None if created is None else created / 1_000,
        expires_at=float(expires) if expires.isdecimal() else None,
        detail=str(sandbox.status or ""),
    )
