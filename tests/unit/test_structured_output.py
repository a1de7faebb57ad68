"""Structured output: what the adapter is asked for, what arrives, and what is said where it does not fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any, Literal, TypedDict, assert_type

import msgspec
import pydantic
import pytest

from niceeval import EvalContext, JsonSchema
from niceeval.adapter import Coverage, EvidenceCoverage, Turn
from tests.unit.drive_harness import Ran, agent, calls, request, run_eval, says, turn, waiting


@dataclass
class City:
    name: str
    people: int = 0


class Typed(TypedDict):
    name: str


class Struct(msgspec.Struct):
    name: str
    tags: list[str] = []


class Model(pydantic.BaseModel):
    name: str
    people: int = pydantic.Field(gt=0)


class Kind(Enum):
    NEW = "new"


class Dated(pydantic.BaseModel):
    day: date
    kind: Kind
    share: float


@dataclass
class WithModel:
    inner: Model


SCHEMA = JsonSchema({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "title": "Count"})

FITTING: list[tuple[Any, Any, object]] = [
    (City, {"name": "Rome"}, City("Rome")),
    (Typed, {"name": "Rome"}, {"name": "Rome"}),
    (Struct, {"name": "Rome", "tags": ["old"]}, Struct("Rome", ["old"])),
    (Model, {"name": "Rome", "people": 3}, Model(name="Rome", people=3)),
    (list[Model], [{"name": "Rome", "people": 3}], [Model(name="Rome", people=3)]),
    (WithModel, {"inner": {"name": "Rome", "people": 3}}, WithModel(Model(name="Rome", people=3))),
    (Literal["yes", "no"], "yes", "yes"),
    (City | None, {"name": "Rome"}, City("Rome")),
    (int | str, "x", "x"),
    (list[int], [1, 2], [1, 2]),
    (SCHEMA, {"n": 1, "more": [1]}, {"n": 1, "more": [1]}),
    (Dated, {"day": "2024-05-01", "kind": "new", "share": 1}, Dated(day=date(2024, 5, 1), kind=Kind.NEW, share=1.0)),
]


def ask(output: Any, step: Any, then: Callable[[EvalContext, Any], object], coverage: Any = None) -> Ran:
    """One send with `output`, then `then(t, turn)`."""

    async def case(t: EvalContext) -> None:
        then(t, await t.send("go", output=output))

    script = agent(step) if coverage is None else agent(step, coverage=coverage)
    return run_eval(case, script)


@pytest.mark.parametrize(("output", "data", "value"), FITTING)
def test_data_that_fits_arrives_as_the_declared_type(output: Any, data: Any, value: object) -> None:
    """And records nothing."""
    got: list[Any] = []
    ran = ask(output, turn(data=data), lambda t, found: got.extend([found.data, found.raw_data, found.status]))
    assert got == [value, data, "completed"]
    assert type(got[0]) is type(value)
    assert (ran.result.outcome, ran.result.assertions) == ("passed", ())


@pytest.mark.parametrize("output", [form for form, _, _ in FITTING])
def test_the_adapter_is_given_a_json_schema(output: Any) -> None:
    """Of every form; without `output=` there is none."""
    script = agent(turn(data=None))

    async def case(t: EvalContext) -> None:
        await t.send("go", output=output)
        await t.send("go")

    run_eval(case, script)
    schema, none = (input.output_schema for input in script.inputs)
    assert isinstance(schema, dict)
    assert schema
    assert none is None


MISFITS: list[tuple[Any, Any, str, str]] = [
    (City, {"name": 1}, "City", "Expected `str`, got `int` - at `$.name`"),
    (City, {}, "City", "Object missing required field `name`"),
    (Typed, [], "Typed", "Expected `object`, got `array`"),
    (Struct, {"name": "a", "tags": ["b", 3]}, "Struct", "Expected `str`, got `int` - at `$.tags[1]`"),
    (Model, {"name": "a", "people": 0}, "Model", "Input should be greater than 0 - at `$.people`"),
    (Model, {"name": "a", "people": "5"}, "Model", "Input should be a valid integer - at `$.people`"),
    (Model, {"name": "a", "people": True}, "Model", "Input should be a valid integer - at `$.people`"),
    (Model, {"name": "a", "people": 5.0}, "Model", "Input should be a valid integer - at `$.people`"),
    (Model, {"name": 1, "people": 5}, "Model", "Input should be a valid string - at `$.name`"),
    (WithModel, {"inner": {"name": "a", "people": "5"}}, "WithModel", "Input should be a valid integer"),
    (Literal["yes", "no"], "maybe", "Literal", "Invalid enum value 'maybe'"),
    (int | str, 1.5, "int | str", "Expected `int | str`, got `float`"),
    (int, True, "int", "Expected `int`, got `bool`"),
    (SCHEMA, {"n": "x"}, "Count", "'x' is not of type 'integer' - at `$.n`"),
]


@pytest.mark.parametrize(("output", "data", "name", "detail"), MISFITS)
def test_data_that_does_not_fit_is_a_failed_gate_and_a_failed_turn(
    output: Any, data: Any, name: str, detail: str
) -> None:
    """The difference is the detail; `raw_data` never raises, and the eval goes on."""
    got: list[Any] = []

    def then(t: EvalContext, found: Any) -> None:
        got.extend([found.raw_data, found.status])
        t.succeeded()

    ran = ask(output, turn(data=data), then)
    entry = ran.result.assertions[0]
    assert got == [data, "failed"]
    assert (entry.name, entry.outcome, entry.severity) == ("output schema", "failed", "gate")
    assert entry.expected is not None
    assert name in entry.expected
    assert entry.detail is not None
    assert entry.detail.startswith(detail)
    assert entry.loc is not None
    assert ran.outcomes == ["failed", "failed"]
    assert ran.result.outcome == "failed"


@pytest.mark.parametrize("data", [None, {"name": 1}])
def test_reading_data_that_is_not_there_stops_the_eval(data: Any) -> None:
    """So that the next line's AttributeError never disguises an agent's fault as an author's."""
    reached: list[str] = []

    def then(t: EvalContext, found: Any) -> None:
        try:
            found.data.name.upper()
        except Exception:  # noqa: BLE001 - what an author may write
            reached.append("swallowed")
        reached.append("after")

    ran = ask(City, turn(data=data), then)
    assert (reached, ran.result.outcome, ran.error_code, ran.outcomes) == ([], "failed", None, ["failed"])


