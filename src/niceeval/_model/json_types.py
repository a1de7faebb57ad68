"""JSON as Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
    """None, bool, int, float, str, and lists and string-keyed mappings of these."""
else:
    # msgspec resolves the annotations of event classes at run time and cannot follow a recursive alias.
    JsonValue = Any
