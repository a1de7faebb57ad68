"""`define_experiment(...)`: one checked-in run configuration, and `.replace(...)` for a sweep of them."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from niceeval._base.arguments import Arguments, argument_place, described
from niceeval._base.errors import Place, ProjectError
from niceeval._base.json_values import path_text
from niceeval._base.places import author_place
from niceeval._discover.specs import EvalInfo, EvalSelector, HostHook
from niceeval._model.agent import Agent
from niceeval._model.failure import FailureClass
from niceeval._model.judge import JudgeConfig, judge_argument
from niceeval._model.sandbox import SandboxSpec

_KEEP: Final[Any] = object()
_MAX_FLAG_DEPTH = 50

Evals = Literal["*"] | Sequence[str] | Callable[[EvalInfo], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentDefinition:
    """What `define_experiment` returns. `place` is the author's call."""

    place: Place
    agent: Agent
    description: str | None = None
    model: str | None = None
    reasoning_effort: str | None = None
    flags: Mapping[str, Any]
    labels: Mapping[str, str]
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

    def replace(
        self,
        *,
        agent: Agent = _KEEP,
        description: str | None = _KEEP,
        model: str | None = _KEEP,
        reasoning_effort: str | None = _KEEP,
        flags: Mapping[str, Any] | None = _KEEP,
        labels: Mapping[str, str] | None = _KEEP,
        runs: int = _KEEP,
        early_exit: bool = _KEEP,
        evals: Evals = _KEEP,
        timeout: float | None = _KEEP,
        budget: float | None = _KEEP,
        max_concurrency: int | None = _KEEP,
        setup: Callable[[], Awaitable[None] | None] | None = _KEEP,
        teardown: Callable[[], Awaitable[None] | None] | None = _KEEP,
        classify_failure: Callable[[BaseException], FailureClass | None] | None = _KEEP,
        sandbox: SandboxSpec | None = _KEEP,
        reuse_sandboxes: bool = _KEEP,
        judge: JudgeConfig | None = _KEEP,
    ) -> ExperimentDefinition:
        """A copy with other values: `experiments = {size: base.replace(model=f"acme-{size}") for size in sizes}`.

        `flags` and `labels` replace the whole mapping. Raises as `define_experiment`.
        """
        given = {
            "agent": agent,
            "description": description,
            "model": model,
            "reasoning_effort": reasoning_effort,
            "flags": flags,
            "labels": labels,
            "runs": runs,
            "early_exit": early_exit,
            "evals": evals,
            "timeout": timeout,
            "budget": budget,
            "max_concurrency": max_concurrency,
            "setup": setup,
            "teardown": teardown,
            "classify_failure": classify_failure,
            "sandbox": sandbox,
            "reuse_sandboxes": reuse_sandboxes,
            "judge": judge,
        }
        kept = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "place"}
        changed = {name: value for name, value in given.items() if value is not _KEEP}
        return _built(Arguments("replace", author_place(), {**kept, **changed}))


def define_experiment(
    *,
    agent: Agent,
    description: str | None = None,
    model: str | None = None,
    reasoning_effort: str | None = None,
    flags: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    runs: int = 1,
    early_exit: bool = True,
    evals: Evals = "*",
    timeout: float | None = None,
    budget: float | None = None,
    max_concurrency: int | None = None,
    setup: Callable[[], Awaitable[None] | None] | None = None,
    teardown: Callable[[], Awaitable[None] | None] | None = None,
    classify_failure: Callable[[BaseException], FailureClass | None] | None = None,
    sandbox: SandboxSpec | None = None,
    reuse_sandboxes: bool = False,
    judge: JudgeConfig | None = None,
) -> ExperimentDefinition:
    """One run configuration: assign it to `experiment` in a file below `experiments/`, whose path is its id.

    `model` and `reasoning_effort` are passed through to `ctx.model` and `ctx.reasoning_effort`. `flags` (JSON values)
    reach the agent and the eval. `labels` are for reports only. `runs`: attempts per eval; `early_exit`: the first
    pass stops an eval's other attempts. `evals`: "*", a list of id prefixes, or a predicate over EvalInfo. `timeout`:
    seconds for an attempt of an eval that sets none. `budget`: US dollars that this experiment may cost; nothing more
    starts when it is used up. `max_concurrency`: attempts of this experiment at the same time.
    `setup` and `teardown` run once for the experiment, on the host, around all its attempts. `classify_failure(error)`
    says of an error of `send` whether it is safe to retry or what it dooms, before the agent's own is asked. `sandbox`:
    where a sandbox agent's commands run (`niceeval.sandbox`); the config's where nothing is said. `reuse_sandboxes`
    hands a sandbox on to the next attempt instead of making a new one; such results are marked, and never carried.
    `judge`: which model judges in evals that name none; the config's where nothing is said.

    Raises ProjectError (`bad-argument`, `flags-not-json`).
    """
    values = {
        "agent": agent,
        "description": description,
        "model": model,
        "reasoning_effort": reasoning_effort,
        "flags": flags,
        "labels": labels,
        "runs": runs,
        "early_exit": early_exit,
        "evals": evals,
        "timeout": timeout,
        "budget": budget,
        "max_concurrency": max_concurrency,
        "setup": setup,
        "teardown": teardown,
        "classify_failure": classify_failure,
        "sandbox": sandbox,
        "reuse_sandboxes": reuse_sandboxes,
        "judge": judge,
    }
    return _built(Arguments("define_experiment", author_place(), values))


