"""The end of a run: a row per eval, what did not pass, totals, what to type next, and the last word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from niceeval._base.errors import NiceevalError
from niceeval._base.terminal import (
    Colour,
    Style,
    cell_width,
    count,
    cut_counted,
    cut_end,
    cut_middle,
    duration,
    money,
    pad_end,
)
from niceeval._model.run_events import RunFinished
from niceeval._reporters.allowance import size_of
from niceeval._reporters.deciding import IndexEntry
from niceeval._reporters.figures import Figures
from niceeval._reporters.sentences import counted, sample, short_names
from niceeval._reporters.state import Experiment, Pair, RunState

MAX_ROWS = 40
MAX_INDEX = 50
FOLD_ABOVE = 20
_MAX_PROBLEMS = 3
_ID_CELLS = 48
_WHAT_CELLS = 60

_LAST_WORDS: dict[str, tuple[str, Colour]] = {
    "passed": ("PASSED", "green"),
    "failed": ("FAILED", "red"),
    "errored": ("ERRORED", "magenta"),
    "incomplete": ("INCOMPLETE", "yellow"),
    "interrupted": ("INTERRUPTED", "yellow"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """`rerun` is the command that runs the same selection again; `language` words the problems.

    `limit` bounds the bytes (None: no bound); `brief` leaves out the rows and the commands.
    """

    rerun: str
    language: str = "en"
    limit: int | None = None
    brief: bool = False


def summary(state: RunState, style: Style, ending: Ending) -> list[str]:
    """Every line of the end. Needs `RunFinished` to have been folded in."""
    finished = state.finished
    if finished is None:
        return []
    foot = _foot(state, finished, style, ending)
    room = None if ending.limit is None else max(ending.limit - size_of(foot), 0)
    rows = [] if ending.brief else _bounded(_rows(state, style), None if room is None else room // 2)
    index = _bounded(_index(state, style), None if room is None else room - size_of(rows))
    return rows + index + foot


@dataclass(frozen=True, slots=True)
class _Table:
    """Lines of which as many are shown as may be; what is left out is counted in `more`."""

    lines: Sequence[str]
    heads: frozenset[int]
    at_most: int


def _bounded(table: _Table, room: int | None) -> list[str]:
    shown: list[str] = []
    used, entries = 0, 0
    left = len(table.lines) - len(table.heads)
    for index, line in enumerate(table.lines):
        is_head = index in table.heads
        used += size_of([line])
        if (entries >= table.at_most and not is_head) or (room is not None and used > room - 48):
            break
        shown.append(line)
        entries += not is_head
    left -= entries
    while shown and left and len(shown) - 1 in table.heads:
        shown.pop()
    return [*shown, f"+ {count(left)} more: niceeval show"] if left else shown


def _rows(state: RunState, style: Style) -> _Table:
    every = list(state.pairs())
    fold = len(every) > FOLD_ABOVE
    lines: list[str] = []
    heads: set[int] = set()
    for experiment in state.experiments.values():
        pairs = [pair for pair in experiment.pairs.values() if pair.counts.finished]
        if not pairs:
            continue
        heads.add(len(lines))
        lines.append(_experiment_head(experiment, style))
        lines += _experiment_rows(pairs, experiment.outline.runs, style, fold)
    return _Table(lines, frozenset(heads), MAX_ROWS)


def _experiment_head(experiment: Experiment, style: Style) -> str:
    outline, evals = experiment.outline, experiment.evals()
    who = style.clean(outline.agent)
    if outline.model is not None:
        who += f", {style.clean(outline.model)}"
    name = style.paint(style.clean(outline.id), "bold")
    said = f"{evals.passed}/{evals.judged} evals passed" if evals.judged else "every eval skipped"
    return f"{name} ({who})  {said}" + (f", {evals.errored} errored" if evals.errored else "")


def _experiment_rows(pairs: Sequence[Pair], runs: int, style: Style, fold: bool) -> list[str]:
    whole = [pair for pair in pairs if _all_passed(pair)] if fold else []
    rows: list[tuple[str, str, str, str]] = []
    if whole:
        figures = Figures()
        for pair in whole:
            figures.join(pair.figures)
        noun = "eval" if len(whole) == 1 else "evals"
        rows.append((style.symbol("passed"), f"{len(whole)} {noun}, every attempt passed", "", figures.means(style)))
    folded = {pair.eval_id for pair in whole}
    rows += [_pair_row(pair, runs, style) for pair in pairs if pair.eval_id not in folded]
    return _aligned(rows)


def _all_passed(pair: Pair) -> bool:
    return pair.counts.passed == pair.counts.finished


def _pair_row(pair: Pair, runs: int, style: Style) -> tuple[str, str, str, str]:
    verdict = pair.counts.fold() or "skipped"
    name = cut_middle(style.clean(pair.eval_id), _id_cells(style), mark=style.glyphs.ellipsis)
    said = sample(pair, runs)
    if verdict == "skipped" and pair.skip_reason:
        said += ": " + cut_counted(style.clean(pair.skip_reason), _WHAT_CELLS, mark=style.glyphs.ellipsis)
    return style.symbol(verdict), name, said, pair.figures.means(style)


def _aligned(rows: Sequence[tuple[str, str, str, str]]) -> list[str]:
    """Names and samples in columns; a row whose sample is empty (a fold) spans both."""
    names = max((cell_width(name) for _, name, said, _ in rows if said), default=0)
    samples = max((cell_width(said) for _, _, said, means in rows if means), default=0)
    spans = max([names + 2 + samples, *(cell_width(name) for _, name, said, _ in rows if not said)])
    lines = []
    for mark, name, said, means in rows:
        left = f"{pad_end(name, names)}  {said}" if said else name
        lines.append(f"  {mark} {pad_end(left, spans)}  {means}".rstrip())
    return lines


def _id_cells(style: Style) -> int:
    return _ID_CELLS if style.width is None else max(min(_ID_CELLS, style.width // 3), 12)


def _index(state: RunState, style: Style) -> _Table:
    entries = [entry for _, pair in state.pairs() if (entry := pair.entry) is not None]
    entries.sort(key=lambda entry: entry.outcome == "errored")
    if not entries:
        return _Table((), frozenset(), MAX_INDEX)
    total = len(entries)
    names = short_names(state.experiments)
    shown = [_index_cells(entry, names[entry.experiment_id], style) for entry in entries[:MAX_INDEX]]
    widths = [max(cell_width(cells[column]) for cells in shown) for column in range(3)]
    lines = ["not passed"]
    for entry, cells in zip(entries, shown, strict=False):
        columns = "  ".join(pad_end(cell, width) for cell, width in zip(cells, widths, strict=True))
        lines.append(f"  {style.symbol(entry.outcome)} {columns}  {entry.locator or ''}".rstrip())
    return _Table(lines + [""] * (total - len(shown)), frozenset({0}), MAX_INDEX)


def _index_cells(entry: IndexEntry, experiment: str, style: Style) -> tuple[str, str, str]:
    mark = style.glyphs.ellipsis
    ids = _id_cells(style)
    name = cut_middle(style.clean(entry.eval_id), ids, mark=mark)
    short = cut_middle(style.clean(experiment), ids, mark=mark)
    # Two margins, three gaps and a locator stand beside these.
    free = _WHAT_CELLS if style.width is None else style.width - 20 - cell_width(name) - cell_width(short)
    return name, short, cut_end(style.clean(entry.what), max(free, 12), mark=mark)


def _foot(state: RunState, finished: RunFinished, style: Style, ending: Ending) -> list[str]:
    lines = _problems(finished.problems, style, ending.language)
    lines += _totals(state, finished, style)
    if state.saved is not None:
        lines.append(f"results   {style.clean(state.saved.output_dir)}")
    if not ending.brief:
        lines += [
            f"next: {command}" + (f"  ({why})" if why else "")
            for command, why in next_commands(state, finished, ending.rerun)
        ]
    return [*lines, _last_word(finished, style)]


def _totals(state: RunState, finished: RunFinished, style: Style) -> list[str]:
    attempts = [f"{finished.passed} passed", f"{finished.failed} failed"]
    attempts += [f"{number} {word}" for word in ("errored", "skipped") if (number := getattr(finished, word))]
    attempts.append(_not_started(finished))
    figures = state.figures
    budget = None if state.start is None else state.start.budget
    used = (figures.total_tokens(), figures.total_cost(budget)) if figures.attempts else ()
    # Never part of what the agents cost.
    judge = (f"judge {money(finished.judge_cost_usd)}",) if finished.judge_usage is not None else ()
    others = [f"{number} {word}" for word in ("carried", "cancelled") if (number := getattr(finished, word))]
    return [
        f"evals     {style.joined(*counted(state.evals()))}",
        f"attempts  {style.joined(*attempts)}",
        style.joined(duration(finished.duration_ms), *used, *judge, *others),
    ]


def _not_started(finished: RunFinished) -> str:
    """`3 not started (budget)`, `5 not started (3 budget, 2 eval-fatal)`; empty for none."""
    if not finished.not_started:
        return ""
    why = finished.not_started_why
    reasons = why[0][0] if len(why) == 1 else ", ".join(f"{count} {reason}" for reason, count in why)
    return f"{finished.not_started} not started" + (f" ({reasons})" if reasons else "")


def _problems(problems: Sequence[NiceevalError], style: Style, language: str) -> list[str]:
    lines = [_problem(problem, style, language) for problem in problems[:_MAX_PROBLEMS]]
    left = len(problems) - len(lines)
    return [*lines, f"+ {left} more: niceeval list"] if left else lines


def _problem(problem: NiceevalError, style: Style, language: str) -> str:
    place = f" ({style.clean(str(problem.place))})" if problem.place else ""
    message = cut_counted(style.clean(problem.message(language)), 200, mark=style.glyphs.ellipsis)
    return f"error[{problem.code}]: {message}{place}"


def next_commands(state: RunState, finished: RunFinished, rerun: str) -> list[tuple[str, str]]:
    """What to type now, each with a word why, or an empty one; `rerun` runs the same selection again."""
    entries = [entry for _, pair in state.pairs() if (entry := pair.entry) and entry.locator]
    # The first of the index above: failed ones stand before errored ones there.
    entries.sort(key=lambda entry: entry.outcome == "errored")
    commands = [(f"niceeval show {entries[0].locator}", "")] if entries else []
    stored = state.counts.finished
    if finished.status == "interrupted":
        commands.append((rerun, f"{stored} of {finished.planned} attempts are stored"))
    elif finished.not_started:
        not_passed = "what did not pass, and " if entries else ""
        commands.append((rerun, f"{not_passed}the {finished.not_started} not started"))
    elif not commands and stored:
        commands.append(("niceeval show", ""))
    return commands


def _last_word(finished: RunFinished, style: Style) -> str:
    word, colour = _LAST_WORDS[finished.status]
    return style.paint(f"{word} (exit {finished.exit_code})", colour)
