"""Reading fields of an untrusted JSON object: what is not of the expected shape is as good as absent.

A caller that cannot do without a field says so itself (`TurnBuilder.unknown`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def text_of(value: object, *path: str) -> str | None:
    """The text at the end of the path of keys, or None."""
    found = value_of(value, *path)
    return found if isinstance(found, str) else None


def object_of(value: object, *path: str) -> Mapping[str, Any]:
    """The object there, or an empty one."""
    found = value_of(value, *path)
    return found if isinstance(found, dict) else {}


def list_of(value: object, *path: str) -> list[Any]:
    """The list there, or an empty one."""
    found = value_of(value, *path)
    return found if isinstance(found, list) else []


def count_of(value: object, *path: str) -> int | None:
    """The count there (a whole number from 0, no bool), or None."""
    found = value_of(value, *path)
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    return found if type(found) is int and 0 <= found < 2**63 else None


def amount_of(value: object, *path: str) -> float | None:
    """The amount there (a finite number from 0, no bool), or None."""
    found = value_of(value, *path)
    if type(found) is int and found < 2**63:
        found = float(found)
    return found if isinstance(found, float) and math.isfinite(found) and found >= 0 else None


def value_of(value: object, *path: str) -> Any:
    """Whatever is at the end of the path of keys, or None."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value
