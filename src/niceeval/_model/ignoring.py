"""Which paths of a workdir no diff shows: one reading of the patterns, for the ledger and for assertions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from niceeval._model.diff_rules import DEFAULT_IGNORE, DiffRules

ALWAYS_IGNORED: Final = (".git/", "__niceeval__/")
"""What no rule can include: a ledger in git cannot hold the first, and the second is niceeval's own."""


@dataclass(frozen=True, slots=True)
class IgnorePattern:
    """One pattern: `text` without its slashes at either end; `folder` says that it matches folders only.

    `anchored`: it is a path from the workdir, and no name at any depth. A folder that matches takes everything below it
    along.
    """

    text: str
    folder: bool
    anchored: bool

    def matches(self, path: str, *, folder: bool) -> bool:
        """Whether it matches this path itself, relative and with `/`."""
        if self.folder and not folder:
            return False
        return fnmatchcase(path if self.anchored else path.rpartition("/")[2], self.text)


def ignore_patterns(rules: DiffRules) -> tuple[IgnorePattern, ...]:
    """The patterns that hold under the rules, without repetition."""
    included = set(rules.include) - set(ALWAYS_IGNORED)
    texts = [text for text in DEFAULT_IGNORE if text not in included]
    texts += [text for text in rules.ignore if text not in included]
    return tuple(ignore_pattern(text) for text in dict.fromkeys(texts))


def ignore_pattern(text: str) -> IgnorePattern:
    """One pattern as an author writes it."""
    body = text.removeprefix("./").rstrip("/")
    return IgnorePattern(body.lstrip("/"), folder=text.endswith("/"), anchored="/" in body)


def ignored_by(path: str, patterns: Sequence[IgnorePattern]) -> IgnorePattern | None:
    """The pattern that keeps a file's path (relative, with `/`) out of the diff; None where it is looked at."""
    parts = path.split("/")
    for end in range(1, len(parts) + 1):
        name, is_file = "/".join(parts[:end]), end == len(parts)
        if parts[end - 1].lower() == ".git":
            return IgnorePattern(".git", folder=not is_file, anchored=False)
        for pattern in patterns:
            if pattern.matches(name, folder=not is_file):
                return pattern
    return None
