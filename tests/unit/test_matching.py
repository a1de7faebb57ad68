"""The matching language of `input=` and `output=`."""

from __future__ import annotations

import functools
import re
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from niceeval._base.errors import AuthorError
from niceeval._model.matching import MAX_DESCRIPTION, describe, difference, matches, nearness

BROOKLYN = re.compile("brooklyn", re.I)


def is_even(value: Any) -> bool:
    return isinstance(value, int) and value % 2 == 0


class Vague:
    """Answers a comparison with something that has no truth value, as an array does."""

    def __eq__(self, other: object) -> Any:
        return Vague()

    def __hash__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")


class Broken:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    def __hash__(self) -> int:
        return 0


class AnyText(type):
    def __eq__(cls, other: object) -> bool:
        return isinstance(other, str)

    def __hash__(cls) -> int:
        return 0


class IsText(metaclass=AnyText):
    pass


YES: list[tuple[Any, Any]] = [
    ({}, {"a": 1}),
    ({"a": 1}, {"a": 1, "b": 2}),
    ({"a": {"b": [1, {"c": "x"}]}}, {"a": {"b": [1, {"c": "x", "d": 0}], "e": 0}}),
    ([1, 2], [1, 2]),
    ((1, 2), [1, 2]),
    ([], []),
    (1, 1.0),
    (1.0, 1),
    (True, True),
    (None, None),
    ({"a": None}, {"a": None}),
    ("x", "x"),
    (BROOKLYN, "to Brooklyn!"),
    ({"city": BROOKLYN}, {"city": "BROOKLYN"}),
    (re.compile('"b":"°C"'), {"a": 1, "b": "°C"}),
    (re.compile("^null$"), None),
    (re.compile("^42$"), 42),
    (is_even, 4),
    ([is_even, mock.ANY], [2, "whatever"]),
    ({"t": pytest.approx(0.3)}, {"t": 0.1 + 0.2}),
    (lambda value: re.search("a", value), "cat"),
    (bool, [0]),
    (IsText, "text"),
]
NO: list[tuple[Any, Any, str]] = [
    ({"city": "Brooklyn"}, {"city": "Queens"}, 'input.city = "Queens"'),
    ({"city": BROOKLYN}, {"city": "Queens"}, 'input.city = "Queens"'),
    ({"city": "x"}, {}, "input.city is missing"),
    ({"a": None}, {}, "input.a is missing"),
    ({"a": mock.ANY}, {}, "input.a is missing"),
    ({"a": None}, {"a": False}, "input.a = false"),
    (True, 1, "input = 1"),
    (1, True, "input = true"),
    (0, False, "input = false"),
    (False, 0, "input = 0"),
    (1, "1", 'input = "1"'),
    ("1", 1, "input = 1"),
    ("x", None, "input = null"),
    ([1, 2], [1, 2, 3], "input has 3 items, not 2"),
    ([1, 2], [1], "input has 1 item, not 2"),
    ([1, 2], [1, 3], "input[1] = 3"),
    ([], {}, "input = {}, not a list"),
    ({}, [], "input = [], not an object"),
    ({"a": {"b": 1}}, {"a": "text"}, 'input.a = "text", not an object'),
    ({"a": [1]}, {"a": None}, "input.a = null, not a list"),
    ({"odd key": 1}, {"odd key": 2}, 'input["odd key"] = 2'),
    ({"n": is_even}, {"n": 3}, "input.n = 3"),
    (lambda value: None, "x", 'input = "x"'),
    (pytest.approx(1.0), 2, "input = 2"),
    (IsText, 1, "input = 1"),
    ({"a": 1, "b": 2}, {"a": 0, "b": 0}, "input.a = 0"),
]


