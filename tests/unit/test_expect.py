"""The matchers of `niceeval.expect`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import niceeval.expect as expect
from niceeval._base.errors import AuthorError
from niceeval._base.text_similarity import MAX_CHARACTERS, edit_distance, text_similarity
from niceeval._model.matcher import MAX_NAME, MAX_RECEIVED, as_matcher
from niceeval._model.matching import describe, matches
from niceeval._model.sandbox import CommandResult
from niceeval.expect import (
    Matcher,
    all_of,
    any_of,
    command_succeeded,
    equals,
    excludes,
    has_sections,
    includes,
    includes_url,
    is_defined,
    is_false,
    is_true,
    not_,
    satisfies,
    similarity,
)

REPLY = "It is 21 °C in Brooklyn today."
PAGE = """\
# Report

Summary
-------
text

## **Next steps:**
```bash
# not a heading
```
## Sources ##
"""


as_any: Callable[[Any], Matcher[Any]] = as_matcher


def is_short(value: str) -> bool:
    return len(value) < 5


def half(value: object) -> float:
    return 0.5


def quarter(value: object) -> float:
    return 0.25


def result(exit_code: int = 0, *, timed_out: bool = False, stderr: str = "", stdout: str = "") -> CommandResult:
    return CommandResult(stdout=stdout, stderr=stderr, exit_code=exit_code, duration=0.1, timed_out=timed_out)


PASSING: list[tuple[Matcher[Any], Any]] = [
    (includes("°C"), REPLY),
    (includes("21", re.compile("brooklyn", re.I)), REPLY),
    (excludes("rain", re.compile("snow")), REPLY),
    (equals({"a": [1, None], "b": True}), {"b": True, "a": (1.0, None)}),
    (equals("x"), "x"),
    (equals({1, 2}), {2, 1}),
    (equals(pytest.approx(0.3)), 0.1 + 0.2),
    (equals(re.compile("a")), re.compile("a")),
    (expect.matches(r"\d+ °C"), REPLY),
    (expect.matches(re.compile("BROOKLYN", re.I)), REPLY),
    (expect.matches({"city": "Brooklyn"}), {"city": "Brooklyn", "unit": "C"}),
    (similarity(REPLY), REPLY),
    (satisfies(is_short), "abc"),
    (as_matcher(is_short), "abc"),
    (as_matcher(bool), "abc"),
    (is_defined(), 0),
    (is_true(), True),
    (is_false(), False),
    (command_succeeded(), result()),
    (includes_url(), "see https://example.com/a."),
    (includes_url("example.com"), "see http://docs.example.com:80/a"),
    (includes_url("example.com/docs"), "(https://example.com/docs/a?q=1)"),
    (includes_url("https://Example.com/docs"), "<https://example.com/docs>"),
    (includes_url("https://example.com/a?q=1"), "https://example.com/a?q=1"),
    (includes_url("https://en.wikipedia.org/wiki/A_(b)"), "(see https://en.wikipedia.org/wiki/A_(b))"),
    (includes_url(re.compile(r"/docs/\d+$")), "https://example.com/docs/17, and more"),
    (has_sections("report", "Summary", "Next Steps", re.compile("^Sour")), PAGE),
    (all_of(includes("21"), excludes("rain")), REPLY),
    (any_of(includes("rain"), includes("21")), REPLY),
    (any_of(includes("rain"), lambda value: value is None), None),
    (not_(includes("rain")), REPLY),
    (not_(equals(1)), True),
    (not_(is_true()), 1),
]
FAILING: list[tuple[Matcher[Any], Any, str | None]] = [
    (includes("rain"), REPLY, None),
    (includes("brooklyn"), REPLY, None),
    (includes("21", "rain", "snow"), REPLY, 'not found: "rain", "snow"'),
    (includes("x"), None, "text is needed, got null"),
    (includes("x"), ["x"], "text is needed, got list"),
    (excludes("21"), REPLY, None),
    (excludes("rain", "21"), REPLY, 'found: "21"'),
    (excludes("x"), None, "text is needed, got null"),
    (equals(1), True, "value = true, not 1"),
    (equals(True), 1, "value = 1, not true"),
    (equals({"a": 1}), {"a": 1, "b": 2}, "value.b = 2 is not expected"),
    (equals({"a": [1, {"b": 2}]}), {"a": [1, {}]}, "value.a[1].b is missing"),
    (equals([1, 2]), [1], "value has 1 item, not 2"),
    (equals({"a": "x"}), {"a": "y"}, 'value.a = "y", not "x"'),
    (equals([]), {}, "value = {}, not []"),
    (equals({"a": re.compile("x")}), {"a": "x"}, "value.a = \"x\", not re.compile('x')"),
    (equals({"a": str}), {"a": "x"}, "value.a = \"x\", not <class 'str'>"),
    (expect.matches(r"^\d+$"), REPLY, f'value = "{REPLY}"'),
    (expect.matches({"city": "Brooklyn"}), {"city": "Queens"}, 'value.city = "Queens"'),
    (satisfies(is_short), "abcdef", None),
    (is_defined(), None, None),
    (is_true(), 1, None),
    (is_false(), None, None),
    (command_succeeded(), result(1, stderr="boom"), '"boom"'),
    (command_succeeded(), result(2, stdout="out"), '"out"'),
    (command_succeeded(), result(0, timed_out=True), None),
    (includes_url(), "see example.com", "there is no URL"),
    (includes_url("example.com"), "https://notexample.com", 'URLs there: "https://notexample.com"'),
    (includes_url("example.com/docs"), "https://example.com/docs2", 'URLs there: "https://example.com/docs2"'),
    (includes_url("https://example.com"), "http://example.com", 'URLs there: "http://example.com"'),
    (includes_url(), "https://[::1", "there is no URL"),
    (has_sections("Risks"), PAGE, 'missing: "Risks"; there: "Report", "Summary", "**Next steps:**", "Sources"'),
    (has_sections("not a heading"), "```\n# not a heading\n```", 'missing: "not a heading"; there: no heading'),
    (not_(includes("21")), REPLY, None),
    (not_(includes("x")), None, "text is needed, got null"),
    (not_(all_of(includes("x"), lambda value: False)), None, None),
    (all_of(includes("21"), includes("rain")), REPLY, 'not met: includes("rain")'),
    (any_of(includes("rain"), includes("snow")), REPLY, 'none of: includes("rain"), includes("snow")'),
]


@pytest.mark.parametrize(("matcher", "value"), PASSING, ids=lambda item: str(item).split(" at 0x")[0][:40])
def test_a_value_passes(matcher: Matcher[Any], value: Any) -> None:
    """Each matcher, met: a full score without a complaint."""
    judgement = matcher.evaluate(value)
    assert judgement.passed
    assert judgement.score == 1.0
    assert judgement.detail is None


@pytest.mark.parametrize(("matcher", "value", "detail"), FAILING, ids=lambda item: str(item).split(" at 0x")[0][:40])
def test_a_value_fails_with_a_reason(matcher: Matcher[Any], value: Any, detail: str | None) -> None:
    """Each matcher, not met: no score, and the detail that helps."""
    judgement = matcher.evaluate(value)
    assert judgement.score == 0.0
    assert not judgement.passed
    assert judgement.detail == detail or detail is None


NAMES: list[tuple[Matcher[Any], str, str]] = [
    (includes("°C"), 'includes("°C")', 'includes "°C"'),
    (includes("a", re.compile("b", re.I)), 'includes("a", /b/i)', 'includes "a", /b/i'),
    (equals({"a": 1}), 'equals({"a":1})', '{"a":1}'),
    (expect.matches("^a"), "matches(/^a/)", "value matches /^a/"),
    (expect.matches({"city": re.compile("b")}), 'matches({"city":"<re.compile(\'b\')>"})', "value.city matches /b/"),
    (satisfies(is_short, "short enough"), "short enough", "satisfies short enough"),
    (as_matcher(is_short), "is_short", "satisfies is_short"),
    (is_defined(), "is_defined()", "not null"),
    (includes_url(), "includes_url()", "includes a URL"),
    (not_(includes("a")), 'not_(includes("a"))', 'not: includes "a"'),
    (all_of(includes("a"), is_short), 'all_of(includes("a"), is_short)', 'all_of: includes "a"; satisfies is_short'),
]


@pytest.mark.parametrize(("matcher", "name", "expected"), NAMES, ids=lambda item: str(item).split(" at 0x")[0][:40])
def test_a_matcher_says_what_it_wants(matcher: Matcher[Any], name: str, expected: str) -> None:
    """The name is how it was written; `expected` is what it asks."""
    assert matcher.name == name
    assert matcher.evaluate("x").expected == expected


def test_similarity_is_soft_and_graded() -> None:
    """Alone among the matchers it has a soft line."""
    matcher = similarity("kitten")
    judgement = matcher.evaluate("sitting")
    assert judgement.score == pytest.approx(1 - 3 / 7)
    assert judgement.graded
    assert (matcher.default_severity, matcher.threshold) == ("soft", 0.6)
    assert (includes("a").default_severity, includes("a").threshold) == ("gate", None)


def test_scores_combine() -> None:
    """all_of is the lowest, any_of the highest, not_ turns it round."""
    assert all_of(half, is_defined()).evaluate(1).score == 0.5
    assert any_of(half, quarter).evaluate(1).score == 0.5
    assert not_(quarter).evaluate(1).score == 0.75
    assert has_sections("Report", "Risks").evaluate(PAGE).score == 0.5
    assert all_of(half).evaluate(1).graded


def test_combinations_keep_a_line_that_all_share() -> None:
    """A soft part never softens a gate beside it."""
    both = all_of(similarity("a"), similarity("b"))
    assert (both.default_severity, both.threshold) == ("soft", 0.6)
    mixed = all_of(similarity("a"), includes("b"))
    assert (mixed.default_severity, mixed.threshold) == ("gate", None)
    turned = not_(similarity("a"))
    assert (turned.default_severity, turned.threshold) == ("soft", 0.4)


def test_a_matcher_is_a_predicate_of_the_matching_language() -> None:
    """Matchers can stand where a condition on a tool's input stands."""
    condition = {"city": includes("Brook"), "note": similarity("abcde")}
    assert matches(condition, {"city": "Brooklyn", "note": "abcdX"})
    assert not matches(condition, {"city": "Queens", "note": "abcde"})
    assert describe({"city": includes("Brook")}, "input") == 'input.city satisfies includes("Brook")'


