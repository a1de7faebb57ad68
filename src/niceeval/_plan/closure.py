"""The source closure: a file and the project modules that it imports, recursively, with the bytes' hashes.

Imports are read, not run: `import` and `from ... import` statements anywhere in a file, relative ones and packages
included, resolved inside the project, from its root and from where Python itself finds a package (a `src` folder, an
editable install). What is imported by a name made at run time cannot be seen
here; what is opened by hand is noted by `_base/file_reads.py`.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Set
from functools import cached_property
from pathlib import Path

_FOREIGN = frozenset({"site-packages", "dist-packages", ".venv", "venv", "node_modules"})
_IMPORTERS = frozenset({"import_module", "__import__"})


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

    def tree(self) -> ast.Module | None:
        """The syntax tree, made anew each time, since it is much larger than the file; None for what does not parse."""
        with warnings.catch_warnings():
            # Python has warned of the same lines when it ran them.
            warnings.simplefilter("ignore")
            try:
                return ast.parse(self.data)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return None


class Sources:
    """The project's source files, each read and parsed once for all evals and experiments of a plan."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[Path, SourceFile] = {}
        self._imports: dict[Path, tuple[Path, ...]] = {}
        self._bases: dict[str, tuple[Path, ...]] = {}

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
            tree = self.file(path).tree()
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

    def packages_above(self, path: Path) -> Iterator[Path]:
        """The `__init__.py` files that importing a module runs before it."""
        for folder in path.parents:
            package = folder / "__init__.py"
            if not self.is_inside(package) or not package.is_file():
                return
            yield package

    def _resolved(self, tree: ast.Module, path: Path) -> Iterator[Path]:
        importers = _importers(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._absolute(alias.name.split("."))
            elif isinstance(node, ast.Call):
                yield from self._imported_by_text(node, path, importers)
            elif isinstance(node, ast.ImportFrom):
                steps = node.module.split(".") if node.module else []
                for rest in ([], *([alias.name] for alias in node.names)):
                    if node.level:
                        yield from self._module(_up(path.parent, node.level - 1), [*steps, *rest])
                    else:
                        yield from self._absolute([*steps, *rest])

    def _imported_by_text(self, call: ast.Call, path: Path, importers: Set[str]) -> Iterator[Path]:
        """`import_module("adapters.fast")`, or `import_module(".fast", "adapters")`."""
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        given |= dict(zip(("name", "package"), call.args, strict=False))
        match call.func, given.get("name"):
            case ((ast.Name(id=name) | ast.Attribute(attr=name)), ast.Constant(value=str(module))) if name in importers:
                steps = module.lstrip(".").split(".")
                level = len(module) - len(module.lstrip("."))
            case _:
                return
        if not level:
            yield from self._absolute(steps)
            return
        yield from self._module(_up(path.parent, level - 1), steps)
        match given.get("package"):
            case ast.Constant(value=str(package)):
                above = package.split(".")
                yield from self._absolute([*above[: len(above) - level + 1], *steps])

    def _absolute(self, steps: list[str]) -> Iterator[Path]:
        name = steps[0]
        if name not in self._bases:
            self._bases[name] = tuple(dict.fromkeys([self._root, *filter(self.is_inside, _homes(name))]))
        for base in self._bases[name]:
            yield from self._module(base, steps)

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


def _importers(tree: ast.Module) -> frozenset[str]:
    """What `import_module` and `__import__` are called in a file."""
    names = (alias for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names)
    return _IMPORTERS | {alias.asname for alias in names if alias.asname and alias.name in _IMPORTERS}


def _homes(name: str) -> Iterator[Path]:
    """The folders that Python finds a top-level module in; nothing is imported for it."""
    if name in sys.stdlib_module_names:
        return
    try:
        spec = importlib.util.find_spec(name)
    except Exception:  # noqa: BLE001 - somebody's import hook, or a module without a spec: the root is looked at anyway
        return
    if spec is None:
        return
    places = spec.submodule_search_locations or ([spec.origin] if spec.has_location and spec.origin else [])
    yield from (Path(place).parent for place in places)


def digest(data: bytes) -> str:
    """`sha256:` and the hexadecimal hash."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _up(folder: Path, levels: int) -> Path:
    for _ in range(levels):
        folder = Path(os.path.dirname(folder))
    return folder
