"""A service that answers as Modal's does, for the real SDK: gRPC on this machine, where its commands run as well."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from grpclib import GRPCError, Status
from grpclib.const import Handler
from grpclib.server import Server
from modal_proto import api_pb2 as api
from modal_proto import task_command_router_pb2 as router
from modal_proto.api_grpc import ModalClientBase
from modal_proto.task_command_router_grpc import TaskCommandRouterBase

from tests.contract.simulated.here import Place, ended

TOKEN = ("ak-test", "as-test")


UNREAD = 1 << 20
"""Bytes of a stream that are held for its reader; the command that says more waits, or is not heard any more."""


class Stream:
    """What a command says on one of its streams, from where it has been read to."""

    def __init__(self, source: asyncio.StreamReader | None) -> None:
        assert source is not None
        self._source = source
        self._start = 0
        self._said = bytearray()
        self._closed = False
        self._left = False
        self._changed = asyncio.Condition()
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while data := await self._source.read(65_536):
            async with self._changed:
                await self._changed.wait_for(lambda: self._left or len(self._said) < UNREAD)
                if not self._left:
                    self._said.extend(data)
                self._changed.notify_all()
        async with self._changed:
            self._closed = True
            self._changed.notify_all()

    async def pieces(self, offset: int) -> AsyncIterator[bytes]:
        try:
            while True:
                async with self._changed:
                    del self._said[: offset - self._start]
                    self._start = offset
                    self._changed.notify_all()
                    await self._changed.wait_for(lambda: bool(self._said) or self._closed)
                    data = bytes(self._said)
                if not data:
                    return
                offset += len(data)
                yield data
        finally:
            self._left = True
            async with self._changed:
                self._changed.notify_all()


class Exec:
    """One command: its process, and its output as `streams`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.written = 0
        self.streams = (Stream(process.stdout), Stream(process.stderr))


class Box:
    """A sandbox: how it was asked for, its tags, and its commands."""

    def __init__(self, asked: api.SandboxCreateV2Request) -> None:
        self.asked = asked
        self.tags = {tag.tag_name: tag.tag_value for tag in asked.tags}
        self.created = time.time()
        self.place = Place()
        self.execs: dict[str, Exec] = {}
        self.result = api.GenericResult()

    def end(self, status: api.GenericResult.GenericStatus.ValueType) -> None:
        self.result = api.GenericResult(status=status)
        self.place.end()


