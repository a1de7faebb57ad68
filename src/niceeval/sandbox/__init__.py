"""Sandboxes: what an experiment says to get one, and what the author of a backend implements.

    experiment = define_experiment(agent=..., sandbox=docker_sandbox(image="python:3.12-slim"))

A spec is plain data; its backend's module is imported when the first sandbox is made.
"""

from __future__ import annotations

from niceeval._base.errors import (
    SandboxCommandError,
    SandboxError,
    SandboxFileError,
    SandboxGoneError,
    SandboxUnavailableError,
    SandboxUnsupportedError,
)
from niceeval._model.diff import DiffRules
from niceeval._model.sandbox import (
    CommandResult,
    Sandbox,
    SandboxBackend,
    SandboxRequest,
    SandboxSpec,
    StandingSandbox,
)
from niceeval.sandbox.clouds import daytona_sandbox, e2b_sandbox, modal_sandbox, vercel_sandbox
from niceeval.sandbox.custom import define_sandbox
from niceeval.sandbox.docker import Mount, docker_sandbox
from niceeval.sandbox.local import local_sandbox

__all__ = [
    "CommandResult",
    "DiffRules",
    "Mount",
    "Sandbox",
    "SandboxBackend",
    "SandboxCommandError",
    "SandboxError",
    "SandboxFileError",
    "SandboxGoneError",
    "SandboxRequest",
    "SandboxSpec",
    "SandboxUnavailableError",
    "SandboxUnsupportedError",
    "StandingSandbox",
    "daytona_sandbox",
    "define_sandbox",
    "docker_sandbox",
    "e2b_sandbox",
    "local_sandbox",
    "modal_sandbox",
    "vercel_sandbox",
]
