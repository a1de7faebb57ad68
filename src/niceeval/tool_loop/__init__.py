"""What adapters share that ask an endpoint of a model and run its tools themselves. Needs the extra `http`.

A protocol is a `Dialect`; `ToolLoop(settings, dialect, declared).send` is an agent's `send`: it asks, runs the tools
that the model calls, tells it what they came to, and stops for a human where a tool waits for approval.
"""

from niceeval.tool_loop.line import Settled, WantedCall
from niceeval.tool_loop.loop import APPROVAL_OPTIONS, Answered, Dialect, ToolLoop, json_events
from niceeval.tool_loop.replay import without_data
from niceeval.tool_loop.settings import EndpointSettings
from niceeval.tool_loop.tools import ClientTools, ToolDefinition, ToolOutcome

__all__ = [
    "APPROVAL_OPTIONS",
    "Answered",
    "ClientTools",
    "Dialect",
    "EndpointSettings",
    "Settled",
    "ToolDefinition",
    "ToolLoop",
    "ToolOutcome",
    "WantedCall",
    "json_events",
    "without_data",
]
