"""Sealing: from a finished attempt to the immutable result that is stored."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from msgspec.structs import replace

from niceeval._base.file_reads import MAX_READS, watched
from niceeval._base.ids import locator_of
from niceeval._drive.driver import Driver
from niceeval._drive.faults import Fault
from niceeval._evidence.coverage import stored as stored_coverage
from niceeval._evidence.o11y import summarise
from niceeval._judge.collector import stored
from niceeval._judge.verdict import attempt_verdict
from niceeval._model.assertion import AssertionResult
from niceeval._model.coverage import Channel
from niceeval._model.events import encode_events
from niceeval._model.result import (
    AttemptResult,
    ChannelCoverage,
    Diagnostic,
    ErrorInfo,
    ExperimentInfo,
    SourceFile,
    StoredIdentity,
    Verdict,
)
from niceeval._model.usage import add_usage
from niceeval._plan.identity import IDENTITY_VERSION, Identity
from niceeval._plan.plan import AttemptPlan, RunPlan
from niceeval._record.writer import SealedAttempt
from niceeval._run.attempt import FinishedAttempt
from niceeval._run.judged import judge_spending, stored_judgements
from niceeval._run.spending import spending_of

MAX_SOURCE_BYTES = 512_000
"""The largest source file that is kept beside a result."""


class Sources:
    """The project's source files as they were during this run, each read once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[str, SourceFile | None] = {}

    def get(self, path: str) -> SourceFile | None:
        """A file by its path relative to the root; None for one outside, too large or unreadable."""
        if path not in self._files:
            self._files[path] = self._read(path)
        return self._files[path]

    def _read(self, path: str) -> SourceFile | None:
        if path.startswith(("..", "/")) or not path.endswith(".py"):
            return None
        try:
            data = (self._root / path).read_bytes()
        except OSError:
            return None
        if len(data) > MAX_SOURCE_BYTES:
            return None
        return SourceFile(path=path, content=data.decode("utf-8", "replace"))


def verdict_of(finished: FinishedAttempt, *, strict: bool) -> Verdict:
    """The attempt's verdict."""
    driver = finished.driver
    return attempt_verdict(
        driver.collector.entries,
        errored=driver.fault is not None,
        skipped=driver.skip_reason is not None,
        strict=strict,
    )


def seal(
    finished: FinishedAttempt,
    *,
    plan: RunPlan,
    verdict: Verdict,
    artifacts_dir: str,
    early_exited: bool,
    sources: Sources,
) -> SealedAttempt:
    """The attempt as it is stored."""
    driver, attempt = finished.driver, finished.plan
    log = driver.log
    identity = plan.identities.get((attempt.experiment.id, attempt.eval.id))
    usage = add_usage(turn.usage for session in log.sessions for turn in session if turn.usage is not None)
    cost = spending_of(driver)
    assertions = tuple(_with_origin(stored(entry, driver.loc), driver) for entry in driver.collector.entries)
    error = None if driver.fault is None else _error_info(driver.fault, driver)
    files = _sources(attempt.eval.path, assertions_files=[a.loc.file for a in assertions if a.loc], sources=sources)
    turns = log.turn_summaries()
    judgements, (judge_usage, judge_cost) = stored_judgements(driver), judge_spending(driver)
    result = AttemptResult(
        id=attempt.eval.id,
        description=attempt.eval.description,
        tags=attempt.eval.tags,
        experiment_id=attempt.experiment.id,
        experiment=experiment_info(attempt, plan),
        agent=attempt.experiment.agent.name,
        model=attempt.experiment.model,
        outcome=verdict,
        attempt=attempt.attempt,
        started_at=finished.started_at,
        duration_ms=finished.duration_ms,
        assertions=assertions,
        usage=usage,
        estimated_cost_usd=cost.usd,
        error=None if error is None else error.message,
        error_info=error,
        skip_reason=driver.skip_reason if verdict == "skipped" else None,
        coverage=_coverage(driver),
        diagnostics=_diagnostics(driver),
        points=driver.collector.points(),
        artifacts_dir=artifacts_dir,
        has_events=bool(log.events),
        has_trace=False,
        has_sources=bool(files),
        has_o11y=bool(turns),
        has_logs=bool(log.lines),
        has_diff=finished.diff is not None,
        has_judgements=bool(judgements),
        judge_usage=judge_usage,
        judge_cost_usd=judge_cost,
        early_exited=early_exited,
        phases=finished.phases or None,
        fingerprint=None if identity is None else identity.fingerprint,
        identity=None if identity is None else _identity(identity, finished, plan.root),
        retries=tuple(log.retries),
        sandbox=finished.sandbox,
        locator=locator_of(attempt.experiment.id, attempt.eval.id, attempt.attempt, finished.started_at),
    )
    return SealedAttempt(
        index=attempt.index,
        result=result,
        events=encode_events(log.events) if log.events else None,
        sources=files,
        o11y=summarise(log.events, turns, finished.duration_ms, usage, cost.usd) if turns else None,
        logs=tuple(log.lines),
        diff=finished.diff,
        judgements=judgements,
    )


