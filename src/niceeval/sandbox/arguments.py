"""Checking what a factory was given, at the author's line."""

from __future__ import annotations

from collections.abc import Mapping

from niceeval._base.arguments import Arguments, described
from niceeval._base.places import author_place


class SpecArguments(Arguments):
    """The arguments of a sandbox factory; an error points at the one that is wrong."""

    def __init__(self, call: str, values: Mapping[str, object]) -> None:
        super().__init__(call, author_place(), values)

    def pool(self, name: str = "warm_pool") -> int:
        """How many sandboxes are started ahead: a whole number from 0."""
        value = self[name]
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        raise self.error(name, f"is {described(value)}; it is a whole number from 0", f"{name}=2")

    def texts(self, name: str) -> dict[str, str]:
        """A mapping of text to text."""
        found = self.mapping(name, lambda value: isinstance(value, str), "text")
        return {key: str(value) for key, value in found.items()}

    def one_of(self, name: str, allowed: tuple[str, ...]) -> str:
        """One of a few words."""
        value = self[name]
        if isinstance(value, str) and value in allowed:
            return value
        words = ", ".join(f'"{word}"' for word in allowed)
        raise self.error(name, f"is {described(value)}; it is one of {words}", f'{name}="{allowed[0]}"')
