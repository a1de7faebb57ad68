"""The agent under test: a refund desk made with Pydantic AI. It knows nothing of niceeval."""

from dataclasses import dataclass, field

from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, RunContext

from desk_model import desk_model

CAREFUL = "You refund orders. Look an order up before you refund it."
HASTY = "You refund orders. Be quick."


@dataclass
class Shop:
    """What the tools work on: one for each conversation."""

    orders: dict[str, str] = field(default_factory=lambda: {"A-17": "shipped", "B-2": "lost"})


def refund_desk(instructions: str = CAREFUL) -> Agent[Shop, str | DeferredToolRequests]:
    """The desk, with instructions of its own."""
    desk = Agent(
        desk_model(),
        name="refund-desk",
        deps_type=Shop,
        output_type=[str, DeferredToolRequests],
        instructions=instructions,
    )

    @desk.tool
    def find_order(ctx: RunContext[Shop], order: str) -> dict[str, str]:
        """The state of an order."""
        if order not in ctx.deps.orders:
            raise ModelRetry(f"there is no order {order}")
        return {"order": order, "state": ctx.deps.orders[order]}

    @desk.tool(requires_approval=True)
    def refund(ctx: RunContext[Shop], order: str) -> dict[str, str]:
        """Give the money back. A person has to approve."""
        ctx.deps.orders[order] = "refunded"
        return {"order": order, "state": "refunded"}

    return desk
