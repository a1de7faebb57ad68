"""A judge's endpoint for tests: a real HTTP server that answers each request with what the test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {"prompt_tokens": 120, "completion_tokens": 30, "prompt_tokens_details": {"cached_tokens": 20}}


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer as bytes. `hang` holds it back until the server ends; `reset` closes the connection instead."""

    body: str | bytes = ""
    status: int = 200
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    hang: bool = False
    reset: bool = False


Answer = Callable[[dict[str, Any]], Reply]


@dataclass
class JudgeServer:
    """`requests` are the bodies that came, with `path` and `authorization` beside them; `most` at the same time."""

    url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    running: int = 0
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def prompts(self) -> list[str]:
        return [request["messages"][0]["content"] for request in self.requests]


def completion(message: Mapping[str, Any], **more: Any) -> Reply:
    """A chat completion with one message."""
    whole = {"role": "assistant", "content": None, **message}
    body = {"id": "c1", "object": "chat.completion", "created": 1, "model": "acme-judge", "usage": USAGE}
    return Reply(
        body=json.dumps({**body, "choices": [{"index": 0, "finish_reason": "stop", "message": whole}], **more})
    )


def call(arguments: Any, name: str = "select_choice") -> Reply:
    """A chat completion that calls the function; `arguments` are its text, or a value."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    made = {"id": "t1", "type": "function", "function": {"name": name, "arguments": text}}
    return completion({"tool_calls": [made]})


def chooses(choice: str, reasons: Any = "because") -> Reply:
    """The choice of a model that answers as it was asked to."""
    return call({"choice": choice, "reasons": reasons})


def says(text: str) -> Reply:
    """A chat completion that is only text."""
    return completion({"content": text})


@contextmanager
def judge_server(answer: Answer | Reply) -> Iterator[JudgeServer]:
    """A server on a free port for the time of the block."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with server.lock:
                server.running += 1
                server.most = max(server.most, server.running)
                server.requests.append(
                    {
                        **body,
                        "path": self.path,
                        "authorization": self.headers.get("authorization", ""),
                        "headers": dict(self.headers),
                    }
                )
            try:
                reply = answer if isinstance(answer, Reply) else answer(body)
            finally:
                # Before anything is written: the client may ask again as soon as it has read it.
                with server.lock:
                    server.running -= 1
            self._answer(reply)

        def _answer(self, reply: Reply) -> None:
            if reply.hang:
                over.wait()
            if reply.hang or reply.reset:
                self.close_connection = True
                self.connection.close()
                return
            content = reply.body.encode() if isinstance(reply.body, str) else reply.body
            self.send_response(reply.status)
            for name, value in {"content-type": reply.kind, **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server = JudgeServer(url=f"http://127.0.0.1:{http.server_address[1]}/v1")
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        over.set()
        http.shutdown()
        http.server_close()
        thread.join()
