"""`JUnit(path)`: a run as the XML that CI systems read.

Valid against the schemas of both Jenkins and Surefire, which is why what belongs to a test stands in the properties
of its suite and in its output: neither schema lets a test have properties.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import groupby
from typing import TextIO
from xml.sax.saxutils import escape, quoteattr

from niceeval._base.errors import NiceevalError
from niceeval._base.plain_text import cut_text, shorten
from niceeval._model.result import AttemptResult, Verdict
from niceeval._reporters.figures import Figures, cost_of, tokens_of
from niceeval._reporters.finished_run import EvalAttempts, FileReport, FinishedRun
from niceeval._reporters.reasons import reason_of, show_command

_MESSAGE_CHARS = 500
_TEXT_CHARS = 20_000

# What XML 1.0 cannot hold at all, and the other controls, which no reader can do anything with.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def xml_text(text: str) -> str:
    """The text without control characters, escaped; line ends are newlines."""
    return escape(_xml_characters(text))


def xml_attribute(text: str) -> str:
    """The same as a quoted attribute's value, on one line."""
    return quoteattr(re.sub(r"\s*\n\s*", " ", _xml_characters(text)))


def _xml_characters(text: str) -> str:
    return _NOT_XML.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


@dataclass(slots=True)
class _Suite:
    """Counts of one experiment's tests, and sums of its attempts."""

    agent: str = ""
    model: str | None = None
    tests: int = 0
    failures: int = 0
    errors: int = 0
    skipped: int = 0
    figures: Figures = field(default_factory=Figures)
    locators: list[tuple[str, str]] = field(default_factory=list)

    def add(self, result: AttemptResult, counted_as: Verdict) -> None:
        self.agent, self.model = result.agent, result.model
        self.tests += 1
        self.failures += counted_as == "failed"
        self.errors += counted_as == "errored"
        self.skipped += counted_as == "skipped"
        self.figures.add(result)
        if result.locator:
            self.locators.append((_test_name(result), result.locator))


class JUnit(FileReport):
    """A test suite per experiment, a test per attempt.

    `failed` is `<failure>`, `errored` is `<error>`, `skipped` is `<skipped>`. An attempt that did not pass although its
    eval did is a `<flakyFailure>` or `<flakyError>`, which counts as passed: the file has a failure or an error exactly
    where the run's exit code is not 0. What did not load or was not started is an error of the suite `niceeval`.
    """

    def write(self, run: FinishedRun, file: TextIO) -> None:
        """Write the document, from two passes over the stored results."""
        suites: dict[str, _Suite] = {}
        for group in run.evals():
            suite = suites.setdefault(group.experiment_id, _Suite())
            for result in group.results:
                suite.add(result, _counted_as(result, group))
        faults = list(_run_faults(run))
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        file.write(_open_root(run, suites.values(), len(faults)))
        for experiment_id, groups in groupby(run.evals(), lambda group: group.experiment_id):
            _write_suite(run, experiment_id, suites[experiment_id], groups, file)
        if faults:
            _write_faults(faults, file)
        file.write("</testsuites>\n")


def _counted_as(result: AttemptResult, group: EvalAttempts) -> Verdict:
    return "passed" if group.verdict == "passed" and result.outcome != "skipped" else result.outcome


def _open_root(run: FinishedRun, suites: Iterable[_Suite], faults: int) -> str:
    every = list(suites)
    return (
        f"<testsuites name={xml_attribute(f'niceeval {run.start.title}')}"
        f' tests="{sum(suite.tests for suite in every) + faults}"'
        f' failures="{sum(suite.failures for suite in every)}"'
        f' errors="{sum(suite.errors for suite in every) + faults}"'
        f' time="{_seconds(run.finished.duration_ms)}">\n'
    )


def _write_suite(
    run: FinishedRun, experiment_id: str, suite: _Suite, groups: Iterable[EvalAttempts], file: TextIO
) -> None:
    file.write(
        f"  <testsuite name={xml_attribute(experiment_id)}"
        f' tests="{suite.tests}" failures="{suite.failures}" errors="{suite.errors}" skipped="{suite.skipped}"'
        f' time="{_seconds(suite.figures.duration_ms)}">\n'
    )
    _write_properties(_suite_properties(run, experiment_id, suite), file)
    for group in groups:
        for result in group.results:
            _write_test(result, group, file)
    file.write("  </testsuite>\n")


