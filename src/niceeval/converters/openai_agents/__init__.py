"""Runs of the OpenAI Agents SDK into turns.

    result = await Runner.run(agent, input.text)
    return openai_agents.to_turn(result)

Works on the SDK's objects and on their JSON forms; imports nothing of it.
"""

from niceeval.converters._call_ids import CallIds
from niceeval.converters.openai_agents._items import APPROVE, REJECT
from niceeval.converters.openai_agents._run import collected, coverage, situations, to_turn
from niceeval.converters.openai_agents._stream import collected_stream, to_turn_stream

__all__ = [
    "APPROVE",
    "REJECT",
    "CallIds",
    "collected",
    "collected_stream",
    "coverage",
    "situations",
    "to_turn",
    "to_turn_stream",
]
