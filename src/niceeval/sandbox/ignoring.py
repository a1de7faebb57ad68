"""Patterns of paths that an upload leaves out: `node_modules/` is a folder at any depth, `*.pyc` any name."""

from __future__ import annotations

from collections.abc import Iterable

from niceeval._model.ignoring import ignore_pattern


class Ignored:
    """Tells whether a path (relative, with `/`) is left out, by patterns as `DiffRules` reads them."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = [ignore_pattern(text) for text in patterns]

    def ignores(self, path: str, *, folder: bool = False) -> bool:
        """Whether a pattern leaves out this path itself; what is below a folder that is left out is never asked."""
        return any(pattern.matches(path, folder=folder) for pattern in self._patterns)
