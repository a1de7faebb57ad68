"""What the agents say of themselves before a run: their `version`, text or a callable that gives it."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from niceeval._base.errors import NiceevalError, ProjectError, error_text
from niceeval._base.file_reads import unnoted
from niceeval._base.plain_text import clean_text, shorten
from niceeval._discover.specs import ExperimentSpec

PATIENCE = 15.0
"""Seconds that a `version` function may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Experiment id -> version, where there is one. `unknown`: where the agent could not say it, with the error."""

    known: Mapping[str, str]
    unknown: Mapping[str, NiceevalError]


def agent_versions(experiments: Iterable[ExperimentSpec], *, patience: float = PATIENCE) -> Versions:
    """Ask every agent, each function once.

    One that raises, answers with no text, or not within `patience` seconds, is unknown: none of its results can be
    carried.
    """
    known: dict[str, str] = {}
    unknown: dict[str, NiceevalError] = {}
    asked: dict[int, _Answer] = {}
    for experiment in experiments:
        version = experiment.agent.version
        if callable(version):
            if id(version) not in asked:
                asked[id(version)] = _ask(version, patience)
            answer = asked[id(version)]
            if answer.problem is not None:
                unknown[experiment.id] = _unknown(experiment, answer.problem)
                continue
            version = answer.text
        if version is not None:
            known[experiment.id] = clean_text(version, 500)[0]
    return Versions(known=known, unknown=unknown)


@dataclass(slots=True)
class _Answer:
    text: str = ""
    problem: str | None = None


def _ask(version: Callable[[], str], patience: float) -> _Answer:
    """Call the function on a thread of its own, so that one that hangs holds nothing up."""
    answer = _Answer(problem=f"it did not answer within {patience:g}s")

    def call() -> None:
        try:
            # Whatever it reads, its answer is what counts.
            with unnoted():
                said: object = version()
        except BaseException as error:  # noqa: BLE001 - the agent's own function; what it raised is said
            answer.problem = error_text(error)
            return
        if isinstance(said, str):
            answer.text, answer.problem = said, None
        else:
            answer.problem = f"it gave {type(said).__name__}, not text"
            getattr(said, "close", lambda: None)()

    thread = threading.Thread(target=call, name="niceeval-agent-version", daemon=True)
    # What it prints is not the command's answer.
    with contextlib.redirect_stdout(sys.stderr):
        thread.start()
        thread.join(patience)
    return dataclasses.replace(answer)


def _unknown(experiment: ExperimentSpec, problem: str) -> ProjectError:
    said = shorten(problem, 500)
    return ProjectError("agent-version", place=experiment.place, agent=experiment.agent.name, problem=said)
