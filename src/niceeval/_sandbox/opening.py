"""A spec's backend: its module is imported here, and nowhere else."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from niceeval._base.errors import SandboxUnavailableError
from niceeval._model.json_types import JsonValue
from niceeval._model.sandbox import SandboxBackend, SandboxSpec


def spec_key(spec: SandboxSpec) -> str:
    """Equal for specs that may share an opened backend; how many sandboxes are started ahead does not matter."""
    said = json.dumps([spec.name, spec.backend, spec.options], sort_keys=True, ensure_ascii=True)
    return f"{said}{id(spec.create) if spec.create is not None else ''}"


async def open_spec(spec: SandboxSpec) -> SandboxBackend:
    """The backend, opened: sandboxes can be made. Raises SandboxUnavailableError, and whatever a backend may raise."""
    module = _module(spec.name, spec.backend)
    opened: Any = module.open_backend(spec)
    backend: SandboxBackend = await opened if inspect.isawaitable(opened) else opened
    return backend


async def open_standing(name: str, module: str, options: Mapping[str, JsonValue]) -> SandboxBackend | None:
    """A backend, opened only to look at what stands there, and to remove it; None where nothing of it can be left.

    Raises SandboxUnavailableError where it is not there.
    """
    opening: Any = getattr(_module(name, module), "open_standing", None)
    if opening is None:
        return None
    backend: SandboxBackend = await opening(options)
    return backend


def _module(name: str, module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise SandboxUnavailableError(
                "sandbox-unavailable",
                backend=name,
                problem=f"this version of niceeval has no module {error.name}",
                fix="use a sandbox of niceeval.sandbox that it has",
            ) from None
        raise SandboxUnavailableError(
            "sandbox-unavailable",
            backend=name,
            problem=f"the module {error.name} is not installed",
            fix=f"pip install 'niceeval[{name}]'",
        ) from None
