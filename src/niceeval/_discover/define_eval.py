"""`@define_eval`: marks a function as an eval and keeps what was said about it."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from niceeval._base.arguments import Arguments, argument_place, described, is_coroutine_function
from niceeval._base.errors import NiceevalError, Place, ProjectError
from niceeval._base.places import author_place
from niceeval._discover.ids import segment_problem
from niceeval._model.diff_rules import DEFAULT_IGNORE, DiffRules
from niceeval._model.ignoring import ALWAYS_IGNORED
from niceeval._model.judge import JudgeConfig, judge_argument

if TYPE_CHECKING:
    from niceeval._drive.context import EvalContext
    from niceeval._reporters.protocol import Reporter

    PlainEval = TypeVar("PlainEval", bound=Callable[[EvalContext], Awaitable[None]])
    CaseEval = TypeVar("CaseEval", bound=Callable[[EvalContext, Any], Awaitable[None]])

ATTRIBUTE: Final = "__niceeval_eval__"

_WANTED = {1: "it takes one, `t`", 2: "with cases= it takes two, `t` and the row"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalDefinition:
    """What `define_eval` was told; it hangs on the function as `__niceeval_eval__`."""

    place: Place
    description: str | Callable[[Any], str] | None
    tags: tuple[str, ...]
    cases: Sequence[Any] | Mapping[str, Any] | None
    timeout: float | None
    metadata: Mapping[str, Any]
    reporters: tuple[object, ...] = ()
    diff: DiffRules = field(default_factory=DiffRules)
    judge: JudgeConfig | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedEval:
    """One use of `define_eval` while a file is loaded.

    `module` is the name of the module whose top level was running (an imported one has its own), `line` the line there.
    """

    function: Callable[..., Awaitable[None]]
    definition: EvalDefinition
    module: str
    line: int


collected: ContextVar[list[CollectedEval] | None] = ContextVar("collected", default=None)
"""While a file is loaded: the evals that were made so far, also those whose name was used again later."""


@overload
def define_eval(
    *,
    description: str | None = None,
    tags: Sequence[str] = (),
    timeout: float | None = None,
    metadata: Mapping[str, Any] | None = None,
    reporters: Sequence[Reporter] = (),
    diff: DiffRules | None = None,
    judge: JudgeConfig | None = None,
) -> Callable[[PlainEval], PlainEval]: ...


@overload
def define_eval(
    *,
    cases: Sequence[Any] | Mapping[str, Any],
    description: str | Callable[[Any], str] | None = None,
    tags: Sequence[str] = (),
    timeout: float | None = None,
    metadata: Mapping[str, Any] | None = None,
    reporters: Sequence[Reporter] = (),
    diff: DiffRules | None = None,
    judge: JudgeConfig | None = None,
) -> Callable[[CaseEval], CaseEval]: ...


def define_eval(*positional: object, **given: Any) -> Callable[[Any], Any]:
    """Mark an `async def` as an eval. Its id comes from the file's path, never from here.

    `description`: one line for people; with `cases` also a function of the row. `tags`: for `--tag`. `timeout`:
    seconds for one attempt, above the experiment's. `metadata`: anything an experiment's `evals=` predicate wants to
    know. `reporters`: objects that are told what happens to this eval (`niceeval.reporters`). `diff`: which paths count
    as changes of a sandbox agent (`niceeval.sandbox.DiffRules`). `judge`: which model judges here, before the
    experiment's and the project's. `cases`: a sequence of rows (ids 0000, 0001, ...) or a mapping (its keys are the
    ids); the function then takes the row as its second parameter, converted where that is annotated with a TypedDict,
    dataclass, msgspec Struct or pydantic model. The decorated function itself is returned.

    Raises ProjectError: `bad-argument`, `empty-cases`, `bad-case-key`, and, when it decorates, `not-async` and
    `wrong-parameters`.
    """
    definition = _definition(author_place(), positional, given)

    def decorate(function: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        _require_eval_function(function, definition)
        setattr(function, ATTRIBUTE, definition)
        found = collected.get()
        if found is not None:
            module, line = _running_module()
            found.append(CollectedEval(function=function, definition=definition, module=module, line=line))
        return function

    return decorate


def _running_module() -> tuple[str, int]:
    """The module whose top level is being run, the innermost of several, and the line that it has come to."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "<module>" and "__name__" in frame.f_globals:
            return str(frame.f_globals["__name__"]), frame.f_lineno
        frame = frame.f_back
    return "", 0


_DEFAULTS: Final[Mapping[str, Any]] = {
    "description": None,
    "tags": (),
    "cases": None,
    "timeout": None,
    "metadata": None,
    "reporters": (),
    "diff": None,
    "judge": None,
}


