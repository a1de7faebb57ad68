"""Two evals in one file: what a session remembers, and what another session must not know."""

from niceeval import EvalContext, define_eval
from niceeval.expect import includes


@define_eval(description="A city that was stated once is used later")
async def follow_up(t: EvalContext) -> None:
    await t.send("My city is Oslo")
    turn = await t.send("And what about tomorrow?")
    turn.called_tool("get_weather", input={"city": "Oslo", "day": "tomorrow"}, count=1)
    t.check(turn.message, includes("6 °C"))
    t.succeeded()


@define_eval(description="A new session knows nothing of another one")
async def new_session(t: EvalContext) -> None:
    await t.send("My city is Oslo")
    stranger = t.new_session()
    turn = await stranger.send("And what about tomorrow?")
    turn.message_includes("Which city?")
    stranger.used_no_tools()
