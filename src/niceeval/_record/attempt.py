"""One stored attempt, as callers see it: the slim row, and what lies beside it on demand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from niceeval._base.errors import NiceevalError
from niceeval._base.ids import identity_hash
from niceeval._model.assertion import AssertionResult
from niceeval._model.diff import StoredDiff
from niceeval._model.events import StreamEvent
from niceeval._model.judgement import StoredJudgement
from niceeval._model.o11y import O11ySummary
from niceeval._model.result import (
    AttemptResult,
    CarriedFrom,
    ChannelCoverage,
    Diagnostic,
    ErrorInfo,
    ExperimentInfo,
    LogLine,
    Points,
    Retry,
    SandboxInfo,
    SourceFile,
    StoredIdentity,
    Verdict,
)
from niceeval._model.usage import Usage
from niceeval._record import layout, rows
from niceeval._record.artifacts import read_artifact, unreadable
from niceeval._record.rows import AttemptRow

if TYPE_CHECKING:
    from niceeval._record.locators import Locators

T = TypeVar("T")


class Attempt:
    """An attempt of a stored run.

    The plain properties were read with the run. `assertions`, `experiment`, `error_info`, `coverage`, `diagnostics`,
    `phases` and `points` are decoded at each read; `events()`, `o11y()`, `sources()`, `logs()`, `diff()` and
    `judgements()` read a file and give None where there is none. All of these raise ResultsError (`unreadable`) for
    what is there and cannot be used.
    """

    __slots__ = ("_locators", "_row", "run", "run_folder")

    def __init__(self, row: AttemptRow, run: str, run_folder: Path, locators: Locators) -> None:
        self._row = row
        self._locators = locators
        self.run = run
        self.run_folder = run_folder

    def __repr__(self) -> str:
        return f"Attempt({self.eval_id!r}, experiment={self.experiment_id!r}, attempt={self.attempt})"

    @property
    def eval_id(self) -> str:
        return self._row.id

    @property
    def experiment_id(self) -> str | None:
        return self._row.experiment_id

    @property
    def attempt(self) -> int:
        """Counted from 0."""
        return self._row.attempt

    @property
    def agent(self) -> str:
        return self._row.agent

    @property
    def model(self) -> str | None:
        return self._row.model

    @property
    def outcome(self) -> Verdict:
        return self._row.outcome

    @property
    def started_at(self) -> str:
        """UTC ISO text, as it is stored."""
        return self._row.started_at

    @property
    def duration_ms(self) -> int:
        return round(self._row.duration_ms)

    @property
    def usage(self) -> Usage | None:
        return self._row.usage

    @property
    def estimated_cost_usd(self) -> float | None:
        """None where it is not known."""
        return self._row.estimated_cost_usd

    @property
    def description(self) -> str | None:
        return self._row.description

    @property
    def tags(self) -> tuple[str, ...]:
        return self._row.tags

    @property
    def error(self) -> str | None:
        """The error's text, of an errored attempt."""
        return self._row.error

    @property
    def skip_reason(self) -> str | None:
        return self._row.skip_reason

    @property
    def fingerprint(self) -> str | None:
        return self._row.fingerprint

    @property
    def early_exited(self) -> bool:
        """Whether the sample this attempt belongs to was cut short."""
        return self._row.early_exited

    @property
    def artifacts_dir(self) -> str:
        """Its folder, relative to the run folder. Not checked: read the files through the methods here."""
        return self._row.artifacts_dir

    @property
    def identity(self) -> tuple[str | None, str, int, str]:
        """What tells this attempt from every other, in whatever run it is stored."""
        row = self._row
        return (row.experiment_id, row.id, row.attempt, row.started_at)

    @property
    def hash(self) -> str:
        """The identity as 52 characters; its locator is the start of this."""
        return identity_hash(*self.identity)

    @property
    def locator(self) -> str:
        """`@` and 8 characters, more where another attempt of the same results has the same ones."""
        return self._locators.of(self)

    @property
    def judge_usage(self) -> Usage | None:
        """What judging used; the agent's own is `usage`."""
        return self._row.judge_usage

    @property
    def judge_cost_usd(self) -> float | None:
        """What judging cost; None where that is not known, or nothing was judged."""
        return self._row.judge_cost_usd

    @property
    def assertions(self) -> tuple[AssertionResult, ...]:
        return self._decoded("assertions", rows.assertions_of)

    @property
    def experiment(self) -> ExperimentInfo | None:
        return self._decoded("experiment", rows.experiment_of)

    @property
    def error_info(self) -> ErrorInfo | None:
        return self._decoded("errorInfo", rows.error_of)

    @property
    def coverage(self) -> dict[str, ChannelCoverage] | None:
        return self._decoded("coverage", rows.coverage_of)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return self._decoded("diagnostics", rows.diagnostics_of)

    @property
    def phases(self) -> dict[str, int]:
        """Phase to its milliseconds."""
        return self._decoded("phases", rows.phases_of)

    @property
    def points(self) -> Points | None:
        return self._decoded("points", rows.points_of)

    @property
    def carried_from(self) -> CarriedFrom | None:
        """Where an attempt that was not run again comes from."""
        return self._decoded("carriedFrom", rows.carried_from_of)

    @property
    def identity_parts(self) -> StoredIdentity | None:
        """What the result depends on, by name; None for results that do not say."""
        return self._decoded("identity", rows.identity_of)

    @property
    def retries(self) -> tuple[Retry, ...]:
        return self._decoded("retries", rows.retries_of)

    @property
    def sandbox(self) -> SandboxInfo | None:
        """The sandbox it ran in; None for a direct agent's."""
        return self._decoded("sandbox", rows.sandbox_of)

    def result(self) -> AttemptResult:
        """The whole result, everything nested decoded, in the form that the writer takes."""
        row = self._row
        return AttemptResult(
            id=row.id,
            agent=row.agent,
            outcome=row.outcome,
            attempt=row.attempt,
            started_at=row.started_at,
            duration_ms=self.duration_ms,
            assertions=self.assertions,
            artifacts_dir=row.artifacts_dir,
            has_events=row.has_events,
            has_trace=row.has_trace,
            has_sources=row.has_sources,
            has_o11y=row.has_o11y,
            has_logs=row.has_logs,
            has_diff=row.has_diff,
            has_judgements=row.has_judgements,
            judge_usage=row.judge_usage,
            judge_cost_usd=row.judge_cost_usd,
            locator=self.locator,
            description=row.description,
            tags=row.tags,
            experiment_id=row.experiment_id,
            experiment=self.experiment,
            model=row.model,
            fingerprint=row.fingerprint,
            usage=row.usage,
            estimated_cost_usd=row.estimated_cost_usd,
            error=row.error,
            error_info=self.error_info,
            skip_reason=row.skip_reason,
            coverage=self.coverage,
            diagnostics=self.diagnostics,
            points=self.points,
            early_exited=row.early_exited,
            phases=self.phases or None,
            identity=self.identity_parts,
            carried_from=self.carried_from,
            retries=self.retries,
            sandbox=self.sandbox,
        )

    def events(self) -> list[StreamEvent] | None:
        """The event stream."""
        return self._artifact(layout.EVENTS, rows.decode_events)

    def o11y(self) -> O11ySummary | None:
        """What the attempt did, in figures."""
        return self._artifact(layout.O11Y, rows.decode_o11y)

    def sources(self) -> tuple[SourceFile, ...] | None:
        """The eval's files as they were when it ran."""
        return self._artifact(layout.SOURCES, rows.decode_sources)

    def logs(self) -> tuple[LogLine, ...] | None:
        """What eval and adapter logged."""
        return self._artifact(layout.LOGS, rows.decode_logs)

    def diff(self) -> StoredDiff | None:
        """What the agent changed in its sandbox."""
        return self._artifact(layout.DIFF, rows.decode_diff)

    def judgements(self) -> tuple[StoredJudgement, ...] | None:
        """What judges were asked, and what they answered."""
        return self._artifact(layout.JUDGEMENTS, rows.decode_judgements)

    def _decoded(self, field: str, decode: Callable[[AttemptRow], T]) -> T:
        try:
            return decode(self._row)
        except (ValueError, RecursionError) as error:
            raise unreadable(f"{self.run}: {field} of {self.eval_id}", error) from error

    def _artifact(self, name: str, decode: Callable[[bytes], T]) -> T | None:
        data = read_artifact(self.run_folder, self.artifacts_dir, name)
        if data is None:
            return None
        try:
            return decode(data)
        except NiceevalError:
            raise
        except (ValueError, RecursionError) as error:
            raise unreadable(f"{self.run}/{self.artifacts_dir}/{name}", error) from error
