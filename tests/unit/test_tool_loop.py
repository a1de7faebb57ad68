"""Tools that an adapter runs itself: what the model is told of a function, and what running it comes to."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import pytest

from niceeval import EvalFatalError
from niceeval.adapter import AdapterError
from niceeval.tool_loop import ClientTools, ToolDefinition


@dataclass
class Place:
    name: str
    floor: int = 0


def find(
    place: Place,
    how: Annotated[str, msgspec.Meta(description="slowly or fast")],
    unit: Literal["m", "km"] = "m",
    tags: list[str] = [],  # noqa: B006 - what a function of somebody else may look like
) -> dict[str, Any]:
    """Find a place.

    It may be far.
    """
    return {"name": place.name, "floor": place.floor, "how": how, "unit": unit, "tags": tags}


async def find_later(name: str) -> str:
    await asyncio.sleep(0)
    return f"later {name}"


def find_by_coroutine(name: str) -> Any:
    return find_later(name)


def breaks() -> None:
    raise KeyError("key")


async def breaks_later() -> None:
    raise ValueError


def dooms() -> None:
    raise EvalFatalError("no service")


def odd() -> object:
    return {"when": {1, 2}.__class__, "nan": float("nan")}


TOOLS = ClientTools(
    [
        find,
        find_later,
        find_by_coroutine,
        breaks,
        breaks_later,
        dooms,
        odd,
        ToolDefinition(name="raw", function=lambda **given: given, parameters={"type": "object"}, description="Raw."),
    ],
    (),
    "desk",
)


def test_what_the_model_is_told() -> None:
    """A function is told by its name, docstring and annotations."""
    told = TOOLS.definitions()[0].told()
    parts = told["parameters"].pop("$defs")
    assert told == {
        "name": "find",
        "description": "Find a place.\n\nIt may be far.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"$ref": "#/$defs/Place"},
                "how": {"type": "string", "description": "slowly or fast"},
                "unit": {"enum": ["km", "m"]},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["place", "how"],
            "additionalProperties": False,
        },
    }
    assert parts["Place"]["required"] == ["name"]
    assert TOOLS.definitions()[-1].told() == {
        "name": "raw",
        "description": "Raw.",
        "parameters": {"type": "object"},
    }


RUNS: list[tuple[str, object, str, Any]] = [
    (
        "find",
        {"place": {"name": "attic"}, "how": "fast"},
        "completed",
        {"name": "attic", "floor": 0, "how": "fast", "unit": "m", "tags": []},
    ),
    ("find_later", {"name": "x"}, "completed", "later x"),
    ("find_by_coroutine", {"name": "x"}, "completed", "later x"),
    ("raw", {"a": [1]}, "completed", {"a": [1]}),
    ("breaks", {}, "failed", "KeyError: 'key'"),
    ("breaks_later", {}, "failed", "ValueError"),
    ("find_later", {"name": 3}, "failed", "the arguments do not fit: Expected `str`, got `int` - at `$.name`"),
    (
        "find_later",
        {"name": "x", "more": 1},
        "failed",
        "the arguments do not fit: Object contains unknown field `more`",
    ),
    ("find_later", {}, "failed", "the arguments do not fit: Object missing required field `name`"),
    ("find_later", "no object", "failed", "the arguments are no JSON object"),
]


@pytest.mark.parametrize(("name", "arguments", "status", "output"), RUNS)
def test_what_a_call_comes_to(name: str, arguments: object, status: str, output: Any) -> None:
    """A call comes to what the function returned or to an error that the model can read."""
    outcome = asyncio.run(TOOLS.run(name, arguments))
    assert (outcome.status, outcome.output) == (status, output)
    assert isinstance(outcome.text, str)


def test_odd_results_and_names() -> None:
    """A result that is no JSON is made one and a name that is no tool is told with those that are."""
    outcome = asyncio.run(TOOLS.run("odd", {}))
    assert (outcome.status, outcome.output["nan"]) == ("completed", "NaN")  # type: ignore[index, call-overload]
    unknown = asyncio.run(TOOLS.run("fly", {}))
    assert (unknown.status, "the tools are find, find_later" in unknown.text) == ("failed", True)


def test_what_dooms_more_than_the_call() -> None:
    """An error that dooms the eval is not the model's to read."""
    with pytest.raises(EvalFatalError):
        asyncio.run(TOOLS.run("dooms", {}))


def test_a_plain_function_may_block() -> None:
    """A plain function is run in a thread of its own."""
    tools = ClientTools([lambda_named := ToolDefinition(name="t", function=where, parameters={})], (), "desk")
    assert tools.definitions() == [lambda_named]
    assert asyncio.run(tools.run("t", {})).output != threading.current_thread().name


def where() -> str:
    return threading.current_thread().name


class Unknown:
    pass


def of_unknown(thing: Unknown) -> None: ...


def of_nothing_known(thing: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def positional(thing: str, /) -> None: ...


@pytest.mark.parametrize("function", [of_unknown, of_nothing_known, positional])
def test_functions_that_say_too_little(function: Any) -> None:
    """A function whose parameters have no schema is refused with what to write instead."""
    with pytest.raises(AdapterError) as raised:
        ClientTools([function], (), "desk")
    assert f"the tool {function.__name__} " in str(raised.value)
    assert "ToolDefinition(" in str(raised.value.next_step())
