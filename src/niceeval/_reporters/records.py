"""A run's events as JSON objects: the lines of `--json`, and what `Json` puts into its document.

Names, types and meaning are a contract (`events.schema.json`): fields may be added, never changed. What is not known
is left out. Texts are English, whatever `NICEEVAL_LANG` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from niceeval._base.errors import NiceevalError
from niceeval._base.plain_text import cut_text
from niceeval._model.assertion import AssertionResult
from niceeval._model.result import AttemptResult, ErrorInfo
from niceeval._model.run_events import (
    AttemptKey,
    BudgetExceeded,
    EarlyExit,
    EvalComplete,
    EvalStart,
    ExperimentFailed,
    Interrupted,
    LiveEvent,
    NotStarted,
    RunFinished,
    RunNotice,
    RunSaved,
    RunStart,
)

FORMAT = "niceeval.events"
SCHEMA_VERSION = 1
LINE_BYTES = 64 * 1024
"""The longest line, its end included."""

Record: TypeAlias = dict[str, Any]

_IDENTITY = frozenset({"type", "format", "experimentId", "evalId", "locator", "run", "outputDir", "startedAt", "id"})
_FREE_TEXT = frozenset(
    {"name", "label", "group", "expected", "received", "detail", "message", "skipReason", "next", "reasons"}
)


def record_of(event: LiveEvent) -> Record | None:
    """The event as a JSON object; None for one that has no line (progress, and the summary, which needs more)."""
    match event:
        case RunStart():
            return _run_start(event)
        case EvalStart():
            return {"type": "eval:start", **key_fields(event.key), "startedAt": event.started_at}
        case EvalComplete():
            return eval_complete(event)
        case EarlyExit():
            return {
                "type": "run:earlyExit",
                "experimentId": event.experiment_id,
                "evalId": event.eval_id,
                "after": event.after,
                "cancelled": list(event.cancelled),
            }
        case ExperimentFailed():
            return {
                "type": "run:experimentFailed",
                "experimentId": event.experiment_id,
                "error": problem(event.error),
                "notStarted": event.not_started,
            }
        case BudgetExceeded():
            return _budget_exceeded(event)
        case NotStarted():
            return {
                "type": "run:notStarted",
                **_known(experimentId=event.experiment_id, evalId=event.eval_id),
                "code": event.code,
                "message": event.message,
                "notStarted": event.count,
            }
        case RunNotice():
            return {"type": "run:notice", "code": event.code, "level": event.level, "message": event.message}
        case Interrupted():
            return {"type": "run:interrupted", "cancelled": event.cancelled}
        case RunSaved():
            return {"type": "run:saved", "run": event.run, "outputDir": event.output_dir}
        case _:
            return None


def _run_start(event: RunStart) -> Record:
    return {
        "type": "run:start",
        "format": FORMAT,
        "schemaVersion": SCHEMA_VERSION,
        "run": event.run,
        "planned": event.planned,
        "carried": event.carried,
        **_known(budget=event.budget),
        "problems": problems(event.problems),
    }


def _budget_exceeded(event: BudgetExceeded) -> Record:
    return {
        "type": "run:budgetExceeded",
        **_known(experimentId=event.experiment_id),
        "budget": event.budget,
        "spent": event.spent,
        "reserved": event.reserved,
        "notStarted": event.not_started,
        **({} if event.error is None else {"error": problem(event.error)}),
    }


def run_summary(finished: RunFinished, commands: Iterable[str]) -> Record:
    """`run:summary`, with the commands to type next."""
    return {
        "type": "run:summary",
        "status": finished.status,
        "exitCode": finished.exit_code,
        **counts(finished),
        "durationMs": finished.duration_ms,
        **_known(usage=finished.usage, estimatedCostUSD=finished.estimated_cost_usd),
        **_known(judgeUsage=finished.judge_usage, judgeCostUSD=finished.judge_cost_usd),
        "problems": problems(finished.problems),
        "next": list(commands),
    }


def counts(finished: RunFinished) -> Record:
    """Attempts by what became of them; carried ones are finished ones too."""
    return {
        "passed": finished.passed,
        "failed": finished.failed,
        "skipped": finished.skipped,
        "errored": finished.errored,
        "notStarted": finished.not_started,
        **({"notStartedWhy": dict(finished.not_started_why)} if finished.not_started_why else {}),
        "cancelled": finished.cancelled,
        "carried": finished.carried,
    }


def key_fields(key: AttemptKey) -> Record:
    """What names an attempt; `attempt` counts from 0."""
    return {"experimentId": key.experiment_id, "evalId": key.eval_id, "attempt": key.attempt}


def eval_complete(event: EvalComplete) -> Record:
    """`eval:complete`."""
    record = {"type": "eval:complete", **key_fields(event.key), **attempt_fields(event.result)}
    return record if event.stored else {**record, "stored": False}


def attempt_fields(result: AttemptResult) -> Record:
    """What an attempt came to; of its assertions those that did not pass."""
    error = result.error_info
    return {
        "outcome": result.outcome,
        **_known(locator=result.locator),
        "durationMs": result.duration_ms,
        **_known(usage=result.usage, estimatedCostUSD=result.estimated_cost_usd, skipReason=result.skip_reason),
        **_known(judgeUsage=result.judge_usage, judgeCostUSD=result.judge_cost_usd),
        **({} if error is None else {"error": _error(error)}),
        **_known(phases=result.phases, sandbox=result.sandbox),
        **_known(carriedFrom=result.carried_from, retries=list(result.retries) or None),
        "assertions": [_assertion(entry) for entry in result.assertions if entry.outcome != "passed"],
    }


def _error(error: ErrorInfo) -> Record:
    return {
        "code": error.code,
        "phase": error.phase,
        "message": error.message,
        **_known(loc=error.loc, next=error.next),
    }


def _assertion(entry: AssertionResult) -> Record:
    return {
        "name": entry.name,
        "severity": entry.severity,
        "outcome": entry.outcome,
        **({"optional": True} if entry.optional else {}),
        **_known(loc=entry.loc, label=entry.label, group=entry.group),
        **({} if entry.threshold is None else {"score": entry.score, "threshold": entry.threshold}),
        **_known(expected=entry.expected, received=entry.received, detail=entry.detail, reason=entry.reason),
        "evidenceRefs": msgspec.to_builtins(entry.evidence_refs),
    }


def problems(errors: Iterable[NiceevalError]) -> list[Record]:
    """Each as `problem` gives it."""
    return [problem(error) for error in errors]


def problem(error: NiceevalError) -> Record:
    """An error's code, sentence, place and hint."""
    place = error.place
    where = {} if place is None else _known(file=place.file, line=place.line, column=place.column)
    return {"code": error.code, "message": error.message(), **where, **_known(next=error.next_step() or None)}


