from niceeval import EvalContext, define_eval
from niceeval.expect import includes


@define_eval(description="What is not said is asked for")
async def asks_what_is_missing(t: EvalContext) -> None:
    turn = await t.send("When does my flight leave?")
    turn.parked()
    request = t.require_input_request(prompt="Which flight?")
    turn = await t.respond(request.reply("It is CD34"))
    turn.called_tool("find_flight", input={"flight": "CD34"}, count=1)
    t.check(turn.message, includes("18:05"))


@define_eval(description="A flight that does not exist is said to be unknown")
async def unknown_flight(t: EvalContext) -> None:
    turn = await t.send("When does XY99 leave?")
    turn.called_tool("find_flight", status="failed", count=1)
    t.check(turn.message, includes("no flight XY99"))
    turn.not_called_tool("book")


@define_eval(description="A conversation is remembered, and a new one starts fresh")
async def memory(t: EvalContext) -> None:
    await t.send("When does AB12 leave?")
    turn = await t.send("What did I ask?")
    t.check(turn.message, includes("When does AB12 leave?"))
    other = t.new_session()
    turn = await other.send("What did I ask?")
    t.check(turn.message, includes("nothing"))
    t.max_tokens(500)
