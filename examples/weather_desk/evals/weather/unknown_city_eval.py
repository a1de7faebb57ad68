"""A tool that fails is evidence too: the desk must say that it knows nothing, not make a forecast up."""

from niceeval import EvalContext, define_eval
from niceeval.expect import excludes, includes


@define_eval(description="A city without a station gets no made-up forecast")
async def unknown_city(t: EvalContext) -> None:
    turn = await t.send("What's the weather in Atlantis?")
    turn.succeeded()
    turn.called_tool("get_weather", input={"city": "Atlantis"}, status="failed", count=1)
    t.check(turn.message, includes("no forecast"))
    t.check(turn.message, excludes("°C"))
