"""The matching language of `input=` and `output=` conditions, and of `expect.matches`.

    mapping            deep and partial: each of its keys must be there and match; other keys do not matter
    list or tuple      item by item, at equal length
    None, bool         the same value; None is JSON's null and never a missing key
    int, float         the same number (`1` matches `1.0`, as in JSON); a bool is no number, so `True` is not `1`
    str                the same text
    compiled pattern   `search` in the string there, or in the compact JSON text of anything else
    callable           a predicate: its result's truth decides
    anything else      its own `==` (`pytest.approx(...)`, `mock.ANY`)

A predicate or an `==` that raises, or answers with an awaitable, is the author's error and never a mismatch:
AuthorError (`bad-matcher`). So is a class, which would convert the value where a test of its type was meant.
`root` is how texts call the whole value.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from niceeval._base.errors import AuthorError
from niceeval._base.json_values import Path, json_text, path_parts, path_text
from niceeval._base.plain_text import clean_text, safe_repr, shorten, type_name

MAX_DESCRIPTION: Final = 300
_MAX_SHOWN: Final = 120
_MAX_PARTS: Final = 12
_DEEP: Final = 100
_FLAGS: Final = ((re.I, "i"), (re.M, "m"), (re.S, "s"), (re.X, "x"), (re.A, "a"))


class _Missing:
    def __repr__(self) -> str:
        return "missing"


_MISSING: Final = _Missing()


def matches(pattern: object, value: object, root: str = "value") -> bool:
    """Whether the value matches. Raises AuthorError (`bad-matcher`) for a condition that gives no answer."""
    return all(_holds(leaf, root) for leaf in _leaves(pattern, value))


def difference(pattern: object, value: object, root: str = "value") -> str | None:
    """The first place that does not match, as one bounded line (`input.city = "Queens"`); None where all does.

    Raises AuthorError (`bad-matcher`).
    """
    for leaf in _leaves(pattern, value):
        if not _holds(leaf, root):
            return shorten(_mismatch(leaf, root), MAX_DESCRIPTION)
    return None


def nearness(pattern: object, value: object) -> float:
    """The share of the pattern's conditions that the value meets, in [0, 1]; 1 exactly where it matches.

    Meant for choosing what to show after no value matched: a predicate that raises here counts as not met.
    """
    met = total = 0
    for leaf in _leaves(pattern, value):
        total += 1
        try:
            met += _holds(leaf, "value")
        except AuthorError:
            continue
    return met / total if total else 1.0


def describe(pattern: object, root: str = "value") -> str:
    """The conditions as one line of at most `MAX_DESCRIPTION` characters: `input.city matches /brooklyn/i`."""
    parts: list[str] = []
    for path, condition in _conditions(pattern):
        if len(parts) == _MAX_PARTS:
            parts.append("…")
            break
        parts.append(_condition_text(path_text(root, path_parts(path)), condition))
    return shorten(", ".join(parts), MAX_DESCRIPTION)


def predicate_name(predicate: object) -> str:
    """What a callable is called: its name, `lambda (line 12)`, or its repr."""
    if isinstance(predicate, functools.partial):
        return f"partial({predicate_name(predicate.func)})"
    name = getattr(predicate, "__name__", None)
    if not isinstance(name, str):
        return _one_line(safe_repr(predicate, _MAX_SHOWN))
    if name == "<lambda>":
        code = getattr(predicate, "__code__", None)
        return f"lambda (line {code.co_firstlineno})" if code is not None else "lambda"
    return clean_text(name, _MAX_SHOWN)[0]


def ask(predicate: Callable[[Any], object], value: object) -> object:
    """A predicate's answer. Raises AuthorError (`bad-matcher`) where it raises or answers with an awaitable."""
    try:
        answer = predicate(value)
    except AuthorError:
        raise
    except Exception as error:
        problem = f"{predicate_name(predicate)} raised {type_name(error)}: {_one_line(safe_text(error))}"
        raise AuthorError(
            "bad-matcher", problem=problem, fix="make it answer for every value, also one of another type"
        ) from error
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise AuthorError(
            "bad-matcher",
            problem=f"{predicate_name(predicate)} is asynchronous, so its answer is not known",
            fix="await what it needs before this call, and give a plain function",
        )
    return answer


