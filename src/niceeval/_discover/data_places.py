"""Where a row stands in its data file: found by identity, and only when an error needs it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from niceeval._base.errors import Place
from niceeval._base.places import shown_path
from niceeval._discover.rows import FieldPath
from niceeval.loaders import LoadedFile, loaded_files, read_text


def data_place(cases: object, key: str | int, row: object, field: FieldPath) -> Place | None:
    """The place of a row's field in the data file it came from; the row's own where the field is not there.

    `cases` and `key` find a row that is no container. None for rows that no loader gave.
    """
    for loaded in loaded_files():
        path = _path_to(loaded.value, row)
        if path is None:
            above = _path_to(loaded.value, cases)
            path = None if above is None else (*above, key)
        if path is not None:
            return _place(loaded, path, field)
    return None


def csv_rows() -> set[int]:
    """The identities of all rows that came from CSV files."""
    return {id(row) for loaded in loaded_files() if loaded.format == "csv" for row in _items(loaded.value)}


def _items(value: object) -> Iterable[Any]:
    return value if isinstance(value, list) else ()


def _path_to(root: object, wanted: object) -> FieldPath | None:
    """The path from a loaded value to the very object `wanted` in it."""
    if not isinstance(wanted, (dict, list)):
        return None
    open_values: list[tuple[object, FieldPath]] = [(root, ())]
    seen: set[int] = set()
    while open_values:
        value, path = open_values.pop()
        if value is wanted:
            return path
        if id(value) in seen or not isinstance(value, (dict, list)):
            continue
        seen.add(id(value))
        children = value.items() if isinstance(value, dict) else enumerate(value)
        open_values.extend((child, (*path, key)) for key, child in children if isinstance(child, (dict, list)))
    return None


def _place(loaded: LoadedFile, path: FieldPath, field: FieldPath) -> Place | None:
    if loaded.lines:
        index = path[0] if path else 0
        assert isinstance(index, int)
        return Place(shown_path(loaded.file), loaded.lines[index])
    if loaded.format in ("yaml", "json"):
        return _place_in_document(loaded, path, field)
    return None


def _place_in_document(loaded: LoadedFile, path: FieldPath, field: FieldPath) -> Place | None:
    # JSON is close enough to YAML for YAML's marks to be found in it.
    import yaml

    try:
        node: Any = yaml.compose(read_text(loaded.file), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, OSError, RecursionError):
        return None
    for step in path:
        node = _child(node, step)
        if node is None:
            return None
    for step in field:
        below = _child(node, step)
        if below is None:
            break
        node = below
    mark = node.start_mark
    return Place(shown_path(loaded.file), mark.line + 1, mark.column + 1)


def _child(node: Any, step: str | int) -> Any:
    if node.id == "sequence":
        return node.value[step] if isinstance(step, int) and step < len(node.value) else None
    if node.id == "mapping":
        return next((value for key, value in node.value if key.value == str(step)), None)
    return None
