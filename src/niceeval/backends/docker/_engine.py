"""The Docker Engine API over its socket: requests, and its errors in our words.

https://docs.docker.com/reference/api/engine/ ; Podman's service speaks the same.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from niceeval.sandbox import SandboxError, SandboxGoneError, SandboxUnavailableError

if TYPE_CHECKING:
    import httpx2

API_LIMIT = (1, 44)
"""The newest version of the API that is asked for; an older engine is asked for its own."""
REQUEST_LIMIT = 120.0
"""Seconds for one request that is not a stream."""
CONNECT_LIMIT = 10.0
"""Seconds for reaching the engine."""
_START = "start Docker (systemctl start docker, or Docker Desktop), or set DOCKER_HOST"


class EngineError(SandboxError):
    """The engine refused a request: `status` is HTTP's, `said` its own words."""

    def __init__(self, status: int, said: str, *, fix: str) -> None:
        self.status = status
        self.said = said
        super().__init__("sandbox-failed", backend="docker", problem=said, fix=fix)


def unavailable(problem: str, fix: str = _START) -> SandboxUnavailableError:
    """The error of an engine that cannot be used."""
    return SandboxUnavailableError("sandbox-unavailable", backend="docker", problem=problem, fix=fix)


def usual_sockets() -> list[str]:
    """Where engines listen, the likeliest first: Docker's, then Podman's."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    home = Path.home()
    places = ["/var/run/docker.sock", home / ".docker/run/docker.sock", home / ".colima/default/docker.sock"]
    if runtime:
        places += [f"{runtime}/docker.sock", f"{runtime}/podman/podman.sock"]
    return [str(place) for place in (*places, "/run/podman/podman.sock")]


def engine_address(host: str | None) -> str:
    """`host`, else `DOCKER_HOST`, else the first of the usual sockets that is there.

    Raises SandboxUnavailableError where none is, or for a kind of address that cannot be spoken to.
    """
    address = host or os.environ.get("DOCKER_HOST") or None
    if address is None:
        found = next((place for place in usual_sockets() if os.path.exists(place)), None)
        if found is None:
            raise unavailable("no engine listens on any of the usual sockets", _START)
        return f"unix://{found}"
    kind = urlsplit(address).scheme
    if kind not in ("unix", "tcp", "http"):
        fix = "forward its socket (ssh -L), and give unix:// or tcp://"
        raise unavailable(f"{address} is an address of an unknown kind", fix)
    return address


class Engine:
    """A connection to one engine. `description` of it: its name and version."""

    def __init__(self, client: httpx2.AsyncClient, address: str) -> None:
        self._client = client
        self.address = address
        self.version = ""
        self.podman = False

    @classmethod
    async def connect(cls, host: str | None) -> Engine:
        """Find the engine and agree on a version. Raises SandboxUnavailableError with what to do."""
        try:
            import httpx2
        except ModuleNotFoundError:
            raise unavailable("the extra `docker` is not installed", "pip install 'niceeval[docker]'") from None
        address = engine_address(host)
        parts = urlsplit(address)
        uds = (parts.path or parts.netloc) if parts.scheme == "unix" else None
        transport = httpx2.AsyncHTTPTransport(uds=uds, limits=httpx2.Limits(max_connections=None), retries=1)
        client = httpx2.AsyncClient(
            transport=transport,
            base_url="http://docker" if uds else f"http://{parts.netloc}",
            timeout=httpx2.Timeout(REQUEST_LIMIT, connect=CONNECT_LIMIT),
            trust_env=False,
        )
        engine = cls(client, address)
        try:
            await engine._agree()
        except BaseException:
            await client.aclose()
            raise
        return engine

    async def _agree(self) -> None:
        found = await self.json("GET", "/version")
        self.version = str(found.get("Version", ""))
        self.podman = any("podman" in str(part.get("Name", "")).lower() for part in found.get("Components") or ())
        offered = tuple(int(part) for part in str(found.get("ApiVersion", "1.41")).split(".")[:2])
        version = min(offered, API_LIMIT)
        self._client.base_url = self._client.base_url.copy_with(path=f"/v{version[0]}.{version[1]}/")

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def json(self, method: str, path: str, body: object = None, **query: object) -> Any:
        """A request whose answer is JSON; None where there is no answer. Raises EngineError, SandboxUnavailableError."""
        response = await self.request(method, path, body, **query)
        return json.loads(response.content) if response.content else None

    async def request(self, method: str, path: str, body: object = None, **query: object) -> httpx2.Response:
        """A request and its whole answer."""
        async with self.stream(method, path, body, **query) as response:
            await response.aread()
        return response

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, body: object = None, *, endless: bool = False, upgrade: bool = False, **query: Any
    ) -> AsyncIterator[httpx2.Response]:
        """A request whose answer is read as it comes. `endless`: it may take any time. `upgrade`: it becomes a raw
        stream, both ways."""
        import httpx2

        headers = {"Connection": "Upgrade", "Upgrade": "tcp"} if upgrade else {}
        content: dict[str, Any] = {}
        if isinstance(body, (bytes, AsyncIterator)):
            content["content"] = body
            headers["Content-Type"] = "application/x-tar"
        elif body is not None:
            content["json"] = body
        options: dict[str, Any] = {}
        if endless or upgrade:
            options["timeout"] = httpx2.Timeout(None, connect=CONNECT_LIMIT)
        try:
            async with self._client.stream(
                method, path.lstrip("/"), params=_query(query), headers=headers, **content, **options
            ) as response:
                if response.status_code >= 400:
                    await response.aread()
                    raise engine_error(response.status_code, response.content)
                yield response
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise self._unreachable(error) from None
        except httpx2.TransportError as error:
            problem = f"the engine at {self.address} did not answer: {error or type(error).__name__}"
            raise EngineError(0, problem, fix="see whether it runs, and what its log says") from None

    def _unreachable(self, error: Exception) -> SandboxUnavailableError:
        said = str(error)
        if "ermission denied" in said:
            fix = "add yourself to its group (sudo usermod -aG docker $USER) and log in again"
            return unavailable(f"you may not use {self.address}", fix)
        return unavailable(f"nothing answers at {self.address}: {said or type(error).__name__}", _START)


def _query(query: Mapping[str, object]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in query.items():
        if isinstance(value, bool):
            found[name] = "1" if value else "0"
        elif isinstance(value, (dict, list)):
            found[name] = json.dumps(value)
        elif value is not None:
            found[name] = str(value)
    return found


def engine_error(status: int, content: bytes) -> SandboxError:
    """What the engine's refusal means."""
    try:
        said = str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        said = content.decode("utf-8", "replace").strip() or f"HTTP {status}"
    said = said[:1_000]
    lowered = said.lower()
    if (status == 404 and "no such container" in lowered) or (status == 409 and "is not running" in lowered):
        return gone(said)
    if "no space left on device" in lowered:
        return EngineError(status, said, fix="free space: docker system prune")
    return EngineError(status, said, fix="see the engine's log")


def gone(problem: str) -> SandboxGoneError:
    """The error of a container that is not there any more."""
    return SandboxGoneError("sandbox-gone", backend="docker", problem=problem, fix="see what removed or stopped it")


def path_stat(header: str | None) -> Mapping[str, Any] | None:
    """What `X-Docker-Container-Path-Stat` says: name, size, mode (Go's), linkTarget."""
    if header is None:
        return None
    try:
        found = json.loads(base64.b64decode(header))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def quoted(text: str) -> str:
    """Text as one segment of a URL's path, slashes kept."""
    return quote(text, safe="/:@")
