"""Makes containers of one image, and finds those that stand."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from niceeval.backends.docker._container import USER_LABEL, Attached, Options, container_body
from niceeval.backends.docker._engine import Engine, EngineRefused, failed, refused, to_the_end
from niceeval.backends.docker._files import ContainerFiles
from niceeval.backends.docker._images import Image
from niceeval.backends.docker._layout import layout_of
from niceeval.backends.docker._networks import Networks, remove_network
from niceeval.backends.docker._sandbox import DockerSandbox, remove_container
from niceeval.sandbox import Sandbox, SandboxError, SandboxRequest, SandboxUnsupportedError, StandingSandbox

_USER = "1000:1000"
_NO_SHELL = ("/bin/sh", "no such file", "not found")


class StandingContainers:
    """Looks at the containers of niceeval on an engine, whoever made them; see `niceeval.sandbox.SandboxBackend`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._users: dict[str, str] = {}

    @property
    def description(self) -> Mapping[str, Any]:
        return {"engine": f"{self._engine.name} {self._engine.version}"}

    async def create(self, request: SandboxRequest) -> Sandbox:
        raise SandboxUnsupportedError(
            "sandbox-unsupported", backend="docker", problem="no image is said", fix="use docker_sandbox(...)"
        )

    async def standing(self) -> Sequence[StandingSandbox]:
        filters = json.dumps({"label": ["niceeval=1"]})
        try:
            found = await self._engine.call("GET", "/containers/json", {"all": "1", "filters": filters})
        except EngineRefused as error:
            raise refused("listing containers", error) from None
        standing = [_standing(container) for container in found or ()]
        self._users |= {found.sandbox_id: found.labels[USER_LABEL] for found in standing if USER_LABEL in found.labels}
        return standing

    async def remove(self, sandbox_id: str) -> None:
        networks: list[str] = []
        with contextlib.suppress(EngineRefused):
            found = await self._engine.call("GET", f"/containers/{sandbox_id}/json")
            networks = list(found["NetworkSettings"]["Networks"])
        await remove_container(self._engine, sandbox_id)
        for name in networks:
            await remove_network(self._engine, name)

    def enter_command(self, sandbox_id: str) -> Sequence[str] | None:
        program = shutil.which(self._engine.name)
        if program is None:
            return None
        where = ("--url" if self._engine.name == "podman" else "--host", str(self._engine.address))
        shell = "exec $(command -v bash || echo sh)"
        user = self._users.get(sandbox_id, _USER)
        return (program, *where, "exec", "-it", "--user", user, sandbox_id, "sh", "-c", shell)

    async def close(self) -> None:
        return None


class DockerBackend(StandingContainers):
    """See `niceeval.sandbox.SandboxBackend`."""

    def __init__(self, engine: Engine, options: Options, image: Image) -> None:
        super().__init__(engine)
        self._options = options
        self._image = image
        self._networks = Networks(engine, options.network)
        self._with_shell = True
        self._layout: bytes | None = None
        self._layout_lock = asyncio.Lock()

    @property
    def description(self) -> Mapping[str, Any]:
        image = self._image
        found: dict[str, Any] = {
            **super().description,
            "image": image.name,
            "digest": image.digest,
            "imageId": image.image_id,
            "platform": image.platform,
        }
        return found | ({"context": image.context} if image.context is not None else {})

    async def create(self, request: SandboxRequest) -> Sandbox:
        self._require_sources()
        attached = await self._networks.attached()
        with_shell = self._with_shell
        try:
            return await self._create(request, attached, with_shell=with_shell)
        except EngineRefused as error:
            if "network" in error.message and error.status == 404:
                # Somebody removed the internal network, which nothing was on.
                self._networks.forget()
                return await self._again(request, with_shell=with_shell)
            if (
                with_shell
                and all(word in error.message for word in _NO_SHELL[:1])
                and any(word in error.message for word in _NO_SHELL[1:])
            ):
                self._with_shell = False
                return await self._again(request, with_shell=False)
            raise self._not_made(error) from None

    async def _again(self, request: SandboxRequest, *, with_shell: bool) -> Sandbox:
        try:
            return await self._create(request, await self._networks.attached(), with_shell=with_shell)
        except EngineRefused as error:
            raise self._not_made(error) from None

    async def _create(self, request: SandboxRequest, attached: Attached, *, with_shell: bool) -> Sandbox:
        name = f"niceeval-{uuid.uuid4().hex[:16]}"
        body = container_body(
            self._options,
            image=self._image.image_id,
            labels=request.labels,
            attached=attached,
            lifetime=request.lifetime,
            with_shell=with_shell,
        )
        query = {"name": name}
        if self._options.platform is not None:
            query["platform"] = self._options.platform
        try:
            # Cut short, it would be made all the same, after it was looked for.
            made = await to_the_end(self._engine.call("POST", "/containers/create", query, json_body=body))
            container = str(made["Id"])
            files = ContainerFiles(self._engine, container, self._options.uid, self._options.gid)
            await files.put(await self._folders(files))
            await self._engine.call("POST", f"/containers/{container}/start")
        except BaseException:
            with contextlib.suppress(SandboxError):
                await to_the_end(remove_container(self._engine, name))
            raise
        return DockerSandbox(self._engine, container, self._options)

    async def _folders(self, files: ContainerFiles) -> bytes:
        """What every container gets before it starts: the image is the same for all, so it is looked at once."""
        async with self._layout_lock:
            if self._layout is None:
                self._layout = await layout_of(files, self._options)
            return self._layout

    def _require_sources(self) -> None:
        if self._engine.address.path is None:
            return
        bundle = self._options.ca_bundle
        for source, name in [*((source, "mounts") for source, _ in self._options.mounts), (bundle, "ca_bundle")]:
            if source is not None and not os.path.exists(source):
                raise failed(f"{source} is not there", f"correct {name}=")

    def _not_made(self, error: EngineRefused) -> SandboxError:
        low = error.message.lower()
        name = self._image.name
        if "no such image" in low or ("image" in low and "not known" in low):
            return failed(f"the image {name} was removed meanwhile", "run this once more")
        if "no command" in low:
            return failed(
                f"the image {name} has neither a shell nor a command", "add a shell to it, or a CMD that waits"
            )
        if "bind source path" in low:
            return failed(f"a mount cannot be made: {error.message}", "correct mounts= or ca_bundle=")
        return refused(f"making a container of {name}", error)

    async def close(self) -> None:
        await self._networks.close()


def _standing(container: Mapping[str, Any]) -> StandingSandbox:
    labels = {str(name): str(value) for name, value in (container.get("Labels") or {}).items()}
    expires = labels.get("niceeval.expires", "")
    created = container.get("Created")
    return StandingSandbox(
        backend="docker",
        sandbox_id=str(container["Id"])[:12],
        labels=labels,
        created_at=float(created) if isinstance(created, (int, float)) else None,
        expires_at=float(expires) if expires.isascii() and expires.isdecimal() else None,
        detail=f"{container.get('Image', '')} ({container.get('Status') or container.get('State') or ''})",
    )
