"""Who is told what happens in a run: the project's reporters, those of its evals, and those of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

from niceeval._base.places import current_folder
from niceeval._base.redaction import Redactor
from niceeval._cli.exit_codes import NOT_PASSED
from niceeval._cli.json_output import JsonOutput
from niceeval._cli.streams import Streams
from niceeval._model.run_events import LiveEvent, RunFinished, RunNotice, RunStart
from niceeval._plan.plan import RunPlan
from niceeval._reporters.bus import ReporterBus, Route, routes
from niceeval._reporters.finished_run import FileReport
from niceeval._reporters.junit import JUnit
from niceeval._reporters.markdown import Markdown
from niceeval._reporters.protocol import Reporter


def reporters_of(plan: RunPlan, *, junit: str | None, markdown: str | None) -> list[Route]:
    """The routes of a run; the files that the command line asks for are required.

    Paths of the command line are taken from the current folder, the project's from its root.

    Raises ResultsError (`cannot-write`) before anything is spent where a file could not be written in the end.
    """
    asked: list[Reporter] = []
    if junit is not None:
        asked.append(JUnit(current_folder() / junit))
    if markdown is not None:
        asked.append(Markdown(current_folder() / markdown))
    by_eval = {attempt.eval.id: attempt.eval.reporters for attempt in plan.attempts}
    found = routes(
        [*_reporters(plan.config.reporters), *asked],
        ((eval_id, _reporters(reporters)) for eval_id, reporters in by_eval.items()),
    )
    found = [replace(route, required=any(route.reporter is one for one in asked)) for route in found]
    for route in found:
        if isinstance(route.reporter, FileReport):
            route.reporter.require_writable(str(plan.root))
    return found


def _reporters(declared: Iterable[object]) -> list[Reporter]:
    # `define_config` and `define_eval` have looked for `handle`.
    return [cast(Reporter, reporter) for reporter in declared]


class _Notices:
    """Prints what is to be said about reporters, and nothing else, where there is no console."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def handle(self, event: LiveEvent) -> None:
        if isinstance(event, RunNotice):
            said = self._streams.err_style.clean(event.message)
            self._streams.note(f"error[{self._streams.err_style.clean(event.code)}]: {said}")


def report_without_run(plan: RunPlan, reporters: Sequence[Route], streams: Streams, output: JsonOutput | None) -> None:
    """Tell everybody that nothing could be run, and why: a report that CI waits for is there all the same."""
    if output is not None:
        output.end("incomplete", NOT_PASSED, plan.problems)
    bus = ReporterBus(_Notices(streams), reporters, redact=Redactor(plan.secrets))
    bus.emit(
        RunStart(
            run="",
            title=plan.title,
            planned=0,
            concurrency=plan.concurrency,
            experiments=(),
            problems=plan.problems,
            root=str(plan.root),
        )
    )
    bus.emit(
        RunFinished(
            status="incomplete",
            exit_code=NOT_PASSED,
            planned=0,
            passed=0,
            failed=0,
            errored=0,
            skipped=0,
            not_started=0,
            cancelled=0,
            duration_ms=0,
            problems=plan.problems,
        )
    )
    bus.close()
