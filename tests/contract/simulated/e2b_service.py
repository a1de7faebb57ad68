"""A service that answers as E2B's does, for the real SDK: its API, and what listens in every sandbox."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
import urllib.parse
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from connectrpc.code import Code
from connectrpc.errors import ConnectError
from e2b.envd.process import process_connect, process_pb
from protobuf import Oneof
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route

from tests.contract.simulated.here import Place, ended, listening, output

KEY = "e2b_0123456789abcdef"
_GONE = "The sandbox was not found"


@dataclass(eq=False)
class Box:
    """A sandbox: its place, and what it was asked for."""

    asked: dict[str, Any]
    place: Place = field(default_factory=Place)
    terms: list[int] = field(default_factory=list)


class Service:
    """`boxes` by id; `users` that commands ran as; `refuse` makes the API answer so."""

    def __init__(self) -> None:
        self.boxes: dict[str, Box] = {}
        self.users: set[str] = set()
        self.refuse: tuple[int, str] | None = None
        self.url = ""

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v2/sandboxes", self.create, methods=["POST"]),
                Route("/v2/sandboxes", self.listed, methods=["GET"]),
                Route("/sandboxes/{id}", self.delete, methods=["DELETE"]),
                Route("/sandboxes/{id}/timeout", self.timeout, methods=["POST"]),
                Route("/health", self.health),
                Route("/files", self.read, methods=["GET"]),
                Route("/files", self.write, methods=["POST"]),
                Mount("/", process_connect.ProcessASGIApplication(_Process(self))),
            ]
        )

    def _refused(self, request: Request) -> Response | None:
        if request.headers.get("x-api-key") != KEY:
            return JSONResponse({"code": 401, "message": "Invalid API key"}, 401)
        if self.refuse is not None:
            code, message = self.refuse
            return JSONResponse({"code": code, "message": message}, code, {"Should-Retry": "false"})
        if "id" in request.path_params and request.path_params["id"] not in self.boxes:
            return JSONResponse({"code": 404, "message": "not found"}, 404)
        return None

    async def create(self, request: Request) -> Response:
        if (refused := self._refused(request)) is not None:
            return refused
        id = secrets.token_hex(8)
        box = self.boxes[id] = Box(await request.json())
        box.terms.append(box.asked["timeout"])
        return JSONResponse(_shown(id, box), 201)

    async def listed(self, request: Request) -> Response:
        if (refused := self._refused(request)) is not None:
            return refused
        asked = request.query_params.get("metadata", "")
        wanted = {
            urllib.parse.unquote(key): urllib.parse.unquote(value) for key, value in urllib.parse.parse_qsl(asked)
        }
        found = [
            _shown(id, box) for id, box in self.boxes.items() if wanted.items() <= box.asked.get("metadata", {}).items()
        ]
        return JSONResponse(found)

    async def delete(self, request: Request) -> Response:
        if (refused := self._refused(request)) is not None:
            return refused
        self.end(request.path_params["id"])
        return Response(status_code=204)

    def end(self, id: str) -> None:
        """The sandbox is gone."""
        self.boxes.pop(id).place.end()

    async def timeout(self, request: Request) -> Response:
        if (refused := self._refused(request)) is not None:
            return refused
        self.boxes[request.path_params["id"]].terms.append((await request.json())["timeout"])
        return Response(status_code=204)

    async def health(self, request: Request) -> Response:
        return self._lost(request) or Response(status_code=204)

    def _lost(self, request: Request) -> Response | None:
        if request.headers.get("e2b-sandbox-id") in self.boxes:
            return None
        return JSONResponse({"sandboxId": "", "message": _GONE, "code": 502}, 502)

    async def read(self, request: Request) -> Response:
        if (lost := self._lost(request)) is not None:
            return lost
        path = Path(request.query_params["path"])
        if not await asyncio.to_thread(path.is_file):
            return JSONResponse({"code": 404, "message": f"path '{path}' does not exist"}, 404)
        return FileResponse(path)

    async def write(self, request: Request) -> Response:
        if (lost := self._lost(request)) is not None:
            return lost
        path = Path(request.query_params["path"])
        await asyncio.to_thread(path.write_bytes, await request.body())
        return JSONResponse([{"name": path.name, "type": "file", "path": str(path)}])


class _Process(process_connect.Process):
    """What starts commands. It says that one has ended when nobody holds its streams, and -1 for every signal."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def start(self, request: process_pb.StartRequest, ctx: Any, /) -> AsyncIterator[process_pb.StartResponse]:
        headers = ctx.request_headers
        box = self._service.boxes.get(headers.get("e2b-sandbox-id", ""))
        if box is None:
            raise ConnectError(Code.UNAVAILABLE, _GONE)
        user = base64.b64decode(headers.get("authorization", "Basic Og==").split()[-1]).decode()
        self._service.users.add(user.partition(":")[0])
        config = request.process
        assert config is not None
        process = await box.place.start([config.cmd, *config.args], config.envs)
        yield _event("start", process_pb.ProcessEvent.StartEvent(pid=process.pid))
        async for name, data in output(process):
            kind = "stdout" if name == "stdout" else "stderr"
            yield _event("data", process_pb.ProcessEvent.DataEvent(output=Oneof(kind, data)))
        code = await ended(process)
        if box not in self._service.boxes.values():
            raise ConnectError(Code.UNAVAILABLE, "the connection ended before the stream completed")
        yield _event("end", process_pb.ProcessEvent.EndEvent(exit_code=max(code, -1), exited=code >= 0))


def _event(kind: Any, value: Any) -> process_pb.StartResponse:
    return process_pb.StartResponse(event=process_pb.ProcessEvent(event=Oneof(kind, value)))


def _shown(id: str, box: Box) -> dict[str, Any]:
    now = datetime.now(UTC)
    return {
        "templateID": box.asked["templateID"],
        "sandboxID": id,
        "clientID": "client",
        "envdVersion": "0.6.4",
        "envdAccessToken": "token",
        "startedAt": now.isoformat(),
        "endAt": (now + timedelta(seconds=box.terms[-1])).isoformat(),
        "cpuCount": 2,
        "memoryMB": 512,
        "diskSizeMB": 1024,
        "state": "running",
        "metadata": box.asked.get("metadata", {}),
    }


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Service]:
    """The service, on a free port of this machine."""
    service = Service()
    async with listening(service.app()) as service.url:
        try:
            yield service
        finally:
            for id in list(service.boxes):
                service.end(id)