def raises(value: object) -> bool:
    raise ValueError("odd value")


async def later(value: object) -> bool:
    return True


BAD_ANSWERS: list[tuple[Any, str]] = [
    (lambda value: None, "answered null, which is neither a bool nor a score from 0 to 1"),
    (lambda value: "yes", 'answered "yes", which is neither'),
    (lambda value: 1.5, "answered 1.5, which is neither"),
    (lambda value: -0.1, "answered -0.1, which is neither"),
    (lambda value: float("nan"), "answered nan, which is neither"),
    (raises, "raises raised ValueError: odd value"),
    (later, "later is asynchronous"),
]


@pytest.mark.parametrize(("predicate", "problem"), BAD_ANSWERS)
def test_a_predicate_without_an_answer_is_the_authors_error(predicate: Any, problem: str) -> None:
    """Neither a pass nor a failure is made of it."""
    with pytest.raises(AuthorError) as caught:
        as_matcher(predicate).evaluate("x")
    assert caught.value.code == "bad-matcher"
    assert problem in str(caught.value)


BAD_MATCHERS: list[tuple[Any, str, str]] = [
    (lambda: as_any("x"), "'x' is no matcher", "write equals('x')"),
    (lambda: as_any(str), "the class str is no matcher", "lambda value: isinstance(value, str)"),
    (lambda: as_any(is_true), "is_true makes a matcher and is none itself", "call it: is_true(...)"),
    (lambda: includes(), "includes() asks for nothing", "give a non-empty text"),
    (lambda: includes("a", ""), 'includes("") asks for nothing', "give a non-empty text"),
    (lambda: includes(re.compile(b"a")), "asks for nothing that can be in a text", "compiled pattern"),  # type: ignore[arg-type]
    (lambda: has_sections(), "has_sections() asks for nothing", "give a non-empty text"),
    (lambda: expect.matches("("), 'matches("("): missing ), unterminated', "correct the regular expression"),
    (lambda: all_of(), "all_of() has no matchers", "at least one"),
    (lambda: command_succeeded().evaluate("ok"), 'was given "ok", which is no command', "await t.sandbox"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "problem", "fix"), BAD_MATCHERS)
