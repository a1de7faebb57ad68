"""The identity of an attempt: everything niceeval can see that may change its outcome, by name.

Two attempts with the same fingerprint are the same question asked of the same subject. The parts are stored beside the
hash, so that a change can be named. The identity has a version of its own: niceeval's version is not a part.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from niceeval._base.file_reads import MAX_READS, watched
from niceeval._base.json_values import normalise_json
from niceeval._discover.define_eval import ATTRIBUTE, given_cases
from niceeval._discover.specs import MISSING, EvalSpec, ExperimentSpec
from niceeval._model.agent import Agent
from niceeval._plan.closure import Sources, digest
from niceeval._plan.experiment_source import experiment_digest
from niceeval.loaders import loaded_files

IDENTITY_VERSION = 1
_MAX_SHOWN = 200
_MAX_WRAPPERS = 20
_DIGEST = "sha256:"
_SOURCE = " source: "


@dataclass(frozen=True)
class Identity:
    """`parts`: name -> value as JSON text, or a digest for what is too long to show. `fingerprint` covers them all."""

    parts: Mapping[str, str]

    @functools.cached_property
    def fingerprint(self) -> str:
        """64 hexadecimal digits."""
        said = json.dumps([IDENTITY_VERSION, sorted(self.parts.items())], ensure_ascii=True)
        return hashlib.sha256(said.encode()).hexdigest()

    @functools.cached_property
    def files(self) -> frozenset[str]:
        """The source files, relative to the root."""
        return frozenset(path for name in self.parts for _, of, path in [name.partition(_SOURCE)] if of)


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """What differs, by name: `eval source: evals/_shared.py`, `flags.prompt: "a" -> "b"`."""
    return [
        _change(name, old.get(name), new.get(name)) for name in sorted({*old, *new}) if old.get(name) != new.get(name)
    ]


def _change(name: str, old: str | None, new: str | None) -> str:
    if any(value is not None and value.startswith(_DIGEST) for value in (old, new)):
        return name if old is not None and new is not None else f"{name} ({'added' if old is None else 'removed'})"
    return f"{name}: {'(none)' if old is None else old} -> {'(none)' if new is None else new}"


class Identities:
    """Makes the identities of one plan; sources are read once, an experiment's half is made once."""

    def __init__(self, root: Path, *, strict: bool) -> None:
        self._root = root
        self._strict = strict
        self._sources = Sources(root)
        self._experiments: dict[str, dict[str, str]] = {}
        self._evals: dict[Path, dict[str, str]] = {}
        self._loaded = {id(loaded.value): loaded.file for loaded in loaded_files()}
        self._reads = watched(root)

    def of(self, spec: EvalSpec, experiment: ExperimentSpec, agent_version: str | None) -> Identity:
        """The identity of every attempt of one eval under one experiment."""
        if experiment.id not in self._experiments:
            self._experiments[experiment.id] = self._experiment_parts(experiment, agent_version)
        return Identity({**self._experiments[experiment.id], **self._eval_parts(spec)})

    def _eval_parts(self, spec: EvalSpec) -> dict[str, str]:
        if spec.file not in self._evals:
            closure = self._sources.closure([spec.file])
            parts = {f"eval source: {path}": found for path, found in closure.items()}
            by_row = given_cases.get(str(spec.file), ())
            self._evals[spec.file] = {**parts, **self._data_parts(closure, by_row), **self._read_parts(closure)}
        return {**self._evals[spec.file], **self._row_parts(spec)}

    def _data_parts(self, closure: Iterable[str], by_row: Sequence[object] = ()) -> dict[str, str]:
        """Data files that these modules read whole; not those whose value counts row by row."""
        apart = {id(cases) for cases in by_row}
        return dict(
            self._data_part(loaded.file)
            for path in closure
            for loaded in loaded_files(str(self._root / path))
            if id(loaded.value) not in apart
        )

    def _data_part(self, file: Path) -> tuple[str, str]:
        return f"data: {self._shown(file)}", self._sources.file(file).digest

    def _read_parts(self, closure: Collection[str]) -> dict[str, str]:
        """Files that these modules read by hand when they were loaded."""
        found = {} if self._reads is None else self._reads.loaded_by(closure)
        if len(found) > MAX_READS:
            return {"files read by hand": digest(json.dumps(sorted(found.items()), ensure_ascii=True).encode())}
        return {f"file: {path}": read for path, read in found.items()}

    def _row_parts(self, spec: EvalSpec) -> dict[str, str]:
        """The case row as its author gave it, where it is plain data.

        Another one counts through the source, and through the whole of the data file that it came from.
        """
        if spec.row is MISSING:
            return {}
        cases, row = _given(spec)
        file = self._loaded.get(id(cases))
        plain, problems = normalise_json(row)
        if problems:
            return {} if file is None else dict([self._data_part(file)])
        text = json.dumps(plain, sort_keys=True, ensure_ascii=True)
        of = "" if file is None else f" of {self._shown(file)}"
        return {f"row {spec.case}{of}": digest(text.encode())}

    def _experiment_parts(self, experiment: ExperimentSpec, agent_version: str | None) -> dict[str, str]:
        file = self._root / experiment.path
        base = experiment.path.removeprefix("experiments/").removesuffix(".py")
        entry = experiment.id.removeprefix(f"{base}/") if experiment.id != base else None
        modules = self._sources.closure([*self._sources.imports(file), *self._agent_modules(experiment.agent)])
        modules.pop(experiment.path, None)
        parts = {f"adapter source: {path}": found for path, found in modules.items()}
        for path in [path for path in modules if path.startswith("experiments/")]:
            # What another experiment file says of its own runs and labels matters as little as if it stood here.
            del parts[f"adapter source: {path}"]
            parts[f"experiment source: {path}"] = self._experiment_source(path, None, whole=True)
        parts[f"experiment source: {experiment.path}"] = self._experiment_source(experiment.path, entry)
        parts |= self._data_parts([experiment.path, *modules])
        parts |= self._read_parts({experiment.path, *modules})
        parts |= {f"flags.{name}": _value(value) for name, value in experiment.flags.items()}
        parts |= {"agent": _value(experiment.agent.name), "model": _value(experiment.model)}
        parts |= {"reasoning_effort": _value(experiment.reasoning_effort), "strict": _value(self._strict)}
        if agent_version is not None:
            parts["agent version"] = _value(agent_version)
        return parts

    def _agent_modules(self, agent: Agent) -> Iterator[Path]:
        for file in agent_files(agent):
            yield from (file, *self._sources.packages_above(file))

    def _experiment_source(self, path: str, entry: str | None, *, whole: bool = False) -> str:
        source = self._sources.file(self._root / path)
        return experiment_digest(source.tree(), source.data, entry, whole=whole)

    def _shown(self, file: Path) -> str:
        return file.relative_to(self._root).as_posix() if file.is_relative_to(self._root) else file.as_posix()


