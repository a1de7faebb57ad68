"""What the agents say of themselves before a run: their `version`, text or a callable that gives it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from niceeval._base.errors import NiceevalError, ProjectError
from niceeval._base.plain_text import clean_text
from niceeval._discover.specs import ExperimentSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Experiment id -> version, where there is one. `unknown`: where the agent could not say it, with the error."""

    known: Mapping[str, str]
    unknown: Mapping[str, NiceevalError]


def agent_versions(experiments: Iterable[ExperimentSpec]) -> Versions:
    """Ask every agent. One that raises, or answers with no text, is unknown: none of its results can be carried."""
    known: dict[str, str] = {}
    unknown: dict[str, NiceevalError] = {}
    for experiment in experiments:
        version = experiment.agent.version
        if callable(version):
            try:
                answer: object = version()
            except Exception as error:  # noqa: BLE001 - the agent's own function; what it raised is said
                unknown[experiment.id] = _unknown(experiment, f"{type(error).__name__}: {error}")
                continue
            if not isinstance(answer, str):
                unknown[experiment.id] = _unknown(experiment, f"it gave {type(answer).__name__}, not text")
                continue
            version = answer
        if version is not None:
            known[experiment.id] = clean_text(version, 500)[0]
    return Versions(known=known, unknown=unknown)


def _unknown(experiment: ExperimentSpec, problem: str) -> ProjectError:
    return ProjectError("agent-version", place=experiment.place, agent=experiment.agent.name, problem=problem[:500])
