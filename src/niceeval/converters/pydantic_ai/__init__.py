"""Pydantic AI's runs into turns.

    result = await agent.run(input.text, message_history=history)
    return pydantic_ai.to_turn(result)

Works on the framework's objects and on their JSON forms; imports nothing of it.
"""

from niceeval.converters._call_ids import CallIds
from niceeval.converters.pydantic_ai._parts import APPROVE, REJECT
from niceeval.converters.pydantic_ai._run import collected, coverage, situations, to_turn
from niceeval.converters.pydantic_ai._stream import collected_stream, to_turn_stream

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
