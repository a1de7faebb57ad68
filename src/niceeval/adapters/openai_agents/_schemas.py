"""A JSON Schema as the form in which an agent has to answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

ANSWER: Final = "answer"
"""The field that holds an answer that is no object, because models are asked for objects."""


def output_type(schema: Mapping[str, Any]) -> tuple[Any, bool]:
    """The SDK's form of a schema, and whether the answer is wrapped in a field."""
    from agents import AgentOutputSchemaBase, ModelBehaviorError

    wanted, wraps = _object(schema)

    class Wanted(AgentOutputSchemaBase):
        def is_plain_text(self) -> bool:
            return False

        def name(self) -> str:
            return "Answer"

        def json_schema(self) -> dict[str, Any]:
            return wanted

        def is_strict_json_schema(self) -> bool:
            # Strict schemas demand what a schema of somebody else's need not have.
            return False

        def validate_json(self, json_str: str) -> Any:
            # Whether it is what was asked for is the eval's question.
            try:
                return json.loads(json_str)
            except (ValueError, RecursionError) as error:
                raise ModelBehaviorError(f"the structured answer is no JSON: {error}") from error

    return Wanted(), wraps


def _object(schema: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The schema with an object at its root, where it has one; otherwise an object with the answer in a field."""
    definitions = schema.get("$defs")
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/") and isinstance(definitions, Mapping):
        target = definitions.get(reference.removeprefix("#/$defs/"))
        if isinstance(target, Mapping) and target.get("type") == "object":
            return {**target, "$defs": dict(definitions)}, False
    if schema.get("type") == "object":
        return dict(schema), False
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    outer: dict[str, Any] = {
        "type": "object",
        "properties": {ANSWER: inner},
        "required": [ANSWER],
        "additionalProperties": False,
    }
    if definitions is not None:
        outer["$defs"] = definitions
    return outer, True