def truth(answer: object, source: str) -> bool:
    """`bool(answer)`. Raises AuthorError (`bad-matcher`), naming `source`, where it has none."""
    try:
        return bool(answer)
    except Exception as error:
        raise AuthorError(
            "bad-matcher",
            problem=f"{source} answered with a {type_name(answer)}, which is neither true nor false",
            fix="return True or False",
        ) from error


def safe_text(error: BaseException) -> str:
    """An exception's own text; a stand-in where it raises."""
    try:
        return clean_text(str(error), _MAX_SHOWN)[0]
    except Exception:  # noqa: BLE001 - the text of a guest's exception may raise anything
        return "(no text)"


_Leaf = tuple[Path, object, object, bool | None]
"""Where, the condition, the value there, and the answer where the shapes already give it."""


def _leaves(pattern: object, value: object) -> Iterator[_Leaf]:
    # An explicit stack: neither a deep value nor a deep pattern may end in a RecursionError.
    stack: list[tuple[Path, object, object, int]] = [(None, pattern, value, 0)]
    seen: dict[tuple[int, int], tuple[object, object]] = {}
    while stack:
        path, wanted, found, depth = stack.pop()
        children = _children(wanted, found, path)
        if not isinstance(children, list):
            yield path, wanted, found, children
            continue
        if depth > _DEEP:
            # Both may be cyclic; a pair that was opened before needs no second look. Kept, so that ids stay true.
            if (id(wanted), id(found)) in seen:
                continue
            seen[id(wanted), id(found)] = (wanted, found)
        stack.extend((*child, depth + 1) for child in reversed(children))


def _children(wanted: object, found: object, path: Path) -> list[tuple[Path, object, object]] | bool | None:
    if isinstance(wanted, Mapping):
        if not isinstance(found, Mapping):
            return False
        return [((path, _part(key)), item, found.get(key, _MISSING)) for key, item in wanted.items()] or True
    if isinstance(wanted, (list, tuple)):
        if not isinstance(found, (list, tuple)) or len(found) != len(wanted):
            return False
        return [((path, index), item, found[index]) for index, item in enumerate(wanted)] or True
    return False if found is _MISSING else None


def _part(key: object) -> str | int:
    return key if isinstance(key, str) else safe_repr(key, 60)


def _holds(leaf: _Leaf, root: str) -> bool:
    path, wanted, found, answer = leaf
    if answer is not None:
        return answer
    if isinstance(wanted, re.Pattern):
        return _search(wanted, found)
    if callable(wanted) and not _compares_itself(wanted):
        return _asked(wanted, found)
    return is_same(wanted, found, lambda: path_text(root, path_parts(path)))


def is_same(wanted: object, found: object, where: Callable[[], str]) -> bool:
    """Equality of two values that are not looked into: scalars by kind and value, anything else by its own `==`.

    Raises AuthorError (`bad-matcher`), naming `where`, if that `==` raises or has no truth.
    """
    if wanted is None or isinstance(wanted, bool):
        return isinstance(found, type(wanted)) and found == wanted
    if isinstance(wanted, (int, float)):
        return isinstance(found, (int, float)) and not isinstance(found, bool) and found == wanted
    if isinstance(wanted, str):
        return isinstance(found, str) and found == wanted
    return _equal(wanted, found, where)


def shown_value(value: object, max_chars: int = _MAX_SHOWN) -> str:
    """A value as bounded text: JSON where it is made of JSON's types, else its repr."""
    if value is None or isinstance(value, (str, int, float, list, tuple, Mapping)):
        return json_text(value, max_chars)
    return _one_line(safe_repr(value, max_chars))


