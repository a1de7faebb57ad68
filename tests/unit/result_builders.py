"""Attempts and run events for tests of what is printed: short to write, complete enough to be believed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from niceeval._model.assertion import AssertionResult, EvidenceRef, Outcome, Severity, UnavailableReason
from niceeval._model.events import Loc
from niceeval._model.result import AttemptResult, ErrorInfo, Verdict
from niceeval._model.run_events import (
    AttemptKey,
    EvalComplete,
    EvalStart,
    ExperimentOutline,
    LiveEvent,
    RunFinished,
    RunSaved,
    RunStart,
)
from niceeval._model.usage import Usage

SOURCE = '    turn.called_tool("get_weather", input={"city": re.compile("brooklyn", re.I)})'


def an_assertion(
    name: str = 'called_tool("get_weather")',
    *,
    outcome: Outcome = "failed",
    severity: Severity = "gate",
    line: int = 11,
    column: int | None = 5,
    file: str = "evals/weather/brooklyn_eval.py",
    **fields: Any,
) -> AssertionResult:
    return AssertionResult(
        name=name,
        severity=severity,
        score=float(outcome == "passed"),
        passed=outcome == "passed",
        outcome=outcome,
        loc=Loc(file=file, line=line, column=column),
        **fields,
    )


def a_failed_gate(**fields: Any) -> AssertionResult:
    given = {
        "expected": "1 call of get_weather, input.city matches /brooklyn/i",
        "received": '0 such calls; nearest #4: input.city = "Queens"',
        "evidence_refs": (EvidenceRef(event=4, call_id="call_1"), EvidenceRef(event=5)),
    }
    return an_assertion(**{**given, **fields})


def an_unanswered_gate(**fields: Any) -> AssertionResult:
    reason = UnavailableReason(
        code="coverage-partial", channel="actions", message="actions is partial: call_3 (turn 2) has no result"
    )
    given = {"outcome": "unavailable", "reason": reason, "line": 19, "file": "evals/refund/policy_eval.py"}
    return an_assertion(**{"name": 'not_called_tool("issue_refund")', **given, **fields})


def a_timeout() -> ErrorInfo:
    return ErrorInfo(
        code="timeout",
        phase="send",
        message="600s passed in send, turn 2",
        loc="evals/repo/fix_bug_eval.py:8:18",
        next="raise timeout=, or see where it hangs",
    )


def a_result(
    outcome: Verdict = "passed",
    *,
    eval_id: str = "weather/brooklyn",
    experiment_id: str = "compare/bub-gpt-5.4",
    attempt: int = 0,
    locator: str | None = "@k3f7qm2x",
    duration_ms: int = 34_000,
    tokens: int | None = 58_000,
    cost: float | None = 0.44,
    assertions: Sequence[AssertionResult] = (),
    **fields: Any,
) -> AttemptResult:
    usage = None if tokens is None else Usage(input_tokens=tokens)
    return AttemptResult(
        id=eval_id,
        experiment_id=experiment_id,
        agent="bub",
        model="gpt-5.4",
        outcome=outcome,
        attempt=attempt,
        locator=locator,
        started_at="2026-07-02T03:10:24.123Z",
        duration_ms=duration_ms,
        assertions=tuple(assertions),
        artifacts_dir=f"{experiment_id}/{eval_id}/{attempt}",
        has_events=True,
        has_trace=False,
        has_sources=True,
        usage=usage,
        estimated_cost_usd=cost,
        **fields,
    )


def an_outline(
    id: str = "compare/bub-gpt-5.4", *, evals: int = 1, runs: int = 1, early_exit: bool = False, timeout: float = 600.0
) -> ExperimentOutline:
    return ExperimentOutline(
        id=id,
        agent="bub",
        model="gpt-5.4",
        evals=evals,
        runs=runs,
        early_exit=early_exit,
        timeout=timeout,
        attempts=evals * runs,
    )


def a_start(*outlines: ExperimentOutline, title: str = "compare", concurrency: int = 4) -> RunStart:
    outlines = outlines or (an_outline(),)
    return RunStart(
        run="2026-07-02T03-10-24-123Z",
        title=title,
        planned=sum(outline.attempts for outline in outlines),
        concurrency=concurrency,
        experiments=outlines,
    )


def started(result: AttemptResult, *, timeout: float = 600.0) -> EvalStart:
    return EvalStart(key=key_of(result), started_at=result.started_at, timeout=timeout)


def completed(result: AttemptResult) -> EvalComplete:
    return EvalComplete(key=key_of(result), result=result)


def key_of(result: AttemptResult) -> AttemptKey:
    assert result.experiment_id is not None
    return AttemptKey(result.experiment_id, result.id, result.attempt)


def saved() -> RunSaved:
    return RunSaved(run="2026-07-02T03-10-24-123Z", output_dir=".niceeval/2026-07-02T03-10-24-123Z")


def the_end(
    results: Sequence[AttemptResult],
    *,
    planned: int | None = None,
    status: Literal["passed", "failed", "errored", "incomplete", "interrupted"] | None = None,
    exit_code: int | None = None,
    not_started: int = 0,
    cancelled: int = 0,
    **fields: Any,
) -> RunFinished:
    counts = {verdict: sum(result.outcome == verdict for result in results) for verdict in _VERDICTS}
    worst: Any = next((verdict for verdict in ("failed", "errored") if counts[verdict]), "passed")
    verdict = status or worst
    return RunFinished(
        status=verdict,
        exit_code=exit_code if exit_code is not None else int(verdict != "passed"),
        planned=planned if planned is not None else len(results) + not_started + cancelled,
        passed=counts["passed"],
        failed=counts["failed"],
        errored=counts["errored"],
        skipped=counts["skipped"],
        not_started=not_started,
        cancelled=cancelled,
        duration_ms=391_000,
        **fields,
    )


_VERDICTS: tuple[Verdict, ...] = ("passed", "failed", "errored", "skipped")


def a_run(start: RunStart, results: Sequence[AttemptResult], **end: Any) -> Iterator[LiveEvent]:
    """The events of a run whose attempts ran one after another."""
    yield start
    for result in results:
        yield started(result)
        yield completed(result)
    yield saved()
    yield the_end(results, **end)