def _known(**values: Any) -> Record:
    """Those that are known, as plain JSON."""
    return {name: msgspec.to_builtins(value) for name, value in values.items() if value is not None}


def mapped_texts(record: Any, change: Any, *, only: frozenset[str] | None = None, inside: bool = False) -> Any:
    """The record with its texts changed, but for what identifies something; `only` names the keys that may change."""
    if isinstance(record, str):
        return change(record) if inside or only is None else record
    if isinstance(record, Mapping):
        return {
            key: value
            if key in _IDENTITY
            else mapped_texts(value, change, only=only, inside=only is None or key in only)
            for key, value in record.items()
        }
    if isinstance(record, list):
        return [mapped_texts(item, change, only=only, inside=inside) for item in record]
    return record


def with_shorter_texts(record: Record, limit: int) -> Record:
    """The record with each free text cut to `limit` characters; ids, places and codes stay whole."""
    shorter: Record = mapped_texts(record, lambda text: cut_text(text, limit), only=_FREE_TEXT)
    return shorter


def with_shorter_lists(record: Record) -> Record:
    """The record with half of its longest list, and how many were left out so far beside it."""
    lists = [name for name, value in record.items() if isinstance(value, list) and value]
    if not lists:
        return record
    longest = max(lists, key=lambda name: len(repr(record[name])))
    kept = record[longest][: len(record[longest]) // 2]
    left_out = f"{longest}LeftOut"
    dropped = len(record[longest]) - len(kept) + record.get(left_out, 0)
    return {**record, longest: kept, left_out: dropped}
