"""What `await t.send(...)` gives: one turn, to read and to assert on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from niceeval._base.callsite import call_site
from niceeval._base.errors import AuthorError
from niceeval._drive.driver import Driver
from niceeval._drive.judge_view import JudgeView, seen_material
from niceeval._drive.receiver import Receiver
from niceeval._drive.structured import output_form
from niceeval._evidence.facts import ToolCall
from niceeval._evidence.scope import Scope, TurnRecord, turn_scope
from niceeval._judge import state
from niceeval._judge.collector import AssertionHandle
from niceeval._judge.evaluation import Evaluation
from niceeval._judging.conversation import turn_material
from niceeval._model.events import Message, StreamEvent
from niceeval._model.json_types import JsonValue
from niceeval._model.turn import TurnStatus
from niceeval._model.usage import Usage
from niceeval.expect import equals

T = TypeVar("T", covariant=True)


class TurnHandle(Receiver, Generic[T]):
    """One finished turn. Assertions on it are evaluated at the call and see this turn only."""

    __slots__ = ("_data", "_driver", "_missing", "_turn")

    def __init__(self, driver: Driver, record: TurnRecord, data: T, missing: str | None) -> None:
        self._driver = driver
        self._turn = record
        self._data = data
        self._missing = missing

    @property
    def message(self) -> str:
        """The turn's last assistant message; empty where there is none."""
        self._driver.require_own()
        return assistant_text(self._turn)

    @property
    def data(self) -> T:
        """The structured answer, as the type that `output=` declared; None where no output was asked for.

        Stops the eval where the answer is missing or does not fit: the entry `output schema` says why already.
        """
        self._driver.require_own()
        if self._missing is not None:
            raise self._driver.stop("turn.data")
        return self._data

    @property
    def raw_data(self) -> JsonValue:
        """The structured answer as it came; never stops the eval."""
        self._driver.require_own()
        data: JsonValue = self._turn.data
        return data

    @property
    def status(self) -> TurnStatus:
        """`completed`, `failed` or `waiting`."""
        self._driver.require_own()
        return self._turn.status

    @property
    def events(self) -> list[StreamEvent]:
        """The turn's events, the user's message first."""
        self._driver.require_own()
        return [event for _, event in self._turn.events]

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls this turn made, with what became of them up to now."""
        self._driver.require_own()
        facts = self._driver.log.facts_of(self._turn.session)
        return [call for call in facts.tool_calls if call.turn == self._turn.number]

    @property
    def usage(self) -> Usage | None:
        """What the turn reported; None where it reported nothing."""
        self._driver.require_own()
        return self._turn.usage

    @property
    def judge(self) -> JudgeView:
        """Questions about the turn's last assistant message, that a model decides at the end."""
        self._driver.require_own()
        scope = turn_scope(self._turn, self._driver.log.facts_of(self._turn.session))
        return JudgeView(self._driver, lambda: seen_material(scope, turn_material))

    def output_equals(self, value: object) -> AssertionHandle:
        """The structured answer, as it came, equals this JSON value. Channel: data."""

        def evaluate(scope: Scope) -> Evaluation:
            judged = equals(value).evaluate(self._turn.data)
            return state.output(
                scope,
                Evaluation(
                    score=judged.score, expected=judged.expected, received=judged.received, detail=judged.detail
                ),
            )

        return self._record("output_equals", evaluate)

    def output_matches(self, schema: Any) -> AssertionHandle:
        """The structured answer, as it came, fits a type form or a JsonSchema. Channel: data."""
        try:
            form = output_form(schema)
        except AuthorError as error:
            raise self._fault(error) from None

        def evaluate(scope: Scope) -> Evaluation:
            problem = _mismatch(form.convert, self._turn.data)
            score = 0.0 if problem else 1.0
            return state.output(scope, Evaluation(score=score, expected=form.name, received=problem or "it fits"))

        return self._record(f"output_matches({form.name})", evaluate)

    def _record(self, name: str, evaluate: Callable[[Scope], Evaluation]) -> AssertionHandle:
        site = call_site()
        scope = turn_scope(self._turn, self._driver.log.facts_of(self._turn.session))
        return self._driver.record(name, site, evaluation=self._driver.evaluate(evaluate, scope, site))

    def _fault(self, error: AuthorError) -> BaseException:
        return self._driver.author_fault(error)

    def __repr__(self) -> str:
        return f"<turn {self._turn.number + 1}, {self._turn.status}>"


def assistant_text(turn: TurnRecord) -> str:
    """The last assistant message of a turn; empty where there is none."""
    for _, event in reversed(turn.events):
        if isinstance(event, Message) and event.role == "assistant":
            return event.text
    return ""


def _mismatch(convert: Callable[[Any], Any], data: Any) -> str | None:
    try:
        convert(data)
    except ValueError as error:
        return str(error)
    return None
