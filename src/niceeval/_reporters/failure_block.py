"""Why one attempt did not pass, in at most 12 lines and 1,500 bytes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from niceeval._base.terminal import Style, cell_width, cut_counted, cut_middle, wrap
from niceeval._model.assertion import AssertionResult, EvidenceRef
from niceeval._model.events import Loc
from niceeval._model.result import AttemptResult, ErrorInfo
from niceeval._reporters.deciding import deciding, failed_beside
from niceeval._reporters.excerpt import excerpt
from niceeval._reporters.figures import own_figures

SourceLine: TypeAlias = Callable[[str, int], str | None]
"""The line of a file (relative to the project, line from 1) as it was when it ran; None where it cannot be had."""

MAX_LINES = 12
MAX_BYTES = 1500
_ENTRIES = 3
_WIDEST = 120
_PAGE = 79
# How many cells a field may take; the next narrower one is tried while the block is over its bytes.
_FIELD_CELLS = (300, 160, 90, 50)
FOREIGN = "…/"
"""Begins the file of a frame outside the project."""
OUTPUT_SCHEMA = "output schema"
"""The entry that `output=` records: there is no call to add `.optional()` to."""
_LOC = re.compile(r"(.*?):(\d+)(?::(\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An attempt that did not pass, and where it stands; `runs` is how many attempts its eval has."""

    experiment_id: str
    runs: int
    result: AttemptResult


def failure_block(failure: Failure, style: Style, source_line: SourceLine) -> list[str]:
    """The block, one item a line, coloured as the style says."""
    lines: list[str] = []
    for cells in _FIELD_CELLS:
        lines = _Block(failure, style, source_line, cells).lines()
        if _size(lines) <= MAX_BYTES:
            return lines
    return _shortened(lines)


def same_as_line(failure: Failure, style: Style, locator: str) -> str:
    """The one line for an attempt that ended as an earlier one did."""
    return f"{_head(failure, style, _FIELD_CELLS[1])}  same as {locator}"


class _Block:
    def __init__(self, failure: Failure, style: Style, source_line: SourceLine, cells: int) -> None:
        self._failure = failure
        self._result = failure.result
        self._style = style
        self._source_line = source_line
        self._cells = min(cells, style.width or cells)
        # A source line is read by its column, so it is never wider than a page.
        self._source_cells = min(self._cells, _WIDEST)

    def lines(self) -> list[str]:
        body, hint = self._body()
        return [_head(self._failure, self._style, self._cells), *body, *hint, self._next()]

    def _body(self) -> tuple[list[str], list[str]]:
        also = self._also_failed()
        if self._result.error_info is not None:
            hint = self._error_hint(self._result.error_info)
            return [*self._error(self._result.error_info)[: MAX_LINES - 2 - len(hint) - len(also)], *also], hint
        entries = deciding(self._result)
        if not entries:
            return [*self._text("", self._result.error or "no assertion says why", 3), *also], []
        hint = self._coverage_hint(entries[0])
        return [*self._entries(entries, MAX_LINES - 2 - len(hint) - len(also)), *also], hint

    def _also_failed(self) -> list[str]:
        """What went wrong beside the error: an attempt that is errored may have had a wrong answer, too."""
        failed = failed_beside(self._result)
        if not failed:
            return []
        more = f" (+ {len(failed) - 1} more)" if len(failed) > 1 else ""
        return [self._cut("  also failed", self._place(failed[0]) + more)]

    def _entries(self, entries: list[AssertionResult], room: int) -> list[str]:
        lines: list[str] = []
        shown = 0
        for entry in entries[:_ENTRIES]:
            # A line stays free for the place of each entry to come, and for the count of those that are left out.
            to_come = min(len(entries), _ENTRIES) - shown - 1 + (len(entries) > _ENTRIES)
            free = room - len(lines) - to_come
            forms = (self._entry(entry), [self._place(entry), *self._said(entry)[:2]], [self._place(entry)])
            taken = next((form for form in forms if len(form) <= free), None)
            if taken is None:
                break
            lines += taken
            shown += 1
        left = len(entries) - shown
        return [*lines, f"  + {left} more"] if left else lines

    def _entry(self, entry: AssertionResult) -> list[str]:
        lines = [self._place(entry)]
        if entry.loc is not None:
            lines += self._source(entry.loc)
        return lines + self._said(entry)

    def _said(self, entry: AssertionResult) -> list[str]:
        return self._unanswered(entry) if entry.outcome == "unavailable" else self._compared(entry)

    def _place(self, entry: AssertionResult) -> str:
        style = self._style
        name = style.clean(entry.name)
        if entry.label:
            name = f"{name}  {style.clean(entry.label)}"
        place = f"{style.clean(str(entry.loc))}  " if entry.loc is not None else ""
        return self._cut(f"  {place}{entry.severity}  ", name)

    def _compared(self, entry: AssertionResult) -> list[str]:
        lines = self._field("expected  ", entry.expected) + self._field("received  ", entry.received)
        lines += self._field("detail    ", entry.detail)
        return lines + self._field("evidence  ", _evidence(entry, self._style.glyphs.dot))

    def _unanswered(self, entry: AssertionResult) -> list[str]:
        reason = entry.reason
        said = "the evidence does not say" if reason is None else reason.message
        if reason is not None and reason.channel and reason.channel not in said:
            said = f"{reason.channel}: {said}"
        return self._field("unavailable  ", said) + self._field(
            "seen         ", _evidence(entry, self._style.glyphs.dot)
        )

    def _coverage_hint(self, entry: AssertionResult) -> list[str]:
        """An edit that is proven to help: where the adapter itself says that it cannot see the channel."""
        reason = entry.reason
        if entry.outcome != "unavailable" or reason is None or not reason.declared or entry.name == OUTPUT_SCHEMA:
            return []
        channel = self._style.clean(reason.channel or "evidence")
        return [f"  next: an adapter with complete `{channel}`, or .optional() on this line"]

    def _error(self, error: ErrorInfo) -> list[str]:
        style = self._style
        lines = self._text("", f"{error.code}: {error.message}", 3)
        phase = "" if error.phase in error.message else f"in {error.phase}"
        if error.loc is None:
            lines += [f"  {phase}"] if phase else []
        else:
            lines.append(f"  {style.clean(error.loc)}  {phase}".rstrip())
            found = _LOC.fullmatch(error.loc)
            if found:
                column = int(found[3]) if found[3] else None
                lines += self._source(Loc(file=found[1], line=int(found[2]), column=column))
        frames = [line for line in style.clean_lines(error.trace or "") if line.strip()]
        return lines + [self._cut("    ", line) for line in _last_frames(frames)]

    def _error_hint(self, error: ErrorInfo) -> list[str]:
        return [self._cut("  next: ", self._style.clean(error.next))] if error.next else []

    def _source(self, loc: Loc) -> list[str]:
        source = self._source_line(loc.file, loc.line)
        if source is None or not source.strip():
            return []
        return excerpt(self._style, source, loc.line, loc.column, self._source_cells)

    def _next(self) -> str:
        figures = own_figures(self._result, self._style)
        command = f"  next: niceeval show {self._result.locator}" if self._result.locator else "  no locator"
        width = min(self._style.width or _PAGE, _PAGE)
        return command + " " * max(width - cell_width(command) - cell_width(figures), 2) + figures

    def _field(self, label: str, text: str | None) -> list[str]:
        return [] if text is None or text == "" else [self._cut(f"  {label}", self._style.clean(text))]

    def _text(self, label: str, text: str, lines: int) -> list[str]:
        cells = min(self._cells, _WIDEST) - 2 - len(label) if self._style.width else self._cells
        cleaned = self._style.clean(text)
        rows = wrap(cleaned, cells, lines=lines if self._style.width else 1, mark=self._style.glyphs.ellipsis)
        return [f"  {label}{row}" for row in rows]

    def _cut(self, label: str, text: str) -> str:
        room = max(self._cells - cell_width(label), 20)
        return label + cut_counted(text, room, mark=self._style.glyphs.ellipsis)


