"""The backend of `docker_sandbox(...)`: containers of a Docker Engine or of Podman, through its API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from niceeval.backends.docker._backend import DockerBackend, StandingContainers
from niceeval.backends.docker._container import options_of
from niceeval.backends.docker._engine import open_engine
from niceeval.backends.docker._images import ready_image
from niceeval.sandbox import SandboxBackend, SandboxSpec


async def open_backend(spec: SandboxSpec) -> SandboxBackend:
    """Raises SandboxUnavailableError where no engine answers, SandboxError where its image cannot be had."""
    options = options_of(spec.options)
    engine = await open_engine(options.host)
    return DockerBackend(engine, options, await ready_image(engine, options))


async def open_standing(options: Mapping[str, Any]) -> SandboxBackend:
    """The containers that stand on an engine: that of `host`, or this machine's own.

    Raises SandboxUnavailableError where none answers.
    """
    host = options.get("host")
    return StandingContainers(await open_engine(str(host) if host else None))
