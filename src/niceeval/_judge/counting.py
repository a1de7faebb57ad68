"""`count=` on a positive assertion: none means at least one, an int is exact, a callable decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from niceeval._base.errors import AuthorError
from niceeval._evidence.scope import Scope
from niceeval._judge.availability import incomplete
from niceeval._model.assertion import UnavailableReason
from niceeval._model.coverage import Channel
from niceeval._model.matching import ask, predicate_name, truth

Count: TypeAlias = int | Callable[[int], object] | None


def validate_count(count: object, call: str) -> None:
    """Raises AuthorError (`bad-argument`) for a count that is neither an int >= 0 nor a callable."""
    if count is None or callable(count) or (type(count) is int and count >= 0):
        return
    raise AuthorError(
        "bad-argument", call=call, argument="count", problem=f"is {count!r}", fix="give an int >= 0 or a callable"
    )


def count_score(
    scope: Scope, channels: Sequence[Channel], found: int, count: Count
) -> tuple[bool, UnavailableReason | None]:
    """Whether `found` matches satisfy `count`, or why that cannot be said.

    Raises AuthorError (`bad-matcher`) for a callable count that raises or gives no truth.
    """
    gap = incomplete(scope, *channels)
    if count is None:
        return found > 0, None if found else gap
    if callable(count):
        return (False, gap) if gap else (truth(ask(count, found), predicate_name(count)), None)
    if found > count:
        return False, None
    return found == count, gap


def count_text(count: Count, noun: str) -> str:
    """`at least 1 call`, `2 calls`, `as many calls as is_even accepts`."""
    if count is None:
        return f"at least 1 {noun}"
    if callable(count):
        return f"as many {noun}s as {predicate_name(count)} accepts"
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