def shown(value: object) -> str:
    """A test's name must be the same in every process that collects it."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


@pytest.mark.parametrize(("pattern", "value"), YES, ids=shown)
def test_a_value_matches(pattern: Any, value: Any) -> None:
    """Each kind of condition, met: no difference, and as near as can be."""
    assert matches(pattern, value)
    assert difference(pattern, value) is None
    assert nearness(pattern, value) == 1.0


@pytest.mark.parametrize(("pattern", "value", "text"), NO, ids=shown)
def test_the_first_difference_is_named(pattern: Any, value: Any, text: str) -> None:
    """Each kind of condition, not met: the place and what is there."""
    assert not matches(pattern, value)
    assert difference(pattern, value, root="input") == text
    assert nearness(pattern, value) < 1.0


DESCRIPTIONS: list[tuple[Any, str]] = [
    ({"city": BROOKLYN}, "input.city matches /brooklyn/i"),
    ({"city": "Queens", "n": [1, 2]}, 'input.city = "Queens", input.n = [1,2]'),
    ({"a": {"b": None}, "c": [is_even, True]}, "input.a.b = null, input.c[0] satisfies is_even, input.c[1] = true"),
    ({"t": mock.ANY}, "input.t == <ANY>"),
    ({}, "input is an object"),
    ([], "input = []"),
    (functools.partial(is_even), "input satisfies partial(is_even)"),
    (re.compile("a\nb", re.M | re.S), "input matches /a b/ms"),
    (IsText, f"input == <class '{__name__}.IsText'>"),
]


@pytest.mark.parametrize(("pattern", "text"), DESCRIPTIONS, ids=shown)
def test_conditions_are_described_in_one_line(pattern: Any, text: str) -> None:
    """What was expected, as a person reads it."""
    assert describe(pattern, root="input") == text


def test_a_lambda_is_described_by_its_line() -> None:
    """A function without a name is found by its line."""
    assert re.fullmatch(r"value satisfies lambda \(line \d+\)", describe(lambda value: True))


def test_a_description_is_bounded() -> None:
    """Many or long conditions do not become a long line."""
    assert describe(dict.fromkeys(map(str, range(1000)), 1)).endswith("…")
    assert len(describe({"a": "x" * 10_000, "b": {"c": "y" * 10_000}, "k" * 999: BROOKLYN})) <= MAX_DESCRIPTION
    assert len(difference("x", "y" * 10_000) or "") <= MAX_DESCRIPTION


def raises(value: Any) -> bool:
    raise KeyError("no city")


async def answers_later(value: Any) -> bool:
    return False


BAD: list[tuple[Any, str]] = [
    (raises, "raises raised KeyError: 'no city'"),
    (answers_later, "answers_later is asynchronous, so its answer is not known"),
    (str, "the class str is no condition: it would convert the value, not test its type"),
    (re.compile(b"x"), "/b'x'/ is a pattern for bytes; JSON has text only"),
    (lambda value: Vague(), "answered with a Vague, which is neither true nor false"),
    (Vague(), "comparing input.city with a Vague answered with a Vague, which is neither true nor false"),
    (Broken(), "raised RuntimeError"),
]


@pytest.mark.parametrize(("condition", "problem"), BAD, ids=shown)
def test_a_condition_without_an_answer_is_the_authors_error(condition: Any, problem: str) -> None:
    """What cannot decide is never taken for a mismatch."""
    for ask in (matches, difference):
        with pytest.raises(AuthorError) as caught:
            ask({"city": condition}, {"city": "Queens"}, root="input")
        assert caught.value.code == "bad-matcher"
        assert problem in str(caught.value)
    assert nearness({"city": condition}, {"city": "Queens"}) == 0.0


def test_a_later_predicate_is_not_asked_after_a_difference() -> None:
    """The order of the pattern is the order of the conditions, and the first one that fails decides."""
    assert not matches({"city": "Brooklyn", "n": raises}, {"city": "Queens", "n": 1})
    assert nearness({"city": "Queens", "n": raises}, {"city": "Queens", "n": 1}) == 0.5


def test_the_nearest_value_meets_most_conditions() -> None:
    """Of several values that do not match, the one with more in common is nearer."""
    pattern = {"city": BROOKLYN, "unit": "C", "days": 3}
    values = [{"city": "Queens"}, {"city": "Brooklyn", "unit": "F", "days": 3}, {"unit": "C"}]
    assert max(values, key=lambda value: nearness(pattern, value)) is values[1]


def nest(levels: int, leaf: Any) -> Any:
    value = leaf
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def test_depth_is_no_limit() -> None:
    """Ten thousand levels are compared like two."""
    assert matches(nest(10_000, 1), nest(10_000, 1))
    assert not matches(nest(10_000, 1), nest(10_000, 2))
    assert (difference(nest(10_000, 1), nest(10_000, 2)) or "").startswith("value[0].a")
    assert len(describe(nest(10_000, 1))) <= MAX_DESCRIPTION


def test_cyclic_values_end() -> None:
    """Two cyclic structures of one shape match, and the comparison ends."""
    left: dict[str, Any] = {"n": 1}
    left["again"] = left
    right: dict[str, Any] = {"n": 1}
    right["again"] = right
    assert matches(left, right)
    right["n"] = 2
    assert difference(left, right) == "value.n = 2"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=12,
)


@given(json_values)
def test_every_json_value_matches_itself(value: Any) -> None:
    """Without conditions, the language is equality."""
    assert matches(value, value)


@given(json_values, json_values)
def test_match_difference_and_nearness_agree(pattern: Any, value: Any) -> None:
    """No difference, full nearness and a match are the same thing."""
    matched = matches(pattern, value)
    assert matched == (difference(pattern, value) is None) == (nearness(pattern, value) == 1.0)
    assert 0.0 <= nearness(pattern, value) <= 1.0
    assert "\n" not in describe(pattern)


@given(st.dictionaries(st.text(max_size=2), json_values, max_size=3), st.text(min_size=3, max_size=4), json_values)
def test_a_key_more_in_the_value_changes_nothing(value: dict[str, Any], key: str, item: Any) -> None:
    """A mapping matches partially."""
    assert matches(value, {**value, key: item})
