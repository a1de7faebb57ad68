"""The backend of `docker_sandbox(...)`: containers of a Docker Engine or of Podman, through its API."""

from __future__ import annotations

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


async def open_standing() -> SandboxBackend:
    """The containers that stand on this machine's engine. Raises SandboxUnavailableError where none answers."""
    return StandingContainers(await open_engine(None))
