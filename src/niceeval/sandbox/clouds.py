"""Sandboxes of cloud services: each an extra, with its vendor's SDK."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from niceeval._model.json_types import JsonValue
from niceeval._model.sandbox import SandboxSpec
from niceeval.sandbox.arguments import SpecArguments

MODAL_WORKDIR = "/root/workspace"
"""Where an agent works in a sandbox of Modal, whose images have root as their user."""
MAX_MEMORY = 2**30
"""MiB that a sandbox may be given at most: more than any machine has."""


def e2b_sandbox(
    *, template: str | None = None, env: Mapping[str, str] | None = None, warm_pool: int = 0
) -> SandboxSpec:
    """A sandbox of E2B (extra `e2b`; the key in `E2B_API_KEY`). `template`: its name or id; E2B's base otherwise."""
    arguments = SpecArguments("e2b_sandbox", {"template": template, "env": env, "warm_pool": warm_pool})
    options: dict[str, JsonValue] = {"template": arguments.text("template"), "env": dict(arguments.texts("env"))}
    return _spec("e2b", options, template, 10, arguments.pool())


def vercel_sandbox(
    *,
    snapshot_id: str | None = None,
    image: str | None = None,
    env: Mapping[str, str] | None = None,
    warm_pool: int = 0,
) -> SandboxSpec:
    """A Vercel Sandbox (extra `vercel`; `VERCEL_API_TOKEN`, `VERCEL_TEAM_ID`, `VERCEL_PROJECT_ID`).

    `snapshot_id`: a prepared file system to start from. `image`: one of Vercel's container registry; Vercel's own
    otherwise.
    """
    values = {"snapshot_id": snapshot_id, "image": image, "env": env, "warm_pool": warm_pool}
    arguments = SpecArguments("vercel_sandbox", values)
    options: dict[str, JsonValue] = {
        "snapshot_id": arguments.text("snapshot_id"),
        "image": arguments.text("image"),
        "env": dict(arguments.texts("env")),
    }
    return _spec("vercel", options, snapshot_id or image, 10, arguments.pool())


def daytona_sandbox(
    *,
    snapshot: str | None = None,
    image: str | None = None,
    env: Mapping[str, str] | None = None,
    warm_pool: int = 0,
) -> SandboxSpec:
    """A Daytona sandbox (extra `daytona`; the key in `DAYTONA_API_KEY`), from a `snapshot` or an `image`."""
    values = {"snapshot": snapshot, "image": image, "env": env, "warm_pool": warm_pool}
    arguments = SpecArguments("daytona_sandbox", values)
    options: dict[str, JsonValue] = {
        "snapshot": arguments.text("snapshot"),
        "image": arguments.text("image"),
        "env": dict(arguments.texts("env")),
    }
    return _spec("daytona", options, snapshot or image, 10, arguments.pool())


def modal_sandbox(
    *,
    image: str | None = None,
    image_id: str | None = None,
    app: str = "niceeval",
    workdir: str = MODAL_WORKDIR,
    cpu: float | None = None,
    memory: int | None = None,
    block_network: bool = False,
    env: Mapping[str, str] | None = None,
    warm_pool: int = 0,
) -> SandboxSpec:
    """A Modal sandbox (extra `modal`; `MODAL_TOKEN_ID` and `MODAL_TOKEN_SECRET`).

    `image`: a reference of a public registry. `image_id`: an image that is at Modal already (`im-...`). Modal's own
    Debian with neither. `app`: the app of your workspace that holds the sandboxes; it is made where it is missing.
    `cpu` in cores and `memory` in MiB are what is reserved; Modal's own amounts otherwise. `block_network`: no network.

    Raises ProjectError (`bad-argument`).
    """
    arguments = SpecArguments("modal_sandbox", dict(locals()))
    if image is not None and image_id is not None:
        raise arguments.error("image", "and image_id are both given", 'modal_sandbox(image="python:3.12-slim")')
    folder = arguments.text("workdir") or MODAL_WORKDIR
    if not folder.startswith("/") or posixpath.normpath(folder) == "/":
        raise arguments.error("workdir", f"is {folder!r}; it is an absolute folder", f'workdir="{MODAL_WORKDIR}"')
    options: dict[str, JsonValue] = {
        "image": arguments.text("image"),
        "image_id": arguments.text("image_id"),
        "app": arguments.text("app") or "niceeval",
        "workdir": posixpath.normpath(folder),
        "cpu": arguments.cpus("cpu"),
        "memory": arguments.bounded_count("memory", MAX_MEMORY),
        "block_network": arguments.flag("block_network"),
        "env": dict(arguments.texts("env")),
    }
    return _spec("modal", options, image or image_id, 10, arguments.pool())


def _spec(name: str, options: dict[str, JsonValue], detail: str | None, concurrency: int, pool: int) -> SandboxSpec:
    return SandboxSpec(
        name=name,
        backend=f"niceeval.backends.{name}",
        options=options,
        shown=name if detail is None else f"{name} {detail}",
        recommended_concurrency=concurrency,
        warm_pool=pool,
    )
