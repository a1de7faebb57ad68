"""The backend of `modal_sandbox(...)`: sandboxes of Modal, through its Python SDK."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from niceeval.backends.modal._errors import failed, translated, unavailable
from niceeval.backends.modal._machine import ModalMachine
from niceeval.sandbox import (
    Sandbox,
    SandboxBackend,
    SandboxError,
    SandboxGoneError,
    SandboxRequest,
    SandboxSpec,
    StandingSandbox,
)
from niceeval.sandbox.remote import RemoteSandbox
from niceeval.sandbox.services import Lease, made_or_removed

if TYPE_CHECKING:
    from modal import App, Client, Image
    from modal import Sandbox as ModalSandbox

KEYS = ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")
LABEL = "niceeval"
LONGEST = 86_400.0
"""Seconds that Modal lets a sandbox live at most."""
TERM = 900.0
"""Seconds without a command after which a sandbox ends by itself, as it does when niceeval dies."""
KEPT_TERM = 3_600.0
"""The same of one that is to be looked at afterwards."""
PRIVATE_PARENT = "/var/tmp"
"""Where the private folder is made: every user may make one there."""
FIRST = ("sh", "-c", "while :; do sleep 3600; done")
"""The process that a sandbox lives as long as."""
_WHO = ("sh", "-c", 'printf "%s %s" "$(id -u)" "${HOME:-/root}"')
_NOT_THERE = "correct what modal_sandbox(...) names, or MODAL_ENVIRONMENT"


async def open_backend(spec: SandboxSpec) -> SandboxBackend:
    """Raises SandboxUnavailableError without the SDK, without a key, or with a wrong one."""
    backend = ModalBackend(cast(Mapping[str, Any], spec.options))
    try:
        await backend.check()
    except BaseException:
        await backend.close()
        raise
    return backend


async def open_standing(options: Mapping[str, Any]) -> SandboxBackend:
    """To look at what stands, and to remove it. Raises SandboxUnavailableError without the SDK, or without a key."""
    return ModalBackend(options)


class ModalBackend:
    """See `niceeval.sandbox.SandboxBackend`. `options` are those of `modal_sandbox`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        try:
            import modal  # noqa: F401
        except ModuleNotFoundError:
            raise unavailable("the extra `modal` is not installed", "pip install 'niceeval[modal]'") from None
        for key in KEYS:
            if not os.environ.get(key):
                raise unavailable(f"{key} is not set", f"set {key}, in the environment or in .env")
        self._options = options
        self._leases: list[Lease] = []
        self._opening = asyncio.Lock()
        self._opened: Client | None = None
        self._app: App | None = None
        self._image: Image | None = None

    @property
    def description(self) -> Mapping[str, Any]:
        return {name: self._options[name] for name in ("image", "image_id") if self._options.get(name) is not None}

    async def check(self) -> None:
        """Say hello to the service. Raises SandboxUnavailableError where the key is refused."""
        client = await self._client()
        with translated():
            await cast(Any, client).hello.aio()

    async def create(self, request: SandboxRequest) -> Sandbox:
        term = min(KEPT_TERM if request.keep else TERM, request.lifetime)
        private = f"{PRIVATE_PARENT}/.niceeval-{secrets.token_hex(6)}"
        # Its labels come after it, and it ends by itself where they never do.
        with translated(not_found=_NOT_THERE):
            made = await made_or_removed(self._made(request, term), lambda late: ModalMachine(late, private).stop())
        machine = ModalMachine(made, private)
        try:
            with translated():
                await made.set_tags.aio({LABEL: "1", **request.labels})
            sandbox = await self._prepared(machine, made.object_id, private)
        except BaseException:
            with contextlib.suppress(SandboxError):
                await machine.stop()
            raise
        machine.lease = Lease(machine.extend, term=term, lifetime=min(request.lifetime, LONGEST))
        self._leases.append(machine.lease)
        return sandbox

    async def _made(self, request: SandboxRequest, term: float) -> ModalSandbox:
        import modal

        client = await self._client()
        async with self._opening:
            if self._app is None:
                self._app = await modal.App.lookup.aio(self._options["app"], client=client, create_if_missing=True)
                self._image = self._described_image(client)
        return await modal.Sandbox.create.aio(
            *FIRST,
            app=self._app,
            image=self._image,
            timeout=math.ceil(min(request.lifetime, LONGEST)),
            idle_timeout=math.ceil(term),
            cpu=self._options.get("cpu"),
            memory=self._options.get("memory"),
            block_network=bool(self._options.get("block_network")),
            client=client,
        )

    def _described_image(self, client: Client) -> Image | None:
        import modal

        image, image_id = self._options.get("image"), self._options.get("image_id")
        if image_id is not None:
            return modal.Image.from_id(image_id, client=client)
        # An image's own entry point would get the first process as its arguments.
        return None if image is None else modal.Image.from_registry(image).entrypoint([])

    async def _prepared(self, machine: ModalMachine, sandbox_id: str, private: str) -> Sandbox:
        said = bytearray()
        code = await machine.run(_WHO, env={}, root=False, on_stdout=said.extend, on_stderr=lambda _: None)
        user, _, home = said.decode("utf-8", "replace").partition(" ")
        if code != 0 or not home:
            raise failed("the image has no sh with id and printf", "use an image that has them")
        machine.root = user == "0"
        sandbox = RemoteSandbox(
            machine,
            name="modal",
            sandbox_id=sandbox_id,
            workdir=self._options["workdir"],
            private_dir=private,
            env={"HOME": home, **(self._options.get("env") or {})},
        )
        await sandbox.prepare()
        return sandbox

    async def standing(self) -> Sequence[StandingSandbox]:
        """Those of the app that new ones are made in."""
        import modal

        client = await self._client()
        found: list[StandingSandbox] = []
        with translated():
            try:
                app = await modal.App.lookup.aio(self._options["app"], client=client)
            except modal.exception.NotFoundError:
                return found
            async for sandbox in modal.Sandbox.list.aio(app_id=app.app_id, tags={LABEL: "1"}, client=client):
                with contextlib.suppress(modal.exception.NotFoundError):
                    found.append(_standing(sandbox.object_id, await sandbox.get_tags.aio()))
        return found

    async def remove(self, sandbox_id: str) -> None:
        import modal

        client = await self._client()
        with contextlib.suppress(SandboxGoneError), translated():
            sandbox = await modal.Sandbox.from_id.aio(sandbox_id, client=client)
            await sandbox.terminate.aio()

    def enter_command(self, sandbox_id: str) -> Sequence[str] | None:
        return ("modal", "shell", sandbox_id)

    async def close(self) -> None:
        """Sandboxes that stand end when nothing has run in them for their term, or their time is over."""
        for lease in self._leases:
            await lease.end()
        client, self._opened = self._opened, None
        if client is not None:
            # Its name has no underscore from some version on.
            await (getattr(client, "close", None) or cast(Any, client)._close).aio()

    async def _client(self) -> Client:
        import modal

        async with self._opening:
            if self._opened is None:
                with translated():
                    self._opened = await modal.Client.from_credentials.aio(*(os.environ[key] for key in KEYS))
            return self._opened


def _standing(sandbox_id: str, labels: Mapping[str, str]) -> StandingSandbox:
    expires = labels.get("niceeval.expires", "")
    return StandingSandbox(
        backend="modal",
        sandbox_id=sandbox_id,
        labels=dict(labels),
        expires_at=float(expires) if expires.isdecimal() else None,
    )
