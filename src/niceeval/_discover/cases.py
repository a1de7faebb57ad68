"""From one decorated function to its evals: one, or one for each case."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from niceeval._base.arguments import argument_place, parameter_place
from niceeval._base.errors import NiceevalError, Place, ProjectError, error_text
from niceeval._discover.data_places import csv_rows, data_place
from niceeval._discover.define_eval import EvalDefinition, case_key_problem
from niceeval._discover.rows import RowProblem, convert_row, is_convertible, row_annotation
from niceeval._discover.specs import MISSING, EvalSpec

_Row: TypeAlias = tuple[str | int, str, object]
"""What finds a row in `cases=`, the end of its id, and the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One eval of a file before its rows are looked at. `place` is where it begins in `file`."""

    function: Callable[..., Awaitable[None]]
    definition: EvalDefinition
    id: str
    file: Path
    path: str
    place: Place


def expand(found: Found) -> tuple[list[EvalSpec], list[NiceevalError]]:
    """The evals of one definition, in the order of their rows, and a problem where rows do not fit.

    A row that does not fit is left out; of several, the first is named and the others are counted.
    """
    if found.definition.cases is None:
        return [_spec(found)], []
    try:
        annotation = row_annotation(found.function)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - an annotation is the author's own code; what it raised is said
        return [], [_unknown_annotation(found, error)]
    return _Fanout(found, annotation).expand()


class _Fanout:
    """One fan-out eval's rows on their way to specs."""

    def __init__(self, found: Found, annotation: Any) -> None:
        self._found = found
        self._annotation = annotation if is_convertible(annotation) else None
        self._lax = csv_rows() if self._annotation is not None else set()

    def expand(self) -> tuple[list[EvalSpec], list[NiceevalError]]:
        specs: list[EvalSpec] = []
        bad: list[tuple[_Row, RowProblem]] = []
        rows, problems = self._rows()
        for row in rows:
            try:
                specs.append(self._one(row))
            except RowProblem as problem:
                bad.append((row, problem))
        if bad:
            problems.append(self._row_error(*bad[0], others=len(bad) - 1))
        return specs, problems

    def _rows(self) -> tuple[list[_Row], list[NiceevalError]]:
        """The rows as they are now, which need not be as they were when the eval was defined."""
        definition = self._found.definition
        rows: list[_Row] = []
        try:
            _read_rows(definition.cases, rows)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - `cases=` may be of a class of the author's; what it raised is said
            return rows, [self._unreadable(error)]
        if not rows:
            return [], [ProjectError("empty-cases", place=argument_place(definition.place, "cases"))]
        wrong: list[NiceevalError | None] = [case_key_problem(case, definition.place) for _, case, _ in rows]
        good = [row for row, problem in zip(rows, wrong, strict=True) if problem is None]
        return good, [problem for problem in wrong if problem is not None][:1]

    def _one(self, row: _Row) -> EvalSpec:
        _, case, given = row
        converted = given
        if self._annotation is not None:
            converted = _converted(given, self._annotation, lax=id(given) in self._lax)
        return _spec(self._found, case, given, converted)

    def _unreadable(self, error: BaseException) -> NiceevalError:
        place = self._found.definition.place
        return ProjectError(
            "bad-argument",
            place=argument_place(place, "cases"),
            call=self._found.id,
            argument="cases",
            problem=f"could not be read: {error_text(error)}",
            fix="correct its class, or give cases=list(...)",
        )

    def _row_error(self, row: _Row, problem: RowProblem, others: int) -> NiceevalError:
        key, case, given = row
        definition = self._found.definition
        place = data_place(definition.cases, key, given, problem.path) or argument_place(definition.place, "cases")
        more = f" (and {others} more row{'s' if others > 1 else ''} of {self._found.id})" if others else ""
        return ProjectError(
            "case-row",
            place=place,
            case=case,
            field=problem.field,
            problem=problem.problem + more,
            annotation=parameter_place(definition.place, 1),
        )


def _read_rows(cases: Any, rows: list[_Row]) -> None:
    if isinstance(cases, Mapping):
        rows.extend((key, key, row) for key, row in cases.items())
    else:
        rows.extend((index, f"{index:04d}", row) for index, row in enumerate(cases))


def _converted(row: object, annotation: Any, *, lax: bool) -> object:
    try:
        return convert_row(row, annotation, lax=lax)
    except (RowProblem, KeyboardInterrupt):
        raise
    except BaseException as error:  # a validator, or an annotation inside the class, is the author's own code
        name = getattr(annotation, "__name__", "the annotation")
        raise RowProblem((), f"cannot become {name}: {error_text(error)}") from error


def _spec(found: Found, case: str | None = None, given: object = MISSING, row: object = MISSING) -> EvalSpec:
    definition = found.definition
    return EvalSpec(
        id=found.id if case is None else f"{found.id}/{case}",
        function=found.function,
        file=found.file,
        path=found.path,
        line=found.place.line,
        column=_column(found.place),
        base=found.id,
        case=case,
        description=_description(definition, row),
        tags=definition.tags,
        timeout=definition.timeout,
        diff=definition.diff,
        judge=definition.judge,
        metadata=definition.metadata,
        row=row,
        given=given,
        reporters=definition.reporters,
    )


def _column(place: Place) -> int:
    # `@define_eval` at the margin begins at its @; the call itself begins one further.
    return 1 if place.column in (None, 2) else int(place.column or 1)


def _description(definition: EvalDefinition, row: object) -> str | None:
    if not callable(definition.description):
        return definition.description
    try:
        text = definition.description(row)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the author's own function
        raise RowProblem((), f"description= raised {error_text(error)}") from error
    if not isinstance(text, str):
        raise RowProblem((), f"description= gave {type(text).__name__}, not text")
    return text


def _unknown_annotation(found: Found, error: BaseException) -> NiceevalError:
    said = str(error) if isinstance(error, NameError) else error_text(error)
    return ProjectError(
        "bad-argument",
        place=parameter_place(found.definition.place, 1),
        call=found.id,
        argument="the row's annotation",
        problem=f"cannot be found when the file runs: {said}",
        fix="define or import it at module level, not under TYPE_CHECKING",
    )
