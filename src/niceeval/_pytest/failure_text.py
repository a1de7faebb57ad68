"""Why an item did not pass, as pytest prints it: the line of the eval, what was expected, what came."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from _pytest._code.code import ReprFileLocation, TerminalRepr
from _pytest._io import TerminalWriter

from niceeval._base.catalogue import current_language
from niceeval._base.errors import Place
from niceeval._base.places import shown_path
from niceeval._base.terminal import Style, cut_counted, glyphs_for
from niceeval._cli.errors import error_lines
from niceeval._model.assertion import AssertionResult
from niceeval._model.result import AttemptResult, ErrorInfo
from niceeval._pytest.outcomes import Outcome
from niceeval._reporters.deciding import deciding, signature
from niceeval._reporters.failure_block import Failure, failure_block, same_as_line
from niceeval._run.seal import Sources

MAX_BLOCKS = 3
"""Attempts of one item that are shown whole, where they ended in different ways."""
_SUMMARY_CHARS = 300
_LOC = re.compile(r"(.*?):(\d+)(?::\d+)?")


class Texts:
    """Makes the texts of one project. Source lines are read once, as they are while the run goes."""

    def __init__(self, root: Path, redact: Callable[[str], str]) -> None:
        self._root = root
        self._redact = redact
        self._sources = Sources(root)
        self._encoding = getattr(sys.stdout, "encoding", None)

    def source_line(self, file: str, line: int) -> str | None:
        """A line of a project's file, from 1; None where it cannot be had."""
        source = self._sources.get(file)
        lines = [] if source is None else source.content.splitlines()
        return lines[line - 1] if 0 < line <= len(lines) else None

    def style(self, writer: TerminalWriter | None = None) -> Style:
        """How to write to pytest's terminal, or into a file."""
        marked = writer is not None and writer.hasmarkup
        return Style(
            color=marked,
            glyphs=glyphs_for(self._encoding, current_language()),
            width=writer.fullwidth if marked and writer is not None else None,
            redact=self._redact,
        )

    def of(self, outcome: Outcome, item: Place) -> FailureText:
        """The text of an item that failed or errored; `item` is where its eval is defined."""
        results = outcome.ended_as("failed") or outcome.ended_as("errored")
        if outcome.problem is not None or not results:
            return FailureText(self, outcome, results, self._location(item, _without_attempt(outcome)))
        place, why = _reason(results[0])
        return FailureText(self, outcome, results, self._location(self._found(place) or item, why))

    def _found(self, place: str | None) -> Place | None:
        """A stored place (`file:line` or `file:line:column`), seen from the current folder."""
        found = _LOC.fullmatch(place or "")
        return Place(shown_path(self._root / found[1]), int(found[2])) if found else None

    def _location(self, place: Place, message: str) -> ReprFileLocation:
        said = cut_counted(self.style().clean(message), _SUMMARY_CHARS)
        return ReprFileLocation(place.file, place.line, said)


class FailureText(TerminalRepr):
    """A failure block per attempt, then the deciding line. pytest's summary, and JUnit, read `reprcrash`."""

    def __init__(
        self, texts: Texts, outcome: Outcome, results: list[AttemptResult], location: ReprFileLocation
    ) -> None:
        self._texts = texts
        self._outcome = outcome
        self._results = results
        self.reprcrash = location

    def toterminal(self, tw: TerminalWriter) -> None:
        style = self._texts.style(tw)
        lines = self._blocks(style) if self._results else self._no_result(style)
        for line in lines:
            tw.line(line)
        tw.line("")
        verdict = self._outcome.verdict or "no result"
        ReprFileLocation(self.reprcrash.path, self.reprcrash.lineno, verdict).toterminal(tw)

    def _blocks(self, style: Style) -> list[str]:
        lines: list[str] = []
        left = 0
        seen: dict[int, str] = {}
        for result in self._results:
            failure = Failure(experiment_id=self._outcome.experiment_id, runs=self._outcome.runs, result=result)
            how = signature(result)
            if how in seen:
                lines.append(same_as_line(failure, style, seen[how]))
            elif len(seen) < MAX_BLOCKS:
                seen[how] = result.locator or ""
                lines += failure_block(failure, style, self._texts.source_line)
            else:
                left += 1
        return [*lines, f"+ {left} more attempts"] if left else lines

    def _no_result(self, style: Style) -> list[str]:
        if self._outcome.problem is None:
            return [style.clean(self._outcome.why)]
        return error_lines(self._outcome.problem, style, current_language())


def _without_attempt(outcome: Outcome) -> str:
    if outcome.problem is None:
        return outcome.why
    return f"{outcome.problem.code}: {outcome.problem.message(current_language())}"


def _reason(result: AttemptResult) -> tuple[str | None, str]:
    """Where an attempt's verdict was decided, and why in one line."""
    error = result.error_info
    if error is not None:
        return error.loc, _error(error)
    entries = deciding(result)
    if not entries:
        return None, result.error or result.outcome
    loc = entries[0].loc
    return None if loc is None else str(loc), _entry(entries[0])


def _error(error: ErrorInfo) -> str:
    return f"{error.code} in {error.phase}: {error.message.split(chr(10), 1)[0]}"


def _entry(entry: AssertionResult) -> str:
    name = entry.label or entry.name
    if entry.outcome == "unavailable":
        return f"{name}: unavailable" + (f": {entry.reason.message}" if entry.reason else "")
    said = [f"expected {entry.expected}"] if entry.expected else []
    said += [f"received {entry.received}"] if entry.received else []
    return f"{name}: {'; '.join(said)}" if said else name
