"""`niceeval exp --dry`: the plan as text; what would run, what is carried, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from niceeval._base.terminal import Style, count, cut_middle, money, pad_end
from niceeval._discover.specs import ExperimentSpec
from niceeval._plan.carry import Decision
from niceeval._plan.plan import AttemptPlan, RunPlan

_ID_CELLS = 40
_LOCATORS = 5


def plan_lines(plan: RunPlan, style: Style) -> list[str]:
    """The plan, experiment by experiment; attempts of one eval with the same reason share a line."""
    decided = [(attempt, _decision(plan, attempt)) for attempt in plan.attempts]
    carried = sum(decision.carried is not None for _, decision in decided)
    unneeded = sum(not decision.needed for _, decision in decided)
    parts = [f"{count(len(decided) - carried - unneeded)} run", f"{count(carried)} carry"]
    parts += [f"{count(unneeded)} not needed (early exit)"] if unneeded else []
    lines = [f"plan: {count(len(decided))} attempts, {', '.join(parts)}; nothing was started"]
    for experiment in plan.experiments:
        own = [pair for pair in decided if pair[0].experiment.id == experiment.id]
        lines.append(_head(experiment, plan, style))
        lines += _rows(own, style)
    blind = _blind_spots(plan, style) if carried else ""
    return [*lines, blind] if blind else lines


def plan_records(plan: RunPlan) -> Iterator[dict[str, Any]]:
    """The same for `--dry --json`: a `run:plan` per attempt; `action` is `run`, `carry`, or `skip` (early exit)."""
    for attempt in plan.attempts:
        decision = _decision(plan, attempt)
        record: dict[str, Any] = {
            "type": "run:plan",
            "experimentId": attempt.experiment.id,
            "evalId": attempt.eval.id,
            "attempt": attempt.attempt,
            "action": "carry" if decision.carried is not None else "run" if decision.needed else "skip",
            "reason": decision.reason,
        }
        if decision.carried is not None:
            record["carriedFrom"] = {"run": decision.carried.run, "locator": decision.carried.locator}
        yield record


def _decision(plan: RunPlan, attempt: AttemptPlan) -> Decision:
    return plan.decision(attempt) or Decision(reason="no earlier result")


def _head(experiment: ExperimentSpec, plan: RunPlan, style: Style) -> str:
    who = style.clean(experiment.agent.name) + (f", {style.clean(experiment.model)}" if experiment.model else "")
    facts = [f"runs {experiment.runs}"]
    facts += [f"sandbox {style.clean(experiment.sandbox.shown)}"] if experiment.sandbox is not None else []
    facts += [f"budget {money(experiment.budget)}"] if experiment.budget is not None else []
    facts.append(f"concurrency {min(experiment.max_concurrency or plan.concurrency, plan.concurrency)}")
    return f"{style.clean(experiment.id)} ({who})  {style.joined(*facts)}"


def _rows(decided: Sequence[tuple[AttemptPlan, Decision]], style: Style) -> Iterator[str]:
    def same(pair: tuple[AttemptPlan, Decision]) -> tuple[str, str, bool, bool]:
        attempt, decision = pair
        return (attempt.eval.id, decision.reason, decision.carried is not None, decision.needed)

    groups = [list(group) for _, group in groupby(decided, key=same)]
    width = min(max((len(group[0][0].eval.id) for group in groups), default=0), _ID_CELLS)
    for group in groups:
        attempt, decision = group[0]
        word = "run    " if decision.needed else "skip   "
        if decision.carried is not None:
            word = f"{style.glyphs.carried} carry"
        id = pad_end(cut_middle(style.clean(attempt.eval.id), _ID_CELLS, mark=style.glyphs.ellipsis), width)
        numbers = _numbers([one.attempt + 1 for one, _ in group])
        reason = style.clean(decision.reason) + _origins([one.carried.locator for _, one in group if one.carried])
        yield f"  {word}  {id}  {numbers}  {reason}"


def _origins(locators: Sequence[str]) -> str:
    """`, @q6ya3ndh @z2mw5tkc`; nothing where nothing is carried."""
    if not locators:
        return ""
    more = len(locators) - _LOCATORS
    return f", {' '.join(locators[:_LOCATORS])}" + (f" + {more} more" if more > 0 else "")


def _numbers(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"


def _blind_spots(plan: RunPlan, style: Style) -> str:
    """What the identity cannot see, where that may matter."""
    silent = sorted({one.agent.name for one in plan.experiments if one.id not in plan.versions})
    if not silent:
        return ""
    names = ", ".join(style.clean(name) for name in silent[:3])
    verb = "has" if len(silent) == 1 else "have"
    unseen = "changes inside a deployed service or another process, imports under names made at run time"
    return f"carry cannot see: {unseen} ({names} {verb} no `version`)"
