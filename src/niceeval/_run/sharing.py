"""Sharing a project's work with other invocations that run at the same time: who runs what, and where it is stored."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from niceeval._base.errors import ResultsError
from niceeval._drive.faults import error_text
from niceeval._plan.plan import AttemptPlan, RunPlan
from niceeval._record.attempt import Attempt
from niceeval._record.claims import Claims, Held, Stored
from niceeval._record.reader import stored_attempt


class Sharing:
    """This run's claims on attempts. Where they cannot be kept, the run goes on alone, and that is said once.

    `folder_of` says where an attempt is stored, relative to the run. `tell` names who is told of problems; those before
    it are told then.
    """

    def __init__(self, plan: RunPlan, results_dir: Path, run: str, folder_of: Callable[[AttemptPlan], str]) -> None:
        self._plan = plan
        self._folder_of = folder_of
        self._results_dir = results_dir
        self._own = Claims(results_dir, run)
        self._claims: Claims | None = self._own
        self._deciding: dict[tuple[str, str], list[AttemptPlan]] = {}
        self._untold: list[str] = []
        self.say_problem: Callable[[str], None] = self._untold.append

    def tell(self, say_problem: Callable[[str], None]) -> None:
        """From now on problems are said at once."""
        self.say_problem = say_problem
        for message in self._untold:
            say_problem(message)
        self._untold.clear()

    def open(self) -> None:
        """Say that this run is alive."""
        self._guarded(lambda claims: claims.open())

    def close(self) -> None:
        """Say that it is over."""
        # Also where they were given up: until now they have said that this run is alive.
        with contextlib.suppress(OSError):
            self._own.close()

    def take(self, attempt: AttemptPlan, *, anyway: bool = False) -> Held | Stored | None:
        """Take an attempt; else who runs it, or where it is stored.

        With `--force`, or `anyway`, nothing of others is taken over.
        """
        decision = self._plan.decision(attempt)
        forced = anyway or (decision is not None and decision.forced)
        found: Held | Stored | None = None

        def take(claims: Claims) -> None:
            nonlocal found
            found = claims.take(self._key(attempt), self._folder_of(attempt), forced=forced)

        self._guarded(take)
        return found

    def refresh(self) -> None:
        """Take in what other invocations have done since the last time."""
        self._guarded(lambda claims: claims.refresh())

    def elsewhere(self, attempt: AttemptPlan) -> Literal["held", "stored"] | None:
        """What another invocation has done with an attempt, as far as `refresh` saw; None where it is free."""
        if self._claims is None:
            return None
        key = self._key(attempt)
        if self._claims.is_stored(key):
            return "stored"
        return "held" if self._claims.held(key) else None

    def stored(self, attempt: AttemptPlan, folder: str) -> None:
        """The attempt is on disk, in that folder of this run."""
        self._guarded(lambda claims: claims.stored(self._key(attempt), folder))

    def give_up(self, attempt: AttemptPlan) -> None:
        """The attempt was not finished."""
        waiting = self._deciding.get((attempt.experiment.id, attempt.eval.id))
        if waiting is None:
            self._guarded(lambda claims: claims.give_up(self._key(attempt)))
        else:
            waiting.append(attempt)

    @contextlib.contextmanager
    def deciding(self, attempt: AttemptPlan) -> Iterator[None]:
        """The attempt's result, which makes the eval's others unnecessary, is being stored.

        They are given up only when everybody can see why: others would run them in the meantime.
        """
        pair = (attempt.experiment.id, attempt.eval.id)
        self._deciding[pair] = []
        try:
            yield
        finally:
            for other in self._deciding.pop(pair):
                self.give_up(other)

    def read(self, stored: Stored) -> Attempt | None:
        """What another invocation has stored; None where it cannot be read after all."""
        try:
            return stored_attempt(self._results_dir / stored.run, stored.folder)
        except ResultsError as error:
            self.say_problem(error.message())
            return None

    def _key(self, attempt: AttemptPlan) -> str:
        identity = self._plan.identities.get((attempt.experiment.id, attempt.eval.id))
        fingerprint = "" if identity is None else identity.fingerprint
        said = "\0".join((attempt.experiment.id, attempt.eval.id, str(attempt.attempt), fingerprint))
        return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def _guarded(self, act: Callable[[Claims], None]) -> None:
        if self._claims is None:
            return
        try:
            act(self._claims)
        except Exception as error:  # noqa: BLE001 - whatever it is, going on alone is better than waiting for ever
            self._claims = None
            problem = (error.strerror if isinstance(error, OSError) else None) or error_text(error)
            self.say_problem(f"claims cannot be kept ({problem}); other invocations are not seen")
