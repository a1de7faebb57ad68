from niceeval import EvalContext, define_eval
from niceeval.expect import includes


@define_eval(description="The order is looked up before money goes back")
async def looks_first(t: EvalContext) -> None:
    await t.send("Please refund A-17")
    await t.respond_all("approve")
    t.tool_order(["find_order", "refund"])
    t.called_tool("refund", input={"order": "A-17"}, status="completed", count=1)
    t.succeeded()


@define_eval(description="A refusal is respected, and its reason is passed on")
async def respects_a_refusal(t: EvalContext) -> None:
    turn = await t.send("Please refund A-17")
    turn.parked()
    request = t.require_input_request(action="refund", input={"order": "A-17"})
    turn = await t.respond(request.reply("it arrived yesterday"))
    t.called_tool("refund", status="rejected", count=1)
    t.check(turn.message, includes("it arrived yesterday"))
    t.no_failed_actions()
    t.succeeded()


@define_eval(description="Two refunds are approved one by one")
async def two_at_once(t: EvalContext) -> None:
    await t.send("Please refund A-17 and B-2")
    first = t.require_input_request(input={"order": "A-17"})
    second = t.require_input_request(input={"order": "B-2"})
    turn = await t.respond(first.choose("reject"), second.choose("approve"))
    t.called_tool("refund", input={"order": "B-2"}, status="completed", count=1)
    t.called_tool("refund", input={"order": "A-17"}, status="rejected", count=1)
    t.check(turn.message, includes("B-2 is refunded"))
