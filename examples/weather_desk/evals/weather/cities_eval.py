"""One eval, a case for each row of a YAML file; every row becomes a `City`."""

from dataclasses import dataclass

from niceeval import EvalContext, define_eval
from niceeval.expect import all_of, includes
from niceeval.loaders import load_yaml


@dataclass
class City:
    city: str
    day: str
    celsius: int
    sky: str


@define_eval(description=lambda row: f"{row.city}, {row.day}", cases=load_yaml("../data/cities.yaml"))
async def cities(t: EvalContext, row: City) -> None:
    turn = await t.send(f"What's the weather in {row.city} {row.day}?")
    turn.called_tool("get_weather", input={"city": row.city, "day": row.day}, status="completed")
    t.check(turn.message, all_of(includes(f"{row.celsius} °C"), includes(row.sky)))
