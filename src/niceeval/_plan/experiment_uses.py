"""What of an experiment can be read again by the code around it, so that it may reach the agent.

An experiment is an object like any other: `bot(base.labels["prompt"])` gives an agent what otherwise only labels a
report. Keywords are taken out of an experiment's source only where every use of the object is seen: it is a name that
is bound once, holds an experiment after the file ran, and is used for `.replace(...)`, for an attribute by its name, or
as an entry. Everything else counts as a use that is not understood.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType
from typing import Any

from niceeval._discover.define_experiment import ExperimentDefinition
from niceeval._plan.names import attributes_read, bindings, reads_by_name

CANNOT_CHANGE_AN_ATTEMPT = frozenset(
    {"description", "labels", "runs", "early_exit", "evals", "timeout", "budget", "max_concurrency", "reuse_sandboxes"}
)
RECORDED_AS_VALUES = frozenset({"model", "reasoning_effort", "flags", "sandbox", "judge"})
_HARMLESS = (ExperimentDefinition, str, int, float, bool, type(None), FunctionType)
_FOLDER = "experiments"


@dataclass(frozen=True)
class ExperimentFile:
    """A file below `experiments/`: its tree, and the values of its names after it ran (none where it did not)."""

    tree: ast.Module
    values: Mapping[str, Any]

    @cached_property
    def known(self) -> frozenset[str]:
        """The names that stand for one experiment, and never for anything else."""
        if _has_star(self.tree):
            return frozenset()
        holding = {name for name, value in self.values.items() if isinstance(value, ExperimentDefinition)}
        return frozenset(name for name in holding if self._bound[name] == 1)

    @cached_property
    def sweeps(self) -> bool:
        """Whether `experiments = {...}` stands at the top, and nothing else in the file has to do with the name."""
        named = [node for node in ast.walk(self.tree) if isinstance(node, ast.Name) and node.id == "experiments"]
        at_top = [value for target, value in self._assigned() if target == "experiments"]
        return len(named) == 1 and self._bound["experiments"] == 1 and len(at_top) == 1 and not self.reads_by_name

    @cached_property
    def reads_by_name(self) -> bool:
        return reads_by_name(self.tree)

    @cached_property
    def calls(self) -> frozenset[ast.Call]:
        """The `define_experiment(...)` and `.replace(...)` that give an experiment to a known name, or are an entry."""
        return frozenset(node for node in self._understood if isinstance(node, ast.Call))

    @cached_property
    def keeps_all(self) -> bool:
        """Whether an experiment may be used in a way that is not understood."""
        return self.reads_by_name or not self._imports_are_harmless() or not self._names_are_understood()

    @cached_property
    def reads(self) -> frozenset[str]:
        """Attributes that are read, of whatever."""
        return frozenset(attributes_read(self.tree))

    @cached_property
    def _bound(self) -> Mapping[str, int]:
        return bindings(self.tree)

    @cached_property
    def _understood(self) -> frozenset[ast.expr]:
        return frozenset(
            node
            for target, value in self._assigned()
            for one in self._given(target, value)
            for node in self._chain(one)
        )

    def _assigned(self) -> Iterator[tuple[str, ast.expr]]:
        for statement in self.tree.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    yield name, value
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    yield name, value

    def _given(self, target: str, value: ast.expr) -> list[ast.expr]:
        """The expressions that are experiments, where a name at the top is assigned."""
        if target in self.known:
            return [value]
        if target != "experiments" or not self.sweeps:
            return []
        match value:
            case ast.Dict(values=values):
                return values
            case ast.DictComp(value=entry):
                return [entry]
        return []

    def _chain(self, node: ast.expr) -> list[ast.expr]:
        """`base.replace(...).replace(...)`: its calls and its name; nothing where it is something else."""
        match node:
            case ast.Name(id=name) if name in self.known:
                return [node]
            case ast.Call(func=function) if self._defines(function):
                return [node]
            case ast.Call(func=ast.Attribute(attr="replace", value=base)):
                rest = self._chain(base)
                return [node, *rest] if rest else []
        return []

    def _defines(self, function: ast.expr) -> bool:
        """Whether this is niceeval's own `define_experiment`."""
        match function:
            case ast.Name(id=name) if self._bound[name] == 1:
                return any(
                    (alias.asname or alias.name) == name and alias.name == "define_experiment"
                    for statement in self.tree.body
                    if isinstance(statement, ast.ImportFrom) and statement.module == "niceeval" and not statement.level
                    for alias in statement.names
                )
            case ast.Attribute(attr="define_experiment", value=ast.Name(id=name)) if self._bound[name] == 1:
                return any(
                    alias.name == "niceeval" and (alias.asname or alias.name) == name
                    for statement in self.tree.body
                    if isinstance(statement, ast.Import)
                    for alias in statement.names
                )
        return False

    def _imports_are_harmless(self) -> bool:
        """Whether what comes from other experiment files is experiments by their names, and plain values."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import) and any(_is_experiments(alias.name) for alias in node.names):
                return False
            if isinstance(node, ast.ImportFrom) and (node.level or _is_experiments(node.module or "")):
                names = [alias.asname or alias.name for alias in node.names]
                if not all(name in self.values and isinstance(self.values[name], _HARMLESS) for name in names):
                    return False
                if any(
                    isinstance(self.values[name], ExperimentDefinition) and name not in self.known for name in names
                ):
                    return False
        return True

    def _names_are_understood(self) -> bool:
        attributes = {
            id(node.value) for node in ast.walk(self.tree) if isinstance(node, ast.Attribute) and node.attr != "replace"
        }
        understood = {id(node) for node in self._understood} | attributes
        loads = (node for node in ast.walk(self.tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
        return all(id(node) in understood for node in loads if node.id in self.known or node.id == "experiments")


def keywords_left_out(files: Iterable[ExperimentFile]) -> frozenset[str]:
    """The keywords that no code in these files, which know of each other's experiments, can read again."""
    files = list(files)
    if any(file.keeps_all for file in files):
        return frozenset()
    return (CANNOT_CHANGE_AN_ATTEMPT | RECORDED_AS_VALUES).difference(*(file.reads for file in files))


def _is_experiments(module: str) -> bool:
    return module.partition(".")[0] == _FOLDER


def _has_star(tree: ast.Module) -> bool:
    return any(alias.name == "*" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names)
