"""Changes to a sample of which it is known what they may do to the turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

MAX_VARIANTS: Final = 2_000
"""The most changed forms of one sample that are tried."""
MAX_DEPTH: Final = 20
"""How deep in a sample lists are looked for."""
UNKNOWN_KIND: Final = "niceeval-unknown-kind"
"""What an item says it is that no converter knows."""

_KINDS: Final = ("type", "kind", "role", "object")
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Variant:
    """A changed form of a sample. `place` is the list that was changed, `what` says how."""

    change: Literal["drop", "swap", "repeat", "unknown", "cut"]
    place: Path
    what: str
    value: Any


def variants(value: Any, *, stream: bool) -> Iterator[Variant]:
    """The changed forms of a sample. Of a stream: cut after each frame. Of anything else, for each list of items that
    say what they are: an item left out, two in the other order, one twice, and one of an unknown kind more."""
    if stream:
        if isinstance(value, list):
            for kept in range(len(value)):
                yield Variant("cut", (), f"cut after {kept} of {len(value)} frames", value[:kept])
        return
    for place, items in _lists(value, (), 0):
        at = "".join(f"[{step!r}]" for step in place) or "the list"
        for index, item in enumerate(items):
            rest = [*items[:index], *items[index + 1 :]]
            yield Variant("drop", place, f"{at} without item {index}", _put(value, place, rest))
            twice = [*items[: index + 1], item, *items[index + 1 :]]
            yield Variant("repeat", place, f"{at} with item {index} twice", _put(value, place, twice))
        for index in range(len(items) - 1):
            swapped = [*items[:index], items[index + 1], items[index], *items[index + 2 :]]
            yield Variant("swap", place, f"{at} with item {index} after the next", _put(value, place, swapped))
        unknown = {_kind(items[0]): UNKNOWN_KIND, "id": UNKNOWN_KIND}
        for index in (0, len(items)):
            more = [*items[:index], unknown, *items[index:]]
            yield Variant("unknown", place, f"{at} with an item of an unknown kind", _put(value, place, more))


def _lists(value: Any, path: Path, depth: int) -> Iterator[tuple[Path, list[Any]]]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, list):
        if value and all(_kind(item) for item in value):
            yield path, value
        for index, item in enumerate(value):
            yield from _lists(item, (*path, index), depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _lists(item, (*path, key), depth + 1)


def _kind(item: Any) -> str:
    """The field in which an item says what it is; empty for one that does not."""
    found = [key for key in _KINDS if isinstance(item, dict) and isinstance(item.get(key), str)]
    return found[0] if found else ""


def _put(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(value, list):
        return [_put(item, rest, new) if index == step else item for index, item in enumerate(value)]
    return {key: _put(item, rest, new) if key == step else item for key, item in value.items()}
