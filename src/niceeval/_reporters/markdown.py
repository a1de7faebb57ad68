"""`Markdown(path)`: a run as a comment for a pull request.

What agents and projects wrote is quoted where Markdown reads nothing into it: names in code spans, everything else
escaped inside `<pre>`. Neither makes a link, mentions somebody, or ends a table.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TextIO

from niceeval._base.terminal import clean, clean_lines, count, duration, money, tokens
from niceeval._model.run_events import RunFinished
from niceeval._reporters.figures import Figures
from niceeval._reporters.finished_run import EvalAttempts, FileReport, FinishedRun
from niceeval._reporters.reasons import reason_of, show_command
from niceeval._reporters.state import Counts

MAX_BYTES = 60_000
"""GitHub takes 65,536 characters."""
MAX_EXPERIMENTS = 50
MAX_PROBLEMS = 20
MARKER = "<!-- niceeval -->"
"""The first line, by which a later run can find the comment to replace."""

_FOR_THE_END = 200
_NAME_CHARS = 120
_TEXT_CHARS = 3_000
_MARKS = {"passed": "✓", "failed": "✗", "errored": "!", "skipped": "-"}
# As entities these are read by nothing: no mention, no reference, no address, no link, no cell.
_SPEAKING = re.compile(r"[@#|`\[\]]|(?<=:)//")


@dataclass(slots=True)
class _Row:
    """One experiment's line of the table."""

    agent: str
    model: str | None
    evals: Counts = field(default_factory=Counts)
    attempts: Counts = field(default_factory=Counts)
    figures: Figures = field(default_factory=Figures)


@dataclass(slots=True)
class _Blocks:
    """The first of those that did not pass, as far as there is room, and how many there are."""

    kept: list[str] = field(default_factory=list)
    bytes: int = 0
    total: int = 0

    def add(self, block: str) -> None:
        self.total += 1
        if self.total == len(self.kept) + 1 and self.bytes + _size(block) <= MAX_BYTES:
            self.kept.append(block)
            self.bytes += _size(block)


class Markdown(FileReport):
    """Headline, a table of experiments, and what did not pass in folds, in at most 60 kB."""

    def write(self, run: FinishedRun, file: TextIO) -> None:
        """Write the comment, from one pass over the stored results."""
        rows: dict[str, _Row] = {}
        failed, errored = _Blocks(), _Blocks()
        for group in run.evals():
            _count(rows, group)
            if group.verdict == "failed":
                failed.add(_block(group))
            elif group.verdict == "errored":
                errored.add(_block(group))
        head = [*_head(run, rows.values()), *_table(rows), *_problems(run.finished)]
        body = "\n".join(head) + "\n"
        file.write(body + _not_passed(failed, errored, MAX_BYTES - _size(body)))


def code(text: str) -> str:
    """A code span, also inside a table's cell."""
    # GFM has no way to write a bar inside a cell that holds after any backslash.
    said = clean(text)[:_NAME_CHARS].replace("|", "¦")
    ticks = "`" * (max((len(run) for run in re.findall("`+", said)), default=0) + 1)
    pad = " " if said.startswith(("`", " ")) or said.endswith(("`", " ")) or not said else ""
    return f"{ticks}{pad}{said}{pad}{ticks}"


def html_text(text: str) -> str:
    """Text inside an HTML element: every character that could speak to a reader of Markdown is an entity."""
    return _SPEAKING.sub(_entities, html.escape(text, quote=False))


def _entities(found: re.Match[str]) -> str:
    return "".join(f"&#{ord(char)};" for char in found[0])


def _count(rows: dict[str, _Row], group: EvalAttempts) -> None:
    first = group.results[0]
    row = rows.setdefault(group.experiment_id, _Row(first.agent, first.model))
    row.evals.add(group.verdict)
    for result in group.results:
        row.attempts.add(result.outcome)
        row.figures.add(result)


