"""A case's row, converted to what the eval's second parameter is annotated with."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from collections.abc import Callable
from typing import Any, TypeAlias, get_type_hints

import msgspec
from typing_extensions import is_typeddict

from niceeval._base.json_values import path_text
from niceeval._base.plain_text import cut_text, safe_repr

FieldPath: TypeAlias = tuple[str | int, ...]
_MAX_SHOWN = 60
_WHERE = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>\d+)\]|\[\.\.\.\]")
_MISSING_FIELD = re.compile(r"Object missing required field `(?P<name>.*)`")
_ABSENT = object()


class RowProblem(Exception):
    """Why a row does not fit its annotation; `path` leads to the field."""

    def __init__(self, path: FieldPath, problem: str) -> None:
        super().__init__(problem)
        self.path = path
        self.problem = problem

    @property
    def field(self) -> str:
        """The field as people read it; "(the row)" for the row itself."""
        return path_text("", self.path).removeprefix(".") or "(the row)"


def row_annotation(function: Callable[..., Any]) -> Any:
    """What the second parameter is annotated with; None without an annotation.

    Raises NameError where the annotation names something that is not there at run time.
    """
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    annotation = function.__annotations__.get(names[1]) if len(names) > 1 else None
    if not isinstance(annotation, str):
        return annotation

    class Holder:
        pass

    # Only this one is evaluated: `EvalContext` may well be imported for type checkers alone.
    Holder.__annotations__ = {"row": annotation}
    return get_type_hints(Holder, function.__globals__, {}, include_extras=True)["row"]


def is_convertible(annotation: Any) -> bool:
    """Whether rows are converted to it: a TypedDict, dataclass, msgspec Struct or pydantic model."""
    if is_typeddict(annotation):
        return True
    if not isinstance(annotation, type):
        return False
    return (
        dataclasses.is_dataclass(annotation)
        or issubclass(annotation, msgspec.Struct)
        or callable(getattr(annotation, "model_validate", None))
    )


def convert_row(row: object, annotation: Any, *, lax: bool = False) -> object:
    """The row as its annotation says; a row that is one already stays as it is.

    Types are taken strictly (`"10"` is not an int) unless `lax`, which is for CSV, where every value is text.
    Raises RowProblem.
    """
    if isinstance(annotation, type) and not is_typeddict(annotation) and isinstance(row, annotation):
        return row
    validate = getattr(annotation, "model_validate", None)
    return _pydantic(row, annotation, lax) if callable(validate) else _msgspec(row, annotation, lax)


def _msgspec(row: object, annotation: Any, lax: bool) -> object:
    try:
        return msgspec.convert(row, annotation, strict=not lax)
    except msgspec.ValidationError as error:
        raise _from_msgspec(str(error), row) from error
    except (TypeError, ValueError, NotImplementedError) as error:
        raise RowProblem((), f"cannot become {getattr(annotation, '__name__', annotation)}: {error}") from error


def _from_msgspec(message: str, row: object) -> RowProblem:
    match = _WHERE.match(message)
    assert match is not None
    what, path = match["what"], _steps(match["path"] or "")
    missing = _MISSING_FIELD.fullmatch(what)
    if missing:
        return RowProblem((*path, missing["name"]), "is missing")
    value = _value_at(row, path)
    expected = what.replace("`", "").partition(", got ")[0]
    got = "" if value is _ABSENT else f", got {_shown(value)}"
    return RowProblem(path, expected[:1].lower() + expected[1:] + got)


def _steps(path: str) -> FieldPath:
    """`.limits[2]`; `[...]`, which is some item of a mapping, ends what can be said."""
    steps: list[str | int] = []
    for match in _STEP.finditer(path):
        if match["name"] is not None:
            steps.append(match["name"])
        elif match["index"] is not None:
            steps.append(int(match["index"]))
        else:
            break
    return tuple(steps)


def _value_at(row: object, path: FieldPath) -> object:
    for step in path:
        try:
            row = row[step]  # type: ignore[index]
        except (TypeError, LookupError):
            return _ABSENT
    return row


def _shown(value: object) -> str:
    if isinstance(value, str):
        return cut_text(json.dumps(value, ensure_ascii=False), _MAX_SHOWN)
    return safe_repr(value, _MAX_SHOWN)


def _pydantic(row: object, model: Any, lax: bool) -> object:
    try:
        return model.model_validate(row) if lax else _strictly(row, model)
    except ValueError as error:
        raise _from_pydantic(error, row) from error


def _strictly(row: object, model: Any) -> object:
    try:
        text = json.dumps(row, default=_date_text)
    except (TypeError, ValueError):
        # A row that is no JSON was written in Python: a set, another model.
        return model.model_validate(row, strict=True)
    # As JSON: strict there still takes a date or an enum from text, which strict from Python does not.
    return model.model_validate_json(text, strict=True)


def _date_text(value: object) -> str:
    """YAML has dates of its own. Raises TypeError for anything else."""
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not JSON")


def _from_pydantic(error: ValueError, row: object) -> RowProblem:
    listing = getattr(error, "errors", None)
    if not callable(listing):
        return RowProblem((), str(error))
    first = listing()[0]
    path: FieldPath = tuple(first["loc"])
    if first["type"] == "missing":
        return RowProblem(path, "is missing")
    value = _value_at(row, path)
    got = "" if value is _ABSENT else f", got {_shown(value)}"
    return RowProblem(path, f"{first['msg'][:1].lower()}{first['msg'][1:]}{got}")
