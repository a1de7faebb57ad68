"""Fails, and should: the desk cannot tell wind speed. It is here so that you can see what a failure looks like."""

import re

from niceeval import EvalContext, define_eval


@define_eval(description="Fails on purpose: the desk does not know wind speed")
async def wind_speed(t: EvalContext) -> None:
    turn = await t.send("How strong is the wind in Reykjavik today?")
    turn.succeeded()
    turn.called_tool("get_wind", input={"city": "Reykjavik"})
    turn.message_includes(re.compile(r"\d+ (m/s|km/h)"))
