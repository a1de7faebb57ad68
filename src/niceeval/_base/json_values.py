"""Any Python value that a guest returned, as plain JSON that can be stored."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, TypeAlias
from uuid import UUID

from niceeval._base.plain_text import clean_text, safe_repr, shorten, type_name

__all__ = [
    "DEFAULT_LIMITS",
    "MAX_PROBLEMS",
    "JsonLimits",
    "Path",
    "clean_text",
    "json_text",
    "normalise_json",
    "path_parts",
    "path_text",
]

MAX_PROBLEMS = 20
_MAX_REPR = 500
_CUT = "<cut>"
_CUT_COST = 2 * (len(_CUT) + 3)
_SMALLEST_INT = -(2**63)
_LARGEST_INT = 2**64 - 1
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,60}\Z")

Path: TypeAlias = "tuple[Path, str | int] | None"
"""Where a value is, as a linked list from the inside out; None is the root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLimits:
    """How large a value may be.

    `max_depth`: levels of lists and mappings (at most 150). `max_text`: characters of one string. `max_bytes`: all of
    it, counted as UTF-8 without escapes (at least 100).
    """

    max_depth: int = 100
    max_text: int = 1_000_000
    max_bytes: int = 4_000_000

    def __post_init__(self) -> None:
        if not 1 <= self.max_depth <= 150 or self.max_text < 1 or self.max_bytes < 100:
            raise ValueError(f"not usable: {self}")


DEFAULT_LIMITS = JsonLimits()


def normalise_json(
    value: object, *, limits: JsonLimits = DEFAULT_LIMITS, root: str = "value"
) -> tuple[Any, tuple[str, ...]]:
    """The value as dict, list, str, int, float, bool and None, and what had to be changed. Never raises.

    A value that is clean already comes back as the same object. Otherwise: NaN and the infinities become their names;
    keys become strings (of two that become the same, the later is renamed); tuples, sets and numpy arrays become
    lists; dates, UUIDs, paths, decimals, enums, dataclasses, msgspec structs and pydantic models become their JSON
    form; integers beyond 64 bits become text; bytes, and any other object, become a text in `<...>`. What is cyclic,
    too deep, too long or too large is cut, with a marker in its place.

    Each problem is one short line that begins with a path from `root` (`input.city[3]: NaN became "NaN"`). At most
    `MAX_PROBLEMS` are listed, then their number. Conversions that lose nothing (a tuple, a date) are no problem.
    """
    if _left_if_clean(value, limits, limits.max_bytes, 0) >= 0:
        return value, ()
    work = _Normaliser(limits, root)
    result = work.convert(value, None, 0)
    return result, work.listed()


def json_text(value: object, max_chars: int | None = None) -> str:
    """Compact JSON text of any value, normalised first; keys stay in their order.

    With `max_chars` it is for people: shortened, and a long text says how long it is.
    """
    if max_chars is None:
        return _dumps(normalise_json(value)[0])
    if isinstance(value, str):
        return _quoted(str.__str__(value), max_chars)
    limits = JsonLimits(max_text=max_chars, max_bytes=max(max_chars * 8, 100))
    return shorten(_dumps(normalise_json(value, limits=limits)[0]), max_chars)


# `json.dumps` with arguments makes an encoder for every call.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def _dumps(plain: object) -> str:
    return _ENCODER.encode(plain)


def path_text(root: str, parts: Iterable[str | int]) -> str:
    """A path as people read it: `input.city[3]["odd key"]`; long keys are cut."""
    text = root
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.match(part):
            text += f".{part}"
        else:
            text += f"[{_quoted(part)}]"
    return text


def _quoted(text: str, max_chars: int = 60) -> str:
    shown = _dumps(clean_text(text[:max_chars], max_chars)[0])
    if len(text) <= max_chars and len(shown) <= max_chars:
        return shown
    end = f'…" [{len(text):,} characters]'
    return shorten(shown[:-1][: max(max_chars - len(end), 0)] + end, max_chars)


def path_parts(path: Path) -> list[str | int]:
    """The linked path from the outside in."""
    parts: list[str | int] = []
    while path is not None:
        path, part = path
        parts.append(part)
    parts.reverse()
    return parts


def _left_if_clean(value: object, limits: JsonLimits, left: int, depth: int) -> int:
    # What is left of the byte budget when the value is clean JSON within the limits, else a negative number.
    kind = type(value)
    if kind is str:
        return left - _text_cost(value, limits)  # type: ignore[arg-type]
    if kind is dict or kind is list:
        return -1 if depth >= limits.max_depth else _left_in(value, limits, left - 2, depth + 1)
    if value is None or kind is bool:
        return left - 4
    if kind is int:
        return left - 8 if _SMALLEST_INT <= value <= _LARGEST_INT else -1  # type: ignore[operator]
    return left - 8 if kind is float and math.isfinite(value) else -1  # type: ignore[arg-type]


