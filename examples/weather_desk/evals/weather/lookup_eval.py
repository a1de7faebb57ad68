"""One turn: the weather is looked up, not invented."""

import re

from niceeval import EvalContext, define_eval
from niceeval.expect import includes


@define_eval(description="Weather is looked up, not invented", tags=["smoke"])
async def lookup(t: EvalContext) -> None:
    turn = await t.send("What's the weather in Brooklyn today?")
    turn.succeeded()
    turn.called_tool("get_weather", input={"city": re.compile("brooklyn", re.I)}, count=1)
    turn.not_called_tool("send_mail")
    turn.no_failed_actions()
    t.check(turn.message, includes("21 °C"))
