"""A project on disk: where it is, and everything that its files define."""

from __future__ import annotations

import contextlib
import importlib.machinery
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from niceeval._base.errors import NiceevalError, Place, ProjectError, SelectionError
from niceeval._base.file_reads import watch
from niceeval._base.places import shown_path
from niceeval._base.redaction import secret_values
from niceeval._discover.contents import evals_in, experiments_in
from niceeval._discover.dotenv import load_dotenv
from niceeval._discover.loading import Loaded, LoadFailure, load_error, load_file, project_sites
from niceeval._discover.specs import ConfigSpec, EvalSpec, ExperimentSpec, Project
from niceeval._model.judge import JudgeConfig

CONFIG_FILE = "niceeval_config.py"
_HIDDEN = ("__pycache__", "node_modules")

_Spec = TypeVar("_Spec")


def find_root(start: Path) -> Path:
    """The nearest folder, from `start` upwards, with niceeval_config.py, evals/ or experiments/.

    Raises SelectionError (`no-project`).
    """
    start = Path(os.path.abspath(start))
    for folder in (start, *start.parents):
        if (folder / CONFIG_FILE).is_file() or (folder / "evals").is_dir() or (folder / "experiments").is_dir():
            return folder
    raise SelectionError("no-project")


def load_project(start: Path, *, note_reads: bool = False) -> Project:
    """Find the project around `start` and load all of it. Nothing is run but the top level of its files.

    `.env` is loaded into the process's environment, and the root is appended to `sys.path`. A file that cannot be
    used becomes one of the project's `problems`; the rest is loaded. `note_reads`: from here on it is noted which files
    the project reads by hand. Raises SelectionError (`no-project`).
    """
    root = find_root(start)
    if note_reads:
        watch(root)
    variables, warnings = load_dotenv(root, os.environ)
    if str(root) not in sys.path:
        sys.path.append(str(root))
    return _Loading(root).project(
        warnings=[*warnings, *_shadowed_folders(root), *_misnamed_evals(root / "evals")],
        variables=variables,
    )


class _Loading:
    """One pass over a project's files, and the problems it met."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._loaded = 0
        self._failures: list[LoadFailure] = []
        self._problems: list[tuple[Path, NiceevalError]] = []
        self._reported: set[tuple[str, Place]] = set()

    def project(self, *, warnings: list[ProjectError], variables: Mapping[str, str]) -> Project:
        config = self._config()
        evals = self._evals()
        experiments = self._experiments()
        problems = self._all_problems()
        named = {name for experiment in experiments for name in experiment.agent.secret_env}
        named |= {judge.api_key_env for judge in _judges(config, evals, experiments) if judge.api_key_env is not None}
        problem_files = tuple(self._relative(file) for file, _ in problems)
        config_file = self._root / CONFIG_FILE
        return Project(
            root=self._root,
            config=config,
            evals=tuple(evals),
            experiments=tuple(experiments),
            problems=tuple(problem for _, problem in problems),
            problem_files=problem_files,
            broken=tuple(dict.fromkeys(problem_files)),
            config_problem=next((problem for file, problem in problems if file == config_file), None),
            warnings=tuple(warnings),
            secrets=secret_values(os.environ, variables, named),
        )

    def _relative(self, file: Path) -> str:
        return file.relative_to(self._root).as_posix()

    def _load(self, file: Path) -> Loaded | None:
        loaded = load_file(file, self._root)
        if isinstance(loaded, LoadFailure):
            self._failures.append(loaded)
            return None
        self._loaded += 1
        return loaded

    def _config(self) -> ConfigSpec:
        file = self._root / CONFIG_FILE
        loaded = self._load(file) if file.is_file() else None
        if loaded is None:
            return ConfigSpec()
        config = vars(loaded.module).get("config")
        if isinstance(config, ConfigSpec):
            return config
        self._problems.append((file, ProjectError("no-config", place=Place(shown_path(file), 1, 1))))
        return ConfigSpec()

    def _evals(self) -> list[EvalSpec]:
        base = self._root / "evals"
        found: list[EvalSpec] = []
        for file in _files(base, "_eval.py"):
            loaded = self._load(file)
            if loaded is not None:
                id = file.relative_to(base).as_posix().removesuffix("_eval.py")
                found += self._contents(evals_in, loaded, id, file)
        # By definition, not by case: rows keep the order their author gave them.
        found.sort(key=lambda spec: spec.base)
        return self._unique_evals(found)

    def _experiments(self) -> list[ExperimentSpec]:
        base = self._root / "experiments"
        found: list[ExperimentSpec] = []
        for file in _files(base, ".py"):
            loaded = self._load(file) if file.name != "__init__.py" else None
            if loaded is not None:
                id = file.relative_to(base).as_posix().removesuffix(".py")
                found += self._contents(experiments_in, loaded, id, file)
        return self._unique_experiments(sorted(found, key=lambda spec: spec.id))

    def _contents(
        self,
        read: Callable[[Loaded, str, Path, str], tuple[list[_Spec], list[NiceevalError]]],
        loaded: Loaded,
        id: str,
        file: Path,
    ) -> list[_Spec]:
        """What a loaded file defines. Looking at it may run its author's code once more, which may fail once more."""
        try:
            with contextlib.redirect_stdout(sys.stderr):
                specs, problems = read(loaded, id, file, self._relative(file))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if not project_sites(error, self._root):
                raise
            self._failures.append(LoadFailure(file, error))
            self._loaded -= 1
            return []
        self._problems += [(file, problem) for problem in problems]
        return specs

    def _unique_evals(self, specs: list[EvalSpec]) -> list[EvalSpec]:
        kept: list[EvalSpec] = []
        first: dict[str, EvalSpec] = {}
        for spec in specs:
            # The name of a whole fan-out is taken as well: nothing else may be called that.
            others = [
                other for id in (spec.base, spec.id) if (other := first.get(id)) and not _same_definition(other, spec)
            ]
            if not others:
                kept.append(spec)
                first.setdefault(spec.base, spec)
                first.setdefault(spec.id, spec)
            elif (spec.base, spec.place) not in self._reported:
                self._reported.add((spec.base, spec.place))
                what = "function" if others[0].file == spec.file else "file"
                id = spec.base if others[0].base == spec.base else spec.id
                self._problems.append((spec.file, _duplicate(id, others[0].place, spec.place, what)))
        return kept

    def _unique_experiments(self, specs: list[ExperimentSpec]) -> list[ExperimentSpec]:
        first: dict[str, ExperimentSpec] = {}
        for spec in specs:
            other = first.setdefault(spec.id, spec)
            if other is not spec:
                problem = _duplicate(spec.id, other.place, spec.place, "experiment")
                self._problems.append((self._root / spec.path, problem))
        return list(first.values())

    def _all_problems(self) -> list[tuple[Path, NiceevalError]]:
        others = _others(self._loaded)
        failed = [(failure.file, load_error(failure, self._root, others)) for failure in self._failures]
        return [*failed, *self._problems]


