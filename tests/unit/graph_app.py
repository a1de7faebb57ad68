"""A graph behind the part of a LangGraph server's API that the adapter uses: real graphs, a small server of our own.

`desk` asks before it deletes, looks without asking, and recalls what came first; `colour` asks a question; `broken`
raises in a node; `big` asks two questions at once.
"""

from __future__ import annotations

import json
import operator
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph.graph", reason="pip install 'niceeval[langgraph]'")
pytest.importorskip("starlette", reason="pip install 'niceeval[dev]'")

import httpx2
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    structured_response: dict[str, Any]
    colours: Annotated[list[str], operator.add]


def _say(text: str, **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12, "input_token_details": {"cache_read": 4}}
    return {"messages": [AIMessage(text, usage_metadata=usage, **more)]}


def _desk(state: State) -> dict[str, Any]:
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        return _say(f"So: {last.content}")
    words = last.text.split() or [""]
    number = len(state["messages"])
    if words[0] == "recall":
        return _say(f"You began with {state['messages'][0].text}")
    if words[0] in ("delete", "look"):
        calls = [{"name": words[0], "args": {"path": path}, "id": f"{number}-{path}"} for path in words[1:]]
        return _say("", tool_calls=calls)
    return _say(f"message {number}: {last.text}") | {"structured_response": {"words": len(words)}}


def _tools(state: State) -> dict[str, Any]:
    calls = state["messages"][-1].tool_calls  # type: ignore[union-attr]
    asked = [call for call in calls if call["name"] == "delete"]
    decisions: list[Any] = []
    if asked:
        requests = [{"name": call["name"], "args": call["args"], "description": "Delete it?"} for call in asked]
        reviews = [{"allowed_decisions": ["approve", "reject"]} for _ in asked]
        decisions = list(interrupt({"action_requests": requests, "review_configs": reviews})["decisions"])
    results = []
    for call in calls:
        decision = decisions.pop(0) if call["name"] == "delete" else {"type": "approve"}
        refused = decision["type"] == "reject"
        text = decision.get("message", "refused") if refused else f"{call['args']['path']} done"
        status = "error" if refused else "success"
        results.append(ToolMessage(text, name=call["name"], tool_call_id=call["id"], status=status))
    return {"messages": results}


def _next(state: State) -> str:
    return "tools" if getattr(state["messages"][-1], "tool_calls", None) else "__end__"


def desk() -> Any:
    graph = StateGraph(State)
    graph.add_node("model", _desk)
    graph.add_node("tools", _tools)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", _next, ["tools", "__end__"])
    graph.add_edge("tools", "model")
    return graph


def colour() -> Any:
    graph = StateGraph(State)
    graph.add_node("ask", lambda state: _say(f"You like {interrupt('Which colour?')}."))
    graph.add_edge(START, "ask")
    return graph


def broken() -> Any:
    def fail(state: State) -> dict[str, Any]:
        raise ValueError("no such desk")

    graph = StateGraph(State)
    graph.add_node("first", lambda state: _say("I begin."))
    graph.add_node("fail", fail)
    graph.add_edge(START, "first")
    graph.add_edge("first", "fail")
    return graph


def big() -> Any:
    graph = StateGraph(State)
    graph.add_node("ask", lambda state: {"colours": [interrupt({"question": state["question"]})]})
    graph.add_node("say", lambda state: _say(" and ".join(state["colours"])))
    graph.add_conditional_edges(START, lambda state: [Send("ask", {"question": word}) for word in ("One?", "Two?")])
    graph.add_edge("ask", "say")
    return graph


def _plain(value: Any) -> Any:
    """As the server writes it: messages as objects with their type."""
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if hasattr(value, "value") and hasattr(value, "id"):
        return {"value": value.value, "id": value.id}
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def app(seen: list[Any], more: Mapping[str, Any] | None = None) -> Starlette:
    """`POST /threads/{id}/runs/stream`, for the graphs above and `more` compiled ones. Requests land in `seen`."""
    graphs = dict(more or {})
    for name, made in (("desk", desk), ("colour", colour), ("broken", broken), ("big", big)):
        graphs[name] = made().compile(checkpointer=InMemorySaver())

    async def run(request: Request) -> Response:
        body = await request.json()
        seen.append({"body": body, "headers": dict(request.headers), "thread": request.path_params["thread"]})
        graph = graphs.get(body["assistant_id"])
        if graph is None:
            return JSONResponse({"detail": f"no assistant {body['assistant_id']}"}, status_code=404)
        given = Command(resume=body["command"]["resume"]) if "command" in body else body["input"]
        settings = {"configurable": {"thread_id": request.path_params["thread"]}}

        async def events() -> AsyncIterator[str]:
            yield 'event: metadata\ndata: {"run_id": "r1", "attempt": 1}\n\n'
            try:
                stream = graph.astream(
                    given, settings, stream_mode=body["stream_mode"], subgraphs=body["stream_subgraphs"]
                )
                async for namespace, mode, data in stream:
                    name = "|".join([mode, *namespace])
                    yield f"event: {name}\ndata: {json.dumps(_plain(data))}\n\n"
            except ValueError as error:
                said = {"error": type(error).__name__, "message": str(error)}
                yield f"event: error\ndata: {json.dumps(said)}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    return Starlette(routes=[Route("/threads/{thread}/runs/stream", run, methods=["POST"])])


def transport(seen: list[Any], more: Mapping[str, Any] | None = None) -> httpx2.ASGITransport:
    """The server, asked without a network."""
    return httpx2.ASGITransport(app=app(seen, more))
