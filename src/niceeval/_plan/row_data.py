"""Which data files count whole, and not row by row: those whose value is read other than as `cases=`.

`@define_eval(cases=load_yaml("cases.yaml"))`, and `CASES = load_yaml("cases.yaml")` with `cases=CASES`, give each case
its own row, which is a part of its identity. As soon as anything else reads the value (another eval, a function that
takes examples from it, a module that imports the name) the whole file counts for whatever may run that code.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from pathlib import Path

from niceeval._discover.define_eval import ATTRIBUTE
from niceeval._plan.names import attributes_read, bindings, names_read

_LOADERS = frozenset({"load_csv", "load_json", "load_jsonl", "load_text", "load_yaml"})
_READ_BY_NAME = frozenset(
    {"globals", "locals", "vars", "eval", "exec", "__dict__", "__globals__", "modules", ATTRIBUTE}
)


def read_whole(
    sources: Mapping[Path, bytes], loaded: Mapping[Path, Set[Path]], parse: Callable[[Path], ast.Module | None]
) -> frozenset[Path] | None:
    """The data files that these source files, which belong together, read other than as rows; None: it may be any.

    `loaded` says which data files each of them did load.
    """
    trees = _concerned(sources, parse)
    if trees is None or any(files and path not in trees for path, files in loaded.items()):
        return None
    return _read_otherwise(trees, loaded)


def _concerned(
    sources: Mapping[Path, bytes], parse: Callable[[Path], ast.Module | None]
) -> dict[Path, ast.Module] | None:
    """The files that may have to do with it, parsed: most of what evals share has not. None: one is broken."""
    trees: dict[Path, ast.Module] = {}
    words = {*_LOADERS, *_READ_BY_NAME}
    while True:
        pattern = re.compile(rf"\b(?:{'|'.join(words)})\b|import\s*\*".encode())
        # One name can be written in several ways where it is not ASCII.
        every = not all(word.isascii() for word in words)
        found = [path for path, data in sources.items() if path not in trees and (every or pattern.search(data))]
        for path in found:
            tree = parse(path)
            if tree is None:
                return None
            trees[path] = tree
        more = {name for tree in trees.values() for name in _names_of_data(tree, words)} - words
        if not more:
            return trees
        words |= more


def _names_of_data(tree: ast.Module, words: Set[str]) -> Iterator[str]:
    """What loaded values are called where they are loaded, and where they are imported."""
    loaders = _loaders(tree)
    yield from (name for value, name in _held(tree) if isinstance(value, ast.Call) and _is_loader(value.func, loaders))
    yield from (alias.asname for alias in _imported([tree]) if alias.asname and alias.name in words)


def _read_otherwise(trees: Mapping[Path, ast.Module], loaded: Mapping[Path, Set[Path]]) -> frozenset[Path] | None:
    if any(_READ_BY_NAME & (names_read(tree) | attributes_read(tree)) for tree in trees.values()):
        return None
    found: set[Path] = set()
    for path, tree in trees.items():
        rows = {id(value) for value in _cases_values(tree)}
        rows |= {id(value) for value, name in _held(tree) if not _is_read(name, path, trees)}
        loaders = _loaders(tree)
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_loader(node.func, loaders)]
        called = {id(call.func) for call in calls}
        if any(_is_loader(node, loaders) and id(node) not in called for node in ast.walk(tree)):
            # A loader under another name, or handed on.
            return None
        files = {call: _data_file(call, path) for call in calls}
        unknown = [call for call, file in files.items() if file is None]
        unseen = loaded.get(path, frozenset()) - set(files.values())
        if len(unseen) > len(unknown) or any(id(call) not in rows for call in unknown):
            return None
        found |= {file for call, file in files.items() if file is not None and id(call) not in rows}
    return frozenset(found)


def _cases_values(tree: ast.Module) -> Iterator[ast.expr]:
    """What is passed as `cases=` to `define_eval`."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="define_eval") | ast.Attribute(attr="define_eval"), keywords=keywords):
                yield from (keyword.value for keyword in keywords if keyword.arg == "cases")


def _loaders(tree: ast.Module) -> frozenset[str]:
    return _LOADERS | {alias.asname for alias in _imported([tree]) if alias.asname and alias.name in _LOADERS}


def _is_loader(node: ast.AST, loaders: Set[str]) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in loaders
    return False


def _data_file(call: ast.Call, path: Path) -> Path | None:
    match call.args[:1]:
        case [ast.Constant(value=str(name))]:
            return Path(os.path.abspath(os.path.join(path.parent, name)))
    return None


def _held(tree: ast.Module) -> Iterator[tuple[ast.expr, str]]:
    """Expression -> the name that it alone is given to, at the top of the file."""
    bound = bindings(tree)
    for statement in tree.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if bound[name] == 1:
                yield value, name


def _is_read(name: str, holder: Path, trees: Mapping[Path, ast.Module]) -> bool:
    """Whether any of the files reads the name, or what it imports as that name, other than as `cases=`."""
    names = {name}
    while True:
        found = {alias.asname or alias.name for alias in _imported(trees.values()) if alias.name in names}
        if found <= names:
            break
        names |= found
    stars = any(alias.name == "*" for alias in _imported(trees.values()))
    return stars or any(_reads(tree, names, path == holder) for path, tree in trees.items())


def _imported(trees: Iterable[ast.Module]) -> Iterator[ast.alias]:
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                yield from node.names


def _reads(tree: ast.Module, names: set[str], is_holder: bool) -> bool:
    cases = {id(value) for value in _cases_values(tree)}
    own = {alias.asname or alias.name for alias in _imported([tree])} | (names if is_holder else set())
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name in names & own and id(node) not in cases:
                return True
            case ast.Attribute(attr=name) if name in names and id(node) not in cases:
                return True
            case ast.Constant(value=str(name)) if name in names:
                # `getattr(module, "CASES")`
                return True
    return False
