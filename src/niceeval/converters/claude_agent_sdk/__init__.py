"""The messages of the Claude Agent SDK into turns.

    return await claude_agent_sdk.to_turn_stream(query(prompt=input.text, options=options))

Works on the SDK's message objects and on `dataclasses.asdict` of them; imports nothing of it.
"""

from niceeval.converters.claude_agent_sdk._run import (
    collected,
    collected_stream,
    coverage,
    situations,
    to_turn,
    to_turn_stream,
)

__all__ = ["collected", "collected_stream", "coverage", "situations", "to_turn", "to_turn_stream"]
