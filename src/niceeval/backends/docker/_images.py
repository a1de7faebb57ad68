"""The image of a spec: there already, pulled, or built; from then on its id counts, whatever its tag becomes."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from niceeval.backends.docker._container import Options
from niceeval.backends.docker._context import build_context
from niceeval.backends.docker._engine import Engine, EngineRefused, failed, refused
from niceeval.sandbox import SandboxError

BUILT = "niceeval-built"
"""The repository of images that were built here; the tag is the digest of what they were built from."""
PULL_SILENCE = 180.0
"""Seconds without a word of a registry's progress after which a pull is given up."""
BUILD_SILENCE = 1800.0
"""Seconds that one step of a build may be silent."""
_KEPT_LINES = 12
_CHUNK = 256 * 1024
_DOCKER_HUB = "https://index.docker.io/v1/"
_log = logging.getLogger("niceeval.docker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image that containers are made from. `digest`: the registry's, where it has one, else that of its config."""

    name: str
    image_id: str
    digest: str
    platform: str
    context: str | None = None
    environment: tuple[str, ...] = ()


async def ready_image(engine: Engine, options: Options) -> Image:
    """The image, on the engine. Raises SandboxError, which says how to get one that is not there."""
    if options.dockerfile is not None:
        return await _built(engine, options, options.dockerfile)
    name = options.image or ""
    found = None if options.pull == "always" else await _inspect(engine, name)
    if found is None:
        if options.pull == "never":
            raise failed(
                f"the image {name} is not there, and is not to be pulled", f'`docker pull {name}`, or pull="missing"'
            )
        await _pull(engine, name, options.platform)
        found = await _inspect(engine, name)
    if found is None:
        raise failed(f"the image {name} was pulled and is not there", "look at the engine's log")
    return _image(name, found)


def _image(name: str, found: dict[str, Any], context: str | None = None) -> Image:
    image_id = str(found["Id"])
    image_id = image_id if ":" in image_id else f"sha256:{image_id}"
    digests = [str(text).partition("@")[2] for text in found.get("RepoDigests") or ()]
    config = found.get("Config") or {}
    return Image(
        name=name,
        image_id=image_id,
        digest=digests[0] if digests and digests[0] else image_id,
        platform=f"{found.get('Os', '')}/{found.get('Architecture', '')}",
        context=context,
        environment=tuple(config.get("Env") or ()),
    )


async def _inspect(engine: Engine, name: str) -> dict[str, Any] | None:
    try:
        found = await engine.call("GET", f"/images/{quote(name, safe=':/@')}/json")
    except EngineRefused as error:
        if error.status == 404:
            return None
        raise refused(f"image {name}", error) from None
    return found if isinstance(found, dict) else None


def split_name(name: str) -> tuple[str, str]:
    """An image's name without its tag or digest, and these: `latest` where it has none."""
    base, at, digest = name.partition("@")
    if at:
        return base, digest
    head, colon, tag = name.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (name, "latest")


async def _pull(engine: Engine, name: str, platform: str | None) -> None:
    base, tag = split_name(name)
    query = {"fromImage": base, "tag": tag}
    if platform is not None:
        query["platform"] = platform
    headers = {"X-Registry-Auth": _encoded(_credentials().get(_registry(base), {}))}
    _log.info("pulling %s", name)
    try:
        async for line in engine.lines("POST", "/images/create", query, headers=headers, limit=PULL_SILENCE):
            if "error" in line:
                raise _not_pulled(name, str(line["error"]))
            if str(line.get("status", "")) in ("Pull complete", "Download complete"):
                _log.info("pulling %s: %s %s", name, line.get("id", ""), line["status"])
            elif "id" not in line:
                _log.info("pulling %s: %s", name, line.get("status", ""))
    except EngineRefused as error:
        raise _not_pulled(name, error.message) from None


def _not_pulled(name: str, said: str) -> SandboxError:
    low = said.lower()
    fix = "see whether the registry can be reached from the engine, or load the image with `docker load`"
    if any(word in low for word in ("denied", "unauthorized", "authentication")):
        fix = "correct the name, or `docker login` to its registry"
    elif any(word in low for word in ("not found", "manifest unknown", "invalid reference")):
        fix = "correct the image's name and tag"
    elif "no space" in low:
        fix = "free space on the engine's disk: `docker system df`, `docker system prune`"
    return failed(f"the image {name} cannot be pulled: {' '.join(said.split())}", fix)


def _registry(base: str) -> str:
    first, slash, _ = base.partition("/")
    named = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return first if named else _DOCKER_HUB


def _credentials() -> dict[str, dict[str, str]]:
    """What `docker login` wrote where it uses no keychain: by registry."""
    folder = os.environ.get("DOCKER_CONFIG") or os.path.join(os.path.expanduser("~"), ".docker")
    try:
        said = json.loads(Path(folder, "config.json").read_text("utf-8"))["auths"]
        found = {}
        for registry, entry in said.items():
            user, _, password = base64.b64decode(entry.get("auth", "")).decode("utf-8").partition(":")
            if user:
                found[registry] = {"username": user, "password": password, "serveraddress": registry}
        return found
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        # No file, or one of another shape: the registry then says that it wants a login.
        return {}


def _encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode("ascii")


async def _built(engine: Engine, options: Options, dockerfile: str) -> Image:
    packed, context = build_context(dockerfile)
    arguments = json.dumps(
        [context, os.path.basename(dockerfile), sorted(options.build_args.items()), options.platform]
    )
    tag = f"{BUILT}:{hashlib.sha256(arguments.encode()).hexdigest()[:24]}"
    with packed:
        await _build(engine, options, dockerfile, tag, packed)
    found = await _inspect(engine, tag)
    if found is None:
        raise failed(f"{dockerfile} was built, and its image is not there", "look at the engine's log")
    return _image(tag, found, f"sha256:{context}")


async def _build(engine: Engine, options: Options, dockerfile: str, tag: str, packed: IO[bytes]) -> None:
    query = {
        "t": tag,
        "dockerfile": os.path.basename(dockerfile),
        "buildargs": json.dumps(dict(options.build_args)),
        "labels": json.dumps({"niceeval.built": "1"}),
        "rm": "1",
        "forcerm": "1",
    }
    if options.pull == "always":
        query["pull"] = "1"
    if options.platform is not None:
        query["platform"] = options.platform
    headers = {"Content-Type": "application/x-tar", "X-Registry-Config": _encoded(_credentials())}
    last: list[str] = []
    try:
        lines = engine.lines("POST", "/build", query, body=_chunks(packed), headers=headers, limit=BUILD_SILENCE)
        async for line in lines:
            if text := str(line.get("stream") or line.get("status") or "").strip():
                _log.info("building %s: %s", dockerfile, text)
                last = [*last, text][-_KEPT_LINES:]
            if "error" in line:
                raise _not_built(dockerfile, str(line["error"]), last)
    except EngineRefused as error:
        raise _not_built(dockerfile, error.message, last) from None


def _not_built(dockerfile: str, said: str, last: list[str]) -> SandboxError:
    step = next((text for text in reversed(last) if text.startswith(("Step ", "STEP "))), "")
    before = f" (at {step})" if step else ""
    said_before = last[-1] if last and last[-1] != step and not last[-1].startswith("--->") else ""
    detail = f"; before that: {said_before[:200]}" if said_before else ""
    return failed(f"{dockerfile} cannot be built{before}: {' '.join(said.split())}{detail}", "correct the Dockerfile")


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    while data := file.read(_CHUNK):
        yield data
