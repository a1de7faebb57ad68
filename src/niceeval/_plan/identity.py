"""The identity of an attempt: everything niceeval can see that may change its outcome, by name.

Two attempts with the same fingerprint are the same question asked of the same subject. The parts are stored beside the
hash, so that a change can be named. The identity has a version of its own: niceeval's version is not a part.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from niceeval._base.json_values import normalise_json
from niceeval._discover.define_eval import all_cases
from niceeval._discover.specs import MISSING, EvalSpec, ExperimentSpec
from niceeval._model.agent import Agent
from niceeval._plan.closure import Sources, digest
from niceeval._plan.experiment_source import experiment_digest
from niceeval.loaders import loaded_files

IDENTITY_VERSION = 1
_MAX_SHOWN = 200


@dataclass(frozen=True)
class Identity:
    """`parts`: name -> value as JSON text, or a digest for what is too long to show. `fingerprint` covers them all."""

    parts: Mapping[str, str]

    @functools.cached_property
    def fingerprint(self) -> str:
        """64 hexadecimal digits."""
        said = json.dumps([IDENTITY_VERSION, sorted(self.parts.items())], ensure_ascii=True)
        return hashlib.sha256(said.encode()).hexdigest()


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """What differs, by name: `eval source: evals/_shared.py`, `flags.prompt: "a" -> "b"`."""
    return [
        _change(name, old.get(name), new.get(name)) for name in sorted({*old, *new}) if old.get(name) != new.get(name)
    ]


def _change(name: str, old: str | None, new: str | None) -> str:
    if (old or new or "").startswith("sha256:"):
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

    def of(self, spec: EvalSpec, experiment: ExperimentSpec, agent_version: str | None) -> Identity:
        """The identity of every attempt of one eval under one experiment."""
        if experiment.id not in self._experiments:
            self._experiments[experiment.id] = self._experiment_parts(experiment, agent_version)
        return Identity({**self._experiments[experiment.id], **self._eval_parts(spec)})

    def _eval_parts(self, spec: EvalSpec) -> dict[str, str]:
        if spec.file not in self._evals:
            closure = self._sources.closure([spec.file])
            parts = {f"eval source: {path}": found for path, found in closure.items()}
            self._evals[spec.file] = {**parts, **self._data_parts(closure)}
        row = {} if spec.row is MISSING else _row_part(spec)
        return {**self._evals[spec.file], **row}

    def _data_parts(self, closure: Mapping[str, str]) -> dict[str, str]:
        """Data files that the closure's modules read, except values that were passed whole as `cases=`."""
        parts: dict[str, str] = {}
        for path in closure:
            for loaded in loaded_files(str(self._root / path)):
                if not any(loaded.value is cases for cases in all_cases):
                    name = f"data: {self._shown(loaded.file)}"
                    parts[name] = self._sources.file(loaded.file).digest
        return parts

    def _experiment_parts(self, experiment: ExperimentSpec, agent_version: str | None) -> dict[str, str]:
        file = self._root / experiment.path
        source = self._sources.file(file)
        base = experiment.path.removeprefix("experiments/").removesuffix(".py")
        entry = experiment.id.removeprefix(f"{base}/") if experiment.id != base else None
        modules = self._sources.closure([*self._sources.imports(file), *agent_files(experiment.agent)])
        modules.pop(experiment.path, None)
        parts = {f"experiment source: {experiment.path}": experiment_digest(source.tree, source.data, entry)}
        parts |= {f"adapter source: {path}": found for path, found in modules.items()}
        parts |= {f"flags.{name}": _value(value) for name, value in experiment.flags.items()}
        parts |= {"agent": _value(experiment.agent.name), "model": _value(experiment.model)}
        parts |= {"reasoning_effort": _value(experiment.reasoning_effort), "strict": _value(self._strict)}
        if agent_version is not None:
            parts["agent version"] = _value(agent_version)
        return parts

    def _shown(self, file: Path) -> str:
        return file.relative_to(self._root).as_posix() if file.is_relative_to(self._root) else file.as_posix()


def _row_part(spec: EvalSpec) -> dict[str, str]:
    """The case row, where it is plain data; another one counts through the source and the data that made it."""
    plain, problems = normalise_json(spec.row)
    if problems:
        return {}
    text = json.dumps(plain, sort_keys=True, ensure_ascii=False)
    return {f"row {spec.case}": digest(text.encode("utf-8", "surrogatepass"))}


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
    while True:
        inner = getattr(callback, "__wrapped__", None) or getattr(callback, "func", None)
        if inner is None or inner is callback:
            break
        callback = inner
    code = getattr(getattr(callback, "__func__", callback), "__code__", None)
    if code is not None:
        return Path(code.co_filename)
    module = sys.modules.get(type(callback).__module__)
    file = getattr(module, "__file__", None)
    return Path(file) if file else None
