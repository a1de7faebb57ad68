"""`t`: what an eval function receives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar, overload

from niceeval._base.callsite import CallSite, call_site
from niceeval._base.errors import AuthorError, SkipEval
from niceeval._base.plain_text import clean_text
from niceeval._drive.deferred import Deferred
from niceeval._drive.driver import GROUP, Driver
from niceeval._drive.given_value import require_value
from niceeval._drive.judge_view import JudgeView, seen_material
from niceeval._drive.sandbox_view import SandboxView
from niceeval._drive.session import Line, Session
from niceeval._evidence.scope import Scope, TurnRecord
from niceeval._judge.collector import AssertionHandle
from niceeval._judge.evaluation import Evaluation
from niceeval._judging.conversation import conversation_material
from niceeval._model.json_types import JsonValue
from niceeval._model.matcher import Check, DefinedMatcher, Judgement, Matcher, NarrowingMatcher, as_matcher

T = TypeVar("T")
N = TypeVar("N")


class EvalContext(Line):
    """Drives the main conversation line, opens others, and records assertions on the whole attempt.

    Scoped assertions on `t` see every session and turn; they are evaluated after the eval function has returned.
    """

    __slots__ = ()

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver, 0)

    # Reading ----------------------------------------------------------------------------------------------------

    @property
    def model(self) -> str | None:
        """The experiment's model."""
        return self._driver.setting.model

    @property
    def reasoning_effort(self) -> str | None:
        """The experiment's reasoning effort."""
        return self._driver.setting.reasoning_effort

    @property
    def flags(self) -> Mapping[str, JsonValue]:
        """The experiment's feature flags."""
        return self._driver.setting.flags

    @property
    def sandbox(self) -> SandboxView:
        """The attempt's sandbox; a direct agent has none, which is an author error."""
        self._driver.require_own()
        if self._driver.sandbox is None:
            raise self._driver.author_fault(AuthorError("no-sandbox", agent=self._driver.setting.agent.name))
        return SandboxView(self._driver, self._driver.sandbox)

    @property
    def judge(self) -> JudgeView:
        """Questions about the whole conversation, every session's, that a model decides at the end."""
        self._driver.require_own()
        log = self._driver.log
        return JudgeView(self._driver, lambda: seen_material(log.scope(), conversation_material))

    @property
    def _seen(self) -> Sequence[TurnRecord]:
        turns = [turn for session in self._driver.log.sessions for turn in session]
        return sorted(turns, key=lambda turn: turn.number)

    # Driving ----------------------------------------------------------------------------------------------------

    def new_session(self) -> Session:
        """An independent conversation line: the agent starts fresh, its events still count for `t.*`."""
        self._driver.require_own()
        return Session(self._driver, self._driver.log.open_session())

    def skip(self, reason: str) -> NoReturn:
        """End the eval here as skipped; a gate that failed before still counts."""
        self._driver.require_own()
        self._driver.skip_reason = clean_text(str(reason), 2_000)[0]
        raise self._driver.owned(SkipEval(reason))

    def log(self, message: object) -> None:
        """Keep a line in the attempt's log."""
        self._driver.require_own()
        self._driver.log.say("eval", clean_text(str(message), 1_000_000)[0], self._driver.turn)

    @contextmanager
    def group(self, title: str) -> Iterator[None]:
        """Assertions recorded inside carry this title; groups nest."""
        outer = GROUP.get()
        token = GROUP.set(title if outer is None else f"{outer} / {title}")
        try:
            yield
        finally:
            GROUP.reset(token)

    # Values -----------------------------------------------------------------------------------------------------

    @overload
    def check(self, value: Deferred[T], matcher: Check[T]) -> AssertionHandle: ...

    @overload
    def check(self, value: T, matcher: Check[T]) -> AssertionHandle: ...

    def check(self, value: Any, matcher: Any) -> AssertionHandle:
        """Record whether a value satisfies a matcher (or a plain callable), and go on.

        A value of `t.sandbox` that is known only at the end is judged then.
        """
        return self._check("check", value, matcher)

    @overload
    def require(self, value: T | None, matcher: DefinedMatcher, label: str | None = ...) -> T: ...

    @overload
    def require(self, value: object, matcher: NarrowingMatcher[Any, N], label: str | None = ...) -> N: ...

    @overload
    def require(self, value: T, matcher: Check[T], label: str | None = ...) -> T: ...

    def require(self, value: Any, matcher: Any, label: str | None = None) -> Any:
        """As `check`, but a miss stops the eval; always a gate. Returns the value, narrowed where the matcher can."""
        handle = self._check("require", value, matcher)
        entry = self._driver.collector.entries[-1]
        handle.gate()
        if label is not None:
            handle.label(label)
        if entry.missed():
            raise self._driver.stop("require")
        return value

    def points(self, points: float, label: str) -> None:
        """Give points outright: they count as earned and as possible."""
        site = call_site()
        handle = self._driver.record(
            "points", site, evaluation=Evaluation(score=1.0, expected=label, received=label), label=label
        )
        try:
            handle.points(points)
        except AuthorError as error:
            raise self._driver.author_fault(error, site) from None

    def _check(self, call: str, value: Any, matcher: Any) -> AssertionHandle:
        site = call_site()
        try:
            known = as_matcher(matcher)
            if call == "check" and isinstance(value, Deferred):
                return self._check_at_end(value, known, site)
            require_value(value, call)
            judged = known.evaluate(value)
        except AuthorError as error:
            raise self._driver.author_fault(error, site) from None
        return self._driver.record(
            known.name,
            site,
            evaluation=_evaluation(judged),
            severity=known.default_severity,
            threshold=known.threshold,
        )

    def _check_at_end(self, value: Deferred[Any], known: Matcher[Any], site: CallSite) -> AssertionHandle:
        def evaluate(_: Scope) -> Evaluation:
            settled = value.settled()
            if settled.reason is not None:
                return Evaluation(expected=known.name, received="not known", reason=settled.reason)
            return _evaluation(known.evaluate(settled.value))

        return self._driver.record(
            known.name,
            site,
            deferred=lambda: self._driver.evaluate_at_end(evaluate, self._driver.log.scope(), site),
            severity=known.default_severity,
            threshold=known.threshold,
        )

    def _record(self, name: str, evaluate: Callable[[Scope], Evaluation]) -> AssertionHandle:
        site = call_site()

        def at_the_end() -> Evaluation:
            return self._driver.evaluate_at_end(evaluate, self._driver.log.scope(), site)

        return self._driver.record(name, site, deferred=at_the_end)

    def __repr__(self) -> str:
        return f"<t of {self._driver.setting.eval_id}>"


def _evaluation(judged: Judgement) -> Evaluation:
    return Evaluation(
        score=judged.score,
        graded=judged.graded,
        expected=judged.expected,
        received=judged.received,
        detail=judged.detail,
    )
