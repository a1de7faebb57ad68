"""The nodes: a file of evals, and an item for each of its evals (each case, under each experiment)."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import pytest
from _pytest._code.code import TerminalRepr

from niceeval._base.errors import NiceevalError
from niceeval._discover.specs import EvalSpec, ExperimentSpec
from niceeval._model.result import AttemptResult
from niceeval._pytest.failure_text import Texts
from niceeval._pytest.outcomes import Outcome, PairKey
from niceeval._pytest.selection import EvalsOfFile
from niceeval._record.artifacts import read_artifact
from niceeval._record.layout import LOGS
from niceeval._record.rows import decode_logs

MAX_LOG_LINES = 200
"""Log lines of one attempt that go into a report, the last ones."""
PYTEST_MARKS = frozenset({"skip", "skipif", "xfail", "parametrize", "usefixtures", "filterwarnings"})
"""Marks that mean something to pytest: a tag of such a name is a keyword and no mark."""


class EvalFailed(Exception):
    """The agent did it wrong."""


class EvalErrored(Exception):
    """No trustworthy conclusion could be drawn."""


class EvalFile(pytest.File):
    """One `*_eval.py` of the project. niceeval has loaded it; pytest never imports it."""

    evals: EvalsOfFile
    several: bool

    @classmethod
    def of(cls, session: pytest.Session, path: Path, evals: EvalsOfFile, *, several: bool) -> EvalFile:
        """The file's node; `several` says that the session runs more than one experiment.

        It hangs below the session and not below its folder: items are reported as they end, and the setups of folders
        admit one order only.
        """
        node: EvalFile = cls.from_parent(session, path=path)
        node.evals, node.several = evals, several
        return node

    def collect(self) -> Iterator[EvalItem]:
        if self.evals.problems:
            raise self.CollectError("\n".join(self.evals.problems))
        alone = len({spec.base for spec, _ in self.evals.pairs}) == 1
        for spec, experiment in self.evals.pairs:
            name = _function_name(spec) if alone else spec.base.rpartition("/")[2]
            name += "" if spec.case is None else f"[{spec.case}]"
            name += f"[{experiment.id}]" if self.several else ""
            yield EvalItem.of(self, name, spec, experiment)


def _function_name(spec: EvalSpec) -> str:
    name = getattr(spec.function, "__name__", None)
    return name if isinstance(name, str) else spec.base.rpartition("/")[2]


class EvalItem(pytest.Item):
    """One eval under one experiment. Its outcome comes from the run; its phases only say what that is."""

    spec: EvalSpec
    pair: PairKey
    outcome: Outcome | None
    texts: Texts | None

    @classmethod
    def of(cls, parent: EvalFile, name: str, spec: EvalSpec, experiment: ExperimentSpec) -> EvalItem:
        """The item of an eval under an experiment."""
        item: EvalItem = cls.from_parent(parent, name=name)
        item.spec, item.pair, item.outcome, item.texts = spec, (experiment.id, spec.id), None, None
        item.extra_keyword_matches.update((spec.id, experiment.id, *spec.tags))
        for tag in spec.tags:
            if is_mark(tag):
                item.add_marker(tag)
        return item

    def reportinfo(self) -> tuple[PathLike[str] | str, int | None, str]:
        several = self.name.endswith(f"[{self.pair[0]}]")
        return self.path, self.spec.line - 1, f"{self.spec.id} [{self.pair[0]}]" if several else self.spec.id

    def tell(self, outcome: Outcome, texts: Texts, folder: Path) -> None:
        """Take over what the run came to, before the phases are reported."""
        self.outcome, self.texts = outcome, texts
        self.user_properties += _properties(outcome)
        when = "setup" if outcome.verdict == "errored" else "call"
        for result in sorted(outcome.results, key=lambda result: result.attempt):
            lines = _log_lines(folder, result, texts)
            if lines and outcome.runs > 1:
                lines.insert(0, f"attempt {result.attempt + 1}/{outcome.runs}  {result.locator or ''}")
            if lines:
                self.add_report_section(when, "log", "\n".join(lines) + "\n")

    def setup(self) -> None:
        # pytest reports what goes wrong here as an error, and not as a failure.
        if self.outcome is not None and self.outcome.verdict in ("errored", None):
            raise EvalErrored(self.spec.id)

    def runtest(self) -> None:
        if self.outcome is None:
            raise EvalErrored(f"{self.spec.id} was not part of the run")
        if self.outcome.verdict == "failed":
            raise EvalFailed(self.spec.id)
        if self.outcome.verdict == "skipped":
            pytest.skip(self.outcome.results[0].skip_reason or "")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str | TerminalRepr:
        if self.outcome is None or self.texts is None or not isinstance(excinfo.value, (EvalFailed, EvalErrored)):
            return super().repr_failure(excinfo, style)
        return self.texts.of(self.outcome, self.spec.place)

    def complete(self, report: pytest.TestReport, call: pytest.CallInfo[None]) -> None:
        """Put into a phase's report what pytest does not know: how long it took, and where in the eval it ended."""
        decisive = report.when == "call" or (report.when == "setup" and not report.passed)
        if self.outcome is None or not decisive:
            return
        report.duration = self.outcome.seconds
        if call.excinfo is not None and isinstance(call.excinfo.value, EvalErrored):
            report.longrepr = self.repr_failure(call.excinfo)
        elif report.skipped and isinstance(report.longrepr, tuple) and self.outcome.verdict == "skipped":
            report.longrepr = (str(self.path), self.spec.line, report.longrepr[2])


def is_mark(tag: str) -> bool:
    """Whether a tag can be a mark of that name; one that cannot is a keyword for `-k` all the same."""
    return (
        tag not in PYTEST_MARKS and not tag.startswith("_") and not any(char in ":(" or char.isspace() for char in tag)
    )


def _properties(outcome: Outcome) -> list[tuple[str, object]]:
    properties: list[tuple[str, object]] = [
        ("niceeval_eval", outcome.eval_id),
        ("niceeval_experiment", outcome.experiment_id),
        ("niceeval_verdict", outcome.verdict or "no result"),
    ]
    locators = [result.locator for result in outcome.results if result.locator]
    costs = [result.estimated_cost_usd for result in outcome.results]
    used = [None if result.usage is None else result.usage.total_tokens for result in outcome.results]
    if locators:
        properties.append(("niceeval_locators", " ".join(locators)))
    if used and None not in used:
        properties.append(("niceeval_tokens", sum(tokens for tokens in used if tokens is not None)))
    if costs and None not in costs:
        properties.append(("niceeval_cost_usd", round(sum(cost for cost in costs if cost is not None), 6)))
    return properties


def _log_lines(folder: Path, result: AttemptResult, texts: Texts) -> list[str]:
    """What eval and adapter logged in an attempt, as it is stored."""
    if not result.has_logs:
        return []
    style = texts.style()
    try:
        data = read_artifact(folder, result.artifacts_dir, LOGS)
        stored = () if data is None else decode_logs(data)
    except (NiceevalError, ValueError) as error:
        return [style.clean(f"the log cannot be read: {error}")]
    lines = []
    for line in stored[-MAX_LOG_LINES:]:
        where = line.source if line.turn is None else f"{line.source}, turn {line.turn + 1}"
        lines += [f"{where}: {text}" for text in style.clean_lines(line.text)]
    return lines
