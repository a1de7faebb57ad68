"""What discovery hands on: evals (one per case), experiments, the configuration, and the project that holds them."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from niceeval._base.errors import NiceevalError, Place
from niceeval._base.places import shown_path
from niceeval._model.diff_rules import DiffRules
from niceeval._model.judge import JudgeConfig

if TYPE_CHECKING:
    from niceeval._evidence.prices import Price
    from niceeval._model.agent import Agent
    from niceeval._model.failure import FailureClass
from niceeval._model.sandbox import SandboxSpec


class Missing(enum.Enum):
    """The type of `MISSING`."""

    MISSING = "MISSING"


MISSING: Final = Missing.MISSING
"""Stands where an eval has no row: None is a row like any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalInfo:
    """What an experiment's `evals=` predicate sees of one eval (each case of a fan-out is one).

    `path` is relative to the project root, with `/`; `description` is already the text for this case.
    """

    id: str
    path: str
    tags: tuple[str, ...]
    description: str | None
    metadata: Mapping[str, Any]


EvalSelector: TypeAlias = Literal["*"] | tuple[str, ...] | Callable[[EvalInfo], bool]
"""Every eval, id prefixes (an exact id, or everything under id + "/"), or a predicate."""

HostHook: TypeAlias = Callable[[], Awaitable[None] | None]
"""An experiment's `setup` or `teardown`: no argument, runs on the host; may be a plain or an async function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSpec:
    """One eval, or one case of a fan-out eval.

    `file` is absolute, `path` the same relative to the project root with `/`; `line` and `column` (from 1) are where
    the definition begins. `row` is the converted row, or MISSING, and `given` the same as its author gave it. `base` is
    the id without the case key `case`. `timeout` is in seconds; `reporters` have a `handle`.
    """

    id: str
    function: Callable[..., Awaitable[None]]
    file: Path
    path: str
    line: int
    column: int
    base: str
    case: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    timeout: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    row: object = MISSING
    given: object = MISSING
    reporters: tuple[object, ...] = ()
    diff: DiffRules = field(default_factory=DiffRules)
    judge: JudgeConfig | None = None

    @property
    def place(self) -> Place:
        """Where the definition begins."""
        return Place(shown_path(self.file), self.line, self.column)

    def info(self) -> EvalInfo:
        """What a predicate may see of it."""
        return EvalInfo(
            id=self.id, path=self.path, tags=self.tags, description=self.description, metadata=self.metadata
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentSpec:
    """One checked-in run configuration. `path` is relative to the project root; `place` is the author's call."""

    id: str
    path: str
    place: Place
    agent: Agent
    description: str | None = None
    model: str | None = None
    reasoning_effort: str | None = None
    flags: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    runs: int = 1
    early_exit: bool = True
    evals: EvalSelector = "*"
    timeout: float | None = None
    budget: float | None = None
    max_concurrency: int | None = None
    setup: HostHook | None = None
    teardown: HostHook | None = None
    classify_failure: Callable[[BaseException], FailureClass | None] | None = None
    sandbox: SandboxSpec | None = None
    reuse_sandboxes: bool = False
    judge: JudgeConfig | None = None

    @property
    def group(self) -> str:
        """The folder below `experiments/`, with `/`; empty for a file that lies in it directly."""
        return self.id.rpartition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSpec:
    """The project's defaults, from `niceeval_config.py`. `timeout` is in seconds; `reporters` have a `handle`."""

    name: str | None = None
    max_concurrency: int | None = None
    timeout: float | None = None
    pricing: Mapping[str, Price] = field(default_factory=dict)
    reporters: tuple[object, ...] = ()
    sandbox: SandboxSpec | None = None
    judge: JudgeConfig | None = None


def judge_of(spec: EvalSpec, experiment: ExperimentSpec, shared: JudgeConfig | None) -> JudgeConfig | None:
    """Which model judges where a call names none: the eval's, else the experiment's, else the project's `shared`."""
    return spec.judge or experiment.judge or shared


def sandbox_of(experiment: ExperimentSpec, config: ConfigSpec) -> SandboxSpec | None:
    """The experiment's sandbox, else the config's; a direct agent has none."""
    return (experiment.sandbox or config.sandbox) if experiment.agent.kind == "sandbox" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Everything that was found. `evals` are in the order of their `base` ids (cases as their author ordered them),
    `experiments` of theirs.

    `problems` are files that could not be used (the rest was loaded), `problem_files` the file of each, from the root,
    and `broken` those files once each;
    `config_problem` is the one with the configuration itself, without which nothing should be run. `warnings` harm
    nothing yet. `secrets` are values that must not appear in results or on a terminal.
    """

    root: Path
    config: ConfigSpec
    evals: tuple[EvalSpec, ...]
    experiments: tuple[ExperimentSpec, ...]
    problems: tuple[NiceevalError, ...] = ()
    problem_files: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    config_problem: NiceevalError | None = None
    warnings: tuple[NiceevalError, ...] = ()
    secrets: frozenset[str] = frozenset()
