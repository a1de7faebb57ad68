"""An experiment's own `setup` and `teardown`: once per experiment, on the host, for services all its attempts share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from niceeval._base.errors import NiceevalError, Place, ProjectError
from niceeval._base.guest import GuestHost, GuestScope
from niceeval._drive.faults import error_text, last_project_site, shown_file, user_frames
from niceeval._model.run_events import ExperimentFailed, LiveEvent, RunNotice
from niceeval._run.dispatch import Lane
from niceeval._run.limits import Limits
from niceeval._run.shielding import shielded


class Hooks:
    """Runs hooks behind the guest boundary. Teardown runs whenever the experiment was begun, once."""

    def __init__(self, host: GuestHost, root: Path, emit: Callable[[LiveEvent], None], limits: Limits) -> None:
        self._host = host
        self._limits = limits
        self._root = root
        self._emit = emit

    async def set_up(self, lane: Lane) -> NiceevalError | None:
        """Run the experiment's setup; the error where it failed."""
        experiment = lane.experiment
        scope = GuestScope(self._host, f"{experiment.id} setup")
        try:
            lane.entered = True
            if experiment.setup is not None:
                await scope.call("setup", self._limits.experiment_setup, experiment.setup)
        except asyncio.CancelledError:
            return ProjectError("experiment-setup-failed", experiment=experiment.id, error="interrupted")
        except BaseException as error:  # noqa: BLE001 - the experiment's hook is a guest
            return self._problem(lane, error)
        return None

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
