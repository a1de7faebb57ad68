"""What a matcher is, and how any callable becomes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from niceeval._base.errors import AuthorError
from niceeval._base.plain_text import safe_repr
from niceeval._model.assertion import Severity
from niceeval._model.matching import ask, predicate_name, shown_value

MAX_RECEIVED: Final = 2_000
MAX_NAME: Final = 120

T_contra = TypeVar("T_contra", contravariant=True)
N_co = TypeVar("N_co", covariant=True)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A matcher's answer about one value. `expected`, `received` and `detail` are bounded text.

    `score` lies in [0, 1]; `graded` says that it may lie between. `applies` is false where the value is of a kind that
    the matcher cannot judge: its score is 0, also under `not_`.
    """

    score: float
    expected: str
    received: str
    detail: str | None = None
    graded: bool = False
    applies: bool = True

    @property
    def passed(self) -> bool:
        """Whether the score is full."""
        return self.score >= 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Matcher(Generic[T_contra]):
    """A reusable question about a value; `T_contra` is what it can be asked about.

    `default_severity` and `threshold` hold where the author says nothing else; a threshold of None is a full score.
    Called like a function it answers whether the value reaches that line, so that a matcher can stand, as a predicate,
    inside the matching language (`input={"city": includes("Brook")}`).
    """

    name: str
    judge: Callable[[T_contra], Judgement]
    default_severity: Severity = "gate"
    threshold: float | None = None

    def evaluate(self, value: T_contra) -> Judgement:
        """Judge one value. Raises AuthorError (`bad-matcher`) where a predicate or an `==` gives no answer."""
        return self.judge(value)

    def __call__(self, value: T_contra) -> bool:
        return self.evaluate(value).score >= (1.0 if self.threshold is None else self.threshold)

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NarrowingMatcher(Matcher[T_contra], Generic[T_contra, N_co]):
    """A matcher that only values of type `N_co` pass; `t.require` returns them as such."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DefinedMatcher(Matcher[object]):
    """A matcher that None never passes; `t.require` returns the value without None."""


Check: TypeAlias = Matcher[T] | Callable[[T], bool | float]
"""What `t.check` takes: a matcher, or a function that answers with a bool or a score in [0, 1]."""


def as_matcher(check: Check[T]) -> Matcher[T]:
    """The matcher itself, or a callable as a matcher that is named after it.

    Raises AuthorError (`bad-matcher`) for what is neither, for a class (`bool` apart), and, when it is evaluated, for a
    callable that raises or answers with anything but a bool or a score in [0, 1].
    """
    if isinstance(check, Matcher):
        return check
    given: object = check
    if not callable(given):
        shown = safe_repr(given, 60)
        raise AuthorError("bad-matcher", problem=f"{shown} is no matcher", fix=f"write equals({shown})")
    return predicate_matcher(check, predicate_name(check))


def predicate_matcher(predicate: Callable[[T], object], name: str) -> Matcher[T]:
    """A callable as a matcher of that name; errors as for `as_matcher`."""
    if isinstance(predicate, type) and predicate is not bool:
        raise AuthorError(
            "bad-matcher",
            problem=f"the class {name} is no matcher: it would convert the value, not test its type",
            fix=f"lambda value: isinstance(value, {name})",
        )
    if getattr(predicate, "__module__", None) == "niceeval.expect":
        raise AuthorError(
            "bad-matcher", problem=f"{name} makes a matcher and is none itself", fix=f"call it: {name}(...)"
        )

    def judge(value: T) -> Judgement:
        score = _score(ask(predicate, value), name)
        graded = not isinstance(score, bool)
        return Judgement(
            score=float(score), graded=graded, expected=f"satisfies {name}", received=shown_value(value, MAX_RECEIVED)
        )

    return Matcher(name=name, judge=judge)


def _score(answer: Any, name: str) -> bool | float:
    if isinstance(answer, (bool, int, float)):
        score: bool | float = answer
    elif hasattr(answer, "dtype") and hasattr(answer, "item") and getattr(answer, "size", 0) == 1:
        return _score(answer.item(), name)
    else:
        raise _no_score(name, shown_value(answer, 60))
    if not 0 <= score <= 1:
        raise _no_score(name, repr(score))
    return score


def _no_score(name: str, answer: str) -> AuthorError:
    return AuthorError(
        "bad-matcher",
        problem=f"{name} answered {answer}, which is neither a bool nor a score from 0 to 1",
        fix="return True, False or a score; bool(...) makes one of anything",
    )
