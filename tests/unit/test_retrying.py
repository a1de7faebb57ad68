"""Sends that are made again: only where the input was certainly not accepted, within bounds, and visibly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from niceeval import EvalContext
from niceeval._drive.retrying import Backoff, failure_class
from niceeval._model.result import AttemptResult
from niceeval._model.run_events import EvalComplete, Interrupted, Progress
from niceeval._run.limits import Limits
from niceeval.adapter import FailureClass, RetryableSendError, Turn, TurnInput, define_agent
from niceeval.adapter import complete_evidence_coverage as complete
from tests.unit.drive_harness import turn
from tests.unit.run_harness import QUICK, RanPlan, an_experiment, plan_of, run_plan_of

Classify = Callable[[BaseException], Any]
RETRYABLE = FailureClass(retryable=True, reason="429")


class Service:
    """An agent that raises so many errors of each turn before it answers; it counts the sends it sees, by text."""

    def __init__(self, *errors: BaseException, classify: Classify | None = None, always: bool = False) -> None:
        self.sends: list[str] = []
        self.contexts: list[Any] = []
        self._errors = list(errors)
        self._always = always
        self.agent = define_agent(
            name="service", evidence_coverage=complete, send=self._send, classify_failure=classify
        )

    async def _send(self, input: TurnInput, ctx: Any) -> Turn:
        self.sends.append(input.text)
        self.contexts.append(ctx)
        if self._errors:
            raise self._errors[0] if self._always else self._errors.pop(0)
        return turn()


async def sends_go(t: EvalContext) -> None:
    await t.send("go")


def run(
    root: Path,
    service: Service,
    function: Any = sends_go,
    *,
    limits: Limits = QUICK,
    timeout: float = 20.0,
    on_event: Any = lambda event, handle: None,
    **fields: Any,
) -> RanPlan:
    plan = plan_of(root, [an_experiment(service.agent, **fields)], {"one": function}, timeout=timeout)
    return run_plan_of(root, plan, limits=limits, on_event=on_event)


def only(ran: RanPlan) -> AttemptResult:
    (result,) = ran.results
    return result


def refused(number: int) -> Sequence[RetryableSendError]:
    return [RetryableSendError("429 Too Many Requests") for _ in range(number)]


# How long and how often ----------------------------------------------------------------------------------------------


@given(st.integers(1, 30), st.floats(0.001, 10), st.floats(10, 100))
def test_waits_double_within_jitter_up_to_the_longest(retry: int, first: float, longest: float) -> None:
    """Between half of the doubled wait and all of it."""
    wait = Backoff(first=first, longest=longest).wait(retry, ValueError())
    most = min(first * 2 ** (retry - 1), longest)
    assert most / 2 <= wait <= most


@pytest.mark.parametrize(
    ("asked", "least", "most"),
    [(12, 12, 12), (0.5, 0.5, 0.5), (1e9, 60, 60), (float("inf"), 60, 60)]
    + [(value, 0.5, 1) for value in (None, 0, -5, float("nan"), True, "12")],
)
def test_what_a_service_asks_for_is_kept_within_bounds(asked: Any, least: float, most: float) -> None:
    """`retry_after` seconds; at most twice the longest wait, and what is no amount of time is not asked for."""
    assert least <= Backoff().wait(1, RetryableSendError("429", retry_after=asked)) <= most


def test_many_waits_are_not_all_the_same() -> None:
    """Clients that were refused together do not come back together."""
    assert len({Backoff().wait(3, ValueError()) for _ in range(20)}) > 10


# What is sent again --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refusals", [0, 1, 2, 3])
def test_a_refused_input_is_sent_again_until_it_is_accepted(tmp_path: Path, refusals: int) -> None:
    """The same input; the eval sees one turn, and the result every retry."""
    service = Service(*refused(refusals))
    result = only(run(tmp_path, service))
    assert (result.outcome, service.sends) == ("passed", ["go"] * (refusals + 1))
    assert [(one.turn, one.reason) for one in result.retries] == [(0, "429 Too Many Requests")] * refusals
    assert all(0 < one.wait_ms <= 3 for one in result.retries)
    assert result.estimated_cost_usd == 0.25


def test_a_send_has_four_tries(tmp_path: Path) -> None:
    """Then the refusal is the attempt's error, and nothing of it cost anything."""
    service = Service(*refused(9))
    result = only(run(tmp_path, service))
    assert (len(service.sends), len(result.retries)) == (4, 3)
    assert result.error_info is not None
    assert (result.error_info.code, result.error_info.phase) == ("adapter-error", "send")
    assert result.error == "RetryableSendError: 429 Too Many Requests"
    assert result.estimated_cost_usd is None


