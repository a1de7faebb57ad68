from niceeval import EvalContext, define_eval
from niceeval.expect import includes


@define_eval(description="A renewal waits for a person")
async def approved(t: EvalContext) -> None:
    turn = await t.send("Please renew B-1")
    turn.parked()
    t.require_input_request(action="renew", input={"book": "B-1"}, option_ids=["approve", "reject"])
    await t.respond("approve")
    t.called_tool("renew", status="completed", output=includes("renewed for 4 weeks"), count=1)
    t.succeeded()


@define_eval(description="A refusal is respected, and its reason is passed on; the other renewal goes on")
async def one_of_two(t: EvalContext) -> None:
    await t.send("Please renew B-1 and B-2")
    first = t.require_input_request(input={"book": "B-1"})
    second = t.require_input_request(input={"book": "B-2"})
    turn = await t.respond(first.reply("somebody waits for it"), second.choose("approve"))
    t.called_tool("renew", input={"book": "B-1"}, status="rejected", count=1)
    t.called_tool("renew", input={"book": "B-2"}, status="completed", count=1)
    t.check(turn.message, includes("somebody waits for it"))
    t.no_failed_actions()
