"""What a selector means: experiments by id or group, evals by id prefix, tag, or an experiment's own `evals=`."""

from __future__ import annotations

import contextlib
import difflib
import shlex
import sys
from collections.abc import Iterable, Sequence

from niceeval._base.errors import NiceevalError, ProjectError, SelectionError, error_text
from niceeval._discover.specs import EvalSpec, ExperimentSpec, Project

_MAX_NAMED = 3


def under(id: str, prefix: str) -> bool:
    """Whether an id is `prefix` or lies below it: `sql` holds `sql/0001`, and never `sqlite`."""
    return id == prefix or id.startswith(prefix + "/")


def close_names(word: str, names: Iterable[str], limit: int = 3) -> list[str]:
    """The names a person may have meant, nearest first."""
    return difflib.get_close_matches(word, sorted(set(names)), n=limit, cutoff=0.6)


def experiments_matching(project: Project, selector: str | None) -> list[ExperimentSpec]:
    """The experiments of a selector: an exact id, else a group (a folder, or the file of a sweep); None is all.

    Empty only where the files that would hold them are among the project's problems. Raises SelectionError
    (`no-experiments`, `unknown-experiment`, `eval-as-experiment`).
    """
    if selector is None:
        if not project.experiments and not _broken_below(project, "experiments", ""):
            raise SelectionError("no-experiments")
        return list(project.experiments)
    word = selector.rstrip("/")
    found = [experiment for experiment in project.experiments if experiment.id == word]
    found = found or [experiment for experiment in project.experiments if under(experiment.id, word)]
    if not found and not _broken_below(project, "experiments", word):
        raise _unknown_experiment(project, word)
    return found


def evals_with_prefixes(evals: Iterable[EvalSpec], prefixes: Sequence[str]) -> list[EvalSpec]:
    """The evals that one of the prefixes is or holds; all of them where no prefix is given."""
    if not prefixes:
        return list(evals)
    wanted = [prefix.rstrip("/") for prefix in prefixes]
    return [spec for spec in evals if any(under(spec.id, prefix) for prefix in wanted)]


def evals_with_tag(evals: Iterable[EvalSpec], tag: str | None) -> list[EvalSpec]:
    """The evals that carry a tag; all of them for None."""
    return [spec for spec in evals if tag is None or tag in spec.tags]


def evals_of(experiment: ExperimentSpec, evals: Iterable[EvalSpec]) -> list[EvalSpec]:
    """Those of `evals` that an experiment's `evals=` selects.

    Raises ProjectError (`bad-argument`) where its predicate raises, or answers with something other than a bool.
    """
    selector = experiment.evals
    if isinstance(selector, str):
        return list(evals)
    if isinstance(selector, tuple):
        return evals_with_prefixes(evals, selector) if selector else []
    return [spec for spec in evals if _asked(experiment, spec)]


def dead_prefixes(project: Project, experiment: ExperimentSpec) -> list[NiceevalError]:
    """One problem for each prefix in an experiment's `evals=` that no eval of the project has."""
    if not isinstance(experiment.evals, tuple):
        return []
    return [
        ProjectError(
            "nothing-selected", place=experiment.place, problem=f"evals= of {experiment.id}: {_no_eval(prefix, '')}"
        )
        for prefix in experiment.evals
        if not _hits(project, project.evals, prefix)
    ]


def idle_problems(
    project: Project, experiments: Sequence[ExperimentSpec], told: Sequence[NiceevalError]
) -> list[NiceevalError]:
    """One problem for each experiment that selects no eval, so that nothing of it would be run.

    None for those of which `told` says why, or whose evals may be in a file that could not be used.
    """
    places = {problem.place for problem in told}
    return [
        ProjectError(
            "nothing-selected", place=experiment.place, problem=f"evals= of {experiment.id} selects none of the evals"
        )
        for experiment in experiments
        if experiment.place not in places and (experiment.evals == () or not _broken_below(project, "evals", ""))
    ]


def idle_warning(experiments: Sequence[ExperimentSpec]) -> NiceevalError:
    """What is said of experiments of which the command line leaves nothing, while others have something to run."""
    names = ", ".join(experiment.id for experiment in experiments[:_MAX_NAMED])
    more = f" and {len(experiments) - _MAX_NAMED} more" if len(experiments) > _MAX_NAMED else ""
    return SelectionError(
        "nothing-selected", problem=f"the command line leaves no eval of {names}{more}", next_step="niceeval exp list"
    )


def narrow(
    project: Project, prefixes: Sequence[str], tag: str | None, experiments: Sequence[ExperimentSpec]
) -> list[EvalSpec]:
    """The project's evals that the command line leaves.

    Raises SelectionError (`nothing-selected`) for a prefix or tag that hits no eval of the experiments.
    """
    reachable = _reachable(project, experiments)
    of = f" of {experiments[0].id}" if len(experiments) == 1 else ""
    for prefix in prefixes:
        if not _hits(project, reachable, prefix):
            raise _no_such_eval(project, reachable, prefix, of)
    chosen = evals_with_prefixes(project.evals, prefixes)
    tagged = evals_with_tag(chosen, tag)
    if tag is not None and not evals_with_tag(evals_with_prefixes(reachable, prefixes), tag) and not project.problems:
        raise SelectionError("nothing-selected", problem=_no_tag(tag, chosen, of))
    return tagged


