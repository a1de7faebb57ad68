"""What one loaded file defines: its evals, or its experiments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import CellType, FunctionType

from niceeval._base.arguments import described
from niceeval._base.errors import NiceevalError, Place, ProjectError
from niceeval._base.places import shown_path
from niceeval._discover.cases import Found, expand
from niceeval._discover.define_eval import ATTRIBUTE, CollectedEval
from niceeval._discover.define_experiment import ExperimentDefinition
from niceeval._discover.ids import id_problem
from niceeval._discover.loading import Loaded
from niceeval._discover.specs import EvalSpec, ExperimentSpec

_RESERVED = "list"
_EMPTY = CellType()


def evals_in(loaded: Loaded, id: str, file: Path, path: str) -> tuple[list[EvalSpec], list[NiceevalError]]:
    """The evals of a file whose path gives `id`: the only one has it, several have `<id>/<name in the module>`."""
    if not loaded.evals:
        return [], [ProjectError("no-eval", place=Place(shown_path(file), 1, 1))]
    specs: list[EvalSpec] = []
    problems: list[NiceevalError] = []
    for one in loaded.evals:
        name, function = _bound(one, loaded)
        own_id = id if len(loaded.evals) == 1 else f"{id}/{name}"
        place = _place_in(file, one)
        why = id_problem(own_id)
        if why:
            problems.append(ProjectError("bad-id", place=place, id=own_id, why=why))
            continue
        found = Found(function=function, definition=one.definition, id=own_id, file=file, path=path, place=place)
        expanded, bad = expand(found)
        specs += expanded
        problems += bad
    return specs, problems


def _bound(one: CollectedEval, loaded: Loaded) -> tuple[str, Callable[..., Awaitable[None]]]:
    """What stands in the module, and under which name: the function, or what a decorator above @define_eval made of it.

    A function that is bound to no name there any more goes by its own.
    """
    namespace = vars(loaded.module)
    names = [name for name, value in namespace.items() if value is one.function or _is_made_of(value, one)]
    own = one.function.__name__
    if not names and _holds(namespace.get(own), one):
        names = [own]
    if not names:
        return own, one.function
    name = own if own in names else names[0]
    return name, namespace[name]


def _is_made_of(value: object, one: CollectedEval) -> bool:
    try:
        return callable(value) and object.__getattribute__(value, "__dict__").get(ATTRIBUTE) is one.definition
    except Exception:  # noqa: BLE001 - a proxy that stands for nothing yet raises whatever it likes; it is no eval
        return False


def _holds(value: object, one: CollectedEval) -> bool:
    """Whether it is a function around the eval's, as a decorator without functools.wraps returns it."""
    cells = value.__closure__ or () if isinstance(value, FunctionType) else ()
    return any(cell.cell_contents is one.function for cell in cells if cell != _EMPTY)


def _place_in(file: Path, one: CollectedEval) -> Place:
    """Where an eval begins in its own file: one that was made elsewhere begins where that was asked for."""
    shown = shown_path(file)
    return one.definition.place if one.definition.place.file == shown else Place(shown, one.line)


def experiments_in(loaded: Loaded, id: str, file: Path, path: str) -> tuple[list[ExperimentSpec], list[NiceevalError]]:
    """The experiments of a file whose path gives `id`: `experiment`, and the entries of `experiments`."""
    single = vars(loaded.module).get("experiment")
    several = vars(loaded.module).get("experiments")
    place = Place(shown_path(file), 1, 1)
    if single is None and several is None:
        return [], [ProjectError("no-experiment", place=place)]
    entries: list[tuple[str, str, object]] = [] if single is None else [(id, "experiment", single)]
    problems: list[NiceevalError] = []
    if isinstance(several, Mapping):
        entries += [(f"{id}/{key}", f"experiments[{key!r}]", value) for key, value in several.items()]
    elif several is not None:
        problems.append(
            _not_experiment(id, "experiments", several, "a mapping of key to define_experiment(...)", place)
        )
    specs: list[ExperimentSpec] = []
    for own_id, name, value in entries:
        problem = _entry_problem(id, own_id, name, value, place)
        if problem is not None:
            problems.append(problem)
        elif isinstance(value, ExperimentDefinition):
            specs.append(_experiment(own_id, path, value))
    return specs, problems


def _entry_problem(id: str, own_id: str, name: str, value: object, place: Place) -> NiceevalError | None:
    why = "`niceeval exp list` is a command" if own_id == _RESERVED else id_problem(own_id)
    if why is None and own_id.count("/") > id.count("/") + 1:
        why = "a key is one path segment"
    if why:
        return ProjectError("bad-id", place=place, id=own_id, why=why)
    if not isinstance(value, ExperimentDefinition):
        return _not_experiment(id, name, value, "made by define_experiment(...)", place)
    return None


def _not_experiment(id: str, name: str, value: object, wanted: str, place: Place) -> ProjectError:
    return ProjectError(
        "bad-argument",
        place=place,
        call=id,
        argument=name,
        problem=f"is {described(value)}; it is {wanted}",
        fix=f"write {name.partition('[')[0]} = ...",
    )


def _experiment(id: str, path: str, definition: ExperimentDefinition) -> ExperimentSpec:
    values = {name: getattr(definition, name) for name in definition.__dataclass_fields__}
    return ExperimentSpec(id=id, path=path, **values)
