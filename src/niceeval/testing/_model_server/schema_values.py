"""The simplest value that a JSON Schema admits, for what a client asks beside the script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 8
"""Nested schemas that are followed; deeper ones get None."""

HARMLESS = ("allow", "approve", "approved", "low", "user", "none", False)
"""Of several admitted values, the first of these is taken: what lets the client go on."""

_SIMPLE: dict[str, Any] = {
    "string": "scripted",
    "integer": 0,
    "number": 0,
    "boolean": False,
    "array": [],
    "null": None,
}


def simplest(schema: Mapping[str, Any], depth: int = 0) -> Any:
    """A value for the schema; objects hold what they require."""
    if depth > MAX_DEPTH:
        return None
    if "const" in schema:
        return schema["const"]
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return next((word for word in HARMLESS if word in choices), choices[0])
    for several in ("anyOf", "oneOf"):
        options = schema.get(several)
        if isinstance(options, list) and options and isinstance(options[0], dict):
            return simplest(options[0], depth + 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    kind = kind.lower() if isinstance(kind, str) else "object"
    if kind == "object":
        return _object(schema, depth)
    if kind in ("integer", "number"):
        least = schema.get("minimum")
        return least if isinstance(least, (int, float)) else 0
    return _SIMPLE.get(kind)


def _object(schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return {}
    names = [name for name in (required if isinstance(required, list) else ()) if isinstance(name, str)]
    return {name: simplest(inner, depth + 1) for name in names if isinstance(inner := properties.get(name), dict)}
