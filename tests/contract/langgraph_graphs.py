"""A graph for a real LangGraph server: it asks before it deletes, and breaks when it is told to."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]


def model(state: State) -> dict[str, Any]:
    last = state["messages"][-1]
    words = str(last.content).split()
    number = len(state["messages"])
    calls: list[Any] = []
    text = f"message {number}"
    if isinstance(last, ToolMessage):
        text = f"So: {last.content}"
    elif words[0] == "delete":
        text = ""
        calls = [{"name": "delete", "args": {"path": path}, "id": f"{number}-{path}"} for path in words[1:]]
    elif words[0] == "break":
        raise ValueError("no such desk")
    usage = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12, "input_token_details": {"cache_read": 4}}
    return {"messages": [AIMessage(text, tool_calls=calls, usage_metadata=usage)]}


def tools(state: State) -> dict[str, Any]:
    calls = state["messages"][-1].tool_calls
    requests = [{"name": call["name"], "args": call["args"], "description": "Delete it?"} for call in calls]
    reviews = [{"allowed_decisions": ["approve", "reject"]} for _ in calls]
    decisions = interrupt({"action_requests": requests, "review_configs": reviews})["decisions"]
    results = []
    for call, decision in zip(calls, decisions, strict=True):
        refused = decision["type"] == "reject"
        text = decision.get("message", "refused") if refused else f"{call['args']['path']} done"
        status = "error" if refused else "success"
        results.append(ToolMessage(text, name=call["name"], tool_call_id=call["id"], status=status))
    return {"messages": results}


def goes_on(state: State) -> str:
    return "tools" if getattr(state["messages"][-1], "tool_calls", None) else "__end__"


graph = StateGraph(State)
graph.add_node("model", model)
graph.add_node("tools", tools)
graph.add_edge(START, "model")
graph.add_conditional_edges("model", goes_on, ["tools", "__end__"])
graph.add_edge("tools", "model")
desk = graph.compile()
