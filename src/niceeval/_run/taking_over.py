"""Results of other runs, stored once more in this one: what the plan carries, and what others seal meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from niceeval._base.errors import ResultsError
from niceeval._base.file_reads import Digests
from niceeval._model.result import AttemptResult, CarriedFrom
from niceeval._model.run_events import EvalComplete, LiveEvent, RunNotice
from niceeval._plan.plan import AttemptPlan, RunPlan
from niceeval._plan.reads import why_stale
from niceeval._record.artifacts import unreadable
from niceeval._record.attempt import Attempt
from niceeval._record.layout import is_inside
from niceeval._record.writer import RunWriter
from niceeval._run.attempt_names import key_of, label_of, stored_name_of
from niceeval._run.outcome import Tally
from niceeval._run.seal import experiment_info
from niceeval._run.sharing import Sharing

AT_ONCE = 64
"""Stored attempts that are taken over at a time."""


class TakingOver:
    """Takes attempts over into a run that has begun: stores them, counts them, and says so."""

    def __init__(
        self, plan: RunPlan, writer: RunWriter, sharing: Sharing, tally: Tally, emit: Callable[[LiveEvent], None]
    ) -> None:
        self._plan = plan
        self._writer = writer
        self._sharing = sharing
        self._tally = tally
        self._emit = emit
        self._digests = Digests(plan.root)

    async def planned(self) -> list[AttemptPlan]:
        """Take over what the plan carries; returns what could not be taken over after all, and has to be run."""
        left: list[AttemptPlan] = []
        cut_short = {
            (attempt.experiment.id, attempt.eval.id)
            for attempt in self._plan.attempts
            if (decision := self._plan.decision(attempt)) is not None and not decision.needed
        }

        async def one(attempt: AttemptPlan, stored: Attempt) -> None:
            cut = (attempt.experiment.id, attempt.eval.id) in cut_short and stored.outcome in ("passed", "errored")
            if not await self.one(attempt, stored, early_exited=cut):
                left.append(attempt)

        carried = [
            one(attempt, decision.carried)
            for attempt in self._plan.attempts
            if (decision := self._plan.decision(attempt)) is not None and decision.carried is not None
        ]
        for start in range(0, len(carried), AT_ONCE):
            await asyncio.gather(*carried[start : start + AT_ONCE])
        return left

    async def one(self, attempt: AttemptPlan, stored: Attempt, *, early_exited: bool) -> bool:
        """Take over one stored attempt; False, and a notice, where it cannot be read, or what it read has changed.

        One that the disk does not take counts for this run, is not run again, and stays where it was stored.
        """
        try:
            result = self._as_stored_here(attempt, stored, early_exited)
            stale = why_stale(stored, self._digests)
            if stale is not None:
                self._sharing.say_problem(f"{label_of(attempt)}: not carried, so it is run: {stale}")
                return False
            stored_here = await self._store(attempt, result, _folder_of(stored))
        except ResultsError as error:
            self._sharing.say_problem(f"{label_of(attempt)}: not carried, so it is run: {error.message()}")
            return False
        self._tally.add(result, stored=stored_here)
        self._emit(EvalComplete(key=key_of(attempt), result=result, stored=stored_here))
        return True

    async def _store(self, attempt: AttemptPlan, result: AttemptResult, source: Path) -> bool:
        try:
            await asyncio.wrap_future(self._writer.carry(attempt.index, result, source))
        except ResultsError as error:
            if error.code != "cannot-write":
                raise
            self._tally.problem(error)
            message = f"{label_of(attempt)}: {error.message()}"
            self._emit(RunNotice(code=error.code, level="error", message=message))
            return False
        self._sharing.stored(attempt, result.artifacts_dir)
        return True

    def _as_stored_here(self, attempt: AttemptPlan, stored: Attempt, early_exited: bool) -> AttemptResult:
        """The result with its origin, and with what this run says of things that cannot change an attempt."""
        result = stored.result()
        return replace(
            result,
            artifacts_dir=self._writer.artifacts_dir(stored_name_of(attempt)),
            experiment=experiment_info(attempt, self._plan),
            early_exited=early_exited,
            carried_from=result.carried_from or CarriedFrom(run=stored.run, locator=result.locator),
        )


def _folder_of(stored: Attempt) -> Path:
    """Where the attempt's files lie. What a result says of that is somebody else's text."""
    if not is_inside(stored.artifacts_dir):
        raise unreadable(f"{stored.run}: {stored.eval_id}", "artifactsDir leads out of the run folder")
    return stored.run_folder / stored.artifacts_dir
