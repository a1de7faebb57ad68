"""The backend of `define_sandbox`: sandboxes are made by the user's own function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from niceeval._model.json_types import JsonValue
from niceeval._model.sandbox import Sandbox, SandboxBackend, SandboxRequest, SandboxSpec, StandingSandbox


async def open_backend(spec: SandboxSpec) -> SandboxBackend:
    """Nothing is opened: whether sandboxes can be made is known when the first one is."""
    return _CustomBackend(spec)


class _CustomBackend:
    def __init__(self, spec: SandboxSpec) -> None:
        self._spec = spec

    @property
    def description(self) -> Mapping[str, JsonValue]:
        return {"name": self._spec.name}

    async def create(self, request: SandboxRequest) -> Sandbox:
        assert self._spec.create is not None
        return await self._spec.create(timeout=request.lifetime, runtime=dict(request.labels))

    async def standing(self) -> Sequence[StandingSandbox]:
        return ()

    async def remove(self, sandbox_id: str) -> None:
        return None

    def enter_command(self, sandbox_id: str) -> Sequence[str] | None:
        return None

    async def close(self) -> None:
        return None
