"""A plain `assert` that failed: named after its source, with both sides of a comparison where they can be had.

The sides are evaluated once more, in the frame that raised, and only where that runs no call: names, attributes, items
and constants.
"""

from __future__ import annotations

import ast
import functools
import linecache
from pathlib import Path
from types import FrameType, TracebackType

from niceeval._base.callsite import CallSite
from niceeval._base.plain_text import cut_text, safe_repr
from niceeval._drive.faults import asserted_site, error_text
from niceeval._judge.evaluation import Evaluation

MAX_SHOWN = 500
MAX_NAME = 200

_QUIET = (
    ast.Name,
    ast.Attribute,
    ast.Constant,
    ast.Subscript,
    ast.Slice,
    ast.Tuple,
    ast.List,
    ast.Dict,
    ast.Set,
    ast.UnaryOp,
    ast.USub,
    ast.Load,
)
_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}


def failed_assert(error: AssertionError, root: Path) -> tuple[str, CallSite, Evaluation] | None:
    """Name, place and evaluation of the project's own assert; None where the error came from elsewhere."""
    site = asserted_site(error, root)
    if site is None:
        return None
    source = "".join(linecache.getlines(site.file))
    statement = _statement(source, site)
    name = "assert"
    message = error_text(error).removeprefix("AssertionError").removeprefix(": ")
    expected, received = "the assertion holds", "it does not"
    if statement is not None:
        name = cut_text(" ".join((ast.get_source_segment(source, statement) or name).split()), MAX_NAME)
        expected, received = _sides(statement.test, _innermost(error.__traceback__)) or (expected, received)
    return name, site, Evaluation(expected=expected, received=received, detail=message or None)


def _sides(test: ast.expr, frame: FrameType | None) -> tuple[str, str] | None:
    if frame is None or not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    left, right = test.left, test.comparators[0]
    if not (_is_quiet(left) and _is_quiet(right)):
        return None
    try:
        shown = [safe_repr(_value(side, frame), MAX_SHOWN) for side in (left, right)]
    except Exception:  # noqa: BLE001 - the author's own objects; then the sides are not shown
        return None
    return f"{_SIGNS[type(test.ops[0])]} {shown[1]}", shown[0]


def _value(side: ast.expr, frame: FrameType) -> object:
    return eval(compile(ast.Expression(side), "<assert>", "eval"), frame.f_globals, frame.f_locals)


def _is_quiet(node: ast.expr) -> bool:
    return all(isinstance(part, _QUIET) for part in ast.walk(node))


def _statement(source: str, site: CallSite) -> ast.Assert | None:
    """The assert statement that covers a place."""
    place = (site.line, (site.column or 1) - 1)
    for node in _asserts(source):
        end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
        if (node.lineno, node.col_offset) <= place < end:
            return node
    return None


@functools.lru_cache(maxsize=16)
def _asserts(source: str) -> tuple[ast.Assert, ...]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.Assert))


def _innermost(traceback: TracebackType | None) -> FrameType | None:
    frame = None
    while traceback is not None:
        frame, traceback = traceback.tb_frame, traceback.tb_next
    return frame
