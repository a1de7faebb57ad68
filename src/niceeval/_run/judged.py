"""What an attempt's judgements came to, as its result keeps them: their texts beside it, their cost in it."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from niceeval._drive.driver import Driver
from niceeval._drive.judgements import Asked
from niceeval._judging.outcome import JudgeOutcome
from niceeval._model.judgement import StoredJudgement
from niceeval._model.usage import Usage, add_usage

MAX_TEXTS: Final = 500
"""Judgements of one attempt whose prompts and answers are kept; of the others only what they came to."""


def stored_judgements(driver: Driver) -> tuple[StoredJudgement, ...]:
    """Every judgement that was made, in the order of its assertion."""
    places = {id(entry): number for number, entry in enumerate(driver.collector.entries)}
    made = [(places[id(asked.entry)], asked, asked.outcome) for asked in driver.judgements if asked.outcome is not None]
    made.sort(key=lambda one: one[0])
    return tuple(
        _stored(place, asked, outcome, with_texts=number < MAX_TEXTS)
        for number, (place, asked, outcome) in enumerate(made)
    )


def judge_spending(driver: Driver) -> tuple[Usage | None, float | None]:
    """What all judgements used, and cost in US dollars; the cost is None where one of them has none that is known."""
    outcomes = [asked.outcome for asked in driver.judgements if asked.outcome is not None]
    asked = [outcome for outcome in outcomes if outcome.answer is not None or outcome.usage is not None]
    usage = add_usage(outcome.usage for outcome in asked if outcome.usage is not None)
    costs = [outcome.cost for outcome in asked if outcome.cost is not None]
    known = bool(costs) and len(costs) == len(asked)
    return usage, float(sum(costs, Decimal(0))) if known else None


def _stored(place: int, asked: Asked, outcome: JudgeOutcome, *, with_texts: bool) -> StoredJudgement:
    record = asked.entry.judge
    return StoredJudgement(
        assertion=place,
        name=asked.name,
        recipe="custom" if record is None else record.recipe,
        model=outcome.model,
        score=outcome.score,
        code=outcome.code,
        message=outcome.message,
        choice=outcome.choice,
        rationale=outcome.rationale,
        prompt=outcome.prompt if with_texts else None,
        answer=outcome.answer if with_texts else None,
        usage=outcome.usage,
        cost_usd=None if outcome.cost is None else float(outcome.cost),
    )
