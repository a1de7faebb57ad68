"""How similar two texts are: edit distance with bit-parallel rows (Myers 1999, in Hyyrö's form)."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import Final, TypeVar

MAX_CHARACTERS: Final = 10_000
"""Texts whose differing middle is longer than this are compared word by word."""
MAX_WORDS: Final = 20_000
"""Of texts with more differing words, the rest counts as different."""


def text_similarity(left: str, right: str) -> float:
    """1 - (edits / length of the longer text), in [0, 1]; 1 for two equal texts, also two empty ones.

    An edit inserts, deletes or replaces one character; case and white space count. Where the texts, without the
    beginning and the end they share, are longer than `MAX_CHARACTERS`, words (and each sign and each character that is
    not ASCII) take the place of characters and white space does not count; those
    beyond `MAX_WORDS` count as different, so the result is then a lower bound. Never takes more than about a second.
    """
    if left == right:
        return 1.0
    short, long = _differing(left, right)
    if max(len(short), len(long)) <= MAX_CHARACTERS:
        return 1.0 - edit_distance(short, long) / max(len(left), len(right))
    return _word_similarity(_WORD.findall(left), _WORD.findall(right))


def edit_distance(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """The least number of insertions, deletions and replacements that turn one sequence into the other."""
    if not left or not right:
        return len(left) or len(right)
    places: dict[Hashable, int] = {}
    for index, item in enumerate(left):
        places[item] = places.get(item, 0) | 1 << index
    mask = (1 << len(left)) - 1
    last = 1 << (len(left) - 1)
    distance = len(left)
    up, down = mask, 0
    for item in right:
        equal = places.get(item, 0)
        vertical = equal | down
        horizontal = (((equal & up) + up) ^ up) | equal
        more = down | (~(horizontal | up) & mask)
        less = up & horizontal
        distance += bool(more & last) - bool(less & last)
        more = (more << 1 | 1) & mask
        less = less << 1 & mask
        up = less | (~(vertical | more) & mask)
        down = more & vertical
    return distance


def _word_similarity(left: list[str], right: list[str]) -> float:
    longest = max(len(left), len(right))
    if left == right:
        return 1.0
    a, b = _differing(left, right)
    beyond = max(len(a) - MAX_WORDS, len(b) - MAX_WORDS, 0)
    return max(0.0, 1.0 - (edit_distance(a[:MAX_WORDS], b[:MAX_WORDS]) + beyond) / longest)


_WORD = re.compile(r"[A-Za-z0-9_]+|\S")
_Text = TypeVar("_Text", str, list[str])


def _differing(left: _Text, right: _Text) -> tuple[_Text, _Text]:
    # Without the shared beginning and end, which never change the distance.
    shortest = min(len(left), len(right))
    start = 0
    while start < shortest and left[start] == right[start]:
        start += 1
    end = 0
    while end < shortest - start and left[-1 - end] == right[-1 - end]:
        end += 1
    return left[start : len(left) - end], right[start : len(right) - end]
