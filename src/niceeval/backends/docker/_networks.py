"""Networks: the engine's own, and the internal one, which reaches a server on this machine and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import uuid
from typing import Any

from niceeval.backends.docker._container import Attached
from niceeval.backends.docker._engine import Engine, EngineRefused, failed, refused
from niceeval.sandbox import SandboxError

_LABEL = "niceeval"
_PREFIX = "niceeval-internal"


class Networks:
    """The network of one backend's containers; the internal one is made when the first needs it."""

    def __init__(self, engine: Engine, network: str) -> None:
        self._engine = engine
        self._network = network
        self._lock = asyncio.Lock()
        self._own: Attached | None = None

    async def attached(self) -> Attached:
        """Where the next container goes. Raises SandboxError."""
        if self._network == "none":
            return Attached(mode="none", gateway=None)
        if self._network == "bridge":
            # Podman gives its containers a name for the host by itself, and does not know this word.
            return Attached(mode="bridge", gateway="host-gateway" if self._engine.name == "docker" else None)
        async with self._lock:
            if self._network != "internal":
                await self._require(self._network)
                return Attached(mode=self._network, gateway=None)
            if self._own is None:
                self._own = await self._make()
            return self._own

    def forget(self) -> None:
        """The internal network has gone: the next container needs another."""
        self._own = None

    async def close(self) -> None:
        """Remove the internal network, unless a container is on it still."""
        own, self._own = self._own, None
        if own is not None:
            await remove_network(self._engine, own.mode)

    async def _require(self, name: str) -> None:
        try:
            await self._engine.call("GET", f"/networks/{name}")
        except EngineRefused as error:
            if error.status != 404:
                raise refused(f"network {name}", error) from None
            fix = f'`docker network create {name}`, or network="bridge"'
            raise failed(f"there is no network {name!r}", fix) from None

    async def _make(self) -> Attached:
        name = f"{_PREFIX}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        body = {
            "Name": name,
            "CheckDuplicate": True,
            "Driver": "bridge",
            "Internal": True,
            "Labels": {_LABEL: "1"},
        }
        if self._engine.name == "docker":
            # Attempts must not reach each other.
            body["Options"] = {"com.docker.network.bridge.enable_icc": "false"}
        try:
            await self._engine.call("POST", "/networks/create", json_body=body)
            found = await self._engine.call("GET", f"/networks/{name}")
        except EngineRefused as error:
            if "address pool" in error.message or "subnet" in error.message:
                await sweep_networks(self._engine)
                raise failed(f"no room for a network: {error.message}", "`docker network prune`") from None
            raise refused("making an internal network", error) from None
        return Attached(mode=name, gateway=_gateway(found))


def _gateway(network: Any) -> str | None:
    with contextlib.suppress(KeyError, TypeError, AttributeError):
        for config in network["IPAM"]["Config"]:
            address = str(config.get("Gateway") or "").partition("/")[0]
            if address and ":" not in address:
                return address
    return None


async def remove_network(engine: Engine, name: str) -> None:
    """Remove a network that niceeval made; one that is in use, or gone, stays as it is."""
    if not name.startswith(_PREFIX):
        return
    with contextlib.suppress(EngineRefused, SandboxError):
        await engine.call("DELETE", f"/networks/{name}")


async def sweep_networks(engine: Engine) -> None:
    """Remove niceeval's networks that no container is on."""
    filters = json.dumps({"label": [f"{_LABEL}=1"]})
    with contextlib.suppress(EngineRefused, SandboxError):
        for network in await engine.call("GET", "/networks", {"filters": filters}) or ():
            if not _lives(str(network.get("Name", ""))):
                await remove_network(engine, str(network.get("Name", "")))


def _lives(name: str) -> bool:
    """Whether the process that made the network may live still: its number is in the name."""
    number = name.removeprefix(f"{_PREFIX}-").partition("-")[0]
    return number.isdecimal() and os.path.exists(f"/proc/{number}")