class Service:
    """The service. `refuse` is what each call is answered with.

    `patient`: a command's end is told when nobody holds its streams any more. `lost`: the machine of a sandbox that has
    ended says nothing any more, not even that. `refuse_next`: one command is refused.
    """

    def __init__(self) -> None:
        self.boxes: dict[str, Box] = {}
        self.apps: dict[str, str] = {}
        self.images: list[list[str]] = []
        self.refuse: tuple[Status, str] | None = None
        self.patient = self.lost = self.refuse_next = False
        self.commands = 0
        self.jwt = _jwt()
        self.url = ""

    def __mapping__(self) -> dict[str, Handler]:
        """gRPC's own hook: the methods here that are named as its are. All others are answered with UNIMPLEMENTED."""
        found: dict[str, Handler] = {}
        for base, allowed in ((ModalClientBase, self._require_token), (TaskCommandRouterBase, self._require_jwt)):
            for path, handler in _described(base).items():
                method = getattr(self, path.rsplit("/", 1)[1], None)
                if method is not None:
                    found[path] = handler._replace(func=self._answering(method, allowed))
        return found

    def _answering(self, method: Callable[[Any], Any], allowed: Callable[[Any], None]) -> Callable[[Any], Any]:
        async def answer(stream: Any) -> None:
            allowed(stream.metadata)
            request = await stream.recv_message()
            said = method(request)
            if not hasattr(said, "__aiter__"):
                await stream.send_message(await said)
                return
            async for message in said:
                await stream.send_message(message)

        return answer

    def _require_token(self, metadata: Any) -> None:
        if self.refuse is not None:
            raise GRPCError(*self.refuse)
        if (metadata.get("x-modal-token-id"), metadata.get("x-modal-token-secret")) != TOKEN:
            raise GRPCError(Status.UNAUTHENTICATED, "Token not found")

    def _require_jwt(self, metadata: Any) -> None:
        if metadata.get("authorization") != f"Bearer {self.jwt}":
            raise GRPCError(Status.UNAUTHENTICATED, "bad token")

    def _box(self, sandbox_id: str) -> Box:
        if sandbox_id not in self.boxes:
            raise GRPCError(Status.NOT_FOUND, f"Sandbox with ID {sandbox_id} not found")
        return self.boxes[sandbox_id]

    # --- the control plane ------------------------------------------------------------------------------------

    async def ClientHello(self, _: Any) -> Any:
        return api.ClientHelloResponse()

    async def AuthTokenGet(self, _: Any) -> Any:
        return api.AuthTokenGetResponse(token=self.jwt)

    async def EnvironmentGetOrCreate(self, _: Any) -> Any:
        settings = api.EnvironmentSettings(image_builder_version="2025.06")
        metadata = api.EnvironmentMetadata(name="main", settings=settings)
        return api.EnvironmentGetOrCreateResponse(environment_id="en-1", metadata=metadata)

    async def AppGetOrCreate(self, request: api.AppGetOrCreateRequest) -> Any:
        if request.app_name not in self.apps:
            if request.object_creation_type != api.OBJECT_CREATION_TYPE_CREATE_IF_MISSING:
                raise GRPCError(Status.NOT_FOUND, f"App {request.app_name} not found")
            self.apps[request.app_name] = f"ap-{secrets.token_hex(11)}"
        return api.AppGetOrCreateResponse(app_id=self.apps[request.app_name])

    async def ImageGetOrCreate(self, request: api.ImageGetOrCreateRequest) -> Any:
        lines = list(request.image.dockerfile_commands)
        self.images.append(lines)
        said = api.GenericResult(status=api.GenericResult.GENERIC_STATUS_SUCCESS)
        if lines == ["FROM no/such:image"]:
            said = api.GenericResult(status=api.GenericResult.GENERIC_STATUS_FAILURE, exception="no such image")
        return api.ImageGetOrCreateResponse(image_id=f"im-{len(self.images)}", result=said)

    async def ImageFromId(self, request: api.ImageFromIdRequest) -> Any:
        if request.image_id != "im-mine":
            raise GRPCError(Status.NOT_FOUND, f"Image {request.image_id} not found")
        return api.ImageFromIdResponse(image_id=request.image_id)

    async def SandboxCreateV2(self, request: api.SandboxCreateV2Request) -> Any:
        # Ids of this form are those of the SDK's newer sandboxes.
        sandbox_id = f"sb-{secrets.token_hex(13)}"
        self.boxes[sandbox_id] = Box(request)
        return api.SandboxCreateV2Response(sandbox_id=sandbox_id, task_id=f"ta-{sandbox_id}V")

    async def SandboxGetTaskIdV2(self, request: api.SandboxGetTaskIdRequest) -> Any:
        box = self._box(request.sandbox_id)
        if box.result.status:
            return api.SandboxGetTaskIdResponse(task_result=box.result)
        return api.SandboxGetTaskIdResponse(task_id=f"ta-{request.sandbox_id}V")

    async def SandboxGetCommandRouterAccess(self, request: api.SandboxGetCommandRouterAccessRequest) -> Any:
        self._box(request.sandbox_id)
        return api.SandboxGetCommandRouterAccessResponse(url=self.url, jwt=self.jwt)

    async def SandboxTagsSetV2(self, request: api.SandboxTagsSetRequest) -> Any:
        self._box(request.sandbox_id).tags = {tag.tag_name: tag.tag_value for tag in request.tags}
        return api.google_dot_protobuf_dot_empty__pb2.Empty()

    async def SandboxTagsGetV2(self, request: api.SandboxTagsGetRequest) -> Any:
        tags = self._box(request.sandbox_id).tags
        return api.SandboxTagsGetResponse(tags=[_tag(name, value) for name, value in tags.items()])

    async def SandboxListV2(self, request: api.SandboxListRequest) -> Any:
        wanted = {tag.tag_name: tag.tag_value for tag in request.tags}
        found = [
            api.SandboxInfo(id=id, created_at=box.created)
            for id, box in sorted(self.boxes.items(), key=lambda item: -item[1].created)
            if wanted.items() <= box.tags.items()
            and not box.result.status
            and box.asked.app_id == request.app_id
            and (not request.before_timestamp or box.created < request.before_timestamp)
        ]
        return api.SandboxListResponse(sandboxes=found[:2])

    async def SandboxWaitV2(self, request: api.SandboxWaitRequest) -> Any:
        return api.SandboxWaitResponse(result=self._box(request.sandbox_id).result)

    async def SandboxTerminateV2(self, request: api.SandboxTerminateRequest) -> Any:
        box = self._box(request.sandbox_id)
        if not box.result.status:
            await asyncio.to_thread(box.end, api.GenericResult.GENERIC_STATUS_TERMINATED)
        return api.SandboxTerminateResponse()

    # --- the machine that a sandbox is on ---------------------------------------------------------------------

    def _running(self, task_id: str) -> Box:
        box = self._box(task_id.removeprefix("ta-").removesuffix("V"))
        if box.result.status:
            raise GRPCError(Status.NOT_FOUND, "task not found")
        return box

    async def _still_running(self, task_id: str) -> None:
        try:
            self._running(task_id)
        except GRPCError:
            if self.lost:
                await asyncio.Event().wait()
            raise

    def _exec(self, request: Any) -> Exec:
        return self._running(request.task_id).execs[request.exec_id]

    async def TaskExecStart(self, request: router.TaskExecStartRequest) -> Any:
        box = self._running(request.task_id)
        env = {name: value for source in request.secret_sources for name, value in source.env.contents.items()}
        if self.refuse_next:
            self.refuse_next = False
            raise GRPCError(Status.INVALID_ARGUMENT, "not now")
        self.commands += 1
        process = await box.place.start(list(request.command_args), env, stdin=asyncio.subprocess.PIPE)
        box.execs[request.exec_id] = Exec(process)
        return router.TaskExecStartResponse()

    async def TaskExecStdioRead(self, request: router.TaskExecStdioReadRequest) -> AsyncIterator[Any]:
        async for data in self._exec(request).streams[request.file_descriptor].pieces(request.offset):
            yield router.TaskExecStdioReadResponse(data=data)
        await self._still_running(request.task_id)

    async def TaskExecStdinWrite(self, request: router.TaskExecStdinWriteRequest) -> Any:
        one = self._exec(request)
        stdin = one.process.stdin
        assert stdin is not None
        try:
            if request.data and request.offset == one.written:
                stdin.write(request.data)
                await stdin.drain()
                one.written += len(request.data)
            if request.eof:
                stdin.close()
        except OSError as error:
            raise GRPCError(Status.FAILED_PRECONDITION, str(error)) from None
        return router.TaskExecStdinWriteResponse()

    async def TaskExecWait(self, request: router.TaskExecWaitRequest) -> Any:
        one = self._exec(request)
        code = await ended(one.process)
        if self.patient:
            await asyncio.wait([stream.reading for stream in one.streams])
        await self._still_running(request.task_id)
        return router.TaskExecWaitResponse(code=code) if code >= 0 else router.TaskExecWaitResponse(signal=-code)

    async def TaskExecPoll(self, request: router.TaskExecPollRequest) -> Any:
        code = self._exec(request).process.returncode
        if code is None:
            return router.TaskExecPollResponse()
        return router.TaskExecPollResponse(code=code) if code >= 0 else router.TaskExecPollResponse(signal=-code)


def _described(base: type) -> dict[str, Handler]:
    """The methods of a service of Modal, as its SDK describes them."""
    named: Any = type("Named", (base,), {})
    named.__abstractmethods__ = frozenset()
    described: dict[str, Handler] = named().__mapping__()
    return described


def _tag(name: str, value: str) -> api.SandboxTag:
    return api.SandboxTag(tag_name=name, tag_value=value)


def _jwt() -> str:
    """A token that says when it ends, which is all that the SDK reads of one."""
    said = base64.urlsafe_b64encode(json.dumps({"exp": time.time() + 3_600}).encode()).decode().rstrip("=")
    return f"e30.{said}.c2ln"


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Service]:
    """The service, on a free port of this machine."""
    service = Service()
    server = Server([service])
    with socket.create_server(("127.0.0.1", 0)) as place:
        await server.start(sock=place)
        service.url = f"http://127.0.0.1:{place.getsockname()[1]}"
        try:
            yield service
        finally:
            for box in service.boxes.values():
                await asyncio.to_thread(box.place.end)
            server.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(server.wait_closed(), 30)
