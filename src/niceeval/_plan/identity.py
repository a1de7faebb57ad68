"""The identity of an attempt: everything niceeval can see that may change its outcome, by name.

Two attempts with the same fingerprint are the same question asked of the same subject. The parts are stored beside the
hash, so that a change can be named. The identity has a version of its own: niceeval's version is not a part.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from niceeval._base.file_reads import MAX_READS, watched
from niceeval._base.json_values import normalise_json
from niceeval._discover.define_eval import ATTRIBUTE
from niceeval._discover.loading import module_name
from niceeval._discover.project import CONFIG_FILE
from niceeval._discover.specs import MISSING, EvalSpec, ExperimentSpec, judge_of
from niceeval._evidence.price_table import built_in_prices
from niceeval._evidence.prices import Price, price_of
from niceeval._judging import records
from niceeval._model.agent import Agent
from niceeval._model.judge import JudgeConfig
from niceeval._model.sandbox import SandboxSpec
from niceeval._plan.closure import Sources, digest
from niceeval._plan.experiment_source import experiment_digest
from niceeval._plan.experiment_uses import ExperimentFile, keywords_left_out
from niceeval._plan.row_data import read_whole
from niceeval._plan.sandbox_parts import sandbox_parts
from niceeval.loaders import loaded_files

IDENTITY_VERSION = 1
_MAX_SHOWN = 200
_MAX_WRAPPERS = 20
_DIGEST = "sha256:"
_SOURCE = " source: "
_EXPERIMENTS = "experiments/"


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

    def __init__(
        self,
        root: Path,
        *,
        strict: bool,
        pricing: Mapping[str, Price],
        shared_sandbox: SandboxSpec | None = None,
        shared_judge: JudgeConfig | None = None,
    ) -> None:
        self._root = root
        self._shared_judge = shared_judge
        self._strict = strict
        self._pricing = pricing
        self._shared_sandbox = shared_sandbox
        self._sources = Sources(root)
        self._experiments: dict[str, dict[str, str]] = {}
        self._unread: dict[tuple[str, ...], frozenset[str]] = {}
        self._evals: dict[Path, dict[str, str]] = {}
        self._loaded = {id(loaded.value): loaded.file for loaded in loaded_files()}
        self._reads = watched(root)

    def of(self, spec: EvalSpec, experiment: ExperimentSpec, agent_version: str | None) -> Identity:
        """The identity of every attempt of one eval under one experiment."""
        if experiment.id not in self._experiments:
            self._experiments[experiment.id] = self._experiment_parts(experiment, agent_version)
        judge = _judge_parts(judge_of(spec, experiment, self._shared_judge), self._root)
        return Identity({**self._experiments[experiment.id], **self._eval_parts(spec), **judge})

    def _eval_parts(self, spec: EvalSpec) -> dict[str, str]:
        if spec.file not in self._evals:
            closure = self._sources.closure([spec.file])
            parts = {f"eval source: {path}": found for path, found in closure.items()}
            data = self._data_parts(closure, self._read_whole(closure))
            self._evals[spec.file] = {**parts, **data, **self._read_parts(closure)}
        return {**self._evals[spec.file], **self._row_parts(spec)}

    def _read_whole(self, closure: Iterable[str]) -> Collection[Path] | None:
        paths = [self._root / path for path in closure]
        loaded = {path: {one.file for one in loaded_files(str(path))} for path in paths}
        if not any(loaded.values()):
            return None
        return read_whole({path: self._sources.file(path).data for path in paths}, loaded, self._tree)

    def _tree(self, path: Path) -> ast.Module | None:
        return self._sources.file(path).tree()

    def _data_parts(self, closure: Iterable[str], whole: Collection[Path] | None = None) -> dict[str, str]:
        """Data files that these modules read; of those that are not `whole`, each row counts by itself."""
        return dict(
            self._data_part(loaded.file)
            for path in closure
            for loaded in loaded_files(str(self._root / path))
            if whole is None or loaded.file in whole
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
        modules = self._sources.closure([*self._sources.imports(file), *self._agent_modules(experiment.agent)])
        sources = self._experiment_sources(experiment, modules)
        parts = {f"adapter source: {path}": found for path, found in modules.items() if path not in sources}
        parts |= {f"experiment source: {path}": found for path, found in sources.items()}
        parts |= self._sandbox_parts(experiment.sandbox, {*modules, *sources})
        parts |= self._data_parts(dict.fromkeys([experiment.path, *modules]))
        parts |= self._read_parts({experiment.path, *modules})
        parts |= {f"flags.{name}": _value(value) for name, value in experiment.flags.items()}
        parts |= {"agent": _value(experiment.agent.name), "model": _value(experiment.model)}
        parts |= {"reasoning_effort": _value(experiment.reasoning_effort), "strict": _value(self._strict)}
        parts |= self._price_part(experiment.model)
        if agent_version is not None:
            parts["agent version"] = _value(agent_version)
        return parts

    def _sandbox_parts(self, spec: SandboxSpec | None, known: Collection[str]) -> dict[str, str]:
        """What the sandbox is, and the source of a user's own; of files that are `known` the digest is a part already.

        What `create` was made with counts through the source that says so: the experiment's, which then keeps its
        `sandbox=`, or the config's.
        """
        if spec is None:
            return {}
        parts = dict(sandbox_parts(spec, _value, _hidden))
        if spec.create is not None:
            config = [self._root / CONFIG_FILE] if spec is self._shared_sandbox else []
            closure = self._sources.closure([*config, *_files_of(spec.create)])
            parts |= {f"sandbox source: {path}": found for path, found in closure.items() if path not in known}
        return parts

    def _price_part(self, model: str | None) -> dict[str, str]:
        """What the model's tokens cost, which `max_cost` goes by; nothing where that is not known."""
        price = price_of(model, self._pricing) or price_of(model, built_in_prices())
        return {} if price is None else {"price": _shown_price(price)}

    def _experiment_sources(self, experiment: ExperimentSpec, modules: Collection[str]) -> dict[str, str]:
        """The digests of the experiment's file, and of the experiment files that it or its agent imports.

        What another experiment file says of its own runs and labels matters as little as if it stood in this one.
        """
        base = experiment.path.removeprefix("experiments/").removesuffix(".py")
        entry = experiment.id.removeprefix(f"{base}/") if experiment.id != base else None
        others = [path for path in modules if path != experiment.path]
        experiments = [experiment.path, *(path for path in others if path.startswith(_EXPERIMENTS))]
        imported = {found for path in others for found in self._sources.imports(self._root / path)}
        left_out = self._left_out(experiments, others)
        if experiment.sandbox is not None and experiment.sandbox.create is not None:
            left_out -= {"sandbox"}
        whole = {path: path != experiment.path or self._root / path in imported for path in experiments}
        return {path: self._experiment_source(path, entry, left_out, whole=whole[path]) for path in experiments}

    def _left_out(self, experiments: Collection[str], others: Iterable[str]) -> frozenset[str]:
        adapters = (self._root / path for path in others if path not in experiments)
        folder = self._root / _EXPERIMENTS
        if any(found.is_relative_to(folder) for path in adapters for found in self._sources.imports(path)):
            # An agent that knows of the experiments may read whatever they say.
            return frozenset()
        known = tuple(experiments)
        if known not in self._unread:
            files = [self._experiment_file(path) for path in known]
            parsed = [file for file in files if file is not None]
            self._unread[known] = keywords_left_out(parsed) if len(parsed) == len(files) else frozenset()
        return self._unread[known]

    def _agent_modules(self, agent: Agent) -> Iterator[Path]:
        for file in agent_files(agent):
            yield from (file, *self._sources.packages_above(file))

    def _experiment_source(self, path: str, entry: str | None, left_out: frozenset[str], *, whole: bool) -> str:
        data = self._sources.file(self._root / path).data
        return experiment_digest(self._experiment_file(path), data, entry, left_out=left_out, whole=whole)

    def _experiment_file(self, path: str) -> ExperimentFile | None:
        file = self._root / path
        tree = self._sources.file(file).tree()
        module = sys.modules.get(module_name(file, self._root))
        return None if tree is None else ExperimentFile(tree, {} if module is None else vars(module))

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


