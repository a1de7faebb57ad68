"""Values that are known only after the eval function has returned, such as what the agent changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar

from niceeval._base.errors import AuthorError
from niceeval._judge.changes import Settled

T = TypeVar("T", covariant=True)


class Deferred(Generic[T]):
    """The promise of a value, for `t.check(value, matcher)`: it is settled and judged at the end of the attempt.

    It has no truth value, is equal to nothing and has none of its value's methods: all of these raise AuthorError
    (`deferred-value`). `call` is how its author wrote it.
    """

    __slots__ = ("_call", "_settle")

    def __init__(self, call: str, settle: Callable[[], Settled[T]]) -> None:
        self._call = call
        self._settle = settle

    def __repr__(self) -> str:
        return f"<t.{self._call}, known at the end>"

    def _refuse(self, *_: object) -> NoReturn:
        raise self.error("deferred-value")

    def error(self, code: str) -> AuthorError:
        """The author's mistake with this value."""
        return AuthorError(code, call=self._call)

    def settled(self) -> Settled[T]:
        """The value, once the eval function has returned."""
        return self._settle()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise self.error("deferred-value")

    __bool__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __len__ = __iter__ = __contains__ = __getitem__ = _refuse
    __hash__ = object.__hash__
