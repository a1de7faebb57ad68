"""The eval's source with what happened on each line: turns, marks, what was expected and what came."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from niceeval._base.terminal import Mark, Style, cell_width, cut_counted, cut_end, duration, pad_end, tokens
from niceeval._model.assertion import AssertionResult, EvidenceRef
from niceeval._model.events import Loc, StreamEvent, event_type
from niceeval._model.result import SourceFile
from niceeval._view.not_reached import Check, checks_not_reached
from niceeval._view.turns import TurnLine

LABEL_CELLS = 6
LINE_CELLS = 4
FIELD_CELLS = 300
"""Cells of one text of an assertion where nothing is fitted to a width."""
SOURCE_CELLS = 200
MAX_REFS = 4


@dataclass(slots=True)
class _Line:
    turns: list[TurnLine] = field(default_factory=list)
    entries: list[AssertionResult] = field(default_factory=list)
    missed: list[Check] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SourceView:
    """One stored file with the lines of it that something happened at."""

    file: SourceFile
    lines: dict[int, _Line]

    @property
    def not_reached(self) -> list[Check]:
        return [check for number in sorted(self.lines) for check in self.lines[number].missed]


def source_views(
    sources: Sequence[SourceFile], entries: Sequence[AssertionResult], turns: Sequence[TurnLine], eval_id: str
) -> list[SourceView]:
    """The stored files, each with its lines. A file that nothing points into is left out."""
    by_file: dict[str, dict[int, _Line]] = {file.path: defaultdict(_Line) for file in sources}
    for entry in entries:
        if entry.loc is not None and entry.loc.file in by_file:
            by_file[entry.loc.file][entry.loc.line].entries.append(entry)
    for turn in turns:
        if turn.loc is not None and turn.loc.file in by_file:
            by_file[turn.loc.file][turn.loc.line].turns.append(turn)
    for file in sources:
        lines = by_file[file.path]
        for check in checks_not_reached(file.content, set(lines), eval_id.rsplit("/", 1)[-1]):
            lines[check.line].missed.append(check)
    return [SourceView(file, by_file[file.path]) for file in sources if by_file[file.path]]


def is_shown(loc: Loc | None, views: Sequence[SourceView]) -> bool:
    """Whether a place is a line of one of the views."""
    return loc is not None and any(view.file.path == loc.file and loc.line in view.lines for view in views)


class SourcePainter:
    """Writes views, and entries that have no line, in one style."""

    def __init__(self, style: Style, events: Sequence[StreamEvent] | None) -> None:
        self._style = style
        self._events = events or ()
        self._indent = " " * (2 + LABEL_CELLS + LINE_CELLS + 1)

    def view(self, view: SourceView) -> list[str]:
        """A file's heading and its lines."""
        texts = view.file.content.splitlines()
        heading = f"{self._style.clean(view.file.path)} (as it was run)"
        rows = [row for number in sorted(view.lines) for row in self._line(number, view.lines[number], texts)]
        return [heading, *rows]

    def entry(self, entry: AssertionResult) -> list[str]:
        """An entry whose line is not stored: with its place, where it has one."""
        place = f"{self._style.clean(str(entry.loc))}  " if entry.loc is not None else ""
        row = f"  {self._label(entry)}  {place}{self._name(entry)}"
        return [row, *(f"{'':>{2 + LABEL_CELLS}}  {text}" for text in self._details(entry))]

    def turn_label(self, turn: TurnLine) -> str:
        """A turn whose line is not stored: `turn 1  12s · 21k tok · #0-#6`."""
        place = "" if turn.loc is None else f"  {self._style.clean(str(turn.loc))}"
        return f"turn {turn.number}{place}  {self._turn(turn)}"

    def _line(self, number: int, line: _Line, texts: Sequence[str]) -> list[str]:
        source = texts[number - 1] if 0 < number <= len(texts) else ""
        if line.missed and not (line.entries or line.turns):
            return [self._row(self._plain_label("skipped"), number, source, "not reached")]
        rows = [self._row(f"turn {turn.number}", number, source, self._turn(turn)) for turn in line.turns]
        if len(line.entries) == 1 and not line.turns:
            (entry,) = line.entries
            return [*rows, self._row(self._label(entry), number, source), *self._under(entry)]
        if not rows:
            rows.append(self._row("", number, source))
        for entry in line.entries:
            rows.append(f"  {self._label(entry)}{'':>{LINE_CELLS}} {self._style.glyphs.rule}   {self._name(entry)}")
            rows += self._under(entry)
        return rows

    def _row(self, label: str, number: int, source: str, after: str = "") -> str:
        style = self._style
        # Labels of marks are painted and padded already; the others are plain.
        head = f"  {label if cell_width(label) > LABEL_CELLS else pad_end(label, LABEL_CELLS)}{number:>{LINE_CELLS}}"
        text = style.clean(source.rstrip())
        room = SOURCE_CELLS
        if style.width is not None:
            room = max(style.width - 2 - LABEL_CELLS - LINE_CELLS - 3 - (cell_width(after) + 4 if after else 0), 12)
        row = f"{head} {style.glyphs.rule} {cut_end(text, room, mark=style.glyphs.ellipsis)}"
        return f"{row}    {after}" if after else row

    def _under(self, entry: AssertionResult) -> list[str]:
        return [f"{self._indent}{self._style.glyphs.rule}       {text}" for text in self._details(entry)]

    def _details(self, entry: AssertionResult) -> list[str]:
        """What the entry says beside its mark: nothing where it passed."""
        if entry.outcome == "passed":
            return []
        if entry.outcome == "unavailable":
            return [*self._field("unavailable: ", _reason(entry)), *self._field("seen ", self._evidence(entry))]
        texts = [*self._field("expected ", entry.expected), *self._field("received ", entry.received)]
        texts += self._field("detail ", entry.detail)
        texts += self._field("evidence ", self._evidence(entry))
        if entry.severity == "soft" and entry.threshold is not None:
            texts.append(f"soft: {entry.score:.2f} is below its line {entry.threshold:g}")
        return texts

    def _field(self, label: str, text: str | None) -> list[str]:
        if not text:
            return []
        width = self._style.width
        room = FIELD_CELLS if width is None else width - len(self._indent) - 8 - len(label)
        cleaned = self._style.clean(text)
        return [label + cut_counted(cleaned, max(room, 20), mark=self._style.glyphs.ellipsis)]

    def _evidence(self, entry: AssertionResult) -> str:
        if entry.evidence:
            return entry.evidence
        refs = [self._ref(ref) for ref in entry.evidence_refs[:MAX_REFS]]
        more = len(entry.evidence_refs) - len(refs)
        return ", ".join(refs) + (f", + {more} more" if more else "")

    def _ref(self, ref: EvidenceRef) -> str:
        kind = f" {event_type(self._events[ref.event])}" if 0 <= ref.event < len(self._events) else ""
        return f"#{ref.event}{kind}" + (f" ({ref.call_id})" if ref.call_id else "")

    def _turn(self, turn: TurnLine) -> str:
        took = "" if turn.duration_ms is None else duration(turn.duration_ms)
        total = None if turn.usage is None else turn.usage.total_tokens
        used = "" if total is None else f"{tokens(total)} tok"
        status = "" if turn.status in (None, "completed") else self._style.clean(turn.status or "")
        return self._style.joined(took, used, f"#{turn.first}-#{turn.last}", status)

    def _name(self, entry: AssertionResult) -> str:
        name = self._style.clean(entry.label or entry.name)
        return f"{self._style.clean(entry.group)}: {name}" if entry.group else name

    def _label(self, entry: AssertionResult) -> str:
        score = "" if entry.severity == "gate" and entry.score in (0, 1) else f" {entry.score:.2f}"
        return self._plain_label(_mark(entry), "" if entry.outcome == "unavailable" else score)

    def _plain_label(self, mark: Mark, after: str = "") -> str:
        glyph: str = getattr(self._style.glyphs, mark)
        return self._style.symbol(mark) + after + " " * (LABEL_CELLS - cell_width(glyph + after))


def _mark(entry: AssertionResult) -> Mark:
    if entry.outcome == "passed":
        return "soft" if entry.severity == "soft" else "passed"
    return entry.outcome


def _reason(entry: AssertionResult) -> str:
    reason = entry.reason
    if reason is None:
        return "the evidence does not say"
    if reason.channel and reason.channel not in reason.message:
        return f"{reason.channel}: {reason.message}"
    return reason.message