def _hidden(value: object) -> str:
    return digest(json.dumps(value, sort_keys=True, ensure_ascii=True).encode())


def _judge_parts(judge: JudgeConfig | None, root: Path) -> dict[str, str]:
    """Which model judges, and where; the key and the limits change no score."""
    if judge is None:
        return {}
    # Where it is found out when it is needed, such as a server on any free port, it says nothing of what answers.
    url = "found when needed" if callable(judge.base_url) else judge.base_url
    parts = {"judge": _value(judge.model), "judge.base_url": _value(url)}
    # Where a judge has to be calibrated, what is known of it decides, too.
    return {**parts, "judge.calibrations": records.digest(root)} if judge.require_calibration else parts


def _shown_price(price: Price) -> str:
    """`1 in, 5 out, 0.1 cache read`, in US dollars for a million tokens."""
    buckets = {
        "in": price.input_per_mtok,
        "out": price.output_per_mtok,
        "cache read": price.cache_read_per_mtok,
        "cache write": price.cache_write_per_mtok,
    }
    # Equal amounts are the same price, however many zeros they were written with.
    return ", ".join(f"{amount.normalize():f} {name}" for name, amount in buckets.items() if amount is not None)


def agent_files(agent: Agent) -> Iterator[Path]:
    """The files that an agent's callbacks are written in, with those of the classes that they belong to."""
    callbacks: list[Callable[..., Any] | None] = [agent.send, agent.setup, agent.teardown]
    callbacks += [agent.version] if callable(agent.version) else []
    for callback in callbacks:
        if callback is not None:
            yield from _files_of(callback)


def _files_of(callback: Any) -> Iterator[Path]:
    """Of what is called, and of what that wraps."""
    for _ in range(_MAX_WRAPPERS):
        code = getattr(getattr(callback, "__func__", callback), "__code__", None)
        if isinstance(code, CodeType):
            yield Path(code.co_filename)
        owner = getattr(callback, "__self__", callback)
        yield from _class_files(owner if isinstance(owner, type) else type(owner))
        inner = callback.func if isinstance(callback, functools.partial) else getattr(callback, "__wrapped__", None)
        if inner is None:
            return
        callback = inner


def _class_files(owner: type) -> Iterator[Path]:
    for one in owner.__mro__:
        file = getattr(sys.modules.get(one.__module__), "__file__", None)
        if isinstance(file, str):
            yield Path(file)
