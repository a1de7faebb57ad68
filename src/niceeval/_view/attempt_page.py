"""`niceeval show @LOCATOR`: one attempt, from its verdict down to the line that decided it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from niceeval._base.errors import ResultsError
from niceeval._base.places import shown_path
from niceeval._base.terminal import Style, cut_counted, cut_middle, duration, seconds, wrap
from niceeval._model.coverage import CHANNELS
from niceeval._model.diff import StoredDiff
from niceeval._model.events import StreamEvent
from niceeval._model.o11y import O11ySummary
from niceeval._model.result import AttemptResult, Diagnostic, ErrorInfo, Retry, SourceFile
from niceeval._record.attempt import Attempt
from niceeval._record.layout import EVENTS
from niceeval._reporters.figures import own_figures
from niceeval._view.annotated_source import SourcePainter, SourceView, is_shown, source_views
from niceeval._view.changed_files import change_rows
from niceeval._view.turns import TurnLine, turns_of

T = TypeVar("T")

MAX_CHANGES = 30
"""Changed files that the page names."""
MAX_DIAGNOSTICS = 10
MAX_TRACE_LINES = 20
_LABEL = 11
_PROSE = 120
_ISO = re.compile(r"(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2}:\d{2})(?:\.\d+)?Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """Everything that is stored of one attempt, read once; `problems` are the parts that could not be read."""

    attempt: Attempt
    result: AttemptResult
    events: Sequence[StreamEvent] | None
    o11y: O11ySummary | None
    turns: Sequence[TurnLine]
    views: Sequence[SourceView]
    diff: StoredDiff | None
    problems: Sequence[str]


def material_of(attempt: Attempt) -> Material:
    """Read the attempt. Raises ResultsError only where its result itself is unreadable."""
    problems: list[str] = []
    result = attempt.result()
    events = _readable(attempt.events, problems)
    o11y = _readable(attempt.o11y, problems)
    sources: Sequence[SourceFile] = _readable(attempt.sources, problems) or ()
    diff = _readable(attempt.diff, problems)
    turns = turns_of(events, o11y)
    return Material(
        attempt=attempt,
        result=result,
        events=events,
        o11y=o11y,
        turns=turns,
        views=source_views(sources, result.assertions, turns, result.id),
        diff=diff,
        problems=problems,
    )


def _readable(read: Callable[[], T | None], problems: list[str]) -> T | None:
    try:
        return read()
    except ResultsError as error:
        problems.append(str(error))
        return None


def instant(stored: str) -> str:
    """A stored UTC instant as people read it; anything else as it is."""
    found = _ISO.fullmatch(stored)
    return f"{found[1]} {found[2]}Z" if found else stored


def _part(ms: int) -> str:
    return seconds(ms) if ms >= 1000 else duration(ms)


def _retry(retry: Retry) -> str:
    return f"turn {retry.turn + 1} after {_part(retry.wait_ms)}: {retry.reason}"


def attempt_page(attempt: Attempt, style: Style) -> list[str]:
    """The page, one item a line. Raises ResultsError (`unreadable`)."""
    return _Page(material_of(attempt), style).lines()


class _Page:
    def __init__(self, material: Material, style: Style) -> None:
        self._material = material
        self._result = material.result
        self._style = style
        self._source = SourcePainter(style, material.events)

    def lines(self) -> list[str]:
        return [
            self._head(),
            self._facts(),
            *self._ending(),
            *(row for view in self._material.views for row in self._source.view(view)),
            *self._unplaced_turns(),
            *self._unplaced(),
            *self._changes(),
            *self._coverage(),
            *self._time(),
            *self._retries(),
            *self._diagnostics(),
            *self._problems(),
            *self._more(),
        ]

    def _more(self) -> list[str]:
        """Where the rest is: the events themselves are too many for a page."""
        attempt, style = self._material.attempt, self._style
        label, words = f"{'more':<{_LABEL}}", "--json (result, turns, changes)"
        if not self._material.events:
            return [label + words]
        path = style.clean(shown_path(os.path.join(attempt.run_folder, attempt.artifacts_dir or "", EVENTS)))
        rows = [f"{'said':<{_LABEL}}", label + words]
        room = None if style.width is None else max(style.width - _LABEL, 20)
        rows[0] += path if room is None else cut_middle(path, room, mark=style.glyphs.ellipsis)
        return rows

    def _head(self) -> str:
        result, style = self._result, self._style
        runs = result.experiment.runs if result.experiment is not None else 0
        number = f"attempt {result.attempt + 1}" + (f"/{runs}" if runs > result.attempt else "")
        names = [style.clean(result.id), style.clean(result.experiment_id or "")]
        return f"{style.mark(result.outcome)}  {style.joined(*names, number, result.locator or '')}"

    def _facts(self) -> str:
        result, style = self._result, self._style
        who = ", ".join(style.clean(name) for name in (result.agent, result.model) if name)
        origin = self._material.attempt.carried_from
        carried = "not carried" if origin is None else f"carried from {style.clean(origin.run)}"
        points = result.points
        scored = "" if points is None else f"{points.earned:g}/{points.possible:g} points"
        return style.joined(own_figures(result, style), scored, who, style.clean(instant(result.started_at)), carried)

    def _ending(self) -> list[str]:
        """Why the attempt ended as it did, where no assertion says so."""
        result = self._result
        if result.error_info is not None:
            return self._error(result.error_info)
        if result.error:
            return self._text("error", result.error)
        return self._text("skipped", result.skip_reason) if result.outcome == "skipped" else []

    def _error(self, error: ErrorInfo) -> list[str]:
        style = self._style
        place = f"  {style.clean(error.loc)}" if error.loc else ""
        rows = [f"{'error':<{_LABEL}}{style.clean(error.code)} in {error.phase}{place}"]
        rows += self._text("", error.message)
        frames = [line for line in style.clean_lines(error.trace or "") if line.strip()]
        rows += [f"{'':<{_LABEL}}  {line}" for line in frames[-MAX_TRACE_LINES:]]
        if error.next:
            rows.append(f"  next: {style.clean(error.next)}")
        return rows

    def _text(self, label: str, text: str | None) -> list[str]:
        """Somebody's text of several lines: on a terminal wrapped, bounded everywhere."""
        style = self._style
        lines = [line for line in style.clean_lines(text or "") if line.strip()]
        rows: list[str] = []
        for line in lines[:MAX_TRACE_LINES]:
            if style.width is None:
                rows.append(cut_counted(line, 500, mark=style.glyphs.ellipsis))
            else:
                room = max(min(style.width, _PROSE) - _LABEL, 20)
                rows += wrap(line, room, lines=4, mark=style.glyphs.ellipsis)
        if len(lines) > MAX_TRACE_LINES:
            rows.append(f"+ {len(lines) - MAX_TRACE_LINES} more lines")
        return [f"{label if number == 0 else '':<{_LABEL}}{row}" for number, row in enumerate(rows)]

    def _unplaced(self) -> list[str]:
        """The entries whose line is in no stored file."""
        entries = [entry for entry in self._result.assertions if not is_shown(entry.loc, self._material.views)]
        if not entries:
            return []
        heading = "assertions" if len(entries) == len(self._result.assertions) else "assertions elsewhere"
        return [heading, *(row for entry in entries for row in self._source.entry(entry))]

    def _unplaced_turns(self) -> list[str]:
        turns = [turn for turn in self._material.turns if not is_shown(turn.loc, self._material.views)]
        return ["turns", *(f"  {self._source.turn_label(turn)}" for turn in turns)] if turns else []

    def _changes(self) -> list[str]:
        """What the agent changed: `+ new.py`, `~ old.py (+3 -1)`, `- gone.py`."""
        diff = self._material.diff
        if diff is None:
            return []
        rows = change_rows(diff, self._style)
        more = len(rows) - MAX_CHANGES
        rows = rows[:MAX_CHANGES] + ([f"  + {more:,} more changed files: --json"] if more > 0 else [])
        incomplete = self._text("incomplete", diff.incomplete) if diff.incomplete else []
        return ["changed files", *(rows or ["  none"]), *incomplete]

    def _coverage(self) -> list[str]:
        coverage = self._result.coverage
        if coverage is None:
            return [f"{'coverage':<{_LABEL}}unknown"]
        complete = [name for name in CHANNELS if name in coverage and coverage[name].status == "complete"]
        worse = [name for name in CHANNELS if name in coverage and coverage[name].status != "complete"]
        said = [f"complete: {' '.join(complete)}"] if complete else []
        said += [f"{name} {coverage[name].status}" for name in worse]
        rows = [f"{'coverage':<{_LABEL}}{self._style.joined(*said)}"]
        for name in worse:
            rows += self._text("", f"{name}: {'; '.join(coverage[name].reasons[:3])}" if coverage[name].reasons else "")
        return rows

    def _time(self) -> list[str]:
        phases = self._result.phases or {}
        in_turns = [turn.duration_ms for turn in self._material.turns if turn.duration_ms is not None]
        parts = [f"{self._style.clean(phase)} {_part(spent)}" for phase, spent in phases.items()]
        if in_turns:
            parts.append(f"turns {_part(sum(in_turns))}")
        return [f"{'time':<{_LABEL}}{self._style.joined(*parts)}"] if parts else []

    def _retries(self) -> list[str]:
        """Sends that were not accepted: `turn 1 after 1.2s: 429`."""
        return [
            row
            for number, retry in enumerate(self._result.retries)
            for row in self._text("" if number else "retries", _retry(retry))
        ]

    def _diagnostics(self) -> list[str]:
        found = self._result.diagnostics
        rows = [row for item in found[:MAX_DIAGNOSTICS] for row in self._diagnostic(item)]
        if len(found) > MAX_DIAGNOSTICS:
            rows.append(f"{'':<{_LABEL}}+ {len(found) - MAX_DIAGNOSTICS} more diagnostics: --json")
        return rows

    def _diagnostic(self, item: Diagnostic) -> list[str]:
        turn = "" if item.turn is None else f"turn {item.turn + 1}: "
        return self._text(item.level, f"{item.code}: {turn}{item.message}")

    def _problems(self) -> list[str]:
        return [row for problem in self._material.problems for row in self._text("unreadable", problem)]