def test_what_is_no_matcher_is_refused(make: Any, problem: str, fix: str) -> None:
    """A check that could not fail, or not mean what was meant, is an author error that says what to write."""
    with pytest.raises(AuthorError) as caught:
        make()
    assert caught.value.code == "bad-matcher"
    assert problem in str(caught.value)
    assert fix in caught.value.next_step()


class Silent:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


@pytest.mark.parametrize("value", ["x" * 100_000, "a\ud800" * 2000, ["x" * 100] * 10_000, Silent(), {"a": Silent()}])
def test_what_was_received_is_bounded_text(value: Any) -> None:
    """Untrusted values become text that can be stored, whatever they are."""
    for matcher in (equals("expected"), is_true(), includes("y"), not_(is_defined())):
        judgement = matcher.evaluate(value)
        for text in (judgement.received, judgement.expected, judgement.detail or ""):
            assert len(text) <= MAX_RECEIVED
            text.encode()


def test_names_are_bounded() -> None:
    """A long expectation does not make a long name."""
    long = "x" * 10_000
    for matcher in (equals(long), all_of(*[includes(long)] * 9), not_(includes(long)), satisfies(is_short, long)):
        assert len(matcher.name) <= MAX_NAME


def levenshtein(left: str, right: str) -> int:
    row = list(range(len(right) + 1))
    for index, one in enumerate(left, 1):
        above, row = row, [index]
        for column, other in enumerate(right, 1):
            row.append(min(row[-1] + 1, above[column] + 1, above[column - 1] + (one != other)))
    return row[-1]


