"""What `t.send(...)` returns: an awaitable that knows whether it was ever awaited.

It is a coroutine in the sense of `collections.abc`, so that `asyncio.gather`, `create_task` and a task group take it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, ClassVar, Generic, TypeVar

from niceeval._base.callsite import CallSite
from niceeval._base.errors import AuthorError, Place

T = TypeVar("T", covariant=True)


class Sending(Coroutine[Any, Any, T], Generic[T]):
    """One send that was asked for. `started` says that somebody awaits it, in `task`; `finished` that it has ended.

    `result_names` are the attributes of what it comes to: asking for one of them before says what was forgotten.
    `not_awaited` is the code of the author's mistake that it is then.
    """

    not_awaited: ClassVar[str] = "send-not-awaited"

    __slots__ = ("_inner", "_make", "call", "finished", "result_names", "site", "started", "task")

    def __init__(
        self,
        make: Callable[[], Coroutine[Any, Any, T]],
        call: str,
        site: CallSite,
        result_names: frozenset[str] = frozenset(),
    ) -> None:
        self.result_names = result_names
        self._make = make
        self._inner: Coroutine[Any, Any, T] | None = None
        self.call = call
        self.site = site
        self.started = False
        self.finished = False
        self.task: asyncio.Task[Any] | None = None

    def __getattr__(self, name: str) -> Any:
        # `turn = t.send(...)` without await, and then `turn.succeeded()`: the slip that everybody makes once.
        if name in self.result_names:
            raise AuthorError(self.not_awaited, call=self.call, place=Place(*self.site))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _coroutine(self) -> Coroutine[Any, Any, T]:
        if self._inner is None:
            self.started = True
            self._inner = self._run()
        return self._inner

    async def _run(self) -> T:
        self.task = asyncio.current_task()
        try:
            return await self._make()
        finally:
            self.finished = True

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine().__await__()

    def send(self, value: Any) -> Any:
        """Drive the coroutine; for the event loop."""
        return self._coroutine().send(value)

    def throw(
        self,
        typ: type[BaseException] | BaseException,
        val: BaseException | object = None,
        tb: TracebackType | None = None,
    ) -> Any:
        """Raise in the coroutine; for the event loop."""
        error = typ if isinstance(typ, BaseException) else val if isinstance(val, BaseException) else typ()
        return self._coroutine().throw(error)

    def close(self) -> None:
        """Close the coroutine where it was started."""
        if self._inner is not None:
            self._inner.close()


class SandboxCall(Sending[T]):
    """One call of `t.sandbox` that was asked for."""

    __slots__ = ()
    not_awaited = "sandbox-not-awaited"
