"""Trying a judge on examples that people have labelled: each is judged, judged again, and judged in another order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from niceeval._judging.agreement import Confusion
from niceeval._judging.desk import JudgeDesk
from niceeval._judging.labels import Example, Labels
from niceeval._judging.outcome import JudgeOutcome
from niceeval._judging.recipes import reversed_choices
from niceeval._model.judge import JudgeConfig
from niceeval._model.usage import Usage, add_usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One example and what came of it: its repeats, the first of which counts, and the one with choices reversed."""

    example: Example
    repeats: tuple[JudgeOutcome, ...]
    reversed: JudgeOutcome | None
    passes_at: float

    @property
    def verdict(self) -> bool | None:
        """What the judge says in one go, as it does in a run; None where it gave no score."""
        return self._verdict(self.repeats[0])

    @property
    def steady(self) -> bool | None:
        """Whether every repeat came to the same verdict; None where one has none."""
        verdicts = {self._verdict(outcome) for outcome in self.repeats}
        return None if None in verdicts else len(verdicts) == 1

    @property
    def moved(self) -> bool | None:
        """Whether the order of the choices changed the verdict; None where that is not known."""
        if self.reversed is None or self._verdict(self.reversed) is None or self.verdict is None:
            return None
        return self._verdict(self.reversed) != self.verdict

    @property
    def outcomes(self) -> tuple[JudgeOutcome, ...]:
        return self.repeats if self.reversed is None else (*self.repeats, self.reversed)

    def _verdict(self, outcome: JudgeOutcome) -> bool | None:
        return None if outcome.score is None else outcome.score >= self.passes_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How one judge did on one file of labels. `config` is the judge that was tried."""

    labels: Labels
    config: JudgeConfig
    judged: tuple[Judged, ...]
    repeat: int
    swapped: bool

    @property
    def confusion(self) -> Confusion:
        """The first verdict on each example beside its label; examples without a score count for nothing."""
        pairs = [(one.example.passes, one.verdict) for one in self.judged]
        return Confusion(
            true_pass=pairs.count((True, True)),
            false_pass=pairs.count((False, True)),
            true_fail=pairs.count((False, False)),
            false_fail=pairs.count((True, False)),
        )

    @property
    def unjudged(self) -> tuple[Judged, ...]:
        """Examples on which the judge gave no score."""
        return tuple(one for one in self.judged if one.verdict is None)

    @property
    def usage(self) -> Usage | None:
        """The tokens of every judgement, as far as they were reported."""
        return add_usage(outcome.usage for outcome in self._outcomes() if outcome.usage is not None)

    @property
    def cost(self) -> Decimal | None:
        """US dollars of every judgement; None where the cost of one is not known."""
        costs = [outcome.cost for outcome in self._outcomes()]
        return None if None in costs else sum((cost for cost in costs if cost is not None), Decimal(0))

    @property
    def judgements(self) -> int:
        return sum(1 for _ in self._outcomes())

    def _outcomes(self) -> Iterator[JudgeOutcome]:
        return (outcome for one in self.judged for outcome in one.outcomes)


async def calibrate(
    labels: Labels,
    config: JudgeConfig,
    desk: JudgeDesk,
    *,
    repeat: int = 1,
    swap: bool = True,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Calibration | JudgeOutcome:
    """Judge every example `repeat` times, and once more with its choices reversed where the question allows that.

    The first example is judged alone: where the judge cannot be asked at all, that outcome is given, and nothing else
    is tried. `progress(done, total)` counts examples.
    """
    total = len(labels.examples)
    first = await _judged(labels, config, desk, labels.examples[0], repeat, swap)
    refused = next((o for o in first.outcomes if o.code in ("judge-not-configured", "judge-call-failed")), None)
    if refused is not None:
        return refused
    judged: list[Judged | None] = [first, *([None] * (total - 1))]
    waiting = iter(range(1, total))
    done = 1
    progress(done, total)

    async def work() -> None:
        nonlocal done
        for place in waiting:
            judged[place] = await _judged(labels, config, desk, labels.examples[place], repeat, swap)
            done += 1
            progress(done, total)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(config.max_concurrency, total)):
            group.create_task(work())
    return Calibration(
        labels=labels,
        config=config,
        judged=tuple(one for one in judged if one is not None),
        repeat=repeat,
        swapped=swap and reversed_choices(labels.recipe) is not None,
    )


async def _judged(
    labels: Labels, config: JudgeConfig, desk: JudgeDesk, example: Example, repeat: int, swap: bool
) -> Judged:
    other = reversed_choices(example.recipe) if swap else None
    recipes = [example.recipe] * repeat + ([other] if other is not None else [])
    outcomes = await asyncio.gather(*(desk.judge(recipe, example.material, config) for recipe in recipes))
    return Judged(
        example=example,
        repeats=tuple(outcomes[:repeat]),
        reversed=outcomes[repeat] if other is not None else None,
        passes_at=labels.passes_at,
    )
