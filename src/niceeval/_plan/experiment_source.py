"""What of an experiment file can change an attempt: its syntax tree, without what cannot, and without what is recorded
as a resolved value of its own.

Comments and layout are not in a syntax tree. In `define_experiment(...)`, and in `.replace(...)` of an experiment, the
keywords that only decide how often, how long or under which name something runs are taken out, and so are those whose
values stand in the identity by themselves, as far as nothing can read them again (see `experiment_uses`). Of a sweep's
`experiments = {...}` only the entry's own expression is kept, so that adding an entry leaves the others alone; literals
that nothing reads any more then go too. A file that another one imports keeps all its entries and literals.

Where it is in doubt whether something can change an attempt, it is kept: an attempt too many costs less than a pass
that is none.
"""

from __future__ import annotations

import ast
from collections.abc import Set

from niceeval._plan.closure import digest
from niceeval._plan.experiment_uses import ExperimentFile
from niceeval._plan.names import attributes_read, names_read, reads_by_name


def experiment_digest(
    file: ExperimentFile | None, source: bytes, entry: str | None, *, left_out: Set[str], whole: bool = False
) -> str:
    """The digest of an experiment file for one of its experiments (`entry` is its key in a sweep).

    `left_out` are keywords that nothing can read again; `whole` keeps every entry and literal: for a file that another
    one imports from. The tree is changed.
    """
    if file is None:
        return digest(source)
    try:
        # Asked before anything is taken out, which would change the answer.
        sweeps = file.sweeps
        _leave_out(file, left_out)
        if not whole:
            if sweeps:
                _keep_own_entry(file.tree, entry)
            _drop_text(file.tree)
            _drop_unread_literals(file.tree)
        return digest(ascii(_plain(file.tree)).encode())
    except RecursionError:
        return digest(source)


def _leave_out(file: ExperimentFile, left_out: Set[str]) -> None:
    for call in file.calls:
        call.keywords = [one for one in call.keywords if one.arg not in left_out or _names_values(one)]


def _keep_own_entry(tree: ast.Module, entry: str | None) -> None:
    for statement in tree.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id="experiments")], value=ast.Dict() as sweep)
                | ast.AnnAssign(target=ast.Name(id="experiments"), value=ast.Dict() as sweep)
            ) if not _names_values(sweep):
                _keep_entry(sweep, entry)
            case (
                ast.Assign(targets=[ast.Name(id="experiments")], value=ast.DictComp() as loop)
                | ast.AnnAssign(target=ast.Name(id="experiments"), value=ast.DictComp() as loop)
            ) if not _names_values(loop):
                statement.value = _without_loop(loop)


def _names_values(node: ast.AST) -> bool:
    """Whether it gives a name to a value on its way, which others may read."""
    return any(isinstance(part, ast.NamedExpr) for part in ast.walk(node))


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
    looped = {name.id for part in sweep.generators for name in ast.walk(part.target) if isinstance(name, ast.Name)}
    return sweep if looped & names_read(sweep.value) else sweep.value


def _drop_text(tree: ast.Module) -> None:
    if "__doc__" not in names_read(tree) | attributes_read(tree):
        tree.body = [statement for statement in tree.body if not _is_text(statement)]


def _drop_unread_literals(tree: ast.Module) -> None:
    """Take out `NAME = literal` where nothing that is left reads the name."""
    if reads_by_name(tree):
        return
    read = names_read(tree)
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
