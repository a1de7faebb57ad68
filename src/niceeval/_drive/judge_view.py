"""`t.judge`, `session.judge`, `turn.judge`: questions about an answer that a model, or a function, decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from niceeval._base.callsite import CallSite, call_site
from niceeval._base.errors import AuthorError
from niceeval._drive.deferred import Deferred
from niceeval._drive.driver import GROUP, Driver
from niceeval._drive.given_value import require_value
from niceeval._drive.judgements import Asked, CustomJudge, text_of
from niceeval._drive.own_tasks import others_tasks
from niceeval._drive.sending import Sending
from niceeval._evidence.scope import Scope
from niceeval._judge.availability import incomplete
from niceeval._judge.collector import AssertionHandle, Entry
from niceeval._judging import recipes
from niceeval._judging.recipes import Recipe
from niceeval._judging.resolving import chosen
from niceeval._model.assertion import UnavailableReason
from niceeval._model.judge import JudgeConfig, JudgeMaterial

Material = Callable[[], JudgeMaterial | UnavailableReason]


class Settling(Sending[float | None]):
    """A judgement that is to be made at once."""

    __slots__ = ()
    not_awaited = "judge-not-awaited"


class JudgeHandle(AssertionHandle):
    """Configures one judged assertion: soft and without a line, until something else is said."""

    __slots__ = ("_asked", "_driver")

    def __init__(self, driver: Driver, asked: Asked) -> None:
        super().__init__(asked.entry)
        self._driver = driver
        self._asked = asked

    def settle(self) -> Sending[float | None]:
        """`score = await handle.settle()`: judge now, where the eval's code depends on it.

        None where there is no score; the assertion is unavailable then, and says why.
        """
        site = call_site()
        return self._driver.sending("judge.settle", site, lambda: self._settle(site), frozenset(), kind=Settling)

    async def _settle(self, site: CallSite) -> float | None:
        with others_tasks():
            try:
                await self._asked.settle(self._driver)
            except AuthorError as error:
                raise self._driver.author_fault(error, site) from None
        evaluation = self._asked.entry.evaluation
        return None if evaluation is None or evaluation.reason is not None else evaluation.score


class JudgeView:
    """The questions. Each records an assertion at once; it is judged after the eval function has returned.

    `on` replaces what is judged: a text, or a value of `t.sandbox` that is known at the end. `model` replaces the
    configured judge's model for one question.
    """

    __slots__ = ("_driver", "_material")

    def __init__(self, driver: Driver, material: Material) -> None:
        self._driver = driver
        self._material = material

    def closed_qa(self, criteria: str, *, on: object = None, model: str | None = None) -> JudgeHandle:
        """Whether it meets a criterion: 1 or 0."""
        return self._ask(lambda: recipes.closed_qa(criteria), on, model)

    def factuality(self, expected: str, *, on: object = None, model: str | None = None) -> JudgeHandle:
        """How its facts stand to an expected answer's: the same 1, more 0.6, fewer 0.4, contradicting 0."""
        return self._ask(lambda: recipes.factuality(expected), on, model)

    def summarizes(self, source: str, *, on: object = None, model: str | None = None) -> JudgeHandle:
        """Whether it is a summary of a text: supported and complete 1, with a gap 0.5, unsupported 0."""
        return self._ask(lambda: recipes.summarizes(source), on, model)

    def rubric(
        self,
        label: str,
        criteria: str,
        scale: Mapping[str, float] | None = None,
        *,
        on: object = None,
        model: str | None = None,
    ) -> JudgeHandle:
        """How far it meets a rubric: one of a scale's grades. `scale` maps a grade to its score in [0, 1]."""
        return self._ask(lambda: recipes.rubric(label, criteria, scale), on, model)

    def custom(self, label: str, function: CustomJudge, *, on: object = None) -> JudgeHandle:
        """Judged by a function of yours, plain or async, of the material: a score in [0, 1], a bool or a Judgement."""
        site = call_site()
        given: object = function
        if not callable(given):
            raise self._bad("function", f"is {type(given).__name__}", "give a function of the material", site)
        self._require_text("label", label, site)
        return self._record(f"judge.custom({label.strip()})", function, self._driver.setting.judge, on, site)

    def _ask(self, make: Callable[[], Recipe], on: object, model: str | None) -> JudgeHandle:
        site = call_site()
        if model is not None:
            self._require_text("model", model, site)
        try:
            recipe = make()
        except AuthorError as error:
            raise self._driver.author_fault(error, site) from None
        config = chosen(self._driver.setting.judge, model=model)
        return self._record(f"judge.{recipe.name}", recipe, config, on, site)

    def _record(
        self, name: str, question: Recipe | CustomJudge, config: JudgeConfig | None, on: object, site: CallSite
    ) -> JudgeHandle:
        driver = self._driver
        material = self._material if on is None else self._other(on, site)
        driver.require_recordable(site)
        entry = Entry(name=name, site=site, group=GROUP.get(), severity="soft", guard=driver.require_own)
        driver.add(entry)
        asked = Asked(entry=entry, question=question, config=config, material=material)
        driver.judgements.append(asked)
        return JudgeHandle(driver, asked)

    def _other(self, on: object, site: CallSite) -> Material:
        """Material of the author's own, which follows no channel; what was asked for is still what the scope says."""
        try:
            if not isinstance(on, Deferred):
                require_value(on, "judge")
        except AuthorError as error:
            raise self._driver.author_fault(error, site) from None
        if isinstance(on, Deferred):
            return lambda: self._settled(on)
        if not isinstance(on, str):
            raise self._bad("on", f"is {type(on).__name__}", "give a text, or a value of t.sandbox", site)
        return lambda: JudgeMaterial(output=on, input=self._input())

    def _settled(self, on: Deferred[Any]) -> JudgeMaterial | UnavailableReason:
        if not self._driver.eval_over:
            raise on.error("deferred-value")
        settled = on.settled()
        if settled.reason is not None:
            return settled.reason
        return JudgeMaterial(output=text_of(settled.value), input=self._input())

    def _input(self) -> str:
        known = self._material()
        return known.input if isinstance(known, JudgeMaterial) else ""

    def _require_text(self, argument: str, given: object, site: CallSite) -> None:
        if not isinstance(given, str) or not given.strip():
            raise self._bad(argument, f"is {given!r:.80}", f'{argument}="..."', site)

    def _bad(self, argument: str, problem: str, fix: str, site: CallSite) -> BaseException:
        error = AuthorError("bad-argument", call="judge", argument=argument, problem=problem, fix=fix)
        return self._driver.author_fault(error, site)

    def __repr__(self) -> str:
        return "<judge>"


def seen_material(scope: Scope, make: Callable[[Scope], JudgeMaterial]) -> JudgeMaterial | UnavailableReason:
    """What a judge sees of a scope; the reason where its messages are not all there: what is missing may decide."""
    return incomplete(scope, "messages") or make(scope)
