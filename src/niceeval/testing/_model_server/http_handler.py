"""HTTP: reading requests, and writing replies whole, in a stream, slowly, or cut."""

from __future__ import annotations

import gzip
import select
import socket
import sys
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from niceeval.testing._model_server.answering import Answering, Call
from niceeval.testing._model_server.recorded import (
    Outcome,
    RecordedRequest,
    Recorder,
    redacted_headers,
    redacted_path,
)
from niceeval.testing._model_server.replies import Reply, json_bytes

MAX_BODY = 32 * 1024 * 1024
"""Bytes of a request's body."""

IDLE_TIMEOUT = 120.0
"""Seconds that a connection may be silent."""

WATCH_INTERVAL = 0.05
"""Seconds between two looks at whether the client left or the server stops, while an answer waits."""


class BodyError(Exception):
    """A body that is not taken; `status` is the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class LoopbackServer(ThreadingHTTPServer):
    """The listening side: one daemon thread for each connection."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], answering: Answering, recorder: Recorder) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.answering = answering
        self.recorder = recorder
        self.stopping = threading.Event()
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(address, Handler)

    def server_bind(self) -> None:
        """Bind without the look-up of a host name, which may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in its own thread."""
        with self._open_lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """A connection is over."""
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """End what is being answered, and every connection."""
        self.stopping.set()
        with self._open_lock:
            connections = list(self._open)
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # the client was faster

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is no error of ours; anything else is shown as the standard library shows it."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: LoopbackServer
    protocol_version = "HTTP/1.1"
    server_version = "niceeval-model-server"
    sys_version = ""
    timeout = IDLE_TIMEOUT
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are recorded, not printed."""

    def do_GET(self) -> None:
        self._handle()

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_GET

    def _handle(self) -> None:
        try:
            raw = self._body()
        except BodyError as error:
            self._refuse(error)
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        call = Call(method=self.command, target=self.path, headers=headers, raw=raw)
        shown, digests = redacted_headers(headers)
        answering, recorder = self.server.answering, self.server.recorder
        asked = answering.asked(call)
        record = recorder.add(
            RecordedRequest(
                number=0,
                method=call.method,
                path=redacted_path(call.target),
                headers=shown,
                digests=digests,
                body=asked.body,
                protocol=asked.protocol.name if asked.protocol else None,
                model=asked.model,
                size=len(raw),
            )
        )
        reply = answering.reply(call, asked)
        told = {"scenario": reply.scenario, "step": reply.step, "status": reply.status, "problem": reply.problem}
        record = recorder.update(record, **told)
        self._answer(record, reply)

    def _answer(self, record: RecordedRequest, reply: Reply) -> None:
        # What a test looks at after its client got the answer has to be there by then.
        if reply.delay == 0 and reply.cut_after is None:
            record = self.server.recorder.update(record, outcome=reply.outcome)
        outcome: Outcome = "abandoned"
        try:
            outcome = self._write(reply)
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        finally:
            if record.outcome != outcome:
                self.server.recorder.update(record, outcome=outcome)

    def _write(self, reply: Reply) -> Outcome:
        if reply.streamed:
            return self._stream(reply)
        if not self._pause(reply.delay):
            return "abandoned"
        body = b"".join(reply.chunks)
        self._head(reply, ("Content-Length", str(len(body))))
        if self.command != "HEAD":
            self.wfile.write(body if reply.cut_after is None else body[: len(body) // 2])
        self.wfile.flush()
        return self._cut() if reply.cut_after is not None else reply.outcome

    def _stream(self, reply: Reply) -> Outcome:
        self._head(reply, ("Transfer-Encoding", "chunked"))
        self.wfile.flush()
        for number, chunk in enumerate(reply.chunks):
            if number and not self._pause(reply.delay):
                return "abandoned"
            if number == reply.cut_after:
                self._chunk(chunk[: max(1, len(chunk) // 2)])
                return self._cut()
            self._chunk(chunk)
        if reply.cut_after is not None:
            return self._cut()
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()
        return reply.outcome

    def _head(self, reply: Reply, length: tuple[str, str]) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header(*length)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _cut(self) -> Outcome:
        self.close_connection = True
        return "cut"

    def _pause(self, delay: float) -> bool:
        """Wait; False as soon as the client left or the server stops."""
        end = time.monotonic() + delay
        while (left := end - time.monotonic()) > 0:
            if self.server.stopping.wait(min(left, WATCH_INTERVAL)) or self._left():
                self.close_connection = True
                return False
        return True

    def _left(self) -> bool:
        poller = select.poll()
        poller.register(self.connection, select.POLLIN)
        if not poller.poll(0):
            return False
        try:
            peeked: bytes = self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True
        return peeked == b""

    def _refuse(self, error: BodyError) -> None:
        body = json_bytes({"error": {"message": str(error), "type": "invalid_request_error"}})
        self.close_connection = True
        headers = {name.lower(): value for name, value in self.headers.items()}
        shown, digests = redacted_headers(headers)
        path = redacted_path(self.path)
        record = RecordedRequest(number=0, method=self.command, path=path, headers=shown, digests=digests)
        record = self.server.recorder.add(record)
        self.server.recorder.update(record, outcome="error", status=error.status, problem=str(error))
        self._head(Reply(status=error.status, chunks=(), outcome="error"), ("Content-Length", str(len(body))))
        self.wfile.write(body)
        self.wfile.flush()

    # The body ----------------------------------------------------------------------------------------------------

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            raw = self._chunked_body()
        else:
            raw = self._read(_number(self.headers.get("Content-Length") or "0", 10))
        return _decoded(raw, self.headers.get("Content-Encoding", "identity").strip().lower())

    def _chunked_body(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        while length := _number(self.rfile.readline(100).partition(b";")[0].decode("latin-1").strip(), 16):
            size += length
            if size > MAX_BODY:
                raise BodyError(413, f"a body is at most {MAX_BODY} bytes")
            parts.append(self._read(length))
            self.rfile.readline(10)
        while self.rfile.readline(1000).strip():
            pass
        return b"".join(parts)

    def _read(self, length: int) -> bytes:
        if length > MAX_BODY:
            raise BodyError(413, f"a body is at most {MAX_BODY} bytes")
        return self.rfile.read(length)


def _number(text: str, base: int) -> int:
    try:
        number = int(text, base)
    except ValueError:
        number = -1
    if number < 0:
        raise BodyError(400, "the length of the body is no number")
    return number


def _decoded(raw: bytes, encoding: str) -> bytes:
    if encoding == "identity" or not raw:
        return raw
    if encoding not in ("gzip", "deflate"):
        raise BodyError(415, f"a body in {encoding!r} encoding is not read; send gzip, or none")
    try:
        inflater = zlib.decompressobj(zlib.MAX_WBITS | 32) if encoding == "gzip" else zlib.decompressobj()
        decoded = inflater.decompress(raw, MAX_BODY + 1)
    except (zlib.error, gzip.BadGzipFile):
        raise BodyError(400, f"the body is not {encoding}") from None
    if len(decoded) > MAX_BODY:
        raise BodyError(413, f"a body is at most {MAX_BODY} bytes")
    return decoded
