"""Which checks of an eval never ran: read from its source as it was stored, without running anything."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TypeAlias

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

_ON_EVERY_RECEIVER = """
    succeeded parked message_includes called_tool not_called_tool tool_order used_no_tools max_tool_calls loaded_skill
    called_subagent no_failed_actions event not_event event_order events_satisfy max_tokens max_cost
"""
CHECKS = frozenset([*_ON_EVERY_RECEIVER.split(), "output_equals", "output_matches", "check", "require"])
"""The calls that record an assertion, on `t`, a session or a turn."""

MAX_SOURCE = 1_000_000


@dataclass(frozen=True, slots=True)
class Check:
    """A check in an eval's source: its line (from 1) and the call as it is written, cut by nobody yet."""

    line: int
    text: str


def checks_not_reached(source: str, reached: Collection[int], eval_name: str) -> list[Check]:
    """The checks of the eval in `source` on whose lines nothing was recorded.

    `reached` are the lines that something was recorded at; `eval_name` is the id's last part, which names the function
    where several could be meant. Empty where the source is no Python or holds no such function.
    """
    function = _eval_function(_parsed(source), reached, eval_name)
    if function is None:
        return []
    found: dict[int, Check] = {}
    for node in _own_nodes(function):
        if node.lineno not in reached and _is_check(node, _receivers(function)):
            found.setdefault(node.lineno, Check(node.lineno, ast.get_source_segment(source, node) or ""))
    return [found[line] for line in sorted(found)]


def _parsed(source: str) -> ast.Module | None:
    if len(source) > MAX_SOURCE:
        return None
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _eval_function(module: ast.Module | None, reached: Collection[int], eval_name: str) -> _Function | None:
    nodes = ast.walk(module) if module is not None else ()
    functions = [node for node in nodes if isinstance(node, _FUNCTIONS) and _is_eval(node)]
    holding = [function for function in functions if any(_holds(function, line) for line in reached)]
    named = [function for function in functions if function.name == eval_name]
    for candidates in (holding, named, functions):
        if len(candidates) == 1:
            return candidates[0]
    return None


def _is_eval(node: ast.AST) -> bool:
    if not isinstance(node, _Function):
        return False
    return any(
        _name(item.func if isinstance(item, ast.Call) else item) == "define_eval" for item in node.decorator_list
    )


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _holds(function: _Function, line: int) -> bool:
    return function.lineno <= line <= (function.end_lineno or function.lineno)


def _own_nodes(function: _Function) -> Iterator[ast.expr | ast.stmt]:
    """The statements and expressions of the function, without those of functions inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, (ast.expr, ast.stmt)):
            yield node
        waiting.extend(ast.iter_child_nodes(node))


def _receivers(function: _Function) -> set[str]:
    """The names that hold `t`, a session or a turn: the first parameter, and whatever is made from one of them."""
    parameters = [*function.args.posonlyargs, *function.args.args]
    names = {parameters[0].arg} if parameters else set()
    made = [
        (target.id, _root(node.value))
        for node in _own_nodes(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    while True:
        more = {name for name, root in made if root in names} - names
        if not more:
            return names
        names |= more


def _root(node: ast.expr) -> str:
    """The name that a chain of calls, attributes and awaits begins with."""
    while not isinstance(node, ast.Name):
        if isinstance(node, (ast.Attribute, ast.Await, ast.Starred, ast.Subscript)):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            return ""
    return node.id


def _is_check(node: ast.AST, receivers: set[str]) -> bool:
    if isinstance(node, ast.Assert):
        return True
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CHECKS
        and _root(node.func.value) in receivers
    )