def test_missing_data_is_a_failure_where_the_channel_is_complete() -> None:
    """The agent gave none."""
    got: list[Any] = []
    ran = ask(City, turn(), lambda t, found: got.extend([found.raw_data, found.status]))
    assert got == [None, "failed"]
    assert (ran.only.name, ran.only.outcome, ran.only.received) == ("output schema", "failed", "no data")


@pytest.mark.parametrize("level", ["partial", "unavailable"])
def test_missing_data_is_unavailable_where_the_channel_is_not(level: str) -> None:
    """It may have been there. The turn is not failed by it, nor known to have succeeded, and its data stop the eval."""
    reached: list[str] = []

    def then(t: EvalContext, found: Any) -> None:
        reached.append(found.status)
        t.succeeded()
        reached.append(found.data)

    coverage = EvidenceCoverage.complete_except(data=getattr(Coverage, level)("only in the log"))
    ran = ask(City, turn(), then, coverage)
    assert reached == ["completed"]
    assert ran.outcomes == ["unavailable", "unavailable"]
    first = ran.result.assertions[0].reason
    assert first is not None
    assert (first.code, first.channel) == (f"coverage-{level}", "data")
    assert (ran.result.outcome, ran.error_code) == ("errored", None)


@pytest.mark.parametrize(("data", "outcome"), [({"name": "Rome"}, "passed"), ({"name": 1}, "failed")])
def test_data_that_arrived_is_judged_whatever_the_channel_says(data: Any, outcome: str) -> None:
    """What exists is evidence."""
    coverage = EvidenceCoverage.complete_except(data=Coverage.unavailable("not promised"))
    assert ask(City, turn(data=data), lambda t, found: None, coverage).result.outcome == outcome


