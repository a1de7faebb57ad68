"""What a scripted model says: scenarios, their steps, and operations that are carried out by the agent's own tools."""

from __future__ import annotations

from niceeval.testing._model_server.model_request import Entry, ModelRequest, OfferedTool
from niceeval.testing._model_server.ready_made import HELLO, READY_MADE, RECALL, what_was_said
from niceeval.testing._model_server.scenario import MARKER, Scenario
from niceeval.testing._model_server.side_requests import SIDE_REQUESTS, SideRequest
from niceeval.testing._model_server.steps import (
    Operation,
    Step,
    StepLike,
    call,
    cut,
    edit,
    empty,
    fail,
    mcp,
    rate_limited,
    read,
    say,
    shell,
    slow,
    structured,
    task,
    tool,
    write,
)

__all__ = [
    "HELLO",
    "MARKER",
    "READY_MADE",
    "RECALL",
    "SIDE_REQUESTS",
    "Entry",
    "ModelRequest",
    "OfferedTool",
    "Operation",
    "Scenario",
    "SideRequest",
    "Step",
    "StepLike",
    "call",
    "cut",
    "edit",
    "empty",
    "fail",
    "mcp",
    "rate_limited",
    "read",
    "say",
    "shell",
    "slow",
    "structured",
    "task",
    "tool",
    "what_was_said",
    "write",
]
