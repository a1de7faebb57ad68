"""Reading an SDK's objects without the SDK: a field is an attribute of an object, or a key of its JSON form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

MAX_DEPTH: Final = 60
"""How deep in a value binary content is looked for."""


def field(value: object, name: str, default: Any = None) -> Any:
    """The field of that name, or the default."""
    if isinstance(value, Mapping):
        return value.get(name, default)
    return getattr(value, name, default)


def text_field(value: object, name: str) -> str | None:
    """The field of that name if it is a text (an enum of texts counts), or None."""
    found = field(value, name)
    return str.__str__(found) if isinstance(found, str) else None


def count_field(value: object, name: str) -> int | None:
    """The field of that name if it is a count: a whole number from 0."""
    found = field(value, name)
    return found if type(found) is int and 0 <= found < 2**63 else None


def items(value: object) -> list[Any]:
    """The members of a list, or nothing; a text is no list."""
    return list(value) if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)) else []


def without_bytes(value: object, depth: int = 0) -> Any:
    """The value with a description in the place of binary content, which no event holds."""
    if isinstance(value, (bytes, bytearray)):
        return {"kind": "binary", "bytes": len(value)}
    if depth >= MAX_DEPTH or value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Mapping):
        return {key: without_bytes(item, depth + 1) for key, item in value.items()}
    if type(value) in (list, tuple):
        return [without_bytes(item, depth + 1) for item in items(value)]
    data = getattr(value, "data", None)
    media_type = text_field(value, "media_type")
    if isinstance(data, (bytes, bytearray)) and media_type is not None:
        return {"kind": "binary", "media_type": media_type, "bytes": len(data)}
    return value