def _left_in(container: Any, limits: JsonLimits, left: int, depth: int) -> int:
    if type(container) is list:
        for item in container:
            left = _left_if_clean(item, limits, left - 1, depth)
            if left < 0:
                return -1
        return left
    for key, item in container.items():
        if type(key) is not str:
            return -1
        left = _left_if_clean(item, limits, left - _text_cost(key, limits) - 1, depth)
        if left < 0:
            return -1
    return left


def _text_cost(text: str, limits: JsonLimits) -> int:
    # A text that is not clean costs more than any budget.
    if len(text) > limits.max_text:
        return limits.max_bytes + 1
    if text.isascii():
        return len(text) + 2
    try:
        return len(text.encode()) + 2
    except UnicodeEncodeError:
        return limits.max_bytes + 1


class _Normaliser:
    """One value's conversion: the budget that is left, the containers that are open, the problems so far."""

    def __init__(self, limits: JsonLimits, root: str) -> None:
        self._limits = limits
        self._root = root
        self._left = limits.max_bytes - _CUT_COST
        self._full = False
        self._open: set[int] = set()
        self._problems: list[str] = []
        self._count = 0

    def listed(self) -> tuple[str, ...]:
        more = self._count - len(self._problems)
        return (*self._problems, f"and {more:,} more") if more else tuple(self._problems)

    def convert(self, value: object, path: Path, depth: int) -> Any:
        try:
            return self._scalar(value, path) if _is_scalar(value) else self._composite(value, path, depth)
        except Exception as error:  # noqa: BLE001 - a guest's object may raise anything; the problem says so
            return self._text(f"<{type_name(value)}>", path, f"cannot be read: {type_name(error)}")

    def _problem(self, path: Path, problem: str) -> None:
        self._count += 1
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(f"{path_text(self._root, path_parts(path))}: {problem}")

    def _spend(self, cost: int, path: Path) -> bool:
        # Once full, always full: what follows a cut is dropped, so that the cut is where the marker is.
        if not self._full and cost <= self._left:
            self._left -= cost
            return True
        if not self._full:
            self._full = True
            self._problem(path, f"over {self._limits.max_bytes:,} bytes; the rest is cut")
        return False

    def _text(self, text: str, path: Path, problem: str | None = None) -> str:
        if problem:
            self._problem(path, problem)
        clean, change = clean_text(text, self._limits.max_text)
        if change:
            self._problem(path, change)
        return clean if self._spend(_text_cost(clean, self._limits), path) else _CUT

    def _scalar(self, value: object, path: Path) -> Any:
        if isinstance(value, Enum):
            return self._scalar(value.value, path)
        if isinstance(value, str):
            return self._text(str.__str__(value), path)
        if value is None or isinstance(value, bool):
            return value if self._spend(4, path) else _CUT
        if isinstance(value, int):
            return self._integer(int.__int__(value), path)
        if isinstance(value, float):
            return self._float(float.__float__(value), path)
        return self._text(_scalar_text(value), path)

    def _integer(self, value: int, path: Path) -> Any:
        if _SMALLEST_INT <= value <= _LARGEST_INT:
            return value if self._spend(8, path) else _CUT
        bits = value.bit_length()
        text = str(value) if bits <= 4096 else f"<integer of {bits:,} bits>"
        return self._text(text, path, "an integer beyond 64 bits became text")

    def _float(self, value: float, path: Path) -> Any:
        if math.isfinite(value):
            return value if self._spend(8, path) else _CUT
        name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return self._text(name, path, f'{name} became "{name}"')

    def _composite(self, value: object, path: Path, depth: int) -> Any:
        if id(value) in self._open:
            return self._text("<cycle>", path, "refers to itself")
        if depth >= self._limits.max_depth:
            deeper = f"deeper than {self._limits.max_depth} levels"
            return self._text(f"<{deeper}>", path, deeper)
        self._open.add(id(value))
        try:
            return self._opened(value, path, depth)
        finally:
            self._open.discard(id(value))

    def _opened(self, value: object, path: Path, depth: int) -> Any:
        if isinstance(value, type):
            return self._opaque(value, path)
        if isinstance(value, (bytes, bytearray, memoryview)):
            size = value.nbytes if isinstance(value, memoryview) else len(value)
            return self._text(f"<bytes {size}>", path, "bytes became text")
        if isinstance(value, Enum):
            return self.convert(value.value, path, depth + 1)
        if isinstance(value, Mapping):
            return self._mapping(value.items(), path, depth)
        if isinstance(value, Set):
            return self._set(value, path, depth)
        if isinstance(value, Sequence):
            return self._list(value, path, depth)
        return self._object(value, path, depth)

    def _object(self, value: object, path: Path, depth: int) -> Any:
        fields = _struct_fields(value)
        if fields is None and dataclasses.is_dataclass(value):
            fields = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
        if fields is not None:
            return self._mapping(fields, path, depth)
        dump = getattr(value, "model_dump", None)
        if callable(dump):
            return self.convert(_dumped(dump), path, depth + 1)
        if hasattr(value, "dtype") and hasattr(value, "tolist"):
            return self.convert(value.tolist(), path, depth + 1)
        return self._opaque(value, path)

    def _opaque(self, value: object, path: Path) -> Any:
        shown = safe_repr(value, _MAX_REPR)
        text = shown if shown.startswith("<") else f"<{shown}>"
        return self._text(text, path, f"{type_name(value)} became text")

    def _list(self, items: Iterable[object], path: Path, depth: int) -> list[Any]:
        result: list[Any] = []
        if not self._spend(2, path):
            return result
        for index, item in enumerate(items):
            if not self._spend(1, (path, index)):
                result.append(_CUT)
                break
            result.append(self.convert(item, (path, index), depth + 1))
            if self._full:
                break
        return result

    def _set(self, items: Iterable[object], path: Path, depth: int) -> list[Any]:
        # Sets have no order of their own; without one, two runs would store different text for the same value.
        return sorted(self._list(items, path, depth), key=lambda item: json.dumps(item, sort_keys=True))

    def _mapping(self, items: Iterable[tuple[object, object]], path: Path, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        if not self._spend(2, path):
            return result
        taken: dict[str, int] = {}
        for raw, item in items:
            key = self._unique(self._key(raw, path), result, taken, path)
            if not self._spend(_text_cost(key, self._limits) + 1, path):
                result[_CUT] = _CUT
                break
            result[key] = self.convert(item, (path, key), depth + 1)
            if self._full:
                break
        return result

    def _key(self, raw: object, path: Path) -> str:
        if isinstance(raw, str) and not isinstance(raw, Enum):
            key, change = clean_text(str.__str__(raw), self._limits.max_text)
            if change:
                self._problem(path, f"a key: {change}")
            return key
        key = clean_text(_key_text(raw), self._limits.max_text)[0]
        if not isinstance(raw, (Enum, UUID)):
            self._problem(path, f"key {safe_repr(raw, 60)} became {_quoted(key)}")
        return key

    def _unique(self, key: str, result: Mapping[str, Any], taken: dict[str, int], path: Path) -> str:
        if key not in result:
            return key
        number = taken.get(key, 1) + 1
        base = key[: max(self._limits.max_text - 10, 1)]
        while (renamed := f"{base}#{number}") in result:
            number += 1
        taken[key] = number
        self._problem(path, f"two keys become {_quoted(key)}; the later is kept as {_quoted(renamed)}")
        return renamed


_SCALARS = (str, int, float, type(None), Decimal, datetime, date, time, timedelta, UUID, PurePath)


def _is_scalar(value: object) -> bool:
    return isinstance(value.value if isinstance(value, Enum) else value, _SCALARS)


def _scalar_text(value: object) -> str:
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    return str(value)


def _key_text(raw: object) -> str:
    if isinstance(raw, Enum):
        return _key_text(raw.value)
    if raw is None or isinstance(raw, bool):
        return json.dumps(raw)
    if isinstance(raw, int):
        return safe_repr(int.__int__(raw), 100)
    if isinstance(raw, str):
        return str.__str__(raw)
    return _scalar_text(raw) if isinstance(raw, _SCALARS) else safe_repr(raw, 100)


def _struct_fields(value: object) -> list[tuple[object, object]] | None:
    # msgspec's own names for a struct's fields; its JSON form may rename them and add a tag.
    names = getattr(value, "__struct_fields__", None)
    if not isinstance(names, tuple):
        return None
    encoded = getattr(value, "__struct_encode_fields__", names)
    fields: list[tuple[object, object]] = [
        (shown, getattr(value, name)) for shown, name in zip(encoded, names, strict=True)
    ]
    config = getattr(value, "__struct_config__", None)
    if config is not None and config.tag is not None:
        fields.insert(0, (config.tag_field, config.tag))
    return fields


def _dumped(dump: Callable[..., object]) -> object:
    try:
        return dump(mode="json")
    except Exception:  # noqa: BLE001 - a field that has no JSON form; the Python form is converted here instead
        return dump()
