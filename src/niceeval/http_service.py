"""A service that an agent is reached through over HTTP: what adapters of protocols share. Needs the extra `http`.

    service = HttpService("http://127.0.0.1:8000/chat", name="chat")
    async with service.post({"text": "hello"}, ctx) as answer:
        async for event in answer.events():
            ...
        cut = answer.cut

An error says whether the input may be sent again: one that certainly was not accepted is a `RetryableSendError`.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from niceeval._base.errors import AdapterError
from niceeval._base.extras import require_extra
from niceeval._model.failure import RetryableSendError
from niceeval.streams import ServerSentEvent, SseDecoder, sse_events

if TYPE_CHECKING:
    import httpx2

    from niceeval.adapter import AgentContext

__all__ = ["EVENT_STREAM", "MAX_BODY_BYTES", "Answer", "HttpService"]

EVENT_STREAM: Final = "text/event-stream"
"""The content type of server-sent events."""
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
"""The largest body of an answer that is read whole, in bytes."""
MAX_SAID: Final = 500
"""Characters of a refusal's body that are repeated in the error."""
MAX_LOGGED_ERROR_BYTES: Final = 64 * 1024
CONNECT_LIMIT: Final = 10.0
"""Seconds that a connection may take to be made."""
_NOT_ACCEPTED: Final = frozenset({429, 503})
"""Statuses by which a server says that it did not take the request."""


class Answer:
    """What a service answered, while its connection is open. `status` and `headers` are there at once."""

    def __init__(self, response: httpx2.Response, name: str, decoder: SseDecoder) -> None:
        self._response = response
        self._name = name
        self._decoder = decoder
        self._broken = ""

    @property
    def status(self) -> int:
        return int(self._response.status_code)

    @property
    def headers(self) -> Mapping[str, str]:
        """By name, in lower case."""
        return {name.lower(): value for name, value in self._response.headers.items()}

    @property
    def cut(self) -> str | None:
        """Why the stream of events is not whole, once it has ended; None where it is. It belongs in the coverage."""
        if self._broken:
            return f"the connection broke: {self._broken}"
        if self._decoder.oversized:
            return f"{self._decoder.oversized} events were too long to be kept"
        return "the stream ended within an event" if self._decoder.unfinished else None

    @property
    def streams_events(self) -> bool:
        """Whether it says that its body is a stream of server-sent events."""
        return self.headers.get("content-type", "").startswith(EVENT_STREAM)

    def require_events(self) -> None:
        """Raises AdapterError `service-failed` for an answer of another kind, such as a page of a proxy."""
        if not self.streams_events:
            said = self.headers.get("content-type", "nothing")
            raise _failed(self._name, f"it answered with {said}, not with {EVENT_STREAM}")

    async def events(self) -> AsyncIterator[ServerSentEvent]:
        """The server-sent events as they come. A connection that breaks ends them, and is told by `cut`."""
        import httpx2

        try:
            async for event in sse_events(self._response.aiter_bytes(), self._decoder):
                yield event
        except httpx2.TransportError as error:
            self._broken = _told(error)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body's bytes as they come. A connection that breaks ends them, and is told by `cut`."""
        import httpx2

        try:
            async for chunk in self._response.aiter_bytes():
                yield chunk
        except httpx2.TransportError as error:
            self._broken = _told(error)

    async def json(self) -> Any:
        """The whole body, decoded. Raises AdapterError `service-failed` for what is no JSON, or too much."""
        import httpx2

        body = bytearray()
        try:
            async for chunk in self._response.aiter_bytes():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise _failed(self._name, f"its answer is over {MAX_BODY_BYTES:,} bytes")
        except httpx2.TransportError as error:
            raise _failed(self._name, f"its answer broke off: {_told(error)}") from None
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            said = bytes(body[: MAX_SAID * 4]).decode("utf-8", "replace")[:MAX_SAID]
            raise _failed(self._name, f"it answered {self.status} with what is no JSON: {said}") from None


class HttpService:
    """The address of a service and how it is asked; holds no connection, so that any number of sends may share it.

    `headers` are sent with every request (a key belongs here; it is in no error). `timeout`: seconds of silence that
    end a request. `transport` replaces the network, for tests. Raises AdapterError `extra-missing` without httpx2.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        headers: Mapping[str, str] | None = None,
        timeout: float = 600.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        require_extra("httpx2", extra="http", wanted_by=name)
        self.url = url
        self._name = name
        self._headers = dict(headers or {})
        self._timeout = timeout
        self._transport = transport

    @asynccontextmanager
    async def post(
        self, payload: object, ctx: AgentContext, *, url: str | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[Answer]:
        """Send JSON, with the attempt's trace headers, and give the answer when its head has come.

        Leaving the block closes the connection: a cancelled send does not leave one open. Raises RetryableSendError
        where nothing was accepted (no connection, 429, 503), AdapterError `service-failed` for any other refusal.
        """
        made = _secure_context.cache_info().currsize > 0
        secure = _secure_context() if made else await asyncio.to_thread(_secure_context)
        import httpx2

        sent = {**self._headers, **ctx.telemetry_headers, **(headers or {})}
        limits = httpx2.Timeout(self._timeout, connect=CONNECT_LIMIT)
        async with httpx2.AsyncClient(
            timeout=limits, transport=self._transport, verify=secure, follow_redirects=False
        ) as client:
            try:
                request = client.build_request("POST", url or self.url, json=payload, headers=sent)
                response = await client.send(request, stream=True)
            except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
                raise RetryableSendError(f"{self._name}: no connection to {url or self.url}: {_told(error)}") from None
            except httpx2.TransportError as error:
                raise _failed(self._name, f"no answer from {url or self.url}: {_told(error)}") from None
            except (httpx2.InvalidURL, ValueError, TypeError) as error:
                raise _failed(self._name, f"{url or self.url} cannot be asked: {_told(error)}") from None
            try:
                if response.status_code >= 300:
                    raise await self._refused(response)
                yield Answer(response, self._name, SseDecoder())
            finally:
                await response.aclose()

    async def _refused(self, response: httpx2.Response) -> Exception:
        import httpx2

        body = bytearray()
        try:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_LOGGED_ERROR_BYTES:
                    break
        except httpx2.TransportError as error:
            body += f" (broke off: {_told(error)})".encode()
        said = bytes(body).decode("utf-8", "replace").strip()[:MAX_SAID] or "nothing more"
        problem = f"it answered {response.status_code}: {said}"
        if response.status_code in _NOT_ACCEPTED:
            return RetryableSendError(f"{self._name}: {problem}", retry_after=_retry_after(response))
        return _failed(self._name, problem)


@functools.cache
def _secure_context() -> ssl.SSLContext:
    """How certificates are checked: made once, since each making reads all of them. Called in a thread, and the HTTP
    client's own parts are loaded with it: both would hold the event loop for a good part of a second."""
    import httpx2

    importlib.import_module("anyio._backends._asyncio")
    httpx2.AsyncHTTPTransport()
    return httpx2.create_ssl_context()


def _failed(name: str, problem: str) -> AdapterError:
    return AdapterError("service-failed", service=name, problem=problem)


def _told(error: Exception) -> str:
    said = str(error).strip()
    return (f"{type(error).__name__}: {said}" if said else type(error).__name__)[:MAX_SAID]


def _retry_after(response: httpx2.Response) -> float | None:
    try:
        seconds = float(response.headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