def _identity(identity: Identity, finished: FinishedAttempt, root: Path) -> StoredIdentity:
    parts = dict(identity.parts)
    watching = watched(root)
    if watching is None:
        return StoredIdentity(version=IDENTITY_VERSION, parts=parts)
    found = watching.of(finished.reads, identity.files)
    # What it has read again as it was when the project was loaded is a part already.
    reads = {path: digest for path, digest in found.items() if parts.get(f"file: {path}") != digest}
    cut = len(reads) > MAX_READS
    kept = dict(list(reads.items())[:MAX_READS]) if cut else reads
    return StoredIdentity(version=IDENTITY_VERSION, parts=parts, reads=kept, reads_cut=cut)


def _with_origin(assertion: AssertionResult, driver: Driver) -> AssertionResult:
    """Mark an `unavailable` that follows from the agent's own declaration."""
    reason = assertion.reason
    if reason is None or reason.channel is None:
        return assertion
    declared = {channel: said.level for channel, said in driver.setting.agent.evidence_coverage.items()}
    if declared.get(cast(Channel, reason.channel)) == "complete":
        return assertion
    return replace(assertion, reason=replace(reason, declared=True))


def experiment_info(attempt: AttemptPlan, plan: RunPlan) -> ExperimentInfo:
    """The configuration that the attempt belongs to, as results say it."""
    experiment = attempt.experiment
    return ExperimentInfo(
        id=experiment.id,
        flags=dict(experiment.flags),
        runs=experiment.runs,
        early_exit=experiment.early_exit,
        description=experiment.description,
        reasoning_effort=experiment.reasoning_effort,
        labels=dict(experiment.labels) or None,
        strict=plan.strict,
        timeout=attempt.timeout,
        budget=experiment.budget,
        agent_version=plan.versions.get(experiment.id),
    )


def _error_info(fault: Fault, driver: Driver) -> ErrorInfo:
    loc = None if fault.site is None else driver.loc(fault.site)
    return ErrorInfo(
        code=fault.code,
        phase=fault.phase,
        message=fault.message,
        loc=None if loc is None else str(loc),
        trace=fault.trace,
        next=fault.next_step,
    )


def _coverage(driver: Driver) -> dict[str, ChannelCoverage] | None:
    if not any(driver.log.sessions):
        return None
    return stored_coverage(driver.log.scope().coverage)


def _diagnostics(driver: Driver) -> tuple[Diagnostic, ...]:
    found = list(driver.log.diagnostics)
    for count, what in ((driver.log.dropped_lines, "log line"), (driver.log.dropped_diagnostics, "diagnostic")):
        if count:
            found.append(Diagnostic(code="log-cut", level="info", message=f"{count:,} more {what}s were not kept"))
    return tuple(found)


def _sources(eval_path: str, assertions_files: list[str], sources: Sources) -> tuple[SourceFile, ...]:
    paths = dict.fromkeys([eval_path, *assertions_files])
    return tuple(file for path in paths if (file := sources.get(path)) is not None)
