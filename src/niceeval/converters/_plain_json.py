"""An SDK's objects as plain JSON, so that what they are is read from their fields and never from their class.

An SDK takes an item that it does not know for one of a kind that it knows; only the field `type` tells them apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

MAX_DEPTH: Final = 100
"""How deep in a value objects are made plain."""


def plain(value: Any, depth: int = 0) -> Any:
    """The value with dicts for mappings and for objects that have a `model_dump`. What is neither stays as it is."""
    if value is None or isinstance(value, (str, bool, int, float)) or depth > MAX_DEPTH:
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, depth + 1) for item in value]
    dump = dumper(value)
    if dump is None:
        return value
    try:
        # What is not set is not in the JSON that the object was made of.
        return dump(mode="json", exclude_unset=True, warnings=False)
    except Exception:  # noqa: BLE001 - binary content and the like: the caller's builder describes what is no JSON
        return dump(exclude_unset=True, warnings=False)


def dumper(value: object) -> Any:
    """The method that makes a dict of an object, or None."""
    found = None if isinstance(value, type) else getattr(value, "model_dump", None)
    return found if callable(found) else None


def parts_of(given: object) -> Iterable[Any]:
    """What was given one by one: the members of a list or a stream, or the one thing itself."""
    if isinstance(given, (str, bytes, Mapping)) or dumper(given) is not None or not isinstance(given, Iterable):
        return (given,)
    return given


def decoded(text: str | None) -> tuple[Any, bool]:
    """The JSON value of a call's arguments, and whether it is an object; text that is no JSON is its own value.

    No text at all is a call without arguments.
    """
    if not text:
        return {}, True
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text, False
    return value, isinstance(value, dict)
