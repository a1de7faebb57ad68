"""LangGraph's results and streams, and LangChain's messages, into turns.

    result = await graph.ainvoke({"messages": [("user", input.text)]}, config)
    return langgraph.to_turn(result, subagents={})

Works on the frameworks' objects and on their JSON forms; imports nothing of them.
"""

from niceeval.converters._call_ids import CallIds
from niceeval.converters.langgraph._interrupts import APPROVE, REJECT, Pause, Resume, pauses, resume_values
from niceeval.converters.langgraph._messages import usage_of
from niceeval.converters.langgraph._run import (
    Reading,
    collected,
    collected_stream,
    coverage,
    message_keys,
    situations,
    to_turn,
    to_turn_stream,
)

__all__ = [
    "APPROVE",
    "REJECT",
    "CallIds",
    "Pause",
    "Reading",
    "Resume",
    "collected",
    "collected_stream",
    "coverage",
    "message_keys",
    "pauses",
    "resume_values",
    "situations",
    "to_turn",
    "to_turn_stream",
    "usage_of",
]