def _definition(place: Place, positional: tuple[object, ...], given: Mapping[str, Any]) -> EvalDefinition:
    arguments = Arguments("define_eval", place, {**_DEFAULTS, **given})
    if positional:
        raise arguments.error(
            "(...)", f"takes keyword arguments only, not {described(positional[0])}", "write `@define_eval(...)`"
        )
    unknown = [name for name in given if name not in _DEFAULTS]
    if unknown:
        raise arguments.error(unknown[0], "does not exist", f"it takes {', '.join(_DEFAULTS)}")
    cases = given.get("cases")
    if "cases" in given:
        _require_cases(arguments, cases)
    description = given.get("description")
    if not callable(description) or cases is None:
        description = arguments.text("description")
    return EvalDefinition(
        place=place,
        description=description,
        tags=arguments.names("tags"),
        cases=cases,
        timeout=arguments.seconds("timeout"),
        metadata=arguments.mapping("metadata", lambda _: True, "anything"),
        reporters=arguments.reporters("reporters"),
        diff=_diff_rules(arguments),
        judge=judge_argument(arguments),
    )


def _diff_rules(arguments: Arguments) -> DiffRules:
    rules = arguments["diff"]
    fix = 'diff=DiffRules(ignore=("*.lock",))'
    if rules is None:
        return DiffRules()
    if not isinstance(rules, DiffRules):
        raise arguments.error("diff", f"is {described(rules)}; it is a DiffRules", fix)
    given: dict[str, object] = {"include": rules.include, "ignore": rules.ignore}
    for name, patterns in given.items():
        if isinstance(patterns, str) or not isinstance(patterns, Sequence):
            raise arguments.error("diff", f"has {name}={described(patterns)}; it is a list of patterns", fix)
        for pattern in patterns:
            if not isinstance(pattern, str) or not pattern.strip("./ ") or "\0" in pattern:
                raise arguments.error("diff", f"has {described(pattern)} in {name}; it is a pattern of paths", fix)
    known = [pattern for pattern in DEFAULT_IGNORE if pattern not in ALWAYS_IGNORED]
    strange = next((pattern for pattern in rules.include if pattern not in known), None)
    if strange is not None:
        problem = f"includes {described(strange)}, which nothing leaves out"
        raise arguments.error("diff", problem, f"include some of {', '.join(known)}")
    return DiffRules(include=tuple(rules.include), ignore=tuple(rules.ignore))


def _require_cases(arguments: Arguments, cases: object) -> None:
    if isinstance(cases, (str, bytes)) or not isinstance(cases, (Sequence, Mapping)):
        fix = "cases=list(...)" if hasattr(cases, "__iter__") else "cases=[...] or cases={...}"
        if isinstance(cases, (str, bytes)):
            fix = f"cases=load_yaml({cases!r}), or another loader of niceeval.loaders"
        raise arguments.error("cases", f"is {described(cases)}; it is a sequence or a mapping of rows", fix)
    place = argument_place(arguments.place, "cases") if not cases else arguments.place
    if not cases:
        raise ProjectError("empty-cases", place=place)
    for key in cases if isinstance(cases, Mapping) else ():
        problem = case_key_problem(key, arguments.place)
        if problem is not None:
            raise problem


def case_key_problem(key: object, place: Place) -> ProjectError | None:
    """`bad-case-key` where a key of `cases=` in the call at `place` cannot be the end of an id."""
    why = segment_problem(key) if isinstance(key, str) else f"it is {described(key)}, not text"
    if why is None:
        return None
    shown = key[:80] if isinstance(key, str) else described(key)
    return ProjectError("bad-case-key", place=argument_place(place, "cases"), key=shown, why=why)


def _require_eval_function(function: Any, definition: EvalDefinition) -> None:
    name = getattr(function, "__name__", None)
    if name is None or not callable(function):
        raise Arguments("define_eval", definition.place, {}).error(
            "(...)", f"decorates {described(function)}; it decorates a function", "write `async def` below it"
        )
    if ATTRIBUTE in getattr(function, "__dict__", ()) and not hasattr(function, "__wrapped__"):
        raise Arguments("define_eval", definition.place, {}).error(
            "(...)", f"decorates {name}, which is an eval already", "write a second function, or one @define_eval"
        )
    if not is_coroutine_function(function):
        raise _not_async(function, name, definition)
    wanted = 1 if definition.cases is None else 2
    fewest, most = _positional_parameters(function)
    if not fewest <= wanted <= most:
        found = f"{fewest} parameter" + ("" if fewest == 1 else "s")
        signature = f"async def {name}(t: EvalContext{'' if wanted == 1 else ', row: dict[str, Any]'}) -> None"
        raise ProjectError(
            "wrong-parameters",
            place=definition.place,
            name=name,
            found=found if fewest else "no parameter",
            wanted=_WANTED[wanted],
            signature=signature,
        )


def _not_async(function: Any, name: str, definition: EvalDefinition) -> NiceevalError:
    generator = bool(getattr(getattr(function, "__code__", None), "co_flags", 0) & 0x200)
    return ProjectError(
        "not-async",
        place=definition.place,
        name=name,
        found="an async generator" if generator else "a plain function",
        fix="take the `yield` out" if generator else f"write `async def {name}`",
    )


def _positional_parameters(function: Any) -> tuple[int, float]:
    """The fewest and the most positional arguments it can be called with."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = function.__code__
    optional = len(function.__defaults__ or ())
    required_keywords = code.co_kwonlyargcount - len(function.__kwdefaults__ or {})
    most = float("inf") if code.co_flags & 0x04 else code.co_argcount
    if required_keywords:
        return code.co_argcount - optional + required_keywords, -1
    return code.co_argcount - optional, most