def test_an_attempt_has_eight_retries(tmp_path: Path) -> None:
    """Over all its sends: the ninth refusal ends it, although that send has tries left."""
    errors = [*refused(3), None, *refused(3), None, *refused(9)]
    service = Service()

    async def send(input: TurnInput, ctx: Any) -> Turn:
        service.sends.append(input.text)
        error = errors.pop(0)
        if error is not None:
            raise error
        return turn()

    async def three_turns(t: EvalContext) -> None:
        for text in ("a", "b", "c"):
            await t.send(text)

    service.agent = define_agent(name="service", evidence_coverage=complete, send=send)
    result = only(run(tmp_path, service, three_turns))
    assert [service.sends.count(text) for text in "abc"] == [4, 4, 3]
    assert [one.turn for one in result.retries] == [0, 0, 0, 1, 1, 1, 2, 2]
    assert result.outcome == "errored"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("half done"),
        TimeoutError(),
        ConnectionResetError("reset"),
        asyncio.CancelledError(),
        SystemExit(1),
        KeyboardInterrupt(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_nothing_else_is_sent_again(tmp_path: Path, error: BaseException) -> None:
    """A connection that broke says nothing of whether the input was taken in."""
    service = Service(error)
    result = only(run(tmp_path, service))
    assert (len(service.sends), result.outcome, result.retries) == (1, "errored", ())


def test_a_failed_turn_is_an_answer(tmp_path: Path) -> None:
    """The agent did badly; it did not refuse."""
    service = Service()

    async def send(input: TurnInput, ctx: Any) -> Turn:
        service.sends.append(input.text)
        return turn(status="failed")

    service.agent = define_agent(name="service", evidence_coverage=complete, send=send)
    assert only(run(tmp_path, service)).retries == ()
    assert len(service.sends) == 1


def test_a_refusal_in_setup_is_not_repeated(tmp_path: Path) -> None:
    """Only an input can be said not to have been accepted."""
    calls: list[int] = []

    async def setup(ctx: Any) -> None:
        calls.append(1)
        raise RetryableSendError("429")

    service = Service()
    service.agent = define_agent(name="service", evidence_coverage=complete, send=service._send, setup=setup)
    assert only(run(tmp_path, service)).outcome == "errored"
    assert (calls, service.sends) == ([1], [])


def test_each_try_has_a_context_of_its_own_and_the_same_session(tmp_path: Path) -> None:
    """A try that was given up cannot cancel, or be taken for, the next."""
    service = Service(*refused(2))
    run(tmp_path, service)
    assert len({id(ctx) for ctx in service.contexts}) == 3
    assert len({id(ctx.session) for ctx in service.contexts}) == 1


def test_a_plain_function_may_refuse(tmp_path: Path) -> None:
    """It runs in a thread; what it raises means the same."""
    errors = list(refused(2))

    def send(input: TurnInput, ctx: Any) -> Turn:
        if errors:
            raise errors.pop()
        return turn()

    service = Service()
    service.agent = define_agent(name="service", evidence_coverage=complete, send=send)
    result = only(run(tmp_path, service))
    assert (result.outcome, len(result.retries)) == ("passed", 2)


# Who says so ---------------------------------------------------------------------------------------------------------


def test_an_agents_classifier_may_say_that_it_is_safe(tmp_path: Path) -> None:
    """For the errors of a client that knows nothing of niceeval."""
    seen: list[BaseException] = []
    error = ConnectionRefusedError("refused")

    def classify(error: BaseException) -> FailureClass | None:
        seen.append(error)
        return RETRYABLE if isinstance(error, ConnectionRefusedError) else None

    service = Service(error, classify=classify)
    result = only(run(tmp_path, service))
    assert (result.outcome, [one.reason for one in result.retries], seen) == ("passed", ["429"], [error])


def test_an_experiments_classifier_is_asked_before_the_agents(tmp_path: Path) -> None:
    """What it does not know is asked of the agent's."""
    service = Service(
        ValueError("a"), KeyError("b"), classify=lambda error: FailureClass(retryable=True, reason="agent")
    )
    first: Classify = lambda error: (  # noqa: E731
        FailureClass(retryable=True, reason="experiment") if isinstance(error, ValueError) else None
    )
    result = only(run(tmp_path, service, classify_failure=first))
    assert [one.reason for one in result.retries] == ["experiment", "agent"]


def test_an_experiments_classifier_may_forbid_what_the_agents_allows(tmp_path: Path) -> None:
    """The first that says anything decides."""
    service = Service(ValueError("a"), classify=lambda error: RETRYABLE)
    result = only(run(tmp_path, service, classify_failure=lambda error: FailureClass()))
    assert (len(service.sends), result.outcome) == (1, "errored")


def _raises(error: BaseException) -> Any:
    raise LookupError("the classifier's own mistake")


@pytest.mark.parametrize(
    ("classify", "problem"),
    [
        (_raises, "classify_failure raised LookupError: the classifier's own mistake"),
        (lambda error: True, "classify_failure returned bool, not a FailureClass or None"),
        (lambda error: "retryable", "classify_failure returned str, not a FailureClass or None"),
        (lambda error: FailureClass(scope="everything"), "classify_failure raised ValueError: scope is 'everything'"),
        (lambda error: FailureClass(retryable=1), "classify_failure raised TypeError: retryable is 1"),  # type: ignore[arg-type]
    ],
)
def test_a_classifier_that_breaks_says_nothing(tmp_path: Path, classify: Classify, problem: str) -> None:
    """Nothing is sent again; the agent's own error stays the reason, and one diagnostic names the mistake."""
    service = Service(ValueError("down"), classify=classify)
    result = only(run(tmp_path, service))
    assert (len(service.sends), result.error) == (1, "ValueError: down")
    (diagnostic,) = [one for one in result.diagnostics if one.code == "classify-failed"]
    assert diagnostic.message.startswith(problem)


def test_a_broken_classifier_of_the_experiment_leaves_the_agents_its_say(tmp_path: Path) -> None:
    """Of two, one is enough."""
    service = Service(ValueError("down"), classify=lambda error: RETRYABLE)
    assert only(run(tmp_path, service, classify_failure=_raises)).outcome == "passed"


def test_an_errors_own_type_decides_before_any_classifier() -> None:
    """A classifier is for errors that say nothing themselves."""
    assert failure_class(RetryableSendError("429"), [_raises]) == FailureClass(retryable=True, reason="429")


# Limits and cancelling -----------------------------------------------------------------------------------------------

SLOW = Limits(grace=0.5, backoff=Backoff(first=300, longest=300))


def test_a_timeout_counts_the_waits(tmp_path: Path) -> None:
    """And does not wait for the end of one."""
    service = Service(*refused(9))
    result = only(run(tmp_path, service, limits=SLOW, timeout=0.2))
    assert result.error_info is not None
    assert (result.error_info.code, result.error_info.message) == ("timeout", "0.2s passed in send, turn 1")
    assert (len(service.sends), len(result.retries)) == (1, 1)
    assert result.duration_ms < 5_000


def test_an_interrupt_reaches_a_wait(tmp_path: Path) -> None:
    """The run ends at once, and what waited is cancelled."""

    def stop(event: Any, handle: Any) -> None:
        if isinstance(event, Progress) and (event.text or "").startswith("retry"):
            handle.interrupt()

    service = Service(*refused(9))
    ran = run(tmp_path, service, limits=SLOW, on_event=stop)
    assert (ran.finished.status, ran.finished.cancelled, len(service.sends)) == ("interrupted", 1, 1)
    assert ran.all(Interrupted)
    assert ran.finished.duration_ms < 5_000


def test_early_exit_reaches_a_wait(tmp_path: Path) -> None:
    """Another attempt has passed: what waits to be sent again is not needed."""

    waits = asyncio.Event()

    async def send(input: TurnInput, ctx: Any) -> Turn:
        if ctx.attempt == 0:
            waits.set()
            raise RetryableSendError("429")
        await waits.wait()
        return turn()

    service = Service()
    service.agent = define_agent(name="service", evidence_coverage=complete, send=send)
    ran = run(tmp_path, service, limits=SLOW, runs=2, early_exit=True)
    assert (ran.finished.passed, ran.finished.cancelled) == (1, 1)
    assert ran.finished.duration_ms < 5_000


def test_what_is_asked_for_is_waited(tmp_path: Path) -> None:
    """And stands in the result."""
    service = Service(RetryableSendError("429", retry_after=0.05))
    result = only(run(tmp_path, service, limits=Limits(grace=0.5, backoff=Backoff(first=0.001, longest=0.03))))
    assert [one.wait_ms for one in result.retries] == [50]
    assert result.duration_ms >= 50


def test_the_board_says_that_it_waits_and_when_it_no_longer_does(tmp_path: Path) -> None:
    """Which retry, how long and why; afterwards the attempt is in its send again."""
    service = Service(RetryableSendError("429", retry_after=0.02), RetryableSendError("429", retry_after=0.02))
    ran = run(tmp_path, service)
    texts = [event.text for event in ran.all(Progress) if event.phase == "send" and event.text is not None]
    assert texts == ["retry 1 in 1s (429)", "", "retry 2 in 1s (429)", ""]


def test_a_reason_is_bounded_and_clean(tmp_path: Path) -> None:
    """What a service says may be anything."""
    service = Service(RetryableSendError("\ud800" + "x" * 10_000))
    (result,) = [event.result for event in run(tmp_path, service).all(EvalComplete)]
    assert len(result.retries[0].reason) <= 200
    result.retries[0].reason.encode("utf-8")