def _head(failure: Failure, style: Style, cells: int) -> str:
    result = failure.result
    mark = style.mark("failed" if result.outcome == "failed" else "errored")
    room = max(cells // 2 - 20, 16)
    eval_id = cut_middle(style.clean(result.id), room, mark=style.glyphs.ellipsis)
    experiment = cut_middle(style.clean(failure.experiment_id), room, mark=style.glyphs.ellipsis)
    attempt = f"attempt {result.attempt + 1}/{failure.runs}"
    return f"{mark}  {style.joined(eval_id, experiment, attempt, result.locator or '')}"


def _evidence(entry: AssertionResult, dot: str) -> str:
    return entry.evidence or f" {dot} ".join(_ref(ref) for ref in entry.evidence_refs[:6])


def _ref(ref: EvidenceRef) -> str:
    return f"#{ref.event} ({ref.call_id})" if ref.call_id else f"#{ref.event}"


def _last_frames(lines: list[str]) -> list[str]:
    """The innermost frame whole, and before it the innermost of the project's own where that is another one."""
    frames: list[list[str]] = []
    for line in lines:
        if not frames or not line.startswith(" "):
            frames.append([])
        frames[-1].append(line)
    own = [frame for frame in frames[:-1] if not frame[0].startswith(FOREIGN)]
    last_is_own = bool(frames) and not frames[-1][0].startswith(FOREIGN)
    chosen = frames[-1:] if last_is_own or not own else [own[-1], frames[-1]]
    return [line for frame in chosen for line in frame[:2]]


def _size(lines: list[str]) -> int:
    return sum(len(line.encode("utf-8", "surrogatepass")) + 1 for line in lines)


def _shortened(lines: list[str]) -> list[str]:
    """The head, as many of the first lines as fit, and the last."""
    kept = [lines[0]]
    for line in lines[1:-1]:
        if _size([*kept, line, lines[-1]]) > MAX_BYTES:
            break
        kept.append(line)
    return [*kept, lines[-1]]