def _given(spec: EvalSpec) -> tuple[object, object]:
    """`cases=` and the row in it, before it was converted to what the eval's parameter is annotated with."""
    definition = getattr(spec.function, ATTRIBUTE, None)
    cases = getattr(definition, "cases", None)
    if cases is None or spec.case is None:
        return None, spec.row
    return cases, spec.given


def _value(value: object) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else digest(text.encode("utf-8", "surrogatepass"))


def agent_files(agent: Agent) -> Iterator[Path]:
    """The files that an agent's callbacks are written in."""
    callbacks: list[Callable[..., Any] | None] = [agent.send, agent.setup, agent.teardown]
    callbacks += [agent.version] if callable(agent.version) else []
    for callback in callbacks:
        file = None if callback is None else _file_of(callback)
        if file is not None:
            yield file


def _file_of(callback: Any) -> Path | None:
    for _ in range(_MAX_WRAPPERS):
        inner = callback.func if isinstance(callback, functools.partial) else getattr(callback, "__wrapped__", None)
        if inner is None:
            break
        callback = inner
    code = getattr(getattr(callback, "__func__", callback), "__code__", None)
    if isinstance(code, CodeType):
        return Path(code.co_filename)
    file = getattr(sys.modules.get(type(callback).__module__), "__file__", None)
    return Path(file) if isinstance(file, str) else None
