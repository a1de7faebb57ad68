"""What `t.check` and `t.require` are given to judge: a value, and not the promise of one."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import Any

from niceeval._base.errors import AuthorError
from niceeval._drive.deferred import Deferred
from niceeval._drive.sending import Sending
from niceeval._judge.collector import AssertionHandle

_LOOKED_AT = 100
"""Parts of a list, tuple, set or mapping that are looked at."""


def require_value(value: object, call: str) -> None:
    """Raises AuthorError (`bad-argument`, `send-not-awaited`, ...): what is awaited only later is always defined."""
    for part in _parts(value):
        if isinstance(part, Sending):
            raise AuthorError(part.not_awaited, call=part.call)
        if isinstance(part, Awaitable):
            name = _name(part)
            raise _bad(call, f"is {name}, which was not awaited", f"write `await {name}`")
        if isinstance(part, Deferred):
            raise part.error("deferred-inside" if part is not value else "deferred-value")
        if isinstance(part, AsyncIterator):
            raise _bad(call, f"is {_name(part)}, which was not read", "collect its items first, with `async for`")
        if isinstance(part, AssertionHandle):
            raise _bad(call, f"is the handle of {part!r}", "give the value itself: the other call has recorded already")


def _parts(value: object) -> Iterable[object]:
    """The value, and what a container of Python's own holds."""
    yield value
    inside: Iterable[Any] = ()
    if type(value) in (list, tuple, set, frozenset):
        inside = value  # type: ignore[assignment]
    elif type(value) is dict:
        inside = value.values()
    for part, _ in zip(inside, range(_LOOKED_AT), strict=False):
        yield part


def _name(part: object) -> str:
    name = getattr(part, "__qualname__", None)
    if not isinstance(name, str):
        return type(part).__name__
    if inspect.iscoroutine(part) and inspect.getcoroutinestate(part) == inspect.CORO_CREATED:
        # It is told here; Python's own warning that it was never awaited would say it twice.
        part.close()
    return f"{name.rpartition('.')[2]}(...)"


def _bad(call: str, problem: str, fix: str) -> AuthorError:
    return AuthorError("bad-argument", call=call, argument="the value", problem=problem, fix=fix)
