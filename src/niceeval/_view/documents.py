"""`niceeval show --json`: the same answers as one JSON document each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from niceeval._judging.records import CalibrationRecord
from niceeval._record.attempt import Attempt
from niceeval._record.reader import Results, Snapshot, latest_per_experiment
from niceeval._record.runs import Run, Skipped
from niceeval._view.attempt_page import Material, material_of
from niceeval._view.figures import figures_of
from niceeval._view.judged import judged_json, judged_rates
from niceeval._view.overview import again
from niceeval._view.turns import TurnLine

FORMAT = "niceeval.show"
SCHEMA_VERSION = 1


def overview_document(results: Results, calibrations: Sequence[CalibrationRecord] = ()) -> dict[str, Any]:
    """Runs, the latest snapshot of each experiment, every attempt of them that did not pass, and what was not read."""
    snapshots = latest_per_experiment(results)
    return {
        "format": FORMAT,
        "schemaVersion": SCHEMA_VERSION,
        "path": str(results.path),
        "runs": [_run(run) for run in results.runs],
        "experiments": [_snapshot(snapshot) for snapshot in snapshots],
        "notPassed": [
            _attempt_row(attempt)
            for snapshot in snapshots
            for attempt in snapshot.attempts
            if attempt.outcome in ("failed", "errored")
        ],
        **({"judged": judged_json(rates)} if (rates := judged_rates(snapshots, calibrations)) else {}),
        "skipped": [_skipped(item) for item in results.skipped],
    }


def attempt_document(attempt: Attempt) -> dict[str, Any]:
    """The attempt's whole result, its turns, and the checks that were not reached.

    Raises ResultsError (`unreadable`).
    """
    material = material_of(attempt)
    origin = attempt.carried_from
    return _known(
        {
            "format": FORMAT,
            "schemaVersion": SCHEMA_VERSION,
            "run": attempt.run,
            "path": str(attempt.run_folder / attempt.artifacts_dir),
            "carriedFrom": None if origin is None else msgspec.to_builtins(origin),
            "result": msgspec.to_builtins(material.result),
            "turns": [_turn(turn) for turn in material.turns],
            "notReached": _not_reached(material),
            "diff": None if material.diff is None else msgspec.to_builtins(material.diff),
            "events": None if material.events is None else len(material.events),
            "problems": list(material.problems),
        }
    )


def _known(value: dict[str, Any]) -> dict[str, Any]:
    """Without what is not known: an absent field, never a null or a zero."""
    return {name: item for name, item in value.items() if item is not None}


def _run(run: Run) -> dict[str, Any]:
    return _known(
        {
            "run": run.name,
            "path": str(run.path),
            "name": run.title,
            "startedAt": run.started_at,
            "completedAt": run.completed_at,
            "complete": run.complete,
            "running": run.running,
            "interrupted": run.interrupted,
            "attempts": len(run.attempts),
            "next": None if run.complete or run.running else again(run),
        }
    )


def _snapshot(snapshot: Snapshot) -> dict[str, Any]:
    figures = figures_of(snapshot.attempts)
    return _known(
        {
            "experimentId": snapshot.experiment_id,
            "run": snapshot.run.name,
            "startedAt": snapshot.run.started_at,
            "evals": figures.evals,
            "evalsPassed": figures.evals_passed,
            "evalsJudged": figures.evals_judged,
            "passed": figures.passed,
            "failed": figures.failed,
            "errored": figures.errored,
            "skipped": figures.skipped,
            "meanDurationMs": figures.mean_ms,
            "meanTokens": figures.mean_tokens,
            "meanCostUSD": figures.mean_cost,
            "costUnknown": figures.cost_unknown,
            "missingEvals": list(snapshot.missing_evals),
        }
    )


def _attempt_row(attempt: Attempt) -> dict[str, Any]:
    return _known(
        {
            "locator": attempt.locator,
            "experimentId": attempt.experiment_id,
            "evalId": attempt.eval_id,
            "attempt": attempt.attempt,
            "outcome": attempt.outcome,
            "run": attempt.run,
            "durationMs": attempt.duration_ms,
            "estimatedCostUSD": attempt.estimated_cost_usd,
        }
    )


def _skipped(item: Skipped) -> dict[str, Any]:
    return _known({"kind": item.kind, "path": item.path, "problem": item.problem, "next": item.command})


def _turn(turn: TurnLine) -> dict[str, Any]:
    return _known(
        {
            "turn": turn.number,
            "firstEvent": turn.first,
            "lastEvent": turn.last,
            "durationMs": turn.duration_ms,
            "status": turn.status,
            "usage": None if turn.usage is None else msgspec.to_builtins(turn.usage),
            "loc": None if turn.loc is None else msgspec.to_builtins(turn.loc),
        }
    )


def _not_reached(material: Material) -> list[dict[str, Any]]:
    return [
        {"file": view.file.path, "line": check.line, "text": check.text}
        for view in material.views
        for check in view.not_reached
    ]
