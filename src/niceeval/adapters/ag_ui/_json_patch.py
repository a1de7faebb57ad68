"""JSON Patch (RFC 6902), by which a service changes the state that its client holds."""

from __future__ import annotations

import copy
from typing import Any


class PatchError(Exception):
    """An operation that cannot be applied."""


def patched(value: Any, operations: list[Any]) -> Any:
    """The value with the operations applied; the one given stays as it is. Raises PatchError."""
    result = copy.deepcopy(value)
    for operation in operations:
        if not isinstance(operation, dict):
            raise PatchError("an operation is no object")
        result = _applied(result, operation)
    return result


def _applied(value: Any, operation: dict[str, Any]) -> Any:
    kind, path = operation.get("op"), _keys(operation.get("path"))
    if kind in ("add", "replace"):
        if kind == "replace":
            _found(value, path)
        return _put(value, path, copy.deepcopy(operation.get("value")), insert=kind == "add")
    if kind == "remove":
        return _removed(value, path)
    if kind in ("move", "copy"):
        source = _keys(operation.get("from"))
        moved = copy.deepcopy(_found(value, source))
        return _put(_removed(value, source) if kind == "move" else value, path, moved, insert=True)
    if kind == "test":
        if _found(value, path) != operation.get("value"):
            raise PatchError("a test does not hold")
        return value
    raise PatchError(f"there is no operation {str(kind)[:40]}")


def _keys(pointer: Any) -> list[str]:
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise PatchError("a path is no JSON pointer")
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]


def _found(value: Any, path: list[str]) -> Any:
    for key in path:
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list):
            value = value[_index(key, len(value) - 1)]
        else:
            raise PatchError(f"there is no {key[:80]!r}")
    return value


def _put(value: Any, path: list[str], given: Any, *, insert: bool) -> Any:
    if not path:
        return given
    inside, key = _found(value, path[:-1]), path[-1]
    if isinstance(inside, dict):
        inside[key] = given
    elif isinstance(inside, list) and insert:
        inside.insert(len(inside) if key == "-" else _index(key, len(inside)), given)
    elif isinstance(inside, list):
        inside[_index(key, len(inside) - 1)] = given
    else:
        raise PatchError(f"{key[:80]!r} has no place")
    return value


def _removed(value: Any, path: list[str]) -> Any:
    _found(value, path)
    if not path:
        return None
    inside, key = _found(value, path[:-1]), path[-1]
    del inside[key if isinstance(inside, dict) else _index(key, len(inside) - 1)]
    return value


def _index(key: str, last: int) -> int:
    if not (key.isascii() and key.isdigit()) or len(key) > 9 or int(key) > last:
        raise PatchError(f"there is no place {key[:80]!r} in a list")
    return int(key)
