"""Checking what an author passed to a `define_*` call, and saying where in the call it stands."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any

from niceeval._base.errors import Place, ProjectError

_LONG_NUMBER = 128
"""Bits of a number that is not written out: Python refuses to write the longest."""


class Arguments:
    """The arguments of one call: each is checked by its name, and an error points at it."""

    def __init__(self, call: str, place: Place, values: Mapping[str, object]) -> None:
        self.call = call
        self.place = place
        self._values = values

    def __getitem__(self, name: str) -> Any:
        """The argument as it was given."""
        return self._values[name]

    def error(self, argument: str, problem: str, fix: str) -> ProjectError:
        """`bad-argument`, at the argument."""
        return ProjectError(
            "bad-argument",
            place=argument_place(self.place, argument),
            call=self.call,
            argument=argument,
            problem=problem,
            fix=fix,
        )

    def text(self, name: str) -> str | None:
        """Text that is not empty, or None."""
        value = self._values[name]
        if value is None or (isinstance(value, str) and value.strip()):
            return value
        raise self.error(name, f"is {described(value)}; it is text", f'{name}="..."')

    def count(self, name: str) -> int | None:
        """An int from 1, or None."""
        value = self._values[name]
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
            return value
        raise self.error(name, f"is {described(value)}; it is a whole number from 1", f"{name}=1, or leave it out")

    def seconds(self, name: str) -> float | None:
        """A positive, finite number of seconds, or None."""
        value = self._values[name]
        if value is None:
            return None
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf:
            return float(value)
        raise self.error(name, f"is {described(value)}; it is a positive number of seconds", f"{name}=600")

    def amount(self, name: str) -> float | None:
        """A positive, finite amount of US dollars, or None."""
        value = self._values[name]
        if value is None:
            return None
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf:
            return float(value)
        raise self.error(name, f"is {described(value)}; it is a positive amount of US dollars", f"{name}=15.0")

    def names(self, name: str) -> tuple[str, ...]:
        """A sequence of texts (never one text, which would be read letter by letter)."""
        value = self._values[name]
        if isinstance(value, (list, tuple)) and all(isinstance(item, str) and item.strip() for item in value):
            return tuple(value)
        raise self.error(name, f"is {described(value)}; it is a list of texts", f'{name}=["..."]')

    def function(self, name: str) -> Any:
        """Something that can be called, or None."""
        value = self._values[name]
        if value is None or callable(value):
            return value
        raise self.error(name, f"is {described(value)}; it is a function", f"{name}=the_function, without a call")

    def reporters(self, name: str) -> tuple[object, ...]:
        """A list of reporters: objects (no classes) with a `handle` that can be called."""
        value = self._values[name]
        fix = f"{name}=[JUnit(...)], or objects with handle(event)"
        if not isinstance(value, (list, tuple)):
            raise self.error(name, f"is {described(value)}; it is a list of reporters", fix)
        for item in value:
            if isinstance(item, type) or not callable(getattr(item, "handle", None)):
                raise self.error(name, f"holds {described(item)}, which is no reporter", fix)
        return tuple(value)

    def flag(self, name: str) -> bool:
        """True or False."""
        value = self._values[name]
        if isinstance(value, bool):
            return value
        raise self.error(name, f"is {described(value)}; it is True or False", f"{name}=True")

    def required_count(self, name: str) -> int:
        """An int from 1."""
        value = self.count(name)
        if value is None:
            raise self.error(name, "is None; it is a whole number from 1", f"{name}=1")
        return value

    def mapping(self, name: str, value_is: Callable[[object], bool], kind: str) -> dict[str, object]:
        """A mapping of text to values that fulfil `value_is`; None is an empty one."""
        value = self._values[name]
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self.error(name, f"is {described(value)}; it is a mapping of text to {kind}", f"{name}={{...}}")
        for key, item in value.items():
            if not isinstance(key, str):
                raise self.error(name, f"has the key {described(key)}; keys are text", f"{name}={{...}}")
            if not value_is(item):
                raise self.error(name, f'holds {described(item)} under "{key}"; it is {kind} there', f"{name}={{...}}")
        return dict(value)


def described(value: object) -> str:
    """A value in an error message: short plain ones as they are, others by their type."""
    if isinstance(value, int) and value.bit_length() > _LONG_NUMBER:
        return "a number with very many digits"
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    if isinstance(value, str):
        return repr(value) if len(value) <= 40 else "a longer text"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    kind = type(value).__name__
    if kind in ("function", "method", "builtin_function_or_method"):
        return f"the function {getattr(value, '__name__', '?')}"
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def argument_place(call: Place, argument: str) -> Place:
    """Where a keyword argument of the call at `call` begins; the call itself where it cannot be found."""
    node = _call_at(call)
    for keyword in node.keywords if node else ():
        if keyword.arg == argument:
            return Place(call.file, keyword.lineno, keyword.col_offset + 1)
    return call


def parameter_place(call: Place, index: int) -> Place:
    """Where the `index`-th parameter of the function decorated at `call` is annotated (or named)."""
    for node in ast.walk(_tree(call.file)):
        if isinstance(node, ast.AsyncFunctionDef) and any(_begins(item, call) for item in node.decorator_list):
            parameters = [*node.args.posonlyargs, *node.args.args]
            found = parameters[index] if index < len(parameters) else node
            target = getattr(found, "annotation", None) or found
            return Place(call.file, target.lineno, target.col_offset + 1)
    return call


def _call_at(place: Place) -> ast.Call | None:
    calls = (node for node in ast.walk(_tree(place.file)) if isinstance(node, ast.Call))
    return next((node for node in calls if _begins(node, place)), None)


def _begins(node: ast.expr, place: Place) -> bool:
    return node.lineno == place.line and place.column in (None, node.col_offset + 1)


def _tree(file: str) -> ast.AST:
    """The source as a tree; an empty one where it cannot be read any more."""
    try:
        with open(file, "rb") as source:
            return ast.parse(source.read())
    except (OSError, SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])


def is_coroutine_function(function: object) -> bool:
    """Whether calling it gives a coroutine, seen through `functools.wraps`."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & 0x80)
