"""Deep equality that can say where it ends."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from niceeval._base.json_values import Path, path_parts, path_text
from niceeval._model.matching import is_same, shown_value

_DEEP = 100


def first_inequality(wanted: object, found: object, root: str = "value") -> str | None:
    """The first place where two values differ, as one bounded line; None where they are equal.

    Mappings must have the same keys, lists (or tuples) the same items; numbers compare by value, a bool is no number;
    anything else compares by its own `==`. Raises AuthorError (`bad-matcher`) where that `==` gives no answer.
    """
    stack: list[tuple[Path, object, object, int]] = [(None, wanted, found, 0)]
    seen: dict[tuple[int, int], tuple[object, object]] = {}
    while stack:
        path, left, right, depth = stack.pop()
        if depth > _DEEP:
            # Both may be cyclic; a pair that was opened before needs no second look. Kept, so that ids stay true.
            if (id(left), id(right)) in seen:
                continue
            seen[id(left), id(right)] = (left, right)
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            if problem := _keys(left, right, path, root):
                return problem
            stack += [((path, _part(key)), left[key], right[key], depth + 1) for key in reversed(list(left))]
        elif isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
            if len(left) != len(right):
                return f"{_where(root, path)} has {len(right)} item{'s' * (len(right) != 1)}, not {len(left)}"
            pairs = reversed(list(enumerate(zip(left, right, strict=True))))
            stack += [((path, index), one, other, depth + 1) for index, (one, other) in pairs]
        elif not is_same(left, right, functools.partial(_where, root, path)):
            return f"{_where(root, path)} = {shown_value(right)}, not {shown_value(left)}"
    return None


def _keys(left: Mapping[object, object], right: Mapping[object, object], path: Path, root: str) -> str | None:
    for key in left:
        if key not in right:
            return f"{_where(root, (path, _part(key)))} is missing"
    for key in right:
        if key not in left:
            return f"{_where(root, (path, _part(key)))} = {shown_value(right[key])} is not expected"
    return None


def _where(root: str, path: Path) -> str:
    return path_text(root, path_parts(path))


def _part(key: object) -> str:
    return key if isinstance(key, str) else shown_value(key)
