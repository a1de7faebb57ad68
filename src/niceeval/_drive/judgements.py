"""The judgements that an eval asks for: each is an assertion entry at once, and is made when it is waited for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from niceeval._base.errors import error_text
from niceeval._base.guest import GuestScope, GuestTimeout
from niceeval._base.plain_text import clean_text, safe_repr, shorten
from niceeval._judge.collector import Entry
from niceeval._judge.evaluation import Evaluation
from niceeval._judging.outcome import MAX_PROBLEM, JudgeCode, JudgeOutcome
from niceeval._judging.recipes import Recipe
from niceeval._model.assertion import JudgeRecord, UnavailableReason
from niceeval._model.judge import DEFAULT_TIMEOUT, JudgeConfig, JudgeMaterial
from niceeval._model.matcher import Judgement

if TYPE_CHECKING:
    from niceeval._drive.driver import Driver

Verdict: TypeAlias = bool | float | Judgement
CustomJudge: TypeAlias = Callable[[JudgeMaterial], Verdict | Awaitable[Verdict]]
"""A judge of the author's own: a score in [0, 1], True or False, or a Judgement of `niceeval.expect`."""

MAX_SHOWN: Final = 500
"""Characters of what was judged that an assertion shows; the whole prompt lies beside the result."""


@dataclass(slots=True, kw_only=True)
class Asked:
    """One judgement that was asked for. `material` gives what is judged, or why it is not known, once it is wanted.

    `outcome` is None until it is made, and where there was no material.
    """

    entry: Entry
    question: Recipe | CustomJudge
    config: JudgeConfig | None
    material: Callable[[], JudgeMaterial | UnavailableReason]
    outcome: JudgeOutcome | None = None
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def name(self) -> str:
        """What was asked, for people."""
        return self.entry.name

    async def settle(self, driver: Driver) -> None:
        """Make the judgement where it is not made yet. What goes wrong makes the entry unavailable."""
        async with self._making:
            if self.entry.evaluation is not None:
                return
            material = self.material()
            if isinstance(material, UnavailableReason):
                self._close(driver, Evaluation(expected=self._expected, received="not known", reason=material))
                return
            if isinstance(self.question, Recipe):
                outcome = await driver.desk.judge(self.question, material, self.config)
            else:
                outcome = await self._by_function(driver, self.question, material)
            self.outcome = outcome
            self._close(driver, self._evaluation(outcome, material))

    def _close(self, driver: Driver, evaluation: Evaluation) -> None:
        if driver.sealed:
            driver.late += 1
            return
        self.entry.evaluation = evaluation
        self.entry.judge = self._record()

    async def _by_function(self, driver: Driver, function: CustomJudge, material: JudgeMaterial) -> JudgeOutcome:
        limit = DEFAULT_TIMEOUT if self.config is None else self.config.timeout
        scope = GuestScope(driver.scope.host, driver.scope.label)
        async with driver.desk.limit(self.config):
            try:
                answer = await scope.call("judge", limit, function, material)
            except asyncio.CancelledError:
                raise
            except GuestTimeout:
                return _no_score("judge-call-failed", f"{_function_name(function)} took longer than {limit:g} s")
            except BaseException as error:  # noqa: BLE001 - a guest: whatever it raises, it gave no score
                return _no_score("judge-call-failed", f"{_function_name(function)} raised {error_text(error)}")
        return _answered(answer, _function_name(function))

    def _evaluation(self, outcome: JudgeOutcome, material: JudgeMaterial) -> Evaluation:
        received = shorten(material.output, MAX_SHOWN) if material.output.strip() else "(nothing)"
        if outcome.score is None:
            reason = UnavailableReason(code=outcome.code or "judge-unparsable", message=outcome.message or "")
            return Evaluation(expected=self._expected, received=received, reason=reason)
        said = [text for text in (outcome.choice, outcome.rationale) if text]
        return Evaluation(
            score=outcome.score,
            graded=True,
            expected=self._expected,
            received=received,
            detail=": ".join(said) or None,
        )

    @property
    def _expected(self) -> str | None:
        if not isinstance(self.question, Recipe):
            return None
        texts = [*self.question.rubric.values(), *self.question.reference.values()]
        return shorten(texts[0], MAX_SHOWN) if texts else None

    def _record(self) -> JudgeRecord:
        outcome, question = self.outcome, self.question
        if not isinstance(question, Recipe):
            return JudgeRecord(recipe="custom")
        cost = None if outcome is None or outcome.cost is None else float(outcome.cost)
        return JudgeRecord(
            recipe=question.kind,
            model=None if self.config is None else self.config.model,
            base_url=None if outcome is None else outcome.base_url,
            rubric_hash=question.rubric_hash,
            choice=None if outcome is None else outcome.choice,
            usage=None if outcome is None else outcome.usage,
            cost_usd=cost,
        )


async def settle_all(driver: Driver, label: str) -> None:
    """Make every judgement that nobody has waited for, at the same time as far as their judges' limits let them."""
    async with asyncio.TaskGroup() as group:
        for asked in [one for one in driver.judgements if one.entry.evaluation is None]:
            group.create_task(asked.settle(driver), name=label)


def _answered(answer: object, name: str) -> JudgeOutcome:
    """What a function of the author's answered; anything but a score or a Judgement is no answer."""
    judgement = answer if isinstance(answer, Judgement) else None
    score: Any = answer if judgement is None else judgement.score
    # Numbers of other libraries give their value by `item`, as for matchers.
    if hasattr(score, "item") and getattr(score, "size", 0) == 1:
        score = score.item()
    if not isinstance(score, (bool, int, float)) or not 0 <= score <= 1:
        return _no_score("judge-unparsable", f"{name} answered {safe_repr(answer, 80)}, which is no score from 0 to 1")
    detail = None if judgement is None or judgement.detail is None else clean_text(str(judgement.detail), 2_000)[0]
    return JudgeOutcome(score=float(score), rationale=detail)


def _no_score(code: JudgeCode, message: str) -> JudgeOutcome:
    return JudgeOutcome(code=code, message=clean_text(message, MAX_PROBLEM)[0])


def _function_name(function: object) -> str:
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) else type(function).__name__


def text_of(value: object) -> str:
    """A settled value as material: text as it is, nothing for None, other values as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=lambda part: safe_repr(part, 200))
