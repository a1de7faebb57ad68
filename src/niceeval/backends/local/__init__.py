"""The backend of `local_sandbox(...)`: a temporary folder on this machine, where bubblewrap may isolate commands."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

from niceeval.backends.local import _bubblewrap
from niceeval.backends.local._folders import make_folder, parent_folder, remove_folder, standing
from niceeval.backends.local._marked import kill_marked
from niceeval.backends.local._sandbox import LocalSandbox
from niceeval.sandbox import (
    Sandbox,
    SandboxBackend,
    SandboxRequest,
    SandboxSpec,
    StandingSandbox,
    local_sandbox,
)

_WARNING = "the local sandbox isolates nothing: the agent has your rights, your files and your network"


async def open_backend(spec: SandboxSpec) -> SandboxBackend:
    """Raises SandboxUnavailableError where bubblewrap is asked for and cannot be had."""
    backend = LocalBackend(spec)
    await backend.probe()
    return backend


async def open_standing(options: Mapping[str, Any]) -> SandboxBackend:
    """To look at what stands, to remove it and to enter it; nothing has to be there for that."""
    return LocalBackend(local_sandbox())


class LocalBackend:
    """See `niceeval.sandbox.SandboxBackend`."""

    def __init__(self, spec: SandboxSpec) -> None:
        options = cast(Mapping[str, Any], spec.options)
        self._isolation: str = options.get("isolation", "none")
        self._network: bool = options.get("network", "bridge") != "none"
        self._env: dict[str, str] = dict(options.get("env", {}))
        self._bwrap = _bubblewrap.bubblewrap() if self._isolation == "bubblewrap" else None

    async def probe(self) -> None:
        """Prove that a command can be isolated: some machines refuse the name spaces that it takes."""
        if self._bwrap is None:
            return
        sandbox = await self.create(SandboxRequest(labels={}, lifetime=60))
        try:
            result = await sandbox.run_command("true", timeout=30)
        finally:
            await sandbox.stop()
        if result.exit_code != 0:
            said = result.stderr.strip()[:300] or f"it ended with {result.exit_code}"
            fix = "allow unprivileged user namespaces, or use docker_sandbox(...)"
            raise _bubblewrap.unavailable(f"bwrap cannot isolate here: {said}", fix)

    @property
    def description(self) -> Mapping[str, Any]:
        found: dict[str, Any] = {"isolation": self._isolation}
        if self._bwrap is None:
            found["warning"] = _WARNING
        return found

    async def create(self, request: SandboxRequest) -> Sandbox:
        root = make_folder(request)
        if self._bwrap is not None:
            _bubblewrap.prepare(root)
        return LocalSandbox(root, env=self._env, bwrap=self._bwrap, network=self._network)

    async def standing(self) -> Sequence[StandingSandbox]:
        return list(standing())

    async def remove(self, sandbox_id: str) -> None:
        if "/" in sandbox_id or sandbox_id in ("", ".", ".."):
            return
        root = parent_folder() / sandbox_id
        for own in (f"{sandbox_id}.", f"{sandbox_id}-files."):
            await asyncio.to_thread(kill_marked, own)
        if root.exists():
            await asyncio.to_thread(remove_folder, root)

    def enter_command(self, sandbox_id: str) -> Sequence[str] | None:
        workspace = parent_folder() / sandbox_id / "workspace"
        shell = os.environ.get("SHELL", "/bin/sh")
        return ("sh", "-c", 'cd "$1" && exec "$2"', "enter", str(workspace), shell) if workspace.is_dir() else None

    async def close(self) -> None:
        return None
