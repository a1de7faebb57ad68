"""What of an experiment file can change an attempt: its syntax tree, without what cannot, and without what is recorded
as a resolved value of its own.

Comments and layout are not in a syntax tree. In `define_experiment(...)` and `.replace(...)` the keywords that only
decide how often, how long or under which name something runs are taken out, and so are those whose values stand in the
identity by themselves. Of a sweep's `experiments = {...}` only the entry's own expression is kept, so that adding an
entry leaves the others alone.
"""

from __future__ import annotations

import ast
import copy

from niceeval._plan.closure import digest

CANNOT_CHANGE_AN_ATTEMPT = frozenset(
    {"description", "labels", "runs", "early_exit", "evals", "timeout", "budget", "max_concurrency", "reporters"}
)
RECORDED_AS_VALUES = frozenset({"model", "reasoning_effort", "flags"})
_LEFT_OUT = CANNOT_CHANGE_AN_ATTEMPT | RECORDED_AS_VALUES


def experiment_digest(tree: ast.Module | None, source: bytes, entry: str | None) -> str:
    """The digest of an experiment file for one of its experiments (`entry` is its key in a sweep)."""
    if tree is None:
        return digest(source)
    reduced = _Reduced(entry).visit(copy.deepcopy(tree))
    return digest(ast.dump(reduced).encode("utf-8", "surrogatepass"))


class _Reduced(ast.NodeTransformer):
    def __init__(self, entry: str | None) -> None:
        self._entry = entry

    def visit_Module(self, node: ast.Module) -> ast.AST:
        if node.body and _is_text(node.body[0]):
            node.body = node.body[1:]
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if _called_name(node.func) in ("define_experiment", "replace"):
            node.keywords = [keyword for keyword in node.keywords if keyword.arg not in _LEFT_OUT]
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        return self._own_entry(node, node.targets)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        return self._own_entry(node, [node.target])

    def _own_entry(self, node: ast.Assign | ast.AnnAssign, targets: list[ast.expr]) -> ast.AST:
        sweeps = any(isinstance(target, ast.Name) and target.id == "experiments" for target in targets)
        if sweeps and isinstance(node.value, ast.Dict):
            _keep_entry(node.value, self._entry)
        return self.generic_visit(node)


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


def _called_name(function: ast.expr) -> str | None:
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else None


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
