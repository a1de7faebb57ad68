"""From one decorated function to its evals: one, or one for each case."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from niceeval._base.errors import NiceevalError, Place, ProjectError
from niceeval._discover.arguments import argument_place, parameter_place
from niceeval._discover.data_places import csv_rows, data_place
from niceeval._discover.define_eval import EvalDefinition
from niceeval._discover.rows import RowProblem, convert_row, is_convertible, row_annotation
from niceeval._discover.specs import EvalSpec


def expand(
    function: Callable[..., Awaitable[None]], definition: EvalDefinition, *, id: str, file: Path, path: str
) -> tuple[list[EvalSpec], list[NiceevalError]]:
    """The evals of one definition, in the order of their rows, and a problem where rows do not fit.

    A row that does not fit is left out; of several, the first is named and the others are counted.
    """
    if definition.cases is None:
        return [_spec(function, definition, id, file, path)], []
    try:
        annotation = row_annotation(function)
    except NameError as error:
        return [], [_unknown_annotation(definition, id, error)]
    return _Fanout(function, definition, id, file, path, annotation).expand()


class _Fanout:
    """One fan-out eval's rows on their way to specs."""

    def __init__(
        self,
        function: Callable[..., Awaitable[None]],
        definition: EvalDefinition,
        id: str,
        file: Path,
        path: str,
        annotation: Any,
    ) -> None:
        self._function = function
        self._definition = definition
        self._id = id
        self._file = file
        self._path = path
        self._annotation = annotation if is_convertible(annotation) else None
        self._lax = csv_rows() if self._annotation is not None else set()

    def expand(self) -> tuple[list[EvalSpec], list[NiceevalError]]:
        specs: list[EvalSpec] = []
        bad: list[tuple[str | int, str, object, RowProblem]] = []
        for key, case, row in _rows(self._definition.cases):
            try:
                specs.append(self._one(case, row))
            except RowProblem as problem:
                bad.append((key, case, row, problem))
        return specs, [self._row_error(*bad[0], others=len(bad) - 1)] if bad else []

    def _one(self, case: str, row: object) -> EvalSpec:
        converted = row
        if self._annotation is not None:
            converted = convert_row(row, self._annotation, lax=id(row) in self._lax)
        return _spec(
            self._function, self._definition, f"{self._id}/{case}", self._file, self._path, self._id, case, converted
        )

    def _row_error(self, key: str | int, case: str, row: object, problem: RowProblem, others: int) -> NiceevalError:
        definition = self._definition
        place = data_place(definition.cases, key, row, problem.path) or argument_place(definition.place, "cases")
        more = f" (and {others} more row{'s' if others > 1 else ''} of {self._id})" if others else ""
        return ProjectError(
            "case-row",
            place=place,
            case=case,
            field=problem.field,
            problem=problem.problem + more,
            annotation=parameter_place(definition.place, 1),
        )


def _rows(cases: Any) -> Iterator[tuple[str | int, str, object]]:
    if isinstance(cases, Mapping):
        yield from ((key, key, row) for key, row in cases.items())
    else:
        yield from ((index, f"{index:04d}", row) for index, row in enumerate(cases))


def _spec(
    function: Callable[..., Awaitable[None]],
    definition: EvalDefinition,
    id: str,
    file: Path,
    path: str,
    base: str | None = None,
    case: str | None = None,
    *row: object,
) -> EvalSpec:
    given = {"row": row[0]} if row else {}
    return EvalSpec(
        id=id,
        function=function,
        file=file,
        path=path,
        line=definition.place.line,
        column=_column(definition.place),
        base=base or id,
        case=case,
        description=_description(definition, row),
        tags=definition.tags,
        timeout=definition.timeout,
        metadata=definition.metadata,
        reporters=definition.reporters,
        **given,
    )


def _column(place: Place) -> int:
    # `@define_eval` at the margin begins at its @; the call itself begins one further.
    return 1 if place.column in (None, 2) else int(place.column or 1)


def _description(definition: EvalDefinition, row: tuple[object, ...]) -> str | None:
    if not callable(definition.description):
        return definition.description
    try:
        text = definition.description(row[0])
    except Exception as error:
        raise RowProblem((), f"description= raised {type(error).__name__}: {error}") from error
    if not isinstance(text, str):
        raise RowProblem((), f"description= gave {type(text).__name__}, not text")
    return text


def _unknown_annotation(definition: EvalDefinition, id: str, error: NameError) -> NiceevalError:
    return ProjectError(
        "bad-argument",
        place=parameter_place(definition.place, 1),
        call=id,
        argument="the row's annotation",
        problem=f"cannot be found when the file runs: {error}",
        fix="define or import it at module level, not under TYPE_CHECKING",
    )