def _search(pattern: re.Pattern[Any], found: object) -> bool:
    if isinstance(pattern.pattern, bytes):
        raise AuthorError(
            "bad-matcher",
            problem=f"{_regex_text(pattern)} is a pattern for bytes; JSON has text only",
            fix="compile it from a str",
        )
    text = found if isinstance(found, str) else json_text(found)
    return pattern.search(text) is not None


def _asked(predicate: Callable[[Any], object], found: object) -> bool:
    if isinstance(predicate, type) and predicate is not bool:
        name = predicate_name(predicate)
        raise AuthorError(
            "bad-matcher",
            problem=f"the class {name} is no condition: it would convert the value, not test its type",
            fix=f"lambda value: isinstance(value, {name})",
        )
    return truth(ask(predicate, found), predicate_name(predicate))


def _compares_itself(pattern: object) -> bool:
    # A class whose metaclass defines `==` was made to be compared, not called.
    return isinstance(pattern, type) and type(pattern).__eq__ is not type.__eq__


def _equal(wanted: object, found: object, where: Callable[[], str]) -> bool:
    try:
        answer: object = wanted == found
    except Exception as error:
        raise AuthorError(
            "bad-matcher",
            problem=f"comparing {where()} with {_one_line(safe_repr(wanted, 60))} raised {type_name(error)}",
            fix="use a predicate: lambda value: ...",
        ) from error
    return answer if isinstance(answer, bool) else truth(answer, f"comparing {where()} with a {type_name(wanted)}")


def _mismatch(leaf: _Leaf, root: str) -> str:
    path, wanted, found, _ = leaf
    where = path_text(root, path_parts(path))
    if found is _MISSING:
        return f"{where} is missing"
    shown = shown_value(found)
    if isinstance(wanted, Mapping):
        return f"{where} = {shown}, not an object"
    if isinstance(wanted, (list, tuple)):
        if isinstance(found, (list, tuple)):
            return f"{where} has {len(found)} item{'s' * (len(found) != 1)}, not {len(wanted)}"
        return f"{where} = {shown}, not a list"
    return f"{where} = {shown}"


def _conditions(pattern: object) -> Iterator[tuple[Path, object]]:
    stack: list[tuple[Path, object, int]] = [(None, pattern, 0)]
    while stack:
        path, wanted, depth = stack.pop()
        if isinstance(wanted, Mapping) and wanted and depth <= _DEEP:
            stack.extend([((path, _part(key)), item, depth + 1) for key, item in wanted.items()][::-1])
        elif isinstance(wanted, (list, tuple)) and any(map(_has_conditions, wanted)) and depth <= _DEEP:
            stack.extend([((path, index), item, depth + 1) for index, item in enumerate(wanted)][::-1])
        else:
            yield path, wanted


def _has_conditions(item: object) -> bool:
    return item is not None and not isinstance(item, (str, int, float))


def _condition_text(where: str, wanted: object) -> str:
    if isinstance(wanted, re.Pattern):
        return f"{where} matches {_regex_text(wanted)}"
    if isinstance(wanted, Mapping):
        return f"{where} is an object" if not wanted else f"{where} = {json_text(wanted, _MAX_SHOWN)}"
    if not _has_conditions(wanted) or isinstance(wanted, (list, tuple)):
        return f"{where} = {json_text(wanted, _MAX_SHOWN)}"
    if callable(wanted) and not _compares_itself(wanted):
        return f"{where} satisfies {predicate_name(wanted)}"
    return f"{where} == {_one_line(safe_repr(wanted, _MAX_SHOWN))}"


def _regex_text(pattern: re.Pattern[Any]) -> str:
    source = pattern.pattern if isinstance(pattern.pattern, str) else repr(pattern.pattern)
    flags = "".join(letter for flag, letter in _FLAGS if pattern.flags & flag)
    return f"/{_one_line(clean_text(source, _MAX_SHOWN)[0])}/{flags}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
