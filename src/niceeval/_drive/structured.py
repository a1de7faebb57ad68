"""Structured output: lowering a type to JSON Schema for the agent, and converting what comes back.

Dataclasses, TypedDicts, msgspec structs, `Literal`s and unions go through msgspec; pydantic models (and types that
contain them) through pydantic, when it is there; `JsonSchema({...})` is used as it is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from niceeval._base.errors import AuthorError
from niceeval._base.plain_text import shorten


class JsonSchema:
    """A JSON Schema given as data: `output=JsonSchema({"type": "object", ...})`; the data stays plain JSON."""

    __slots__ = ("schema",)

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.schema = dict(schema)

    def __repr__(self) -> str:
        return f"JsonSchema({self.schema!r})"


@dataclass(frozen=True, slots=True)
class OutputForm:
    """`schema` is what the adapter is given; `convert` makes the declared value or raises ValueError."""

    name: str
    schema: dict[str, Any]
    convert: Callable[[Any], Any]


def output_form(output: object) -> OutputForm:
    """The form of an `output=` argument. Raises AuthorError (`bad-output-type`) for one that has no JSON Schema."""
    if isinstance(output, JsonSchema):
        return _json_schema_form(output)
    if isinstance(output, Mapping):
        raise _bad(output, "is a mapping; wrap it: JsonSchema({...})")
    name = getattr(output, "__name__", None) or repr(output)
    try:
        schema = msgspec.json.schema(output)
    except (TypeError, ValueError, RuntimeError) as error:
        return _pydantic_form(output, name, error)

    def convert(data: Any) -> Any:
        try:
            return msgspec.convert(data, output)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None

    return OutputForm(name, schema, convert)


def _pydantic_form(output: object, name: str, why: Exception) -> OutputForm:
    # A pydantic type can only come from a program that has imported pydantic already.
    pydantic = sys.modules.get("pydantic")
    if pydantic is None:
        raise _bad(output, str(why))
    try:
        adapter = pydantic.TypeAdapter(output)
        schema = adapter.json_schema()
    except Exception as error:  # noqa: BLE001 - pydantic's schema errors share no public base
        raise _bad(output, str(error)) from None

    def convert(data: Any) -> Any:
        try:
            # As JSON: strict there still takes a date or an enum from text, which strict from Python does not.
            return adapter.validate_json(json.dumps(data), strict=True)
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ValueError(f"{first['msg']}" + (f" - at `$.{where}`" if where else "")) from None

    return OutputForm(name, schema, convert)


def _json_schema_form(output: JsonSchema) -> OutputForm:
    import jsonschema

    validator_class = jsonschema.validators.validator_for(output.schema, default=jsonschema.Draft202012Validator)
    try:
        validator_class.check_schema(output.schema)
    except jsonschema.SchemaError as error:
        raise _bad(output, f"not a valid JSON Schema: {error.message}") from None
    validator = validator_class(output.schema)

    def convert(data: Any) -> Any:
        error = next(iter(sorted(validator.iter_errors(data), key=lambda found: len(found.absolute_path))), None)
        if error is not None:
            raise ValueError(f"{shorten(error.message, 500)} - at `{error.json_path}`")
        return data

    return OutputForm(str(output.schema.get("title", "JsonSchema")), output.schema, convert)


def _bad(output: object, problem: str) -> AuthorError:
    shown = getattr(output, "__name__", None) or shorten(repr(output), 80)
    return AuthorError("bad-output-type", type=shown, problem=problem)
