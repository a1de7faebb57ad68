"""HTTP to the engine: one connection a request, so that none is ever stale, and none waits for another."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any

from niceeval.backends.docker._address import Address, unusable

CONNECT_LIMIT = 15.0
"""Seconds that connecting may take."""
ANSWER_LIMIT = 120.0
"""Seconds without a byte of an answer's head or body, for calls that say nothing else."""
_READ = 128 * 1024


class EngineLost(Exception):
    """The connection broke: the engine stopped, or does not answer."""


def _h11() -> Any:
    try:
        import h11
    except ImportError:
        raise unusable("the package h11 is missing", "pip install 'niceeval[docker]'") from None
    return h11


class Exchange:
    """One request and its answer: `status`, `headers`, then the body in pieces. Close it, or use it with `async with`.

    After an upgrade (101) the body is what the other side writes, and `write` and `write_eof` reach its input.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: float | None) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._h11 = _h11()
        self._state = self._h11.Connection(self._h11.CLIENT, max_incomplete_event_size=256 * 1024)
        self._reader = reader
        self._writer = writer
        self._limit = limit

    async def __aenter__(self) -> Exchange:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connection."""
        self._writer.close()

    async def send(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | AsyncIterator[bytes] | None
    ) -> None:
        """Send the request whole, and read the answer's head. Raises EngineLost."""
        h11 = self._h11
        fields = {"Host": "engine", "User-Agent": "niceeval", **headers}
        if isinstance(body, bytes):
            fields["Content-Length"] = str(len(body))
        elif body is not None:
            fields["Transfer-Encoding"] = "chunked"
        elif method != "GET" and method != "HEAD":
            fields["Content-Length"] = "0"
        request = h11.Request(method=method, target=target, headers=list(fields.items()))
        with _as_lost():
            self._put(request)
            try:
                await self._send_body(body)
                self._put(h11.EndOfMessage())
                await self._writer.drain()
            except (ConnectionError, BrokenPipeError):
                # An engine that refuses a body answers before it has read all of it.
                pass
            await self._read_head()

    async def _send_body(self, body: bytes | AsyncIterator[bytes] | None) -> None:
        if isinstance(body, bytes):
            self._put(self._h11.Data(data=body))
        elif body is not None:
            async for chunk in body:
                if chunk:
                    self._put(self._h11.Data(data=chunk))
                    await self._writer.drain()

    def _put(self, event: Any) -> None:
        data = self._state.send(event)
        if data:
            self._writer.write(data)

    async def _read_head(self) -> None:
        h11 = self._h11
        while True:
            event = await self._event()
            if isinstance(event, h11.InformationalResponse) and event.status_code != 101:
                continue
            if not isinstance(event, (h11.Response, h11.InformationalResponse)):
                raise EngineLost("it closed the connection without an answer")
            self.status = event.status_code
            self.headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in event.headers}
            return

    async def _event(self) -> Any:
        h11 = self._h11
        while True:
            try:
                event = self._state.next_event()
            except h11.RemoteProtocolError as error:
                raise EngineLost(f"it answers something else than HTTP: {error}") from None
            if event is not h11.NEED_DATA:
                return event
            self._state.receive_data(await self._read())

    async def _read(self) -> bytes:
        async with asyncio.timeout(self._limit):
            return await self._reader.read(_READ)

    async def body(self) -> AsyncIterator[bytes]:
        """The answer's body, in pieces as they come. Raises EngineLost."""
        h11 = self._h11
        with _as_lost():
            if self.status == 101:
                rest, _ = self._state.trailing_data
                if rest:
                    yield bytes(rest)
                while data := await self._read():
                    yield data
                return
            while True:
                event = await self._event()
                if isinstance(event, h11.Data):
                    yield bytes(event.data)
                else:
                    return

    async def read(self, limit: int) -> bytes:
        """The whole body, `limit` bytes of it at most. Raises EngineLost."""
        found = bytearray()
        async for chunk in self.body():
            found += chunk
            if len(found) > limit:
                break
        return bytes(found[:limit])

    async def feed(self, data: bytes) -> None:
        """Write input after an upgrade, and end it. A reader that has gone is no error."""
        with contextlib.suppress(ConnectionError, BrokenPipeError):
            for at in range(0, len(data), _READ):
                self._writer.write(data[at : at + _READ])
                await self._writer.drain()
            self._writer.write_eof()


@contextlib.contextmanager
def _as_lost() -> Any:
    try:
        yield
    except TimeoutError:
        raise EngineLost("it does not answer") from None
    except (OSError, EOFError) as error:
        raise EngineLost(str(error) or type(error).__name__) from None


async def connect(address: Address, context: ssl.SSLContext | None, limit: float | None) -> Exchange:
    """A connection for one request. Raises OSError, also TimeoutError, where none can be had."""
    async with asyncio.timeout(CONNECT_LIMIT):
        if address.path is not None:
            reader, writer = await asyncio.open_unix_connection(address.path, limit=2 * _READ)
        else:
            reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context, limit=2 * _READ)
    return Exchange(reader, writer, limit)
