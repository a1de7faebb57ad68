"""Checking what a factory was given, at the author's line."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from niceeval._base.arguments import Arguments, described
from niceeval._base.places import author_place

MIN_CPUS = 0.01
"""The smallest share of a processor that engines take; less would be no limit at all."""
MAX_CPUS = 4096
"""Processors that a sandbox may be given at most: more than any machine has."""
_LONE = re.compile("[\ud800-\udfff]")
_BREAKS = re.compile("[\x00-\x1f\x7f\x85\u2028\u2029]")


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

    def text(self, name: str) -> str | None:
        """Text of one line that a program can be given, not empty; or None."""
        value = super().text(name)
        self.require_line(name, value)
        return value

    def word(self, name: str) -> str | None:
        """Text without spaces; or None."""
        value = self.text(name)
        if value is not None and value.split() != [value]:
            raise self.error(name, f"is {described(value)}; it has no spaces", f'{name}="..."')
        return value

    def names(self, name: str) -> tuple[str, ...]:
        """A sequence of texts of one line."""
        found = super().names(name)
        for item in found:
            self.require_line(name, item)
        return found

    def require_line(self, name: str, value: str | None) -> None:
        """Raise ProjectError where a text has more than one line, or what no program can be given."""
        problem = None if value is None else text_problem(value, lines=False)
        if problem is not None:
            raise self.error(name, f"is {described(value)}, which has {problem}", f'{name}="...", without it')

    def path(self, name: str, folder: str) -> str | None:
        """A path of this machine, absolute: a relative one is below `folder`, `~` is the home folder; or None."""
        return None if self[name] is None else self.path_of(name, self[name], folder)

    def path_of(self, name: str, value: object, folder: str) -> str:
        """The same for a value that the argument `name` holds."""
        said = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
        if not isinstance(said, str) or not said.strip():
            raise self.error(name, f"is {described(value)}; it is a path", f'{name}="..."')
        self.require_line(name, said)
        return os.path.normpath(os.path.join(folder, os.path.expanduser(said)))

    def texts(self, name: str) -> dict[str, str]:
        """A mapping of names, as those of variables, to text."""
        said = self[name]
        for key in said if isinstance(said, Mapping) else ():
            problem = name_problem(key) if isinstance(key, str) else None
            if problem is not None:
                fix = f'{name}={{"NAME": "value"}}'
                raise self.error(name, f"has the name {described(key)}, which {problem}", fix)
        found = self.mapping(name, lambda value: isinstance(value, str), "text")
        texts = {key: str(value) for key, value in found.items()}
        for key, value in texts.items():
            problem = text_problem(value, lines=True)
            if problem is not None:
                fix = "leave it out; bytes belong in a file"
                raise self.error(name, f"holds {described(value)} under {described(key)}, which has {problem}", fix)
        return texts

    def cpus(self, name: str) -> float | None:
        """A number of processors, which need not be whole; or None."""
        value = self[name]
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if value is None or (number and MIN_CPUS <= value <= MAX_CPUS):
            return None if value is None else float(value)
        problem = f"is {described(value)}; it is a number of CPUs from {MIN_CPUS} to {MAX_CPUS}"
        raise self.error(name, problem, f"{name}=2.0")

    def bounded_count(self, name: str, most: int) -> int | None:
        """An int from 1 to `most`; or None."""
        value = self.count(name)
        if value is not None and value > most:
            raise self.error(name, f"is too large; it is a whole number from 1 to {most}", f"{name}={min(most, 512)}")
        return value

    def one_of(self, name: str, allowed: tuple[str, ...]) -> str:
        """One of a few words."""
        value = self[name]
        if isinstance(value, str) and value in allowed:
            return value
        words = ", ".join(f'"{word}"' for word in allowed)
        raise self.error(name, f"is {described(value)}; it is one of {words}", f'{name}="{allowed[0]}"')


def text_problem(text: str, *, lines: bool) -> str | None:
    """What a text has that no program can be given, or that makes more lines of it where `lines` is false; or None."""
    if "\0" in text:
        return "a NUL character"
    if _LONE.search(text):
        return "half of a surrogate pair, which is no UTF-8"
    if not lines and _BREAKS.search(text):
        return "a line break or another control character"
    return None


def name_problem(name: str) -> str | None:
    """Why no variable can have this name; None where one can."""
    if not name:
        return "is empty"
    if "=" in name:
        return "has an equals sign"
    problem = text_problem(name, lines=False)
    return None if problem is None else f"has {problem}"