@given(st.text("abc", max_size=12), st.text("abc", max_size=12))
def test_the_edit_distance_is_levenshteins(left: str, right: str) -> None:
    """The fast form agrees with the textbook's."""
    assert edit_distance(left, right) == levenshtein(left, right)


@given(st.text(max_size=30), st.text(max_size=30))
def test_similarity_lies_between_0_and_1(left: str, right: str) -> None:
    """It is symmetric, and 1 for equal texts only."""
    score = text_similarity(left, right)
    assert 0.0 <= score <= 1.0
    assert score == text_similarity(right, left)
    assert (score == 1.0) == (left == right)


def test_long_texts_are_compared_by_words() -> None:
    """A hundred thousand characters are no problem, and a small change stays a small change."""
    left = " ".join(f"word{number}" for number in range(15_000))
    right = "other " + left.replace("word7000 ", "changed ") + " end"
    assert len(left) > 10 * MAX_CHARACTERS
    assert text_similarity(left, right) > 0.999
    assert text_similarity("x" * 100_000, "y" * 100_000) == 0.0
    assert text_similarity("天气" * 40_000, "气天" * 40_000) < 1.0


@given(st.recursive(st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=2), st.lists, max_leaves=8))
def test_equality_is_reflexive(value: Any) -> None:
    """A value equals itself, and is not equal to a list of itself."""
    assert equals(value).evaluate(value).passed
    assert not equals([value, 1]).evaluate([value, 2]).passed


def test_equality_survives_depth_and_cycles() -> None:
    """Ten thousand levels, or a list that contains itself, are compared like any other."""
    left: Any = 1
    right: Any = 1
    for _ in range(10_000):
        left, right = [left], [right]
    assert equals(left).evaluate(right).passed
    one: list[Any] = [1]
    one.append(one)
    two: list[Any] = [1]
    two.append(two)
    assert equals(one).evaluate(two).passed


TYPED = """
from niceeval._model.matcher import Check, DefinedMatcher, NarrowingMatcher
from niceeval.expect import Matcher, all_of, equals, includes, is_defined, satisfies
from typing import TypeVar

T = TypeVar("T")
V = TypeVar("V")

def check(value: T, matcher: Check[T]) -> None: ...
def narrowed(value: V | None, matcher: DefinedMatcher) -> V:
    assert value is not None
    return value


def text(value: str) -> bool: return True
maybe: str | None = None
check(maybe, includes("x"))
check("x", includes("x"))
check("x", equals(1))
check("x", text)
check(maybe, all_of(includes("a"), equals("b")))
a: Matcher[str] = includes("x")
b: Matcher[str | None] = equals(1)
length: int = len(narrowed(maybe, is_defined()))
"""
REJECTED = ["check(1, includes('x'))", "c: Matcher[int] = includes('x')", "d: Matcher[str | None] = satisfies(text)"]


@pytest.mark.slow
def test_the_types_accept_what_makes_sense_and_reject_the_rest(tmp_path: Path) -> None:
    """Matchers are contravariant: one for any value judges a text, one for text judges no number."""
    file = tmp_path / "typed.py"
    file.write_text(TYPED + "\n".join(REJECTED) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path), str(file)]
    source = Path(expect.__file__).parents[1]
    run = subprocess.run(command, capture_output=True, text=True, env={"MYPYPATH": str(source)}, check=False)
    first = TYPED.count("\n") + 1
    lines = {int(line.split(":")[1]) for line in run.stdout.splitlines() if ": error:" in line}
    assert lines == set(range(first, first + len(REJECTED))), run.stdout