def _suite_properties(run: FinishedRun, experiment_id: str, suite: _Suite) -> Iterator[tuple[str, str]]:
    yield "experiment", experiment_id
    yield "agent", suite.agent
    if suite.model is not None:
        yield "model", suite.model
    yield "run", run.start.run
    figures = suite.figures
    if figures.with_tokens and figures.with_tokens == figures.attempts:
        yield "tokens", str(figures.tokens)
    if figures.with_cost and figures.with_cost == figures.attempts:
        yield "cost", _money(figures.cost)
    for name, locator in suite.locators:
        yield f"locator {name}", locator


def _write_properties(properties: Iterable[tuple[str, str]], file: TextIO) -> None:
    file.write("    <properties>\n")
    for name, value in properties:
        file.write(f"      <property name={xml_attribute(name)} value={xml_attribute(value)}/>\n")
    file.write("    </properties>\n")


def _test_name(result: AttemptResult) -> str:
    return f"{result.id} #{result.attempt + 1}"


def _write_test(result: AttemptResult, group: EvalAttempts, file: TextIO) -> None:
    name, owner = xml_attribute(_test_name(result)), xml_attribute(group.experiment_id)
    file.write(f'    <testcase name={name} classname={owner} time="{_seconds(result.duration_ms)}">\n')
    file.write("".join(f"      {line}\n" for line in _outcome(result, group)))
    file.write(f"      <system-out>{xml_text(_own_properties(result))}</system-out>\n")
    file.write("    </testcase>\n")


def _own_properties(result: AttemptResult) -> str:
    """The attempt's properties, in the form that readers of JUnit files know for properties of a test."""
    used, cost = tokens_of(result), cost_of(result)
    found = {
        "experiment": result.experiment_id,
        "locator": result.locator,
        "tokens": None if used is None else str(used),
        "cost": None if cost is None else _money(cost),
    }
    return "\n".join(f"[[PROPERTY|{name}={value}]]" for name, value in found.items() if value is not None)


def _outcome(result: AttemptResult, group: EvalAttempts) -> Iterator[str]:
    """The element that says that, and why, the attempt did not pass."""
    if result.outcome == "skipped":
        yield f"<skipped message={xml_attribute(_cut(result.skip_reason or 'skipped'))}/>"
    elif result.outcome != "passed":
        reason = reason_of(result)
        element = "failure" if result.outcome == "failed" else "error"
        attributes = f"message={xml_attribute(_cut(reason.headline))} type={xml_attribute(reason.kind)}"
        text = "\n".join((*reason.lines, show_command(result)))
        body = xml_text(cut_text(text, _TEXT_CHARS))
        if group.verdict == "passed":
            flaky = f"flaky{element.capitalize()}"
            yield f"<{flaky} {attributes}><stackTrace>{body}</stackTrace></{flaky}>"
        else:
            yield f"<{element} {attributes}>{body}</{element}>"


def _run_faults(run: FinishedRun) -> Iterator[tuple[str, str, str]]:
    """Code, test name and message of what no attempt says: files that did not load, attempts that never began."""
    finished = run.finished
    for problem in finished.problems:
        yield problem.code, _place_of(problem), problem.message()
    if finished.status == "interrupted":
        yield "interrupted", "run", f"interrupted; {finished.not_started} attempts were not started"
    elif finished.not_started:
        yield "not-started", "run", f"{finished.not_started} attempts were not started"


def _place_of(problem: NiceevalError) -> str:
    return problem.code if problem.place is None else f"{problem.code} {problem.place}"


def _write_faults(faults: list[tuple[str, str, str]], file: TextIO) -> None:
    number = len(faults)
    file.write(f'  <testsuite name="niceeval" tests="{number}" failures="0" errors="{number}" skipped="0" time="0">\n')
    for code, name, message in faults:
        file.write(f'    <testcase name={xml_attribute(name)} classname="niceeval" time="0">\n')
        attributes = f"message={xml_attribute(_cut(message))} type={xml_attribute(code)}"
        file.write(f"      <error {attributes}>{xml_text(cut_text(message, _TEXT_CHARS))}</error>\n")
        file.write("    </testcase>\n")
    file.write("  </testsuite>\n")


def _cut(text: str) -> str:
    return shorten(text, _MESSAGE_CHARS)


def _seconds(ms: float) -> str:
    return f"{ms / 1000:.3f}"


def _money(usd: float | Decimal) -> str:
    return f"{usd:.6f}".rstrip("0").rstrip(".")
