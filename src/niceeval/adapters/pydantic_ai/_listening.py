"""What is heard of a run while it goes on, because its messages do not say it."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Heard:
    """Names of tools in which another agent ran, and the ids of calls that raised, each with what it raised."""

    nested: set[str] = field(default_factory=set)
    raised: dict[str, BaseException] = field(default_factory=dict)


def listening(agent: Any, heard: Heard) -> list[Any]:
    """Capabilities for one run of the agent that hear of its tools; none where the framework has no place for them."""
    from pydantic_ai import capture_run_messages
    from pydantic_ai.capabilities import AbstractCapability

    if "capabilities" not in inspect.signature(agent.run).parameters:
        return []

    class Listening(AbstractCapability[Any]):
        async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
            # Whatever is run in here by an agent has its messages in here, and not in those of the outer run.
            with capture_run_messages() as inside:
                try:
                    return await handler(args)
                except Exception as error:
                    heard.raised[call.tool_call_id] = error
                    raise
                finally:
                    if inside:
                        heard.nested.add(call.tool_name)

    return [Listening()]
