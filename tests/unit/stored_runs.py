"""Runs that are on disk, with the events that their runner would have sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from niceeval._model.result import FORMAT, SCHEMA_VERSION, AttemptResult, Producer, RunSummary
from niceeval._model.run_events import LiveEvent, RunSaved
from niceeval._record.writer import RunWriter, SealedAttempt
from niceeval.reporters import Reporter
from tests.unit.result_builders import a_start, an_outline, completed, started, the_end


def a_stored_run(root: Path, results: Sequence[AttemptResult], *, saved: bool = True, **end: Any) -> list[LiveEvent]:
    """Write the results as a run below `root`; gives the run's events."""
    writer = RunWriter(root / ".niceeval", root=root, redact=lambda text: text)
    writer.begin()
    names = [(result.experiment_id or "", result.id, result.agent, result.model, result.attempt) for result in results]
    writer.reserve(names)
    placed = [
        msgspec.structs.replace(result, artifacts_dir=writer.artifacts_dir(name), has_events=False, has_sources=False)
        for result, name in zip(results, names, strict=True)
    ]
    for index, result in enumerate(placed):
        writer.submit(SealedAttempt(index=index, result=result)).result()
    if saved:
        writer.finish(_summary(placed, writer.output_dir))
    writer.close()
    experiments = dict.fromkeys(result.experiment_id or "" for result in results)
    start = replace(
        a_start(*(an_outline(id) for id in experiments)),
        run=writer.name,
        root=str(root),
        folder=str(root / writer.output_dir),
    )
    attempts = [event for result in placed for event in (started(result), completed(result))]
    end_of_it = [RunSaved(run=writer.name, output_dir=writer.output_dir)] if saved else []
    return [start, *attempts, *end_of_it, the_end(results, **end)]


def report(reporter: Reporter, events: Sequence[LiveEvent]) -> None:
    """Tell a reporter all of it, as the bus would."""
    for event in events:
        reporter.handle(event)


def _summary(results: Sequence[AttemptResult], output_dir: str) -> RunSummary:
    return RunSummary(
        format=FORMAT,
        schema_version=SCHEMA_VERSION,
        producer=Producer(name="niceeval", version="0.1.0", runtime="python"),
        agent="bub",
        started_at="2026-07-02T03:10:24.123Z",
        completed_at="2026-07-02T03:16:55.123Z",
        passed=sum(result.outcome == "passed" for result in results),
        failed=sum(result.outcome == "failed" for result in results),
        skipped=sum(result.outcome == "skipped" for result in results),
        errored=sum(result.outcome == "errored" for result in results),
        duration_ms=391_000,
        output_dir=output_dir,
    )