def _reachable(project: Project, experiments: Sequence[ExperimentSpec]) -> list[EvalSpec]:
    """The evals that some experiment selects; one whose predicate raises is reported by the plan, not here.

    An experiment in a file that cannot be used may have selected any of them; why it cannot be is said elsewhere.
    """
    if _broken_below(project, "experiments", ""):
        return list(project.evals)
    ids: set[str] = set()
    for experiment in experiments:
        try:
            ids.update(spec.id for spec in evals_of(experiment, project.evals))
        except NiceevalError:
            ids.update(spec.id for spec in project.evals)
    return [spec for spec in project.evals if spec.id in ids]


def _hits(project: Project, evals: Iterable[EvalSpec], prefix: str) -> bool:
    word = prefix.rstrip("/")
    return bool(evals_with_prefixes(evals, [word])) or _broken_below(project, "evals", word)


def _no_eval(prefix: str, of: str) -> str:
    word = prefix.rstrip("/")
    return f'no eval{of} is "{word}" or under "{word}/"'


def _no_such_eval(project: Project, reachable: Sequence[EvalSpec], prefix: str, of: str) -> SelectionError:
    own = id_of_path(prefix, "evals", "_eval.py", project)
    if own != prefix and evals_with_prefixes(reachable, [own]):
        return SelectionError("nothing-selected", problem=_no_eval(prefix, of), next_step=f"write {own}, its id")
    near = close_names(own, (name for spec in reachable for name in _names_of(spec)), limit=1)
    return SelectionError("nothing-selected", problem=_no_eval(prefix, of) + _nearness(near))


def _names_of(spec: EvalSpec) -> set[str]:
    """What hits an eval: its id, and every folder above it."""
    parts = spec.id.split("/")
    return {"/".join(parts[:length]) for length in range(1, len(parts) + 1)}


def id_of_path(word: str, folder: str, ending: str, project: Project) -> str:
    """What the file or folder at a path is called (`evals/sql_eval.py`: `sql`); another word as it is."""
    path = word.replace("\\", "/").removeprefix(f"{project.root.as_posix()}/").removeprefix("./")
    return path.removeprefix(f"{folder}/").removesuffix(ending).rstrip("/")


def _no_tag(tag: str, evals: Iterable[EvalSpec], of: str) -> str:
    near = close_names(tag, (known for spec in evals for known in spec.tags))
    return f'no eval{of} has the tag "{tag}"{_nearness(near)}'


def _nearness(names: Sequence[str]) -> str:
    if not names:
        return ""
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"; {quoted} is close" if len(names) == 1 else f"; {quoted} are close"


def _unknown_experiment(project: Project, word: str) -> SelectionError:
    eval_id = id_of_path(word, "evals", "_eval.py", project)
    if any(under(spec.id, eval_id) for spec in project.evals):
        return SelectionError("eval-as-experiment", word=word, command=run_command(project, eval_id))
    own = id_of_path(word, "experiments", ".py", project)
    if own != word and any(under(experiment.id, own) for experiment in project.experiments):
        command = f"niceeval exp {shlex.quote(own)}"
        return SelectionError("unknown-experiment", word=word, close=_nearness([own]), command=command)
    names = {experiment.id for experiment in project.experiments}
    names |= {experiment.group for experiment in project.experiments if experiment.group}
    if not names:
        return SelectionError("no-experiments")
    near = _outermost(close_names(own, names))
    command = f"niceeval exp {shlex.quote(near[0])}" if near else "niceeval exp list"
    return SelectionError("unknown-experiment", word=word, close=_nearness(near), command=command)


def _outermost(names: Sequence[str]) -> list[str]:
    """The names without those that lie below another one of them."""
    return [name for name in names if not any(other != name and under(name, other) for other in names)]


def run_command(project: Project, eval_word: str) -> str:
    """The command that runs an eval, under the project's first experiment."""
    first = project.experiments[0].id if project.experiments else "EXPERIMENT"
    return f"niceeval exp {shlex.quote(first)} {shlex.quote(eval_word)}"


def _broken_below(project: Project, folder: str, word: str) -> bool:
    """Whether a file that would define `word` (or something below it) is among those that could not be used."""
    inside = (path.removeprefix(folder + "/") for path in project.broken if path.startswith(folder + "/"))
    ids = [path.removesuffix(".py").removesuffix("_eval") for path in inside]
    return any(not word or under(id, word) or under(word, id) for id in ids)


def _asked(experiment: ExperimentSpec, spec: EvalSpec) -> bool:
    assert callable(experiment.evals)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            answer = experiment.evals(spec.info())
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the author's own function; SystemExit would end the command without a word
        kind, colon, text = error_text(error).partition(": ")
        raise _bad_predicate(experiment, f"raised {kind} for {spec.id}{colon}{text}") from error
    if not isinstance(answer, bool):
        raise _bad_predicate(experiment, f"gave {type(answer).__name__} for {spec.id}; it answers True or False")
    return answer


def _bad_predicate(experiment: ExperimentSpec, problem: str) -> ProjectError:
    return ProjectError(
        "bad-argument",
        place=experiment.place,
        call="define_experiment",
        argument="evals",
        problem=problem,
        fix='evals="*", a list of id prefixes, or a function of EvalInfo that answers True or False',
    )


def tagged_or_raise(project: Project, tag: str | None) -> list[EvalSpec]:
    """The project's evals, those with a tag where one is given.

    Empty only where files of the project could not be used. Raises SelectionError (`nothing-selected`).
    """
    chosen = evals_with_tag(project.evals, tag)
    if chosen or project.problems:
        return chosen
    if tag is not None and project.evals:
        raise SelectionError("nothing-selected", problem=_no_tag(tag, project.evals, ""))
    raise SelectionError(
        "nothing-selected",
        problem="evals/ has no eval",
        next_step="write evals/hello_eval.py: @define_eval() above async def hello(t: EvalContext)",
    )
