"""Reading an eval's data, at module level: `CASES = load_yaml("data/sql_cases.yaml")`.

Paths are relative to the file that calls. What was read is remembered for that file, so that an error in a row can
name the line of the data file. Inside a running eval a loader raises, because its data would be unknown to everything
that decides before a run.

What the values are: text is UTF-8 (a byte order mark is dropped, `\\r\\n` becomes `\\n`). YAML is read by the core
schema of YAML 1.2: only `true` and `false` are booleans, `no`, `2024-05-01` and `12:30` are text, `010` is ten. JSON
takes no NaN. A key that occurs twice in one mapping is an error in both. A CSV file's first line names the columns
and every value is text.
"""

from __future__ import annotations

import csv
import functools
import io
import json
import os
import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar

from niceeval._base.callsite import call_site
from niceeval._base.errors import AuthorError, Place, ProjectError
from niceeval._base.file_reads import read_for_caller
from niceeval._base.places import author_place, shown_path

__all__ = ["load_csv", "load_json", "load_jsonl", "load_text", "load_yaml"]

T = TypeVar("T")

running_eval: ContextVar[bool] = ContextVar("running_eval", default=False)
"""Set by the runner while an eval function runs."""

Format: TypeAlias = Literal["yaml", "json", "jsonl", "csv", "text"]
_MAX_CELL: Final = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedFile:
    """One data file that was read: by which source file, and what it gave.

    `lines` holds the line of each row where rows have one of their own (jsonl, csv).
    """

    file: Path
    calling_file: str
    format: Format
    value: object
    lines: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Parsed(Generic[T]):
    value: T
    lines: tuple[int, ...] = ()


_loaded: dict[str, list[LoadedFile]] = {}


def loaded_files(calling_file: str | None = None) -> tuple[LoadedFile, ...]:
    """What the loaders read so far, for one source file or for all of them."""
    if calling_file is not None:
        return tuple(_loaded.get(calling_file, ()))
    return tuple(loaded for files in _loaded.values() for loaded in files)


def forget(calling_file: str) -> None:
    """Drop what a source file read: it is about to be loaded again."""
    _loaded.pop(calling_file, None)


def load_yaml(path: str | os.PathLike[str]) -> Any:
    """The document of a YAML file. Raises ProjectError (`data-file`), AuthorError (`loader-in-test`)."""
    return _load("load_yaml", "yaml", path, lambda text: _Parsed(parse_yaml(text)))


def load_json(path: str | os.PathLike[str]) -> Any:
    """The value of a JSON file. Raises ProjectError (`data-file`), AuthorError (`loader-in-test`)."""
    return _load("load_json", "json", path, lambda text: _Parsed(_parse_json(text)))


def load_jsonl(path: str | os.PathLike[str]) -> list[Any]:
    """The values of a file with one JSON value on each line; empty lines are skipped.

    Raises ProjectError (`data-file`), AuthorError (`loader-in-test`).
    """
    return _load("load_jsonl", "jsonl", path, _parse_jsonl)


def load_csv(path: str | os.PathLike[str], *, delimiter: str = ",") -> list[dict[str, str]]:
    """The rows of a CSV file as mappings of column to text. A row of another length than the first line is an error.

    Raises ProjectError (`data-file`), AuthorError (`loader-in-test`).
    """
    return _load("load_csv", "csv", path, lambda text: _parse_csv(text, delimiter))


def load_text(path: str | os.PathLike[str]) -> str:
    """The text of a file. Raises ProjectError (`data-file`), AuthorError (`loader-in-test`)."""
    return _load("load_text", "text", path, _Parsed)


