"""An agent of Pydantic AI behind its own UI protocols, for tests of the adapters that talk to them.

It does what it is told: `delete a b` wants to delete two files and asks for each; `look x` looks there; `boom` looks
where it cannot; `bad` calls a tool wrongly; `think` thinks; `crash` breaks while it speaks; `recall` says what came
first.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

pytest.importorskip("pydantic_ai.ui.vercel_ai", reason="needs pip install 'niceeval[pydantic-ai]'")
pytest.importorskip("starlette", reason="needs pip install 'niceeval[dev]'")

import httpx2
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def in_a_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """A test that is a coroutine, run in a loop of its own."""

    @functools.wraps(test)
    def run() -> None:
        async def body() -> None:
            await test()

        asyncio.run(body())

    return run


def _call(number: int, name: str, arguments: str) -> dict[int, DeltaToolCall]:
    call_id = f"{name}-{number}"
    return {number: DeltaToolCall(name=name, json_args=arguments, tool_call_id=call_id)}


async def _answers(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    last = messages[-1]
    back = [part for part in last.parts if part.part_kind in ("tool-return", "retry-prompt")]
    if back:
        yield "So: "
        yield "; ".join(f"{part.tool_name} gave {part.content}" for part in back)
        return
    prompts = [part for message in messages for part in message.parts if part.part_kind == "user-prompt"]
    words = str(prompts[-1].content).split()
    seen = len(prompts)
    if words[0] == "delete":
        yield "I will ask. "
        for number, path in enumerate(words[1:], 1):
            yield _call(number + 10 * seen, "delete", f'{{"path": "{path}"}}')
    elif words[0] in ("look", "boom"):
        for number, where in enumerate(words[1:] or ["boom"], 1):
            yield _call(number + 10 * seen, "look", f'{{"where": "{where}"}}')
    elif words[0] == "bad":
        yield _call(1 + 10 * seen, "look", '{"whe": 3}')
    elif words[0] == "think":
        yield {0: DeltaThinkingPart(content="Hmm, ")}
        yield {0: DeltaThinkingPart(content="yes.")}
        yield "Hel"
        yield "lo"
    elif words[0] == "recall":
        yield f"You began with {prompts[0].content}"
    elif words[0] == "crash":
        yield "I was"
        raise RuntimeError("the model is gone")
    else:
        yield f"message {seen}: {' '.join(words)}"


async def _answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """The same, not streamed."""
    texts: list[str] = []
    calls: list[ToolCallPart] = []
    async for piece in _answers(messages, info):
        if isinstance(piece, str):
            texts.append(piece)
            continue
        for part in piece.values():
            if isinstance(part, DeltaToolCall):
                calls.append(ToolCallPart(part.name or "", part.json_args, tool_call_id=part.tool_call_id or ""))
    return ModelResponse(parts=[*([TextPart("".join(texts))] if texts else []), *calls])


def desk() -> Agent[None, Any]:
    """The agent itself."""
    agent = Agent(FunctionModel(_answer, stream_function=_answers), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def delete(path: str) -> str:
        return f"{path} is gone"

    @agent.tool_plain
    def look(where: str) -> str:
        if where == "boom":
            raise RuntimeError("nobody can look there")
        return f"{where} is fine"

    return agent


def app(seen: list[dict[str, Any]] | None = None) -> Starlette:
    """`/ui` speaks the UI message stream, `/ag-ui` AG-UI. Bodies of requests, and their headers, land in `seen`."""
    from pydantic_ai.ui.ag_ui import AGUIAdapter
    from pydantic_ai.ui.vercel_ai import VercelAIAdapter

    agent = desk()

    async def note(request: Request) -> None:
        if seen is not None:
            seen.append({"body": await request.json(), "headers": dict(request.headers)})

    async def ui(request: Request) -> Response:
        await note(request)
        return await VercelAIAdapter.dispatch_request(request, agent=agent, sdk_version=6)

    async def ag_ui(request: Request) -> Response:
        await note(request)
        return await AGUIAdapter.dispatch_request(request, agent=agent)

    return Starlette(routes=[Route("/ui", ui, methods=["POST"]), Route("/ag-ui", ag_ui, methods=["POST"])])


def transport(seen: list[dict[str, Any]] | None = None) -> httpx2.ASGITransport:
    """The app, asked without a network."""
    return httpx2.ASGITransport(app=app(seen))


def answering(*bodies: str, kind: str = "text/event-stream", status: int = 200) -> httpx2.MockTransport:
    """A service that answers with these bodies, one after the other, and with the last one from then on."""
    left = list(bodies)

    def answer(request: httpx2.Request) -> httpx2.Response:
        body = left.pop(0) if len(left) > 1 else left[0]
        return httpx2.Response(status, headers={"content-type": kind}, content=body.encode())

    return httpx2.MockTransport(answer)
