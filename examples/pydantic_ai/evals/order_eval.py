from dataclasses import dataclass

from niceeval import EvalContext, define_eval
from niceeval.expect import equals, includes


@dataclass
class Order:
    order: str
    state: str


@dataclass
class Orders:
    orders: list[Order]


@define_eval(description="States of orders come as data")
async def states_as_data(t: EvalContext) -> None:
    turn = await t.send("Where are A-17 and B-2?", output=Orders)
    turn.called_tool("find_order", count=2)
    t.check(turn.data, equals(Orders([Order("A-17", "shipped"), Order("B-2", "lost")])))


@define_eval(description="An order that does not exist is said to be unknown")
async def unknown_order(t: EvalContext) -> None:
    turn = await t.send("Where is C-9?")
    turn.called_tool("find_order", status="failed", count=1)
    t.check(turn.message, includes("no order C-9"))
    turn.not_called_tool("refund")


@define_eval(description="A conversation is remembered, and a new one starts fresh")
async def memory(t: EvalContext) -> None:
    await t.send("Where is A-17?")
    turn = await t.send("What did I ask?")
    t.check(turn.message, includes("Where is A-17?"))
    other = t.new_session()
    turn = await other.send("What did I ask?")
    t.check(turn.message, includes("nothing"))
