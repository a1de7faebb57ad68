"""A service that answers as Daytona's does, for the real SDK: its commands run on this machine, in a folder each."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

KEY = "dtn_test_key"


class Command:
    """One command of a session: what it has said so far, and its exit code."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.pieces: list[bytes] = []
        self.changed = asyncio.Condition()
        self.done = False
        assert process.stdout is not None
        assert process.stderr is not None
        self.readers = [
            asyncio.create_task(self._read(process.stdout, b"\x01\x01\x01")),
            asyncio.create_task(self._read(process.stderr, b"\x02\x02\x02")),
        ]
        self.watcher = asyncio.create_task(self._watch())

    async def _read(self, stream: asyncio.StreamReader, label: bytes) -> None:
        while data := await stream.read(65_536):
            async with self.changed:
                self.pieces.append(label + data)
                self.changed.notify_all()

    async def _watch(self) -> None:
        while self.process.returncode is None:  # noqa: ASYNC110 - its `wait` waits for the pipes too
            await asyncio.sleep(0.005)
        await asyncio.wait(self.readers, timeout=0.3)
        async with self.changed:
            self.done = True
            self.changed.notify_all()


class Service:
    """The service: `sandboxes` by id, with their labels; `url` is what the SDK is given."""

    def __init__(self) -> None:
        self.sandboxes: dict[str, dict[str, Any]] = {}
        self.commands: dict[str, Command] = {}
        self.url = ""

    def app(self) -> Starlette:
        box = "/toolbox/{id}"
        command = f"{box}/process/session/{{session}}/command/{{command}}"
        return Starlette(
            routes=[
                Route("/api/sandbox", self.create, methods=["POST"]),
                Route("/api/sandbox/paginated", self.listed),
                Route("/api/sandbox/{id}", self.one),
                Route("/api/sandbox/{id}", self.delete, methods=["DELETE"]),
                Route("/api/sandbox/{id}/toolbox-proxy-url", self.proxy),
                Route(f"{box}/user-home-dir", self.home),
                Route(f"{box}/process/session", self.session, methods=["POST"]),
                Route(f"{box}/process/session/{{session}}", self.session, methods=["DELETE"]),
                Route(f"{box}/process/session/{{session}}/exec", self.execute, methods=["POST"]),
                Route(command, self.command),
                WebSocketRoute(f"{command}/logs", self.logs),
                Route(f"{box}/files/bulk-upload", self.upload, methods=["POST"]),
                Route(f"{box}/files/bulk-download", self.download, methods=["POST"]),
            ]
        )

    def _refused(self, request: Request) -> Response | None:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return JSONResponse({"message": "Invalid credentials"}, 401)
        if "id" in request.path_params and request.path_params["id"] not in self.sandboxes:
            return JSONResponse({"message": "Sandbox not found"}, 404)
        return None

    async def create(self, request: Request) -> Response:
        refused = self._refused(request)
        if refused is not None:
            return refused
        asked = await request.json()
        id = secrets.token_hex(8)
        folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="niceeval-daytona-")
        self.sandboxes[id] = {
            "id": id,
            "organizationId": "org",
            "name": id,
            "user": "daytona",
            "env": asked.get("env") or {},
            "labels": asked.get("labels") or {},
            "public": False,
            "networkBlockAll": False,
            "target": "us",
            "cpu": 1,
            "gpu": 0,
            "memory": 1,
            "disk": 3,
            "state": "started",
            "createdAt": "2026-01-02T03:04:05.000Z",
            "snapshot": asked.get("snapshot"),
            "autoStopInterval": asked.get("autoStopInterval"),
            "autoDeleteInterval": asked.get("autoDeleteInterval"),
            "toolboxProxyUrl": f"{self.url}/toolbox",
            "_folder": folder,
        }
        return JSONResponse(self._shown(id))

    def _shown(self, id: str) -> dict[str, Any]:
        return {key: value for key, value in self.sandboxes[id].items() if not key.startswith("_")}

    async def listed(self, request: Request) -> Response:
        refused = self._refused(request)
        if refused is not None:
            return refused
        wanted = json.loads(request.query_params.get("labels") or "{}")
        found = [id for id, one in self.sandboxes.items() if wanted.items() <= one["labels"].items()]
        page, limit = int(request.query_params.get("page", 1)), int(request.query_params.get("limit", 100))
        shown = [self._shown(id) for id in found[(page - 1) * limit : page * limit]]
        pages = max(1, -(-len(found) // limit))
        return JSONResponse({"items": shown, "total": len(found), "page": page, "totalPages": pages})

    async def one(self, request: Request) -> Response:
        return self._refused(request) or JSONResponse(self._shown(request.path_params["id"]))

    async def delete(self, request: Request) -> Response:
        refused = self._refused(request)
        if refused is None:
            one = self.sandboxes.pop(request.path_params["id"])
            await asyncio.to_thread(end_all, one["_folder"])
            return JSONResponse({**{k: v for k, v in one.items() if not k.startswith("_")}, "state": "destroyed"})
        return refused

    async def proxy(self, request: Request) -> Response:
        return self._refused(request) or JSONResponse({"url": f"{self.url}/toolbox"})

    async def home(self, request: Request) -> Response:
        return self._refused(request) or JSONResponse({"dir": self.sandboxes[request.path_params["id"]]["_folder"]})

    async def session(self, request: Request) -> Response:
        return self._refused(request) or Response(status_code=201 if request.method == "POST" else 204)

    async def execute(self, request: Request) -> Response:
        refused = self._refused(request)
        if refused is not None:
            return refused
        asked = await request.json()
        folder = self.sandboxes[request.path_params["id"]]["_folder"]
        # The service gives a line to a shell that runs already, so that it is bound by no limit of arguments.
        script = Path(folder, f"session-{secrets.token_hex(8)}")
        await asyncio.to_thread(script.write_text, f"exec {asked['command']}", "utf-8")
        process = await asyncio.create_subprocess_exec(
            "sh",
            str(script),
            cwd=folder,
            env={"PATH": os.environ["PATH"], "NICEEVAL_TEST_MACHINE": folder},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        id = secrets.token_hex(8)
        self.commands[id] = Command(process)
        return JSONResponse({"cmdId": id}, 202)

    async def command(self, request: Request) -> Response:
        refused = self._refused(request)
        if refused is not None:
            return refused
        command = self.commands[request.path_params["command"]]
        found: dict[str, Any] = {"id": request.path_params["command"], "command": "sh"}
        if command.done:
            code = command.process.returncode or 0
            found["exitCode"] = code if code >= 0 else 128 - code
        return JSONResponse(found)

    async def logs(self, socket: WebSocket) -> None:
        await socket.accept()
        command = self.commands[socket.path_params["command"]]
        sent = 0
        while True:
            async with command.changed:
                await command.changed.wait_for(lambda at=sent: command.done or len(command.pieces) > at)
                pieces, done = command.pieces[sent:], command.done
            for piece in pieces:
                await socket.send_bytes(piece)
            sent += len(pieces)
            if done and sent == len(command.pieces):
                break
        await socket.close()

    async def upload(self, request: Request) -> Response:
        refused = self._refused(request)
        if refused is not None:
            return refused
        async with request.form(max_part_size=1 << 30) as form:
            for name in form:
                if name.endswith(".path"):
                    file: Any = form[name.removesuffix(".path") + ".file"]
                    await asyncio.to_thread(Path(str(form[name])).write_bytes, await file.read())
        return Response(status_code=200)

    async def download(self, request: Request) -> Response:
        refused = self._refused(request)
        if refused is not None:
            return refused
        path = (await request.json())["paths"][0]
        try:
            kind, data = "file", await asyncio.to_thread(Path(path).read_bytes)
        except OSError as error:
            kind, data = "error", str(error).encode()
        head = f'--edge\r\nContent-Disposition: form-data; name="{kind}"; filename="{path}"\r\n\r\n'.encode()
        return Response(head + data + b"\r\n--edge--\r\n", media_type="multipart/form-data; boundary=edge")


def end_all(folder: str) -> None:
    """Kill what runs for a folder, and remove it."""
    marker = f"NICEEVAL_TEST_MACHINE={folder}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if marker in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Service]:
    """The service, on a free port of this machine."""
    service = Service()
    config = uvicorn.Config(service.app(), host="127.0.0.1", port=0, log_level="warning", ws_max_size=1 << 26)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    service.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield service
    finally:
        for one in list(service.sandboxes.values()):
            await asyncio.to_thread(end_all, one["_folder"])
        server.should_exit = True
        server.force_exit = True
        await running
