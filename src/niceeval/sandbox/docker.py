"""`docker_sandbox`: a container of a Docker Engine, or of Podman."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from niceeval._base.arguments import described
from niceeval._base.places import author_place
from niceeval._model.json_types import JsonValue
from niceeval._model.sandbox import SandboxSpec
from niceeval.sandbox.arguments import SpecArguments

WORKDIR = "/home/sandbox/workspace"
"""Where an agent works in a container."""
MAX_ID = 2**31 - 1
"""The largest number of a user or a group that container runtimes take."""
MAX_PIDS = 2**22
"""The most processes that Linux can have."""
MAX_MEMORY = 2**50
"""Bytes of memory that a container may be given at most: more than any machine has."""
_NETWORK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder or file of this machine that containers see, read-only. A relative `source` is the author's file's."""

    source: str
    target: str


def docker_sandbox(
    *,
    image: str | None = None,
    dockerfile: str | os.PathLike[str] | None = None,
    build_args: Mapping[str, str] | None = None,
    pull: Literal["missing", "always", "never"] = "missing",
    platform: str | None = None,
    workdir: str = WORKDIR,
    user: str = "1000:1000",
    network: str = "bridge",
    env: Mapping[str, str] | None = None,
    mounts: tuple[Mount, ...] | list[Mount] = (),
    ca_bundle: str | os.PathLike[str] | None = None,
    memory: str = "2g",
    cpus: float = 2.0,
    pids: int = 512,
    capabilities: tuple[str, ...] | list[str] = (),
    init: bool = False,
    host: str | None = None,
    warm_pool: int = 0,
) -> SandboxSpec:
    """A container: `docker_sandbox(image="python:3.12-slim")`, or `docker_sandbox(dockerfile="images/Dockerfile")`.

    `image` is a name with a tag or a digest; the digest that a tag resolved to is recorded. `dockerfile` is built once
    a run, with its folder as the context (a path relative to the file that calls this). `pull`: when the image is
    fetched. `user` is `uid:gid` that commands run as; `root=True` of a command raises it. `network`: `"bridge"`;
    `"none"`; `"internal"`, which reaches a server on this machine only; or the name of a network that exists. `env` is
    set for every command. `ca_bundle`: a file of certificates of this machine, mounted, with the usual variables set.
    `memory` (`512m`, `2g`), `cpus` and `pids` are limits. All capabilities are dropped but `capabilities`, and no
    process gains new privileges. `init`: the engine's own init is process 1. `host`: the engine's address (`unix://` or
    `tcp://`); else `DOCKER_HOST`, else the usual sockets, Podman's too. `warm_pool`: containers started ahead.

    Raises ProjectError (`bad-argument`).
    """
    arguments = SpecArguments("docker_sandbox", dict(locals()))
    folder = os.path.dirname(os.path.abspath(author_place().file))
    if (image is None) == (dockerfile is None):
        problem = "and dockerfile are both given" if image is not None else "is missing, and so is dockerfile"
        raise arguments.error("image", problem, 'docker_sandbox(image="python:3.12-slim")')
    options: dict[str, JsonValue] = {
        "image": arguments.word("image"),
        "dockerfile": arguments.path("dockerfile", folder),
        "build_args": dict(arguments.texts("build_args")),
        "pull": arguments.one_of("pull", ("missing", "always", "never")),
        "platform": arguments.word("platform"),
        "workdir": _absolute(arguments),
        "user": _user(arguments),
        "network": _network(arguments),
        "env": dict(arguments.texts("env")),
        "mounts": _mounts(arguments, folder),
        "ca_bundle": arguments.path("ca_bundle", folder),
        "memory": _memory(arguments),
        "cpus": arguments.cpus("cpus") or 2.0,
        "pids": arguments.bounded_count("pids", MAX_PIDS) or arguments.required_count("pids"),
        "capabilities": list(arguments.names("capabilities")),
        "init": arguments.flag("init"),
        "host": arguments.word("host"),
    }
    return SandboxSpec(
        name="docker",
        backend="niceeval.backends.docker",
        options=options,
        shown=f"docker {image if image is not None else os.fspath(dockerfile or '')}",
        recommended_concurrency=4,
        warm_pool=arguments.pool(),
    )


def _network(arguments: SpecArguments) -> str:
    network = arguments.text("network") or "bridge"
    if _NETWORK.fullmatch(network) is None:
        problem = f"is {described(network)}; it is the name of a network: letters, digits, _, . and -"
        raise arguments.error("network", problem, 'network="none"')
    return network


def _absolute(arguments: SpecArguments) -> str:
    workdir = arguments.text("workdir") or WORKDIR
    if not workdir.startswith("/") or os.path.normpath(workdir) == "/":
        raise arguments.error("workdir", f"is {described(workdir)}; it is an absolute folder", f'workdir="{WORKDIR}"')
    return os.path.normpath(workdir)


def _user(arguments: SpecArguments) -> str:
    user = arguments.text("user") or ""
    uid, colon, gid = user.partition(":")
    if not _is_id(uid) or (colon and not _is_id(gid)):
        problem = f"is {described(user)}; it is uid:gid in numbers, each up to {MAX_ID}"
        raise arguments.error("user", problem, 'user="1000:1000"')
    return f"{uid}:{gid or uid}"


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_ID)) and int(text) <= MAX_ID


def _memory(arguments: SpecArguments) -> int:
    """Bytes."""
    said = arguments.text("memory") or ""
    units = {"k": 1024, "m": 1024**2, "g": 1024**3}
    number, factor = (said[:-1], units[said[-1].lower()]) if said[-1:].lower() in units else (said, 1)
    plain = number.isascii() and number.isdecimal() and len(number) <= len(str(MAX_MEMORY))
    if not plain or not 6 * 1024**2 <= int(number) * factor <= MAX_MEMORY:
        problem = f"is {described(said)}; it is a size from 6m to {MAX_MEMORY // 1024**3}g"
        raise arguments.error("memory", problem, 'memory="2g"')
    return int(number) * factor


def _mounts(arguments: SpecArguments, folder: str) -> list[JsonValue]:
    mounts = arguments["mounts"]
    if not isinstance(mounts, (list, tuple)) or not all(isinstance(mount, Mount) for mount in mounts):
        raise arguments.error("mounts", f"is {described(mounts)}; it is a list of Mount", "mounts=[Mount(...)]")
    return [_mount(arguments, mount, folder) for mount in mounts]


def _mount(arguments: SpecArguments, mount: Mount, folder: str) -> JsonValue:
    target = mount.target
    if not str(target).startswith("/"):
        fix = 'mounts=[Mount(source="data", target="/data")]'
        raise arguments.error("mounts", f"has the target {described(target)}; it is an absolute path", fix)
    arguments.require_line("mounts", target)
    return {"source": arguments.path_of("mounts", mount.source, folder), "target": target}