def _built(arguments: Arguments) -> ExperimentDefinition:
    labels = arguments.mapping("labels", lambda value: isinstance(value, str), "text")
    return ExperimentDefinition(
        place=arguments.place,
        agent=_agent(arguments),
        description=arguments.text("description"),
        model=arguments.text("model"),
        reasoning_effort=arguments.text("reasoning_effort"),
        flags=_flags(arguments),
        labels={key: str(value) for key, value in labels.items()},
        runs=arguments.required_count("runs"),
        early_exit=arguments.flag("early_exit"),
        evals=_evals(arguments),
        timeout=arguments.seconds("timeout"),
        budget=arguments.amount("budget"),
        max_concurrency=arguments.count("max_concurrency"),
        setup=arguments.function("setup"),
        teardown=arguments.function("teardown"),
        classify_failure=arguments.function("classify_failure"),
        sandbox=sandbox_argument(arguments),
        reuse_sandboxes=arguments.flag("reuse_sandboxes"),
        judge=judge_argument(arguments),
    )


def _agent(arguments: Arguments) -> Agent:
    agent = arguments["agent"]
    if isinstance(agent, Agent):
        return agent
    name = getattr(agent, "__name__", None)
    fix = f"agent={name}(...)" if callable(agent) and name else "agent=define_agent(...), or a factory that returns it"
    raise arguments.error("agent", f"is {described(agent)}; it is an Agent", fix)


def sandbox_argument(arguments: Arguments) -> SandboxSpec | None:
    """The argument `sandbox`: what a factory of `niceeval.sandbox` made, or None."""
    spec = arguments["sandbox"]
    if spec is None or isinstance(spec, SandboxSpec):
        return spec
    name = getattr(spec, "__name__", None)
    fix = f"sandbox={name}(...)" if callable(spec) and name else 'sandbox=docker_sandbox(image="...")'
    raise arguments.error("sandbox", f"is {described(spec)}; it is made by a factory of niceeval.sandbox", fix)


def _evals(arguments: Arguments) -> EvalSelector:
    evals = arguments["evals"]
    if evals == "*":
        return "*"
    if isinstance(evals, str):
        raise arguments.error("evals", f'is the text "{evals}"', f'evals=["{evals}"] for what is under that prefix')
    if callable(evals):
        return evals  # type: ignore[no-any-return]
    return arguments.names("evals")


def _flags(arguments: Arguments) -> dict[str, Any]:
    flags = arguments.mapping("flags", lambda _: True, "JSON values")
    return {key: _json_copy(value, (key,), arguments) for key, value in flags.items()}


def _json_copy(value: object, path: tuple[str | int, ...], arguments: Arguments) -> Any:
    """The same JSON, copied, so that nothing changes it while the run is on."""
    if len(path) > _MAX_FLAG_DEPTH:
        raise _not_json(f"deeper than {_MAX_FLAG_DEPTH} levels", path[:4], arguments)
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise _not_json(f"it is {value}", path, arguments)
        return value
    if type(value) is list:
        return [_json_copy(item, (*path, index), arguments) for index, item in enumerate(value)]
    if type(value) is dict:
        return {
            _key(key, path, arguments): _json_copy(item, (*path, str(key)), arguments) for key, item in value.items()
        }
    raise _not_json(f"it is {described(value)}", path, arguments)


def _key(key: object, path: tuple[str | int, ...], arguments: Arguments) -> str:
    if isinstance(key, str):
        return key
    raise _not_json(f"it has the key {described(key)}, and keys are text", path, arguments)


def _not_json(problem: str, path: tuple[str | int, ...], arguments: Arguments) -> ProjectError:
    return ProjectError(
        "flags-not-json",
        place=argument_place(arguments.place, "flags"),
        path=path_text("", path).removeprefix("."),
        problem=problem,
    )