class DataError(Exception):
    """What is wrong in a data file, and in which line and column of it."""

    def __init__(self, problem: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.column = column


def _load(loader: str, format: Format, path: str | os.PathLike[str], parse: Callable[[str], _Parsed[T]]) -> T:
    caller = author_place()
    if running_eval.get():
        raise AuthorError("loader-in-test", place=caller, loader=loader)
    calling_file = call_site().file
    file = Path(os.path.abspath(os.path.join(os.path.dirname(calling_file), path)))
    read_for_caller(file)
    try:
        parsed = parse(read_text(file))
    except DataError as error:
        place = caller if error.line is None else Place(shown_path(file), error.line, error.column)
        raise ProjectError(
            "data-file", place=place, file=shown_path(file), problem=error.problem, loader=loader
        ) from error
    _loaded.setdefault(calling_file, []).append(
        LoadedFile(file=file, calling_file=calling_file, format=format, value=parsed.value, lines=parsed.lines)
    )
    return parsed.value


def read_text(file: Path) -> str:
    """A file's text: UTF-8, without a byte order mark, lines ending in `\\n`."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise DataError("there is no such file") from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}") from error
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        # utf-8-sig counts from behind the byte order mark.
        start = error.start + (3 if data.startswith(b"\xef\xbb\xbf") else 0)
        line = data.count(b"\n", 0, start) + 1
        column = start - data.rfind(b"\n", 0, start)
        raise DataError(f"is not UTF-8: byte 0x{data[start]:02x}", line, column) from error


def _parse_json(text: str) -> Any:
    """One JSON value; a key that occurs twice, NaN and the infinities are errors."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        problem = "is empty" if not text.strip() else f"is not JSON: {error.msg}"
        raise DataError(problem, error.lineno, error.colno) from error
    except ValueError as error:
        raise DataError("holds a number with too many digits") from error
    except RecursionError:
        raise DataError("is nested too deeply") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise DataError(f'has the key "{key}" twice in one object')
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise DataError(f"holds {name}, which is not JSON")


def _parse_jsonl(text: str) -> _Parsed[list[Any]]:
    # Only a line feed ends a line: JSON text may hold other separators.
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    return _Parsed([_json_line(line, number) for number, line in lines], tuple(number for number, _ in lines))


def _json_line(line: str, number: int) -> Any:
    try:
        return _parse_json(line)
    except DataError as error:
        raise DataError(error.problem, number, error.column) from error


def _parse_csv(text: str, delimiter: str) -> _Parsed[list[dict[str, str]]]:
    if len(delimiter) != 1:
        raise DataError(f"delimiter {delimiter!r} is not one character")
    csv.field_size_limit(_MAX_CELL)
    records = _csv_records(text, delimiter)
    if not records:
        raise DataError("is empty; its first line names the columns", 1)
    columns = _columns(records[0][1])
    rows = [dict(zip(columns, _of_length(cells, columns, line), strict=True)) for line, cells in records[1:]]
    return _Parsed(rows, tuple(line for line, _ in records[1:]))


def _csv_records(text: str, delimiter: str) -> list[tuple[int, list[str]]]:
    """The records that are not empty, each with the line it begins in."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    records: list[tuple[int, list[str]]] = []
    line = 1
    try:
        for cells in reader:
            if cells:
                records.append((line, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"is not CSV: {error}", line) from error
    return records


def _columns(cells: Sequence[str]) -> list[str]:
    for index, name in enumerate(cells):
        if not name.strip():
            raise DataError(f"column {index + 1} has no name", 1)
        if name in cells[:index]:
            raise DataError(f'has the column "{name}" twice', 1)
    return list(cells)


def _of_length(cells: list[str], columns: Sequence[str], line: int) -> list[str]:
    if len(cells) != len(columns):
        raise DataError(f"has {len(cells)} values here, and {len(columns)} columns", line)
    return cells


def parse_yaml(text: str) -> Any:
    """A YAML document, as `load_yaml` reads it. Raises DataError."""
    # PyYAML costs 60 modules, which an eval without YAML never pays.
    import yaml

    try:
        return yaml.load(text, _yaml_loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = f"is not YAML: {error.problem or error.context}"
        raise DataError(problem, *((mark.line + 1, mark.column + 1) if mark else ())) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise DataError(f"is not YAML: the character {error.character!r} is not allowed", line) from error
    except RecursionError:
        raise DataError("is nested too deeply") from None


_CORE_SCALARS: Final = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
    ("null", r"~|null|Null|NULL|", ("~", "n", "N", "")),
    ("merge", r"<<", "<"),
)
"""The plain scalars of YAML 1.2's core schema: tag, pattern, first characters. Integers are tried before floats."""


@functools.cache
def _yaml_loader() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class CoreLoader(base):  # type: ignore[misc]
        yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            _require_unique_keys(self, node)
            return super().construct_mapping(node, deep=deep)

        def construct_core_int(self, node: Any) -> int:
            text = self.construct_scalar(node)
            return int(text, 0) if text[:2] in ("0o", "0x") else int(text)

    for tag, pattern, first in _CORE_SCALARS:
        regexp = re.compile(f"^(?:{pattern})$")
        CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", regexp, first)
    CoreLoader.add_constructor("tag:yaml.org,2002:int", CoreLoader.construct_core_int)
    return CoreLoader


def _require_unique_keys(loader: Any, node: Any) -> None:
    seen: set[tuple[str, str]] = set()
    for key, _ in node.value:
        if not isinstance(key.value, str) or key.tag.endswith(":merge"):
            continue
        if (key.tag, key.value) in seen:
            line, column = key.start_mark.line + 1, key.start_mark.column + 1
            raise DataError(f'has the key "{key.value}" twice in one mapping', line, column)
        seen.add((key.tag, key.value))