def _head(run: FinishedRun, rows: Iterable[_Row]) -> list[str]:
    finished = run.finished
    evals = Counts()
    for row in rows:
        for verdict in ("passed", "failed", "errored", "skipped"):
            evals.add(verdict, getattr(row.evals, verdict))
    figures = [duration(finished.duration_ms)]
    if finished.usage is not None and finished.usage.total_tokens is not None:
        figures.append(f"{tokens(finished.usage.total_tokens)} tok")
    figures.append(money(finished.estimated_cost_usd))
    return [
        MARKER,
        f"## niceeval: {finished.status.upper()}",
        "",
        f"**evals** {_counted(evals)}  ",
        f"**attempts** {_attempts(finished)}  ",
        f"{' · '.join(figures)} · run {code(run.start.run)}",
        "",
    ]


def _counted(counts: Counts) -> str:
    said = [f"{counts.passed} passed", f"{counts.failed} failed"]
    said += [f"{number} {word}" for word in ("errored", "skipped") if (number := getattr(counts, word))]
    return " · ".join(said)


def _attempts(finished: RunFinished) -> str:
    said = [f"{finished.passed} passed", f"{finished.failed} failed"]
    others = {
        "errored": finished.errored,
        "skipped": finished.skipped,
        "not started": finished.not_started,
        "cancelled": finished.cancelled,
    }
    return " · ".join([*said, *(f"{number} {word}" for word, number in others.items() if number)])


def _table(rows: dict[str, _Row]) -> list[str]:
    if not rows:
        return []
    lines = [
        "| experiment | agent | evals passed | attempts passed | errored | mean | tokens | cost |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    lines += [_table_row(experiment_id, row) for experiment_id, row in list(rows.items())[:MAX_EXPERIMENTS]]
    left = len(rows) - MAX_EXPERIMENTS
    return [*lines, "", f"+ {left} more experiments", ""] if left > 0 else [*lines, ""]


def _table_row(experiment_id: str, row: _Row) -> str:
    agent = row.agent if row.model is None else f"{row.agent}, {row.model}"
    evals, attempts, figures = row.evals, row.attempts, row.figures
    cells = (
        code(experiment_id),
        code(agent),
        f"{evals.passed}/{evals.judged}",
        f"{attempts.passed}/{attempts.judged}",
        str(attempts.errored),
        figures.mean_duration(),
        figures.mean_tokens() if figures.attempts else "",
        figures.mean_cost() if figures.attempts else "",
    )
    return f"| {' | '.join(cells)} |"


def _problems(finished: RunFinished) -> list[str]:
    if not finished.problems:
        return []
    lines = [
        f"error[{problem.code}]: {problem.message()[:500]}" + (f" ({problem.place})" if problem.place else "")
        for problem in finished.problems[:MAX_PROBLEMS]
    ]
    left = len(finished.problems) - len(lines)
    return [*_quoted([*lines, *([f"+ {left} more"] if left else [])]), ""]


def _block(group: EvalAttempts) -> str:
    result = group.deciding
    reason = reason_of(result)
    names = [group.eval_id, group.experiment_id, *([result.locator] if result.locator else [])]
    said = " · ".join(f"<code>{html_text(clean(name)[:_NAME_CHARS])}</code>" for name in names)
    passed = sum(one.outcome == "passed" for one in group.results)
    summary = f"{_MARKS[group.verdict]} {group.verdict} {said}, {passed}/{len(group.results)} passed"
    lines = [
        f"<details><summary>{summary}</summary>",
        "",
        *_quoted([*reason.lines, f"next: {show_command(result)}"]),
        "",
        "</details>",
        "",
    ]
    return "\n".join(lines)


def _quoted(texts: Iterable[str]) -> list[str]:
    lines = [line for text in texts for line in clean_lines(text[:_TEXT_CHARS])]
    text = "\n".join(lines)
    if len(text) > _TEXT_CHARS:
        text = text[:_TEXT_CHARS] + f" [+{count(len(text) - _TEXT_CHARS)} characters]"
    return [f"<pre>{html_text(text)}</pre>"]


def _not_passed(failed: _Blocks, errored: _Blocks, room: int) -> str:
    total = failed.total + errored.total
    if not total:
        return ""
    shown = ["### Not passed\n\n"]
    room -= _FOR_THE_END
    for block in (*failed.kept, *errored.kept):
        room -= _size(block)
        if room < 0:
            break
        shown.append(block + "\n")
        room -= 1
    left = total - (len(shown) - 1)
    return "".join(shown) + (f"+ {count(left)} more: `niceeval show`\n" if left else "")


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
