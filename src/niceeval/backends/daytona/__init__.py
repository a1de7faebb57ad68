"""The backend of `daytona_sandbox(...)`: sandboxes of Daytona, through its Python SDK."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from niceeval.backends.daytona._machine import DaytonaMachine, translated
from niceeval.sandbox import (
    Sandbox,
    SandboxBackend,
    SandboxRequest,
    SandboxSpec,
    SandboxUnavailableError,
    StandingSandbox,
)
from niceeval.sandbox.remote import RemoteSandbox

KEY = "DAYTONA_API_KEY"
LABEL = "niceeval"
CREATE_LIMIT = 300.0
"""Seconds that a new sandbox may take, its image included."""
PAGE = 100
"""Sandboxes that are listed at once."""
HOME = "/home/daytona"
"""The home of the user that commands run as, where the service does not say it."""


async def open_backend(spec: SandboxSpec) -> SandboxBackend:
    """Raises SandboxUnavailableError without the SDK, or without a key."""
    return DaytonaBackend(cast(Mapping[str, Any], spec.options))


async def open_standing(options: Mapping[str, Any]) -> SandboxBackend:
    """To look at what stands, and to remove it. Raises SandboxUnavailableError without the SDK, or without a key."""
    return DaytonaBackend(options)


class DaytonaBackend:
    """See `niceeval.sandbox.SandboxBackend`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        try:
            from daytona import AsyncDaytona, DaytonaConfig
        except ModuleNotFoundError:
            raise _unavailable("the extra `daytona` is not installed", "pip install 'niceeval[daytona]'") from None
        key = os.environ.get(KEY)
        if not key:
            raise _unavailable(f"{KEY} is not set", f"set {KEY}, in the environment or in .env")
        self._options = options
        url = os.environ.get("DAYTONA_API_URL") or "https://app.daytona.io/api"
        self._client = AsyncDaytona(
            DaytonaConfig(api_key=key, api_url=url, target=os.environ.get("DAYTONA_TARGET") or "")
        )

    @property
    def description(self) -> Mapping[str, Any]:
        return {name: self._options[name] for name in ("snapshot", "image") if self._options[name] is not None}

    async def create(self, request: SandboxRequest) -> Sandbox:
        from daytona import CreateSandboxFromImageParams, CreateSandboxFromSnapshotParams

        # Its intervals are minutes without activity; a run of niceeval stops what it made long before.
        minutes = max(1, math.ceil(request.lifetime / 60))
        common: dict[str, Any] = {
            "labels": {LABEL: "1", **request.labels},
            "auto_stop_interval": minutes,
            "auto_delete_interval": minutes,
        }
        image = self._options["image"]
        params = (
            CreateSandboxFromSnapshotParams(snapshot=self._options["snapshot"], **common)
            if image is None
            else CreateSandboxFromImageParams(image=image, **common)
        )
        with translated():
            made = await self._client.create(params, timeout=CREATE_LIMIT)
        try:
            with translated():
                home = (await made.get_user_home_dir()) or HOME
            sandbox = RemoteSandbox(
                DaytonaMachine(made),
                name="daytona",
                sandbox_id=made.id,
                workdir=f"{home}/workspace",
                private_dir=f"{home}/.niceeval",
                env={"HOME": home, **self._options["env"]},
            )
            await sandbox.prepare()
        except BaseException:
            await DaytonaMachine(made).stop()
            raise
        return sandbox

    async def standing(self) -> Sequence[StandingSandbox]:
        found: list[StandingSandbox] = []
        page = 1
        while True:
            with translated():
                listed = await self._client.list(labels={LABEL: "1"}, page=page, limit=PAGE)
            found += [_standing(sandbox) for sandbox in listed.items]
            if page >= listed.total_pages:
                return found
            page += 1

    async def remove(self, sandbox_id: str) -> None:
        from daytona import DaytonaNotFoundError

        try:
            with translated(keep=DaytonaNotFoundError):
                sandbox = await self._client.get(sandbox_id)
        except DaytonaNotFoundError:
            return
        await DaytonaMachine(sandbox).stop()

    def enter_command(self, sandbox_id: str) -> Sequence[str] | None:
        return ("daytona", "ssh", sandbox_id)

    async def close(self) -> None:
        await cast(Any, self._client).close()


def _standing(sandbox: Any) -> StandingSandbox:
    labels = {str(key): str(value) for key, value in (sandbox.labels or {}).items()}
    expires = labels.get("niceeval.expires", "")
    return StandingSandbox(
        backend="daytona",
        sandbox_id=sandbox.id,
        labels=labels,
        created_at=_seconds(getattr(sandbox, "created_at", None)),
        expires_at=float(expires) if expires.isdecimal() else None,
        detail=str(getattr(sandbox, "state", "") or ""),
    )


def _seconds(said: object) -> float | None:
    try:
        return datetime.fromisoformat(str(said).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def _unavailable(problem: str, fix: str) -> SandboxUnavailableError:
    return SandboxUnavailableError("sandbox-unavailable", backend="daytona", problem=problem, fix=fix)
