"""The weather desk over HTTP: `python service.py --port 8711`, or `--port 0` for a free one.

    POST /api/turn   {sessionId?, text, files?, responses?, outputSchema?, style?}
                  -> {sessionId, status, steps, pendingApprovals, data, usage}
    GET  /health     {"ok": true, "version": "1.0"}

`files` are `{filename, mimeType, data}` with base64 data; `responses` are `{requestId, optionId}`; `usage` is counted
in words, not in a model's tokens. Nothing is said about reasoning or shortened context: the API has no place for them.

It prints `listening on http://127.0.0.1:PORT` once it accepts connections. With `--exit-with-stdin` it stops when its
standard input closes, so that it never outlives the process that started it.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import binascii
import json
import socket
import sys
import threading
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse
from starlette.routing import Route

from desk import Desk, Request, UnknownApproval, Upload

VERSION = "1.0"
MAX_BODY_BYTES = 10 * 1024 * 1024


def make_app() -> Starlette:
    """The service with no conversation in it."""
    desk = Desk()

    async def health(_: HttpRequest) -> JSONResponse:
        return JSONResponse({"ok": True, "version": VERSION})

    async def turn(http: HttpRequest) -> JSONResponse:
        body = await _json_body(http)
        try:
            session = desk.session(body.get("sessionId"))
        except KeyError:
            raise HTTPException(404, f"no session {body['sessionId']!r}") from None
        try:
            answer = desk.take_turn(session, _read_request(body))
        except UnknownApproval as error:
            raise HTTPException(409, str(error)) from None
        return JSONResponse(
            {
                "sessionId": session.id,
                "status": answer.status,
                "steps": answer.steps,
                "pendingApprovals": answer.approvals,
                "data": answer.data,
                "usage": {"inputWords": answer.input_words, "outputWords": answer.output_words},
            }
        )

    async def explain(_: HttpRequest, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return JSONResponse({"error": error.detail}, status_code=error.status_code)

    routes = [Route("/health", health), Route("/api/turn", turn, methods=["POST"])]
    return Starlette(routes=routes, exception_handlers={HTTPException: explain})


async def _json_body(http: HttpRequest) -> dict[str, Any]:
    received = bytearray()
    async for chunk in http.stream():
        received += chunk
        if len(received) > MAX_BODY_BYTES:
            raise HTTPException(413, f"more than {MAX_BODY_BYTES} bytes")
    try:
        body = json.loads(received)
    except ValueError as error:
        raise HTTPException(400, f"not JSON: {error}") from None
    if not isinstance(body, dict):
        raise HTTPException(400, "the body must be an object")
    return body


def _read_request(body: dict[str, Any]) -> Request:
    try:
        return Request(
            text=str(body["text"]),
            files=tuple(_read_upload(file) for file in body.get("files", ())),
            responses={answer["requestId"]: answer["optionId"] for answer in body.get("responses", ())},
            output_schema=body.get("outputSchema"),
            style="verbose" if body.get("style") == "verbose" else "concise",
        )
    except (KeyError, TypeError) as error:
        raise HTTPException(422, f"the turn lacks or misuses {error}") from None


def _read_upload(file: dict[str, Any]) -> Upload:
    try:
        data = base64.b64decode(file["data"], validate=True)
    except binascii.Error as error:
        raise HTTPException(422, f"{file['filename']}: {error}") from None
    return Upload(filename=file["filename"], mime_type=file["mimeType"], data=data)


def main() -> None:
    parser = argparse.ArgumentParser(description="The weather desk over HTTP.")
    parser.add_argument("--port", type=int, default=8711, help="0 takes a free one (default: 8711)")
    parser.add_argument("--exit-with-stdin", action="store_true", help="stop when standard input closes")
    options = parser.parse_args()
    listener = socket.create_server(("127.0.0.1", options.port))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    @asynccontextmanager
    async def announce(_: Starlette) -> Any:
        print(f"listening on {url}", flush=True)
        yield

    app = make_app()
    app.router.lifespan_context = announce
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    if options.exit_with_stdin:
        threading.Thread(target=_stop_at_end_of_input, args=(server,), daemon=True).start()
    asyncio.run(server.serve(sockets=[listener]))


def _stop_at_end_of_input(server: uvicorn.Server) -> None:
    sys.stdin.buffer.read()
    server.should_exit = True


if __name__ == "__main__":
    main()
