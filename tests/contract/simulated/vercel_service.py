"""A service that answers as Vercel's does, for the real SDK: its API, with commands that run on this machine."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import io
import json
import secrets
import tarfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.contract.simulated.here import Place, ended, listening, output

KEYS = {"VERCEL_API_TOKEN": "token", "VERCEL_TEAM_ID": "team", "VERCEL_PROJECT_ID": "project"}


@dataclass
class Box:
    """A sandbox: its place, and what it was asked for. `added`: milliseconds that its time was extended by."""

    asked: dict[str, Any]
    place: Place = field(default_factory=Place)
    added: list[int] = field(default_factory=list)
    stopped: bool = False


class Service:
    """`boxes` by name; `roots` says for each command whether it was to run as root; `refuse` is every answer."""

    def __init__(self) -> None:
        self.boxes: dict[str, Box] = {}
        self.roots: set[bool] = set()
        self.refuse: tuple[int, str] | None = None

    def app(self) -> Starlette:
        session = "/v2/sandboxes/sessions/{session}"
        return Starlette(
            routes=[
                Route("/v3/sandboxes", self.create, methods=["POST"]),
                Route("/v2/sandboxes", self.listed),
                Route("/v2/sandboxes/{name}", self.one, methods=["GET", "DELETE"]),
                Route(f"{session}/stop", self.stop, methods=["POST"]),
                Route(f"{session}/extend-timeout", self.extend, methods=["POST"]),
                Route(f"{session}/cmd", self.command, methods=["POST"]),
                Route(f"{session}/fs/read", self.read, methods=["POST"]),
                Route(f"{session}/fs/write", self.write, methods=["POST"]),
            ]
        )

    def _refused(self, request: Request) -> Response | None:
        if request.headers.get("authorization") != f"Bearer {KEYS['VERCEL_API_TOKEN']}":
            return _error(403, "forbidden", "Not authorized")
        if request.query_params.get("teamId") != KEYS["VERCEL_TEAM_ID"]:
            return _error(403, "forbidden", "Not a member of the team")
        if self.refuse is not None:
            return _error(self.refuse[0], "refused", self.refuse[1])
        name = request.path_params.get("name")
        if name is not None and name not in self.boxes:
            return _error(404, "not_found", "Sandbox not found")
        session = request.path_params.get("session", "")
        if session and (session[4:] not in self.boxes or self.boxes[session[4:]].stopped):
            return _error(410, "sandbox_stopped", "Sandbox is stopped")
        return None

    def _box(self, request: Request) -> Box:
        return self.boxes[request.path_params["session"][4:]]

    async def create(self, request: Request) -> Response:
        if (refused := self._refused(request)) is not None:
            return refused
        name = secrets.token_hex(8)
        self.boxes[name] = Box(await request.json())
        return JSONResponse(self._shown(name))

    def _shown(self, name: str) -> dict[str, Any]:
        box = self.boxes[name]
        status = "stopped" if box.stopped else "running"
        session = {"id": f"ses_{name}", "sourceSandboxName": name, "status": status, "cwd": "/vercel/sandbox"}
        sandbox = {
            "name": name,
            "currentSessionId": f"ses_{name}",
            "status": status,
            "persistent": box.asked["persistent"],
            "projectId": KEYS["VERCEL_PROJECT_ID"],
            "createdAt": int(time.time() * 1_000),
            "tags": box.asked.get("tags", {}),
        }
        return {"sandbox": sandbox, "session": session, "routes": []}

    async def listed(self, request: Request) -> Response:
        if (refused := self._refused(request)) is not None:
            return refused
        key, _, value = request.query_params.get("tags", "").partition(":")
        found = [
            self._shown(name)["sandbox"]
            for name, box in self.boxes.items()
            if not key or box.asked.get("tags", {}).get(key) == value
        ]
        return JSONResponse({"sandboxes": found, "pagination": {"count": len(found), "next": None}})

    async def one(self, request: Request) -> Response:
        if (refused := self._refused(request)) is not None:
            return refused
        name = request.path_params["name"]
        shown = self._shown(name)
        if request.method == "DELETE":
            self.boxes.pop(name).place.end()
        return JSONResponse(shown)

    async def stop(self, request: Request) -> Response:
        if (refused := self._refused(request)) is not None:
            return refused
        self.end(request.path_params["session"][4:])
        return JSONResponse(self._shown(request.path_params["session"][4:]))

    def end(self, name: str) -> None:
        """The sandbox's session is over."""
        self.boxes[name].stopped = True
        self.boxes[name].place.end()

    async def extend(self, request: Request) -> Response:
        if (refused := self._refused(request)) is not None:
            return refused
        self._box(request).added.append((await request.json())["duration"])
        return JSONResponse(self._shown(request.path_params["session"][4:]))

    async def command(self, request: Request) -> Response:
        if (refused := self._refused(request)) is not None:
            return refused
        asked = await request.json()
        self.roots.add(asked["sudo"])
        box = self._box(request)
        process = await box.place.start([asked["command"], *asked["args"]], asked.get("env") or {})
        said = _said(box, process, asked, request.path_params["session"])
        return StreamingResponse(said, media_type="application/x-ndjson")

    async def read(self, request: Request) -> Response:
        if (refused := self._refused(request)) is not None:
            return refused
        path = Path((await request.json())["path"])
        if not await asyncio.to_thread(path.is_file):
            return _error(404, "not_found", "File not found")
        return FileResponse(path)

    async def write(self, request: Request) -> Response:
        if (refused := self._refused(request)) is not None:
            return refused
        assert request.headers["x-cwd"] == "/"
        await asyncio.to_thread(_unpack, await request.body())
        return JSONResponse({})


def _unpack(data: bytes) -> None:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        for member in archive.getmembers():
            source = archive.extractfile(member)
            if source is not None:
                path = Path("/") / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(source.read())
                path.chmod(member.mode)


async def _said(
    box: Box, process: asyncio.subprocess.Process, asked: dict[str, Any], session: str
) -> AsyncIterator[str]:
    """The records of a command; the last when nobody holds its streams."""
    command = {
        "id": f"cmd_{process.pid}",
        "name": asked["command"],
        "args": asked["args"],
        "cwd": "/vercel/sandbox",
        "sessionId": session,
        "exitCode": None,
        "startedAt": int(time.time() * 1_000),
    }
    yield json.dumps({"command": command}) + "\n"
    decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
    async for name, data in output(process):
        yield json.dumps({"stream": name, "data": decoders[name].decode(data)}) + "\n"
    for name, decoder in decoders.items():
        if rest := decoder.decode(b"", final=True):
            yield json.dumps({"stream": name, "data": rest}) + "\n"
    if box.stopped:
        yield json.dumps({"stream": "error", "data": {"code": "sandbox_stopped", "message": "it was stopped"}}) + "\n"
        return
    yield json.dumps({"command": command | {"exitCode": max(await ended(process), -1)}}) + "\n"


def _error(status: int, code: str, message: str) -> Response:
    return JSONResponse({"error": {"code": code, "message": message}}, status)


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[tuple[Service, str]]:
    """The service, and its address on a free port of this machine."""
    service = Service()
    async with listening(service.app()) as url:
        try:
            yield service, url
        finally:
            for box in service.boxes.values():
                box.place.end()
