from niceeval import EvalContext, define_eval
from niceeval.expect import includes


@define_eval(description="A flight is looked up before it is booked")
async def looks_first(t: EvalContext) -> None:
    await t.send("Please book AB12")
    await t.respond_all("approve")
    t.tool_order(["find_flight", "book"])
    t.called_tool("book", input={"flight": "AB12"}, status="completed", count=1)
    t.succeeded()


@define_eval(description="A refusal is respected, and its reason is passed on")
async def respects_a_refusal(t: EvalContext) -> None:
    turn = await t.send("Please book AB12")
    turn.parked()
    request = t.require_input_request(action="book", input={"flight": "AB12"})
    turn = await t.respond(request.reply("it is too early"))
    t.called_tool("book", status="rejected", count=1)
    t.check(turn.message, includes("it is too early"))
    t.no_failed_actions()
    t.succeeded()


@define_eval(description="Two bookings are approved one by one")
async def two_at_once(t: EvalContext) -> None:
    await t.send("Please book AB12 and CD34")
    first = t.require_input_request(input={"flight": "AB12"})
    second = t.require_input_request(input={"flight": "CD34"})
    turn = await t.respond(first.choose("reject"), second.choose("approve"))
    t.called_tool("book", input={"flight": "CD34"}, status="completed", count=1)
    t.called_tool("book", input={"flight": "AB12"}, status="rejected", count=1)
    t.check(turn.message, includes("CD34 is booked"))
