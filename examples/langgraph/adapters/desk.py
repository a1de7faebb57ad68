"""The travel desk as an agent that can be measured: the flag `style` chooses its instructions."""

from typing import Any

from desk_graph import CAREFUL, HASTY, travel_desk
from niceeval.adapter import Agent, AgentContext
from niceeval.adapters import langgraph_agent

INSTRUCTIONS = {"careful": CAREFUL, "hasty": HASTY}


def desk() -> Agent:
    def make(ctx: AgentContext) -> Any:
        return travel_desk(INSTRUCTIONS[str(ctx.flags.get("style", "careful"))])

    return langgraph_agent(make, name="travel-desk", sync=True)
