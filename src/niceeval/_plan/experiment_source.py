"""What of an experiment file can change an attempt: its syntax tree, without what cannot, and without what is recorded
as a resolved value of its own.

Comments and layout are not in a syntax tree. In `define_experiment(...)`, and in `.replace(...)` of an experiment, the
keywords that only decide how often, how long or under which name something runs are taken out, and so are those whose
values stand in the identity by themselves. Of a sweep's `experiments = {...}` only the entry's own expression is kept,
so that adding an entry leaves the others alone; literals that nothing reads any more then go too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from niceeval._plan.closure import digest

CANNOT_CHANGE_AN_ATTEMPT = frozenset(
    {"description", "labels", "runs", "early_exit", "evals", "timeout", "budget", "max_concurrency"}
)
RECORDED_AS_VALUES = frozenset({"model", "reasoning_effort", "flags"})
_LEFT_OUT = CANNOT_CHANGE_AN_ATTEMPT | RECORDED_AS_VALUES
_READ_BY_NAME = frozenset({"globals", "locals", "vars", "eval", "exec", "getattr"})


def experiment_digest(tree: ast.Module | None, source: bytes, entry: str | None, *, whole: bool = False) -> str:
    """The digest of an experiment file for one of its experiments (`entry` is its key in a sweep).

    `whole` keeps every entry: for a file that another one imports from. The tree is changed.
    """
    if tree is None:
        return digest(source)
    try:
        reduced = _Reduced(entry, whole, set(_experiment_names(tree))).visit(tree)
        _drop_unread_literals(reduced)
        return digest(ascii(_plain(reduced)).encode())
    except RecursionError:
        return digest(source)


def _experiment_names(tree: ast.Module) -> Iterator[str]:
    """Names that stand for experiments: defined here, or imported from another experiment file."""
    known: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "experiments":
            known |= {alias.asname or alias.name for alias in node.names}
    for statement in ast.walk(tree):
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and _is_experiment(statement.value, known):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            known |= {target.id for target in targets if isinstance(target, ast.Name)}
    yield from known


def _is_experiment(node: ast.expr | None, known: set[str]) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="define_experiment") | ast.Attribute(attr="define_experiment")):
            return True
        case ast.Call(func=ast.Attribute(attr="replace", value=base), args=[]):
            return _is_experiment(base, known)
        case ast.Name(id=name):
            return name in known
        case ast.Attribute(attr="experiment"):
            return True
        case ast.Subscript(value=ast.Name(id="experiments") | ast.Attribute(attr="experiments")):
            return True
    return False


class _Reduced(ast.NodeTransformer):
    def __init__(self, entry: str | None, whole: bool, known: set[str]) -> None:
        self._entry = entry
        self._whole = whole
        self._known = known

    def visit_Module(self, node: ast.Module) -> ast.AST:
        node.body = [statement for statement in node.body if not _is_text(statement)]
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        # Asked before its parts are visited, which may change what it looks like.
        reduces = _is_experiment(node, self._known)
        if reduces:
            node.keywords = [keyword for keyword in node.keywords if keyword.arg not in _LEFT_OUT]
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        return self._own_entry(node, node.targets)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        return self._own_entry(node, [node.target])

    def _own_entry(self, node: ast.Assign | ast.AnnAssign, targets: list[ast.expr]) -> ast.AST:
        sweeps = any(isinstance(target, ast.Name) and target.id == "experiments" for target in targets)
        if sweeps and not self._whole and isinstance(node.value, ast.Dict):
            _keep_entry(node.value, self._entry)
        self.generic_visit(node)
        if sweeps and not self._whole and isinstance(node.value, ast.DictComp):
            node.value = _without_loop(node.value)
        return node


def _keep_entry(sweep: ast.Dict, entry: str | None) -> None:
    """Leave only the entry's own expression, and whatever has no constant key."""
    kept = [
        (key, value)
        for key, value in zip(sweep.keys, sweep.values, strict=True)
        if not isinstance(key, ast.Constant) or str(key.value) == entry
    ]
    # The key itself is the experiment's id, not a part of what it does.
    sweep.keys = [None if isinstance(key, ast.Constant) else key for key, _ in kept]
    sweep.values = [value for _, value in kept]


def _without_loop(sweep: ast.DictComp) -> ast.expr:
    """The entries' expression alone, where all that it took from the loop was left out."""
    looped = {name.id for part in sweep.generators for name in ast.walk(part.target) if isinstance(name, ast.Name)} | {
        name.target.id for name in ast.walk(sweep) if isinstance(name, ast.NamedExpr)
    }
    return sweep if looped & _names_read(sweep.value) else sweep.value


def _drop_unread_literals(tree: ast.Module) -> None:
    """Take out `NAME = literal` where nothing that is left reads the name."""
    read = _names_read(tree)
    if read & _READ_BY_NAME:
        return
    tree.body = [statement for statement in tree.body if not _is_unread_literal(statement, read)]


def _is_unread_literal(statement: ast.stmt, read: set[str]) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name not in read and _is_literal(value)
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return name not in read and _is_literal(value)
    return False


def _is_literal(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError):
        return False
    return True


def _names_read(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store)}


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _plain(part: object) -> object:
    """The tree as lists and constants, without what is absent: the same in every version of Python."""
    if isinstance(part, ast.AST):
        fields = [
            (name, _plain(value))
            for name, value in ast.iter_fields(part)
            if name not in ("ctx", "kind", "type_comment", "type_ignores") and value is not None and value != []
        ]
        return (type(part).__name__, fields)
    return [_plain(item) for item in part] if isinstance(part, list) else part
