"""The board: what a run looks like now, as rows for a terminal of a given size. Pure: state in, rows out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from niceeval._base.terminal import (
    Colour,
    Style,
    cell_width,
    clock,
    cut_end,
    cut_middle,
    money,
    pad_end,
    pad_start,
)
from niceeval._reporters.eta import Eta
from niceeval._reporters.sentences import counted, doing, elapsed, newest, short_names
from niceeval._reporters.state import Experiment, Running, RunState

WIDE = 120
NARROW = 60
_WITH_COST = 74
_BAR = 18
_HEADER_ROWS = 3


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    cells: int


_COST = _Column("cost", 16)
_COUNT_COLUMNS = (
    _Column("done", 9),
    _Column("passed", 8),
    _Column("failed", 8),
    _Column("errored", 9),
    _Column("running", 9),
    _COST,
)
_WIDE_COLUMNS = (
    _Column("done", 9),
    _Column("passed", 8),
    _Column("failed", 8),
    _Column("errored", 9),
    _Column("skipped", 9),
    _Column("running", 9),
    _Column("mean", 10),
    _Column("tok", 10),
    _COST,
)
_AGENT = 12


def board(state: RunState, style: Style, *, columns: int, rows: int, now: float, eta: Eta) -> list[str]:
    """At most `rows` - 2 rows, none as wide as `columns`: the last cell stays free, so that no terminal wraps.

    Below 60 columns these are the first three rows only.
    """
    if state.start is None:
        return []
    width = columns - 1
    head = [_title(state, style, width, now), _bar(state, style, width), _spend(state, style, width, now, eta)]
    room = rows - 2
    if columns < NARROW or room <= _HEADER_ROWS:
        return head[: max(room, 1)]
    return head + _tables(state, style, width, room - _HEADER_ROWS, now)


def _title(state: RunState, style: Style, width: int, now: float) -> str:
    assert state.start is not None
    time = clock(now - state.began, wide=True)
    room = width - len(time) - 2
    title = style.clean(state.start.title)
    carried = f", {state.start.carried} carried" if state.start.carried else ""
    plan = _plan(state) + carried
    if room < cell_width(plan) + 12:
        plan = _many(state.planned, "attempt") + carried
    title = cut_middle(title, max(room - cell_width(plan) - 3, 4), mark=style.glyphs.ellipsis)
    text = cut_end(f"{title}   {plan}", room, mark=style.glyphs.ellipsis)
    painted = style.paint(title, "bold") + text[len(title) :] if text.startswith(title) else text
    return painted + " " * (width - cell_width(text) - len(time)) + time


def _plan(state: RunState) -> str:
    """`3 experiments x 14 evals x 2 runs = 84 attempts` where it is such a product, else the sums."""
    outlines = [experiment.outline for experiment in state.experiments.values()]
    shapes = {(outline.evals, outline.runs) for outline in outlines}
    attempts = _many(state.planned, "attempt")
    head = _many(len(outlines), "experiment")
    if len(shapes) != 1:
        return f"{head}, {attempts}"
    evals, runs = shapes.pop()
    if len(outlines) * evals * runs != state.planned:
        return f"{head}, {attempts}"
    return f"{head} x {_many(evals, 'eval')} x {_many(runs, 'run')} = {attempts}"


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _bar(state: RunState, style: Style, width: int) -> str:
    total = max(state.expected, 1)
    full = min(_BAR * state.counts.finished // total, _BAR)
    going = min(-(-_BAR * len(state.running) // total), _BAR - full)
    glyphs = style.glyphs
    bar = glyphs.full * full + glyphs.partial * going + glyphs.empty * (_BAR - full - going)
    done = f"{state.counts.finished}/{state.expected}"
    marks = "  ".join(_marks(state, style))
    plain = f"{bar}  {done}  " + "  ".join(_marks(state, Style(glyphs=glyphs)))
    if cell_width(plain) > width:
        return cut_end(f"{done}  " + "  ".join(_marks(state, Style(glyphs=glyphs))), width, mark=glyphs.ellipsis)
    return f"{bar}  {done}  {marks}"


def _marks(state: RunState, style: Style) -> list[str]:
    colours: dict[str, Colour] = {"passed": "green", "failed": "red", "errored": "magenta", "skipped": "yellow"}
    parts = []
    for said in counted(state.counts):
        word = said.split()[1]
        parts.append(style.paint(f"{getattr(style.glyphs, word)} {said}", colours[word]))
    return parts


def _spend(state: RunState, style: Style, width: int, now: float, eta: Eta) -> str:
    parts: list[str] = []
    budget = None if state.start is None else state.start.budget
    if state.figures.attempts:
        parts.append(_spent(state, budget))
    elif budget is not None:
        parts.append(f"budget {money(budget)}")
    parts.append(f"{state.queued} queued")
    if state.cancelled:
        parts.append(f"{state.cancelled} cancelled")
    if state.not_started:
        parts.append(f"{state.not_started} not started")
    parts.append("interrupted, tearing down" if state.interrupted else eta.text(state, now))
    return cut_end(style.joined(*parts), width, mark=style.glyphs.ellipsis)


def _spent(state: RunState, budget: float | None) -> str:
    cost = state.figures.total_cost(budget)
    if not cost.startswith(("$", "<")):
        return cost
    reserved = None if budget is None else state.figures.expected_cost(len(state.running))
    return f"spent {cost}" + (f", {money(reserved)} reserved" if reserved else "")


def _tables(state: RunState, style: Style, width: int, room: int, now: float) -> list[str]:
    running = state.longest_first()
    wanted = len(state.experiments) + 1
    # What runs now is what a hang is seen by: it gets half of the room before experiments take all.
    for_running = min(len(running) + 1, max(room // 2, room - wanted)) if running else 0
    experiments = _experiment_rows(state, style, width, room - for_running)
    if not running:
        return experiments
    return experiments + _running_rows(state, running, style, width, room - len(experiments), now)


def _experiment_rows(state: RunState, style: Style, width: int, room: int) -> list[str]:
    if room < 2:
        return []
    columns = _columns(width)
    agent = _AGENT if width >= WIDE - 1 else 0
    name = width - agent - sum(column.cells for column in columns)
    names = short_names(state.experiments)
    head = pad_end("experiment", name) + pad_end("agent", agent) * bool(agent)
    rows = [style.paint(head + "".join(pad_start(column.title, column.cells) for column in columns), "bold")]
    every = sorted(state.experiments.values(), key=lambda experiment: experiment.left == 0)
    shown = every if len(every) < room else every[: room - 2]
    for experiment in shown:
        label = _fitted(style, names[experiment.outline.id], name)
        label += _fitted(style, experiment.outline.agent, agent) if agent else ""
        rows.append(label + "".join(pad_start(_cell(experiment, column), column.cells) for column in columns))
    if len(shown) < len(every):
        rows.append(f"+ {len(every) - len(shown)} more experiments")
    return rows


def _columns(width: int) -> Sequence[_Column]:
    if width >= WIDE - 1:
        return _WIDE_COLUMNS
    # The sum of what was spent stands in the third row; a name that cannot be read stands nowhere.
    return _COUNT_COLUMNS if width >= _WITH_COST else _COUNT_COLUMNS[:-1]


def _cell(experiment: Experiment, column: _Column) -> str:
    figures, counts = experiment.figures, experiment.counts
    if column.title in ("mean", "tok", "cost") and not figures.attempts:
        return "none yet"
    match column.title:
        case "done":
            return f"{counts.finished}/{experiment.expected}"
        case "running":
            return str(experiment.running)
        case "mean":
            return figures.mean_duration()
        case "tok":
            return figures.total_tokens().removesuffix(" tok").replace("tokens ", "")
        case "cost":
            return _cost(experiment)
        case verdict:
            return str(getattr(counts, verdict))


def _cost(experiment: Experiment) -> str:
    figures, budget = experiment.figures, experiment.outline.budget
    if not figures.with_cost:
        return figures.total_cost()
    # The full sentence is in the third row; here is room for the sum and that it is not all.
    said = money(figures.cost) + (" + ?" if figures.with_cost < figures.attempts else "")
    limited = said if budget is None else f"{said} of {money(budget)}"
    return limited if cell_width(limited) < _COST.cells else said


def _running_rows(
    state: RunState, running: Sequence[Running], style: Style, width: int, room: int, now: float
) -> list[str]:
    if room < 2:
        return []
    shown = running[: room - 1]
    names = short_names(state.experiments)
    wide = width >= WIDE - 1
    left, right = _running_columns(width)
    said = f"running: {len(shown)} of {len(running)}, longest first" if len(shown) < len(running) else "running"
    head = pad_end(cut_end(said, sum(left) - 1, mark=style.glyphs.ellipsis), sum(left))
    phases = width - sum(left) - right
    rows = [style.paint(head + pad_end("phase", phases) + pad_start("elapsed", right), "bold")]
    for one in shown:
        outline = state.experiments[one.key.experiment_id].outline
        label = _fitted(style, names[one.key.experiment_id], left[0]) + _fitted(style, one.key.eval_id, left[1])
        label += pad_end(f"{one.key.attempt + 1}/{outline.runs}", left[2])
        phase = cut_end(style.joined(doing(one), newest(one, style)), phases - 1, mark=style.glyphs.ellipsis)
        rows.append(label + pad_end(phase, phases) + pad_start(elapsed(one, now, limit=wide), right))
    return rows


def _running_columns(width: int) -> tuple[tuple[int, int, int], int]:
    if width >= WIDE - 1:
        return (20, 24, 6), 16
    name = max((width - 35) // 3, 8)
    return (name, name, 6), 15


def _fitted(style: Style, text: str, cells: int) -> str:
    """An id in a column of its own: one cell stays free as the gap."""
    return pad_end(cut_middle(style.clean(text), cells - 1, mark=style.glyphs.ellipsis), cells)
