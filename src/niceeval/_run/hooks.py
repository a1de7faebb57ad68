"""An experiment's own `setup` and `teardown`: once per experiment, on the host, for services all its attempts share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from niceeval._base.errors import AdapterError, NiceevalError, Place, ProjectError
from niceeval._base.guest import GuestHost, GuestScope
from niceeval._base.plain_text import clean_text
from niceeval._drive.faults import error_text, last_project_site, shown_file, user_frames
from niceeval._model.agent import Agent
from niceeval._model.run_events import ExperimentFailed, LiveEvent, RunNotice
from niceeval._run.attempt import shielded
from niceeval._run.dispatch import Lane
from niceeval._run.limits import Limits

MAX_VERSION = 1_000
"""Characters of an agent's version that are kept."""


class Hooks:
    """Runs hooks behind the guest boundary. Teardown runs whenever setup was entered, once."""

    def __init__(self, host: GuestHost, root: Path, emit: Callable[[LiveEvent], None], limits: Limits) -> None:
        self._host = host
        self._limits = limits
        self._root = root
        self._emit = emit

    async def set_up(self, lane: Lane) -> NiceevalError | None:
        """Run the experiment's setup and ask its agent's version; the error where one of them failed."""
        experiment = lane.experiment
        scope = GuestScope(self._host, f"{experiment.id} setup")
        try:
            lane.agent_version = await self._version(scope, experiment.agent)
            if experiment.setup is not None:
                lane.entered = True
                await scope.call("setup", self._limits.experiment_setup, experiment.setup)
        except asyncio.CancelledError:
            return ProjectError("experiment-setup-failed", experiment=experiment.id, error="interrupted")
        except BaseException as error:  # noqa: BLE001 - the experiment's hook is a guest
            return self._problem(lane, error)
        return None

    async def _version(self, scope: GuestScope, agent: Agent) -> str | None:
        version: object = agent.version
        if callable(version):
            version = await scope.call("version", self._limits.experiment_setup, version)
        if version is None or isinstance(version, str):
            return None if version is None else clean_text(version, MAX_VERSION)[0]
        problem = f"agent {agent.name}: version() returned {type(version).__name__}"
        raise AdapterError("agent-invalid", problem=problem, fix="it returns text")

    def report(self, lane: Lane, problem: NiceevalError, not_started: int) -> None:
        """Say that an experiment does not run."""
        self._emit(ExperimentFailed(experiment_id=lane.experiment.id, error=problem, not_started=not_started))

    async def tear_down(self, lane: Lane) -> None:
        """Run the experiment's teardown where it is due; a failure is said and changes no result."""
        if not lane.entered or lane.torn_down or lane.experiment.teardown is None:
            return
        lane.torn_down = True
        await shielded(self._tear_down(lane))

    async def tear_down_all(self, lanes: Iterable[Lane]) -> None:
        """What is still due at the end of the run."""
        for lane in lanes:
            await self.tear_down(lane)

    async def _tear_down(self, lane: Lane) -> None:
        experiment = lane.experiment
        assert experiment.teardown is not None
        scope = GuestScope(self._host, f"{experiment.id} teardown")
        try:
            await scope.call("teardown", self._limits.experiment_teardown, experiment.teardown)
        except BaseException as error:  # noqa: BLE001 - a guest; shielded, so no cancellation arrives here
            message = f"teardown of experiment {experiment.id}: {error_text(error)}"
            self._emit(RunNotice(code="experiment-teardown-failed", level="error", message=message))

    def _problem(self, lane: Lane, error: BaseException) -> NiceevalError:
        if isinstance(error, NiceevalError):
            return error.at(lane.experiment.place)
        site = last_project_site(error, self._root)
        place = None if site is None else Place(shown_file(site.file, self._root), site.line, site.column)
        return ProjectError(
            "experiment-setup-failed",
            place=place or lane.experiment.place,
            frames=user_frames(error, self._root),
            experiment=lane.experiment.id,
            error=error_text(error),
        )
