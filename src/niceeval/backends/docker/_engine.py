"""The engine's API: calls in JSON, the version that both sides speak, and errors that say what to do."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlencode

from niceeval.backends.docker._address import Address, candidates, tls_context, unusable
from niceeval.backends.docker._http import ANSWER_LIMIT, EngineLost, Exchange, connect
from niceeval.sandbox import SandboxError, SandboxUnavailableError

NEWEST_API = (1, 47)
"""The newest API that this was written for; a newer engine speaks it too."""
OLDEST_API = (1, 40)
"""The oldest that has everything that is used."""
MAX_ANSWER = 64 * 1024 * 1024
"""Bytes of a JSON answer."""
MAX_MESSAGE = 600
"""Characters of what the engine says that an error repeats."""
FULL = "no space left on device"

Body = bytes | AsyncIterator[bytes]


class EngineRefused(Exception):
    """The engine answered with an error: its status and its words."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Engine:
    """A connection to an engine, as it were: every call makes its own. `lost` errors are SandboxError."""

    def __init__(self, address: Address, context: ssl.SSLContext | None) -> None:
        self.address = address
        self.name = "docker"
        self.version = ""
        self.api = ""
        self._context = context

    @property
    def can_end_input(self) -> bool:
        """Whether a command's input can be ended while its output is read: TLS cannot."""
        return self._context is None

    async def exchange(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: Body | None = None,
        headers: Mapping[str, str] | None = None,
        limit: float | None = ANSWER_LIMIT,
    ) -> Exchange:
        """Send a request; the caller reads and closes. Raises EngineRefused for a status of 400 and above.

        Raises SandboxUnavailableError where the engine is gone. `limit`: seconds without a byte.
        """
        target = f"/v{self.api}{path}" if self.api else path
        if query:
            target += "?" + urlencode(query, errors="surrogateescape")
        try:
            exchange = await connect(self.address, self._context, limit)
        except OSError as error:
            problem = error.strerror or str(error) or "it does not answer"
            raise self.lost(problem.lower()) from None
        try:
            await exchange.send(method, target, headers or {}, body)
            if exchange.status >= 400:
                raise EngineRefused(exchange.status, _message(await exchange.read(MAX_ANSWER), exchange.status))
        except EngineLost as error:
            exchange.close()
            raise self.lost(str(error)) from None
        except BaseException:
            exchange.close()
            raise
        return exchange

    async def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        json_body: Any = None,
        body: Body | None = None,
        headers: Mapping[str, str] | None = None,
        limit: float | None = ANSWER_LIMIT,
    ) -> Any:
        """A call with a JSON answer; None where it has none. Raises EngineRefused, SandboxUnavailableError."""
        fields = dict(headers or {})
        if json_body is not None:
            body = json.dumps(json_body).encode()
            fields["Content-Type"] = "application/json"
        async with await self.exchange(method, path, query, body=body, headers=fields, limit=limit) as exchange:
            try:
                data = await exchange.read(MAX_ANSWER)
            except EngineLost as error:
                raise self.lost(str(error)) from None
        return _parsed(data)

    async def lines(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        body: Body | None = None,
        headers: Mapping[str, str] | None = None,
        limit: float | None = ANSWER_LIMIT,
    ) -> AsyncIterator[dict[str, Any]]:
        """A call that answers one JSON object after the other. Raises as `call` does."""
        rest = b""
        async with await self.exchange(method, path, query, body=body, headers=headers, limit=limit) as exchange:
            try:
                async for chunk in exchange.body():
                    *whole, rest = (rest + chunk).split(b"\n")
                    for line in whole:
                        if isinstance(found := _parsed(line), dict):
                            yield found
            except EngineLost as error:
                raise self.lost(str(error)) from None
        if isinstance(found := _parsed(rest), dict):
            yield found

    def lost(self, problem: str) -> SandboxUnavailableError:
        """The error of an engine that went away."""
        return unusable(f"no engine answers at {self.address}: {problem}", "start it, and run this once more")


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _message(data: bytes, status: int) -> str:
    found = _parsed(data)
    text = found.get("message") or found.get("cause") if isinstance(found, dict) else None
    return " ".join(str(text or data[:MAX_MESSAGE].decode("utf-8", "replace") or f"status {status}").split())[
        :MAX_MESSAGE
    ]


def failed(problem: str, fix: str) -> SandboxError:
    """The error of one thing that the engine did not do."""
    return SandboxError("sandbox-failed", backend="docker", problem=problem[:MAX_MESSAGE], fix=fix)


def refused(doing: str, error: EngineRefused) -> SandboxError:
    """What the engine said when it refused to do something, as an error with a next step."""
    fix = "see what the engine says; `docker info` and its log say more"
    if FULL in error.message:
        fix = "free space on the engine's disk: `docker system df`, `docker system prune`"
    return failed(f"{doing}: {error.message}", fix)


async def open_engine(said: str | None, environ: Mapping[str, str] | None = None) -> Engine:
    """The first engine that answers. Raises SandboxUnavailableError, which says what was tried and what helps."""
    environ = os.environ if environ is None else environ
    tried = candidates(said, environ)
    denied: Address | None = None
    problem = ""
    for address in tried:
        engine = Engine(address, tls_context(environ) if address.tls else None)
        try:
            await _negotiate(engine)
            return engine
        except SandboxUnavailableError as error:
            problem = problem or str(error.fields["problem"])
            denied = denied or (address if await _is_denied(address) else None)
        except EngineRefused as error:
            problem = problem or f"{address} answers {error.status}: {error.message}"
    raise _none(tried, denied, problem)


def _none(tried: list[Address], denied: Address | None, problem: str) -> SandboxUnavailableError:
    if denied is not None:
        return unusable(
            f"you may not use {denied}: permission denied",
            "add yourself to its group (`sudo usermod -aG docker $USER`) and log in again, or use rootless Podman",
        )
    if len(tried) == 1:
        fix = "start the engine there, or correct host= or DOCKER_HOST"
        return unusable(problem, fix)
    places = ", ".join(str(address.path) for address in tried)
    start = (
        "start Docker Desktop, `sudo systemctl start docker` or `podman system service --time 0`, or set DOCKER_HOST"
    )
    return unusable(f"no container engine answers here (tried {places})", start)


async def _is_denied(address: Address) -> bool:
    if address.path is None:
        return False
    try:
        (await connect(address, None, None)).close()
    except OSError as error:
        return error.errno in (errno.EACCES, errno.EPERM)
    return False


async def _negotiate(engine: Engine) -> None:
    found = await engine.call("GET", "/version", limit=20.0)
    if not isinstance(found, dict) or "ApiVersion" not in found:
        raise unusable(f"what answers at {engine.address} is no engine", "correct host= or DOCKER_HOST")
    newest = _number(found.get("ApiVersion"))
    if newest < OLDEST_API:
        raise unusable(f"the engine at {engine.address} is too old: API {found['ApiVersion']}", "update it")
    major, minor = max(min(newest, NEWEST_API), _number(found.get("MinAPIVersion")))
    engine.api = f"{major}.{minor}"
    engine.version = str(found.get("Version", ""))[:60]
    components = found.get("Components") or []
    if any("podman" in str(part.get("Name", "")).lower() for part in components if isinstance(part, dict)):
        engine.name = "podman"


def _number(text: Any) -> tuple[int, int]:
    major, _, minor = str(text or "").partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else (0, 0)


async def to_the_end(work: Any) -> Any:
    """Await work that must not be left half done; a cancellation meanwhile is raised when it is over."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        with contextlib.suppress(Exception):
            task.result()
        raise asyncio.CancelledError
    return task.result()
