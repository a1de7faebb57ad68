"""The events of Google's Agent Development Kit into turns.

    events = [event async for event in runner.run_async(user_id=..., session_id=..., new_message=...)]
    return google_adk.to_turn(events, subagents={})

Works on the framework's events and on their JSON forms; imports nothing of it.
"""

from niceeval.converters._call_ids import CallIds
from niceeval.converters.google_adk._events import APPROVE, CONFIRMATION, INPUT, REJECT
from niceeval.converters.google_adk._run import (
    Reading,
    collected,
    collected_stream,
    coverage,
    situations,
    to_turn,
    to_turn_stream,
)

__all__ = [
    "APPROVE",
    "CONFIRMATION",
    "INPUT",
    "REJECT",
    "CallIds",
    "Reading",
    "collected",
    "collected_stream",
    "coverage",
    "situations",
    "to_turn",
    "to_turn_stream",
]
