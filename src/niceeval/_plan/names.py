"""Which names a source file binds and reads, wherever they stand in it."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

READ_BY_NAME = frozenset(
    {"globals", "locals", "vars", "eval", "exec", "compile", "dir", "getattr", "attrgetter", "methodcaller"}
    | {"__dict__", "__globals__", "__getattribute__", "modules", "import_module", "__import__", "inspect", "operator"}
)
"""Who uses one of these may read a name that is nowhere written as one."""


def bindings(tree: ast.AST) -> Counter[str]:
    """How often each name is given a value, or taken away, in any scope."""
    return Counter(name for node in ast.walk(tree) for name in _bound(node))


def _bound(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            yield name
        case ast.alias(name=name, asname=given):
            yield given or name.partition(".")[0]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            yield from names


def names_read(tree: ast.AST) -> set[str]:
    """The names whose values are asked for."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def attributes_read(tree: ast.AST) -> set[str]:
    """The names after a dot, on whatever."""
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def reads_by_name(tree: ast.AST) -> bool:
    """Whether values may be asked for whose names are not in the file."""
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    return bool(READ_BY_NAME & (names_read(tree) | attributes_read(tree) | imported))
