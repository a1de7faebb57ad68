"""Any Python value becomes JSON that can be stored, and says what was changed."""

from __future__ import annotations

import dataclasses
import enum
import json
import uuid
from collections import OrderedDict, UserDict
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from niceeval._base.json_values import MAX_PROBLEMS, JsonLimits, json_text, normalise_json, path_text
from niceeval._base.plain_text import clean_text, cut_text, safe_repr, type_name

SMALL = JsonLimits(max_depth=4, max_text=40, max_bytes=200)


class Colour(enum.Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.5


class Pair(NamedTuple):
    left: int
    right: int


class Wire(msgspec.Struct, tag="wire", rename="camel"):
    call_id: str
    inner: Any = None


class Model(pydantic.BaseModel):
    city: str
    when: date


class Loose(pydantic.BaseModel):
    anything: Any


class Text(str):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __iter__(self) -> Any:
        raise RuntimeError("no characters")


class Silent:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class Liar:
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no class")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class NoItems(dict[str, int]):
    def items(self) -> Any:
        raise RuntimeError("no items")


class NoIteration(list[int]):
    def __iter__(self) -> Any:
        raise RuntimeError("no iteration")


class Endless:
    def model_dump(self, **_: object) -> Any:
        return Endless()


class Itself:
    def model_dump(self, **_: object) -> Any:
        return self


class Array:
    dtype = "int64"

    def tolist(self) -> list[int]:
        return [1, 2]


CONVERSIONS: list[tuple[Any, Any]] = [
    ((1, (2,)), [1, [2]]),
    ({3, 1, 2}, [1, 2, 3]),
    (frozenset({"b", "a"}), ["a", "b"]),
    (range(3), [0, 1, 2]),
    (Decimal("1.50"), "1.50"),
    (date(2026, 7, 2), "2026-07-02"),
    (datetime(2026, 7, 2, 3, tzinfo=UTC), "2026-07-02T03:00:00+00:00"),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (PurePosixPath("a/b"), "a/b"),
    (Colour.RED, "red"),
    (Colour.PAIR, [1, 2]),
    (Level.HIGH, 3),
    (Point(1), {"x": 1, "y": 0.5}),
    (Pair(1, 2), [1, 2]),
    (
        Wire(call_id="c1", inner=[Wire(call_id="c2")]),
        {"type": "wire", "callId": "c1", "inner": [{"type": "wire", "callId": "c2", "inner": None}]},
    ),
    (Model(city="Bonn", when=date(2026, 1, 2)), {"city": "Bonn", "when": "2026-01-02"}),
    (OrderedDict(a=1), {"a": 1}),
    (UserDict({"a": 1}), {"a": 1}),
    (Array(), [1, 2]),
    ({Colour.RED: 1}, {"red": 1}),
    (Text("kept"), "kept"),
]


@pytest.mark.parametrize(("value", "expected"), CONVERSIONS, ids=lambda value: type(value).__name__)
def test_a_value_with_a_json_form_takes_it_without_a_problem(value: Any, expected: Any) -> None:
    """Conversions that lose nothing are no problem."""
    assert normalise_json(value) == (expected, ())


CHANGES: list[tuple[Any, Any, str]] = [
    ({"city": [1, float("nan")]}, {"city": [1, "NaN"]}, 'input.city[1]: NaN became "NaN"'),
    (float("inf"), "Infinity", 'input: Infinity became "Infinity"'),
    (float("-inf"), "-Infinity", 'input: -Infinity became "-Infinity"'),
    ({1: "a"}, {"1": "a"}, 'input: key 1 became "1"'),
    ({None: "a"}, {"null": "a"}, 'input: key None became "null"'),
    ({True: "a"}, {"true": "a"}, 'input: key True became "true"'),
    (b"abc", "<bytes 3>", "input: bytes became text"),
    (memoryview(b"abc"), "<bytes 3>", "input: bytes became text"),
    (2**64, "18446744073709551616", "input: an integer beyond 64 bits became text"),
    (-(2**63) - 1, "-9223372036854775809", "input: an integer beyond 64 bits became text"),
    (1 << 100_000, "<integer of 100,001 bits>", "input: an integer beyond 64 bits became text"),
    ("a\ud800b", "a\ufffdb", "input: lone surrogates became U+FFFD"),
    ({"a\udc00": 1}, {"a\ufffd": 1}, "input: a key: lone surrogates became U+FFFD"),
    ([Silent()], ["<Silent whose repr raises RuntimeError>"], "input[0]: Silent became text"),
    (object(), "<object object>", "input: object became text"),
    (Model, f"<class '{__name__}.Model'>", "input: ModelMetaclass became text"),
    (1j, "<1j>", "input: complex became text"),
    (Liar(), "<Liar>", "input: cannot be read: RuntimeError"),
    (NoItems(a=1), "<NoItems>", "input: cannot be read: RuntimeError"),
    ([NoIteration([1])], ["<NoIteration>"], "input[0]: cannot be read: RuntimeError"),
    (Itself(), "<cycle>", "input: refers to itself"),
    (Endless(), "<deeper than 100 levels>", "input: deeper than 100 levels"),
    ({"a b": {"c": float("nan")}}, {"a b": {"c": "NaN"}}, 'input["a b"].c: NaN became "NaN"'),
]


@pytest.mark.parametrize(("value", "expected", "problem"), CHANGES, ids=lambda value: repr(type(value).__name__))
def test_a_value_without_a_json_form_is_replaced_and_named(value: Any, expected: Any, problem: str) -> None:
    """What cannot be kept as it is leaves a text in its place and one problem with its path."""
    result, problems = normalise_json(value, root="input")
    assert (result, problems) == (expected, (problem,))


def test_keys_that_become_the_same_are_both_kept() -> None:
    """A collision of keys loses no value."""
    result, problems = normalise_json({"1": "a", 1: "b", 1.0j: "c"})
    assert result == {"1": "a", "1#2": "b", "1j": "c"}
    assert 'value: two keys become "1"; the later is kept as "1#2"' in problems


def test_a_field_that_pydantic_cannot_serialise_is_converted_alone() -> None:
    """One odd field does not cost the rest of the model."""
    assert normalise_json(Loose(anything={"a": Silent(), "b": 1}))[0]["anything"]["b"] == 1


def test_a_cycle_ends_in_a_marker() -> None:
    """A list that contains itself is cut where it does."""
    loop: list[Any] = [1]
    loop.append({"again": loop})
    assert normalise_json(loop) == ([1, {"again": "<cycle>"}], ("value[1].again: refers to itself",))


def test_the_same_object_twice_is_no_cycle() -> None:
    """Only a container inside itself is one."""
    shared = (1,)
    assert normalise_json([shared, shared]) == ([[1], [1]], ())


@pytest.mark.parametrize("levels", [101, 10_000])
def test_what_is_too_deep_is_cut(levels: int) -> None:
    """Depth has a limit however deep the value is."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    result, problems = normalise_json(value)
    for _ in range(100):
        result = result[0]
    assert result == "<deeper than 100 levels>"
    assert len(problems) == 1


def test_exactly_the_deepest_level_is_kept() -> None:
    """The limit itself is still clean."""
    value: Any = 1
    for _ in range(100):
        value = {"a": value}
    assert normalise_json(value)[0] is value


def test_a_text_that_is_too_long_is_cut_with_a_marker() -> None:
    """The marker says how long it was and fits in the limit."""
    result, problems = normalise_json({"text": "é" * 100}, limits=SMALL)
    assert result["text"].endswith("… [cut: 100 characters]")
    assert len(result["text"]) == 40
    assert problems == ("value.text: 100 characters cut to 40",)


def test_what_is_too_large_is_cut_at_one_place() -> None:
    """What follows the cut is dropped; one problem says where it begins."""
    result, problems = normalise_json({"list": list(range(1000)), "after": 1}, limits=SMALL)
    assert result["list"][:3] == [0, 1, 2]
    assert result["list"][-1] == "<cut>"
    assert "after" not in result
    assert len(problems) == 1
    assert problems[0].endswith("over 200 bytes; the rest is cut")


def test_shared_branches_do_not_multiply_without_end() -> None:
    """A small object graph that unfolds to 2^60 leaves stops at the size limit."""
    value: Any = "leaf"
    for _ in range(60):
        value = [value, value]
    result, problems = normalise_json(value, limits=JsonLimits(max_bytes=10_000))
    assert len(json.dumps(result)) < 20_000
    assert len(problems) == 1


def test_problems_are_listed_up_to_a_limit_and_then_counted() -> None:
    """A thousand problems do not become a thousand lines."""
    _, problems = normalise_json([float("nan")] * 1000)
    assert len(problems) == MAX_PROBLEMS + 1
    assert problems[-1] == "and 980 more"


def test_limits_that_cannot_be_kept_are_refused() -> None:
    """A limit below what a marker needs is a mistake."""
    with pytest.raises(ValueError, match="max_bytes=1"):
        JsonLimits(max_bytes=1)


# Made one by one: hypothesis shows the elements of `sampled_from` by their repr.
HOSTILE: list[Callable[[], object]] = [
    Silent,
    lambda: NoItems(a=1),
    lambda: NoIteration([1]),
    Endless,
    Itself,
    lambda: Colour.PAIR,
    lambda: Model,
    object,
]
any_text = st.text(st.characters(codec=None), max_size=60)
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
nasty = st.recursive(
    plain
    | any_text
    | st.floats()
    | st.integers()
    | st.binary(max_size=5)
    | st.decimals()
    | st.datetimes()
    | st.uuids()
    | st.sampled_from(range(len(HOSTILE))).map(lambda index: HOSTILE[index]()),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.tuples(inner, inner)
        | st.dictionaries(any_text | st.integers(0, 3) | st.none() | st.floats() | st.just("1"), inner, max_size=5)
        | inner.map(lambda item: Wire(call_id="c", inner=item))
        | inner.map(lambda item: Loose.model_construct(anything=item))
    ),
    max_leaves=20,
)


@given(plain)
def test_clean_json_comes_back_as_the_same_object(value: Any) -> None:
    """Nothing is copied where nothing is wrong."""
    result, problems = normalise_json(value)
    assert result is value
    assert problems == ()


@given(nasty, st.sampled_from([JsonLimits(), SMALL]))
def test_the_result_can_be_encoded_and_is_stable(value: Any, limits: JsonLimits) -> None:
    """Whatever comes in, both encoders take what comes out, and a second pass changes nothing."""
    result, problems = normalise_json(value, limits=limits)
    msgspec.json.encode(result)
    json.dumps(result, allow_nan=False).encode()
    again, more = normalise_json(result, limits=limits)
    assert again is result
    assert more == ()
    assert "\n" not in "".join(problems)
    "".join(problems).encode()


@given(any_text, st.integers(1, 60))
def test_clean_text_is_bounded_encodable_and_stable(text: str, limit: int) -> None:
    """A text is clean after one pass, and says when it was changed."""
    clean, problem = clean_text(text, limit)
    assert len(clean) <= limit
    clean.encode()
    assert (clean is text) == (problem is None)
    assert clean_text(clean, limit) == (clean, None)


def test_surrogates_that_form_a_pair_become_their_character() -> None:
    """Two halves of an emoji are put together; only lone ones are lost."""
    assert clean_text("\ud83d\ude00\ud83d", 10)[0] == "😀\ufffd"


def test_cut_text_leaves_a_short_text_alone() -> None:
    """No marker without a cut."""
    assert (cut_text("abc", 3), cut_text("abcd", 3), len(cut_text("x" * 99, 30))) == ("abc", "ab…", 30)


def test_a_repr_has_no_addresses() -> None:
    """Two runs show the same object in the same way."""
    assert safe_repr([object()], 100) == "[<object object>]"
    assert type_name(Silent()) == "Silent"


def test_json_text_is_compact_and_cut() -> None:
    """Keys keep their order, and characters are not escaped."""
    assert json_text({"b": "°C", "a": [1, None]}) == '{"b":"°C","a":[1,null]}'
    assert len(json_text(["long"] * 1000, 50)) <= 50


def test_a_path_quotes_odd_keys() -> None:
    """A path can be read, whatever the keys are."""
    assert path_text("input", ["a", 3, "x y", "b-c"]) == 'input.a[3]["x y"].b-c'
