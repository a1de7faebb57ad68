"""The source closure: a file and the project modules that it imports, recursively, with the bytes' hashes.

Imports are read, not run: `import` and `from ... import` statements anywhere in a file, relative ones and packages
included, resolved inside the project. What is imported by a name made at run time, and files opened by hand, cannot
be seen.
"""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

_FOREIGN = frozenset({"site-packages", "dist-packages", ".venv", "venv", "node_modules"})


class SourceFile:
    """One source file of the project: its bytes, read once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.data = path.read_bytes()
        except OSError:
            self.data = b""

    @cached_property
    def digest(self) -> str:
        """`sha256:` and the hash of the bytes."""
        return digest(self.data)

    @cached_property
    def tree(self) -> ast.Module | None:
        """The syntax tree; None for what does not parse."""
        try:
            return ast.parse(self.data)
        except (SyntaxError, ValueError, RecursionError):
            return None


class Sources:
    """The project's source files, each read and parsed once for all evals and experiments of a plan."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[Path, SourceFile] = {}
        self._imports: dict[Path, tuple[Path, ...]] = {}

    def file(self, path: Path) -> SourceFile:
        """A file by its absolute path."""
        if path not in self._files:
            self._files[path] = SourceFile(path)
        return self._files[path]

    def closure(self, starts: Iterable[Path]) -> dict[str, str]:
        """Path relative to the root -> digest, of the files and of all that they import inside the project."""
        open_files = [path for path in starts if self.is_inside(path)]
        seen: set[Path] = set()
        while open_files:
            path = open_files.pop()
            if path in seen:
                continue
            seen.add(path)
            open_files.extend(self.imports(path))
        return {path.relative_to(self._root).as_posix(): self.file(path).digest for path in sorted(seen)}

    def imports(self, path: Path) -> tuple[Path, ...]:
        """The project files that one file imports directly."""
        if path not in self._imports:
            tree = self.file(path).tree
            found = set(self._resolved(tree, path)) if tree is not None else set()
            self._imports[path] = tuple(sorted(found))
        return self._imports[path]

    def is_inside(self, path: Path) -> bool:
        """Whether a file is the project's own code."""
        try:
            parts = path.relative_to(self._root).parts
        except ValueError:
            return False
        return not _FOREIGN.intersection(parts)

    def _resolved(self, tree: ast.Module, path: Path) -> Iterator[Path]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._module(self._root, alias.name.split("."))
            elif isinstance(node, ast.ImportFrom):
                base = self._root if not node.level else _up(path.parent, node.level - 1)
                steps = node.module.split(".") if node.module else []
                yield from self._module(base, steps)
                for alias in node.names:
                    yield from self._module(base, [*steps, alias.name])

    def _module(self, base: Path, steps: list[str]) -> Iterator[Path]:
        """The files that importing a dotted name runs: each package's `__init__.py`, and the module itself."""
        folder = base
        for step in steps:
            module, folder = folder / f"{step}.py", folder / step
            package = folder / "__init__.py"
            if package.is_file():
                if self.is_inside(package):
                    yield package
            elif module.is_file():
                # The last step of `from module import name` may be a name in it.
                if self.is_inside(module):
                    yield module
                return
            elif not folder.is_dir():
                return


def digest(data: bytes) -> str:
    """`sha256:` and the hexadecimal hash."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _up(folder: Path, levels: int) -> Path:
    for _ in range(levels):
        folder = Path(os.path.dirname(folder))
    return folder