def _others(loaded: int) -> str:
    return (
        "no other was loaded"
        if not loaded
        else f"the other {loaded} were loaded"
        if loaded > 1
        else "the other was loaded"
    )


def _same_definition(one: EvalSpec, other: EvalSpec) -> bool:
    # Not by the place: a function that makes evals makes each of them at the same one.
    return one.file == other.file and one.function is other.function


def _duplicate(id: str, first: Place, second: Place, what: str) -> ProjectError:
    return ProjectError("duplicate-id", id=id, first=first, second=second, what=what)


def _files(base: Path, ending: str) -> Iterator[Path]:
    """The files below a folder by name, without hidden folders and caches."""
    for folder, folders, names in os.walk(base):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _HIDDEN)
        for name in sorted(names):
            if name.endswith(ending) and not name.startswith("."):
                yield Path(folder, name)


def _misnamed_evals(base: Path) -> list[ProjectError]:
    """Files below evals/ that define evals under a name that nothing loads: checks that would never run."""
    found = [file for file in _files(base, ".py") if not file.name.endswith("_eval.py") and file.is_file()]
    return [
        ProjectError("eval-file-name", place=Place(shown_path(file), 1, 1), name=f"{file.stem}_eval.py")
        for file in found
        if b"\n@define_eval" in file.read_bytes()
    ]


def _shadowed_folders(root: Path) -> list[ProjectError]:
    """Folders with Python files whose name imports something else: the root comes last on `sys.path`."""
    warnings = []
    with os.scandir(root) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir() and entry.name.isidentifier())
    for name in names:
        owner = _owner(name, root)
        if owner and any(child.suffix == ".py" for child in (root / name).iterdir()):
            warnings.append(ProjectError("folder-shadowed", name=name, owner=owner, folder=shown_path(root / name)))
    return warnings


def _owner(name: str, root: Path) -> str | None:
    """What `import name` would give instead of the project's folder."""
    if name in sys.stdlib_module_names:
        return "Python's standard library"
    before = [entry for entry in sys.path if os.path.abspath(entry or ".") != str(root)]
    spec = importlib.machinery.PathFinder.find_spec(name, before)
    if spec is None or spec.origin is None:
        return None
    return None if Path(spec.origin).is_relative_to(root / name) else spec.origin


def _judges(
    config: ConfigSpec, evals: Sequence[EvalSpec], experiments: Sequence[ExperimentSpec]
) -> Iterator[JudgeConfig]:
    for judge in (config.judge, *(one.judge for one in evals), *(one.judge for one in experiments)):
        if judge is not None:
            yield judge
