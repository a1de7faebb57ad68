"""An answer as data: the declared type is the contract, and `turn.data` has that type."""

from dataclasses import dataclass
from typing import Literal

from niceeval import EvalContext, define_eval
from niceeval.expect import equals


@dataclass
class Forecast:
    city: str
    day: Literal["today", "tomorrow"]
    celsius: int
    sky: str


@define_eval(description="A forecast can be asked for as data")
async def structured(t: EvalContext) -> None:
    turn = await t.send("The weather in Oslo tomorrow, please", output=Forecast)
    turn.succeeded()
    t.check(turn.data, equals(Forecast(city="Oslo", day="tomorrow", celsius=6, sky="cloudy")))
