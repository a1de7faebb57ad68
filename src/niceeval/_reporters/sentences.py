"""Lines and parts of lines that several forms share: counts, samples, the name of a thing that is short of room."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable
from itertools import takewhile

from niceeval._base.terminal import Style, clock, cut_counted, money
from niceeval._model.result import Verdict
from niceeval._model.run_events import BudgetExceeded, NotStarted
from niceeval._reporters.deciding import IndexEntry
from niceeval._reporters.state import Counts, Experiment, Pair, Running, RunState

_WHY_CELLS = 200


def counted(counts: Counts, *, always: Iterable[Verdict] = ("passed", "failed")) -> list[str]:
    """`45 passed`, `5 failed`, ...: those named by `always`, and every other that occurred."""
    verdicts: tuple[Verdict, ...] = ("passed", "failed", "errored", "skipped")
    kept = set(always)
    return [f"{number} {word}" for word in verdicts if (number := getattr(counts, word)) or word in kept]


def sample(pair: Pair, runs: int) -> str:
    """`1/2 passed (50%)`, `1/1 passed (early exit)`, `0/2 passed (0%), 2 errored`, `skipped`.

    A sample of `runs` attempts that was cut short claims no rate: `1/1 passed (1 of 2 ran)`.
    """
    counts = pair.counts
    if not counts.judged:
        return "skipped"
    share = "early exit" if pair.early_exit else f"{_percent(counts.passed, counts.judged)}%"
    if not pair.complete(runs):
        share = f"{counts.finished} of {runs} ran"
    said = f"{counts.passed}/{counts.judged} passed ({share})"
    return f"{said}, {counts.errored} errored" if counts.errored else said


def _percent(part: int, whole: int) -> int:
    """Rounded, but 0 and 100 are kept for none and all."""
    return min(max(round(100 * part / whole), int(part > 0)), 99) if part < whole else 100


def short_names(experiment_ids: Iterable[str]) -> dict[str, str]:
    """Each id without the folders that all of them share; a single one stays whole."""
    ids = list(experiment_ids)
    if len(ids) < 2:
        return {one: one for one in ids}
    first, last = (one.split("/")[:-1] for one in (min(ids), max(ids)))
    shared = [*takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))]
    return {one: one.split("/", len(shared))[-1] for one in ids}


def pair_line(experiment: Experiment, pair: Pair, style: Style) -> str:
    """`✓ passed  compare/bub  sql/0003  2/2 passed (100%)  mean 12s · 8.1k tok · $0.02`."""
    verdict = pair.counts.fold() or "skipped"
    ids = f"{style.clean(experiment.outline.id)}  {style.clean(pair.eval_id)}"
    parts = [style.mark(verdict), ids]
    if verdict == "skipped":
        parts += [style.clean(pair.skip_reason)] if pair.skip_reason else []
    else:
        parts += [sample(pair, experiment.outline.runs), pair.figures.means(style)]
    return "  ".join(parts)


def index_line(entry: IndexEntry, style: Style) -> str:
    """One of those that did not pass, with its word: for a place where no heading says what it is."""
    return f"{style.mark(entry.outcome)}  " + style.joined(
        style.clean(entry.eval_id),
        style.clean(entry.experiment_id),
        style.clean(entry.what),
        entry.locator or "",
        "carried" if entry.carried else "",
    )


def progress_line(state: RunState, style: Style, now: float) -> str:
    """The heartbeat: `[04:12] 53/84 · 45 passed · 5 failed · 11 running, longest sql/0007 1:12 · $4.12`."""
    parts = [f"{state.counts.finished}/{state.expected}", *counted(state.counts)]
    longest = state.longest_first()
    if longest:
        first = longest[0]
        parts.append(f"{len(longest)} running, longest {style.clean(first.key.eval_id)} {elapsed(first, now)}")
    if state.figures.attempts:
        parts.append(state.figures.total_cost(state.start.budget if state.start else None))
    return f"[{clock(now - state.began, wide=True)}] {style.joined(*parts)}"


def carried_line(state: RunState, style: Style) -> str:
    """`↺ carried 22 results of RUN (cannot see: changes inside a deployed service)`."""
    noun = "result" if state.carried == 1 else "results"
    newest, *older = sorted(state.carried_from, reverse=True)
    others = f" and {len(older)} other runs" if len(older) > 1 else "".join(f" and {style.clean(run)}" for run in older)
    said = f"{style.mark('carried')} {state.carried} {noun} of {style.clean(newest)}{others}"
    unseen = any(one.carried and one.outline.agent_version is None for one in state.experiments.values())
    return f"{said} (cannot see: changes inside a deployed service)" if unseen else said


def budget_lines(event: BudgetExceeded, style: Style, rerun: str) -> list[str]:
    """`budget: compare/x stopped at $3.71 + $0.44 of $4.00; 3 not started`, and what to type with more of it."""
    scope = "the run" if event.experiment_id is None else style.clean(event.experiment_id)
    next_one = f" + {money(event.reserved)}" if event.reserved else ""
    at = f"{money(event.spent)}{next_one} of {money(event.budget)}"
    if event.experiment_id is not None:
        rerun = shlex.join(["niceeval", "exp", event.experiment_id])
    command = _with_budget(rerun, event.spent + event.not_started * event.reserved)
    return [f"budget: {scope} stopped at {at}; {event.not_started} not started", f"  next: {style.clean(command)}"]


def _with_budget(command: str, dollars: float) -> str:
    """The command with a budget of at least so much, rounded up to whole dollars, or to cents below one."""
    words = iter(shlex.split(command))
    kept: list[str] = []
    for word in words:
        if word == "--budget":
            next(words, None)
        elif not word.startswith("--budget="):
            kept.append(word)
    enough = math.ceil(dollars) if dollars >= 1 else math.ceil(dollars * 100) / 100
    return shlex.join([*kept, "--budget", f"{enough:g}"])


def not_started_line(event: NotStarted, style: Style) -> str:
    """`experiment-fatal: compare/x stopped: ExperimentFatalError: no key; 12 not started`."""
    scope = style.clean(event.experiment_id or "every experiment")
    if event.eval_id is not None:
        scope = f"{style.clean(event.eval_id)} under {scope}"
    why = cut_counted(style.clean(event.message.split("\n", 1)[0]), _WHY_CELLS, mark=style.glyphs.ellipsis)
    return f"{style.clean(event.code)}: {scope} stopped: {why}; {event.count} not started"


def elapsed(running: Running, now: float, *, limit: bool = False) -> str:
    """`1:12`; past 80 % of its timeout, or with `limit`, `8:31 of 10:00`."""
    passed = now - running.started
    if limit or passed > 0.8 * running.timeout:
        return f"{clock(passed)} of {clock(running.timeout)}"
    return clock(passed)


def doing(running: Running) -> str:
    """`send, turn 3`."""
    return running.phase if running.turn is None else f"{running.phase}, turn {running.turn}"


def newest(running: Running, style: Style) -> str:
    """The attempt's newest progress text, with how far it is where it said so."""
    if running.text is None:
        return ""
    text = style.clean(running.text)
    if running.current is None:
        return text
    done = f"{running.current:g}" if running.total is None else f"{running.current:g} of {running.total:g}"
    return f"{text} ({done})"
