"""The hooks: collect evals, run those that are selected in one run, report each as it ends."""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from _pytest.skipping import evaluate_skip_marks, evaluate_xfail_marks

from niceeval._base.errors import NiceevalError
from niceeval._base.places import shown_path
from niceeval._base.redaction import Redactor
from niceeval._base.terminal import duration
from niceeval._plan.carry import with_carry
from niceeval._pytest.failure_text import Texts
from niceeval._pytest.items import EvalFile, EvalItem, is_mark
from niceeval._pytest.live_run import LiveRun
from niceeval._pytest.output import EvalOutput
from niceeval._pytest.selection import EvalsOfFile, Selection, restricted, select, text_of, usage_error
from niceeval._record.layout import RESULTS_FOLDER
from niceeval._reporters.figures import Figures

SHOWN_NOTICES = 10


class EvalPlugin:
    """Registered where a session names an experiment."""

    def __init__(self, config: pytest.Config) -> None:
        _require_one_process(config)
        self._config = config
        self._output = EvalOutput(config)
        self._selection: Selection | None = None
        self._warnings: Sequence[str] = ()
        self._reports: _Reports | None = None

    # Collecting -------------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        self._selection = select(self._config)
        for tag in sorted({tag for attempt in self._selection.plan.attempts for tag in attempt.eval.tags}):
            if is_mark(tag):
                self._config.addinivalue_line("markers", f"{tag}: evals with this tag")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collect_file(
        self, file_path: Path, parent: pytest.Collector
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        others = yield
        evals = self._evals_of(file_path)
        if evals is None:
            return others
        # In place of what others made of it: a file named on the command line would be a module of tests as well.
        several = self._selection is not None and len(self._selection.plan.experiments) > 1
        return [EvalFile.of(parent.session, file_path, evals, several=several)]

    def _evals_of(self, path: Path) -> EvalsOfFile | None:
        return None if self._selection is None else self._selection.files.get(path)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        # Last, and in one piece: no ordinary test then holds up attempts that are under way.
        items.sort(key=lambda item: isinstance(item, EvalItem))

    def pytest_report_collectionfinish(self, items: list[pytest.Item]) -> list[str]:
        if self._selection is None:
            return []
        plan = self._selection.plan
        lines = [text_of(warning, Redactor(plan.secrets), "warning") for warning in plan.warnings]
        if not any(isinstance(item, EvalItem) for item in items):
            return [*lines, f"niceeval: no eval of {plan.title} is selected; evals are in {plan.root / 'evals'}"]
        return lines

    # Running ----------------------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        try:
            return (yield)
        finally:
            if self._reports is not None:
                self._reports.run.finish()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if not isinstance(item, EvalItem) or self._config.getoption("setuponly", False):
            return None
        if self._reports is None:
            self._reports = self._begin(item.session)
        if self._reports is None:
            return None
        chosen = self._reports.next()
        if chosen is None:
            self._say_interrupted(self._reports.run)
        else:
            _report(chosen, None if isinstance(nextitem, EvalItem) else nextitem)
        return True

    def _begin(self, session: pytest.Session) -> _Reports | None:
        """The run of the session's evals; None where marks keep every one of them from running."""
        assert self._selection is not None
        plan = self._selection.plan
        items = [item for item in session.items if isinstance(item, EvalItem)]
        wanted = [item for item in items if _will_run(item)]
        if not wanted:
            return None
        # A test that was asked for is run; what it came to can be taken over by `niceeval exp` later on.
        identified = with_carry(
            restricted(plan, (item.pair for item in wanted)), plan.root / RESULTS_FOLDER, force=True
        )
        redact = Redactor(plan.secrets)
        self._warnings = [text_of(warning, redact, "warning") for warning in identified.warnings[len(plan.warnings) :]]
        try:
            run = LiveRun(identified, self._output)
        except NiceevalError as error:
            raise usage_error([error], redact) from error
        return _Reports(run, items, Texts(plan.root, redact))

    def _say_interrupted(self, run: LiveRun) -> None:
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            reporter.write_line("")
            reporter.write_line("niceeval: interrupted, tearing down; Ctrl-C again leaves at once")
        run.finish()
        stored = sum(len(outcome.results) for outcome in run.outcomes.by_pair.values())
        planned = 0 if run.outcomes.finished is None else run.outcomes.finished.planned
        pytest.exit(f"niceeval was interrupted: {stored} of {planned} attempts are stored")

    # Reporting --------------------------------------------------------------------------------------------------

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if isinstance(item, EvalItem):
            item.complete(report, call)
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        run = None if self._reports is None else self._reports.run
        if run is not None and session.exitstatus == pytest.ExitCode.OK and _broken(run):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._reports is None:
            return
        style = self._reports.texts.style()
        terminalreporter.section("niceeval")
        if self._output.text.strip() and terminalreporter.stats.keys() & {"failed", "error"}:
            terminalreporter.line("printed while the evals ran, by any of them:")
            for line in style.clean_lines(self._output.text):
                terminalreporter.line(f"  {line}")
        for warning in self._warnings:
            terminalreporter.line(warning)
        outcomes = self._reports.run.outcomes
        for notice in outcomes.notices[:SHOWN_NOTICES]:
            terminalreporter.line(f"{notice.level}[{notice.code}]: {style.clean(notice.message)}")
        if len(outcomes.notices) > SHOWN_NOTICES:
            terminalreporter.line(f"+ {len(outcomes.notices) - SHOWN_NOTICES} more notices")
        terminalreporter.line(self._totals(self._reports.run))

    def _totals(self, run: LiveRun) -> str:
        assert self._reports is not None
        figures = Figures()
        results = [result for outcome in run.outcomes.by_pair.values() for result in outcome.results]
        for result in results:
            figures.add(result)
        noun = "attempt" if len(results) == 1 else "attempts"
        took = "" if run.outcomes.finished is None else duration(run.outcomes.finished.duration_ms)
        folder = shown_path(run.outcomes.folder)
        where = f"niceeval show {folder}" if run.outcomes.saved else f"{folder} has no summary"
        said = (f"{len(results)} {noun}", took, figures.total_tokens(), figures.total_cost(), where)
        return self._reports.texts.style().joined(*said)


class _Reports:
    """Which item is reported next: the first in the session's order of those that are decided."""

    def __init__(self, run: LiveRun, items: Iterable[EvalItem], texts: Texts) -> None:
        self.run = run
        self.texts = texts
        self._items = list(items)
        self._of_pair: dict[tuple[str, str], list[int]] = {}
        self._ready: list[int] = []
        for index, item in enumerate(self._items):
            if item.pair in run.outcomes.by_pair:
                self._of_pair.setdefault(item.pair, []).append(index)
            else:
                heapq.heappush(self._ready, index)

    def next(self) -> EvalItem | None:
        """The next item, told what became of it; waits for one. None where the run was interrupted."""
        outcomes = self.run.outcomes
        self.run.wait()
        while not outcomes.interrupted:
            self._take_fresh()
            if self._ready:
                return self._told(self._items[heapq.heappop(self._ready)])
            assert not self.run.over, "every eval of a run that is over is decided"
            self.run.wait()
        return None

    def _take_fresh(self) -> None:
        fresh = self.run.outcomes.fresh
        while fresh:
            for index in self._of_pair.pop(fresh.popleft(), []):
                heapq.heappush(self._ready, index)

    def _told(self, item: EvalItem) -> EvalItem:
        outcome = self.run.outcomes.by_pair.get(item.pair)
        if outcome is not None:
            item.tell(outcome, self.texts, Path(self.run.outcomes.folder))
        return item


def _report(item: EvalItem, nextitem: pytest.Item | None) -> None:
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    runtestprotocol(item, nextitem=nextitem)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _will_run(item: EvalItem) -> bool:
    """Whether no mark that a conftest gave the item keeps it from running: what is skipped must cost nothing."""
    try:
        if evaluate_skip_marks(item) is not None:
            return False
        xfail = evaluate_xfail_marks(item)
    except pytest.fail.Exception:
        # A condition that cannot be evaluated: the item's own setup will say so.
        return False
    return xfail is None or xfail.run or bool(item.config.getoption("runxfail"))


def _broken(run: LiveRun) -> bool:
    finished = run.outcomes.finished
    return bool(finished is not None and finished.problems) or any(
        notice.level == "error" for notice in run.outcomes.notices
    )


def _require_one_process(config: pytest.Config) -> None:
    if pytest.version_tuple < (8,):
        raise pytest.UsageError(f"niceeval needs pytest 8 or newer; this is {pytest.__version__}")
    if config.getoption("dist", "no") != "no" or config.getoption("tx", None):
        raise pytest.UsageError(
            "--niceeval-experiment runs its evals side by side in one process, so xdist cannot divide them:"
            " add -n0 (how many attempts run at a time is --niceeval-max-concurrency)"
        )