def test_data_nobody_asked_for_are_dropped_and_said() -> None:
    """They are no evidence of anything."""
    got: list[Any] = []

    async def case(t: EvalContext) -> None:
        found = await t.send("go")
        got.extend([found.data, found.raw_data])

    ran = run_eval(case, agent(turn(data={"n": 1})))
    assert (got, ran.diagnostics, ran.result.outcome) == ([None, None], ["data-without-schema"], "passed")


def test_data_are_plain_json_when_they_are_judged() -> None:
    """What the adapter gave is normalised first; NaN is no number of JSON."""
    got: list[Any] = []
    step = turn(data={"n": 1, "x": (1, 2), "y": float("nan")})
    ran = ask(SCHEMA, step, lambda t, found: got.append(found.data))
    assert got == [{"n": 1, "x": [1, 2], "y": "NaN"}]
    assert ran.diagnostics == ["turn-normalised"]
    assert ran.result.coverage is not None
    assert ran.result.coverage["data"].status == "partial"


BAD_FORMS: list[tuple[Any, str]] = [
    ({"type": "object"}, "is a mapping; wrap it: JsonSchema({...})"),
    (JsonSchema({"type": "objekt"}), "not a valid JSON Schema"),
    (Callable[[int], int], ""),
]


@pytest.mark.parametrize(("output", "problem"), BAD_FORMS)
@pytest.mark.parametrize("where", ["send", "output_matches"])
def test_a_form_without_a_json_schema_is_an_authors_error(output: Any, problem: str, where: str) -> None:
    """Before anything is sent."""
    script = agent(turn(data=1))

    async def case(t: EvalContext) -> None:
        if where == "send":
            await t.send("go", output=output)
        (await t.send("go")).output_matches(output)

    ran = run_eval(case, script)
    assert (ran.result.outcome, ran.error_code) == ("errored", "bad-output-type")
    assert ran.result.error_info is not None
    assert problem in ran.result.error_info.message
    assert ran.result.error_info.loc is not None
    assert ran.result.error_info.loc.startswith("test_structured_output.py:")
    assert len(script.inputs) == (0 if where == "send" else 1)


def test_the_handle_has_the_declared_type() -> None:
    """For a checker and at run time."""

    async def case(t: EvalContext) -> None:
        city = await t.send("go", output=City)
        assert_type(city.data, City)
        t.check(city.data.people, lambda people: people == 0)
        plain = await t.send("go")
        assert_type(plain.data, None)

    assert run_eval(case, agent(turn(data={"name": "Rome"}), turn())).result.outcome == "passed"


def test_a_file_may_go_with_an_output() -> None:
    """`send_file` takes it as `send` does."""
    from niceeval.adapter import InputFile

    script = agent(turn(data={"name": "Rome"}))
    got: list[Any] = []

    async def case(t: EvalContext) -> None:
        file = InputFile(filename="a.txt", mime_type="text/plain", data=b"a")
        found = await t.send_file(file, output=City)
        got.append(found.data)

    run_eval(case, script)
    assert got == [City("Rome")]
    assert (script.inputs[0].text, len(script.inputs[0].files)) == ("", 1)


def test_a_turn_that_asks_has_not_answered() -> None:
    """Missing data are missing also where it stopped to ask: the turn counts as failed, its calls stay open."""
    step: Turn = waiting(request("r1"), events=(says("which?"), calls("c1", "look_up")))

    def then(t: EvalContext, found: Any) -> None:
        t.check(found.status, lambda status: status == "failed")
        found.called_tool("look_up", status="pending")

    assert ask(City, step, then).outcomes == ["failed", "passed", "passed"]
