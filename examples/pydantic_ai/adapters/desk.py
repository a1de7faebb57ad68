"""The refund desk as an agent that can be measured: the flag `style` chooses its instructions."""

from pydantic_ai import Agent as PydanticAgent

from desk_agent import CAREFUL, HASTY, Shop, refund_desk
from niceeval.adapter import Agent, AgentContext
from niceeval.adapters import pydantic_ai_agent

INSTRUCTIONS = {"careful": CAREFUL, "hasty": HASTY}


def desk() -> Agent:
    def make(ctx: AgentContext) -> PydanticAgent[Shop, object]:
        return refund_desk(INSTRUCTIONS[str(ctx.flags.get("style", "careful"))])

    return pydantic_ai_agent(make, name="refund-desk", deps=lambda ctx: Shop())
