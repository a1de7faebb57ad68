"""An agent behind A2A, of its SDK's own server, for tests of the adapter that talks to it.

It does what it is told: `work` says what it does and gives artifacts, `big` gives one in pieces; `data` gives a JSON
object, `file` a file; `order` asks which one, and then orders it; `login` asks for a login; `hi` answers at once,
without a task; `recall` says what came first; `fail`, `reject` and `cancel` end so; `raise` breaks.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("a2a.server.routes", reason="pip install 'niceeval[a2a]' 'a2a-sdk[http-server]'")

import httpx
from a2a.helpers import new_raw_part, new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value
from starlette.applications import Starlette

URL = "http://agent.test"


def data_part(value: Any) -> Part:
    return Part(data=ParseDict(value, Value()), media_type="application/json")


class Desk(AgentExecutor):
    """See the module."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        words = context.get_user_input()
        task = context.current_task
        if task is None and words == "hi":
            await event_queue.enqueue_event(new_text_message("Hello.", context_id=context.context_id))
            return
        if task is None:
            assert context.message is not None
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
            self._first.setdefault(task.context_id, words)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await self._do(words, updater, resumed=context.current_task is not None, task=task, context=context)

    async def _do(self, words: str, updater: TaskUpdater, *, resumed: bool, task: Any, context: RequestContext) -> None:
        def say(text: str) -> Any:
            return updater.new_agent_message([Part(text=text)])

        if resumed:
            await updater.start_work(say("On it."))
            await updater.add_artifact([Part(text=f"Ordered: {words}")], name="receipt")
            await updater.complete()
        elif words == "work":
            await updater.start_work(say("Looking."))
            await updater.add_artifact([Part(text="It is fine.")], name="answer")
            await updater.complete(say("It is fine."))
        elif words == "big":
            for number, piece in enumerate(("One ", "two ", "three.")):
                await updater.add_artifact(
                    [Part(text=piece)], artifact_id="big", append=number > 0, last_chunk=number == 2
                )
            await updater.complete()
        elif words == "data":
            await updater.add_artifact([data_part({"city": "Oslo", "days": 3, "share": 0.5})])
            await updater.complete()
        elif words == "file":
            await updater.add_artifact([new_raw_part(b"x", media_type="image/png", filename="a.png")])
            await updater.complete()
        elif words in ("order", "login"):
            asking = updater.requires_input if words == "order" else updater.requires_auth
            await asking(say("Which one?" if words == "order" else "Log in first."))
        elif words in ("fail", "reject", "cancel"):
            ending = {"fail": updater.failed, "reject": updater.reject, "cancel": updater.cancel}[words]
            await ending(None if words == "cancel" else say("No stock."))
        elif words == "recall":
            await updater.complete(say(f"You began with {self._first[task.context_id]}"))
        elif words == "raise":
            raise RuntimeError("the desk is on fire")
        else:
            files = [f"{part.filename} {part.media_type} {len(part.raw)}" for part in context.message.parts if part.raw]
            await updater.complete(say(f"You said {words}; {context.context_id == task.context_id} {files}"))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def card(*, streaming: bool = True, version: str = "1.0", url: str = URL) -> AgentCard:
    return AgentCard(
        name="desk",
        description="A desk.",
        version="1",
        supported_interfaces=[AgentInterface(protocol_binding="JSONRPC", url=f"{url}/rpc", protocol_version=version)],
        capabilities=AgentCapabilities(streaming=streaming),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="s", name="s", description="s", tags=["s"])],
    )


def card_json(url: str) -> bytes:
    """The card as it is served."""
    return json.dumps(MessageToDict(card(url=url))).encode()


def app(*, streaming: bool = True, version: str = "1.0", url: str = URL) -> Starlette:
    """The agent's card and its JSON-RPC endpoint."""
    of_agent = card(streaming=streaming, version=version, url=url)
    handler = DefaultRequestHandler(agent_executor=Desk(), task_store=InMemoryTaskStore(), agent_card=of_agent)
    compat = version == "0.3"
    routes = [*create_agent_card_routes(of_agent), *create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=compat)]
    return Starlette(routes=routes)


class Noting(httpx.ASGITransport):
    """The agent, asked without a network. What is posted lands in `seen`, as headers and body."""

    def __init__(self, seen: list[Any], **how: Any) -> None:
        super().__init__(app=app(**how))
        self._seen = seen

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            self._seen.append({"headers": dict(request.headers), "body": json.loads(request.content)})
        return await super().handle_async_request(request)
