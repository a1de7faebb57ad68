"""Failures that doom more than their attempt: what is not started, what goes on, and how all of it is accounted for."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from niceeval import EvalContext, EvalFatalError, ExperimentFatalError
from niceeval._model.run_events import EvalStart, NotStarted
from niceeval.adapter import FailureClass, Turn, TurnInput, define_agent
from niceeval.adapter import complete_evidence_coverage as complete
from tests.unit.drive_harness import agent, turn
from tests.unit.run_harness import RanPlan, an_experiment, plan_of, run_plan_of, sends_once


def raising(error: BaseException, *, when: str = "doomed") -> Any:
    """An agent whose sends under the eval named `when` raise."""

    def answer(input: TurnInput, ctx: Any) -> Turn:
        if ctx.eval_id == when:
            raise error
        return turn()

    return agent(answer).agent


def doomed_eval(error: BaseException) -> Any:
    async def doomed(t: EvalContext) -> None:
        raise error

    return doomed


EVALS = {"doomed": sends_once, "other": sends_once}


def run(root: Path, *experiments: Any, evals: Any = None, concurrency: int = 1) -> RanPlan:
    return run_plan_of(root, plan_of(root, experiments, evals or EVALS, concurrency=concurrency))


def started(ran: RanPlan) -> dict[tuple[str, str], int]:
    return dict(Counter((event.key.experiment_id, event.key.eval_id) for event in ran.all(EvalStart)))


def test_an_adapters_fatal_error_of_an_experiment_stops_that_experiment(tmp_path: Path) -> None:
    """A key that is wrong is wrong for every attempt; the other experiment is not concerned."""
    bad = an_experiment(raising(ExperimentFatalError("no key")), id="bad", runs=3)
    good = an_experiment(agent().agent, id="good", runs=3)
    ran = run(tmp_path, bad, good)
    assert started(ran) == {("bad", "doomed"): 1, ("good", "doomed"): 3, ("good", "other"): 3}
    (event,) = ran.all(NotStarted)
    assert (event.experiment_id, event.eval_id, event.count) == ("bad", None, 5)
    assert (event.code, event.message) == ("experiment-fatal", "ExperimentFatalError: no key")
    assert event.by_experiment == (("bad", 5),)
    assert ran.finished.not_started_why == (("experiment-fatal", 5),)
    assert (ran.finished.status, ran.finished.exit_code) == ("errored", 1)
    assert ran.accounted


def test_an_adapters_fatal_error_of_an_eval_stops_it_under_that_experiment(tmp_path: Path) -> None:
    """Another agent may well take what this one cannot."""
    bad = an_experiment(raising(EvalFatalError("no such tool")), id="bad", runs=3)
    good = an_experiment(agent().agent, id="good", runs=2)
    ran = run(tmp_path, bad, good)
    assert started(ran) == {
        ("bad", "doomed"): 1,
        ("bad", "other"): 3,
        ("good", "doomed"): 2,
        ("good", "other"): 2,
    }
    (event,) = ran.all(NotStarted)
    assert (event.experiment_id, event.eval_id, event.count, event.code) == ("bad", "doomed", 2, "eval-fatal")
    assert ran.accounted


def test_an_authors_fatal_error_of_an_eval_stops_it_everywhere(tmp_path: Path) -> None:
    """What its own code says of itself holds under every experiment."""
    experiments = [an_experiment(agent().agent, id=id, runs=2) for id in ("a", "b")]
    evals = {"doomed": doomed_eval(EvalFatalError("the data are gone")), "other": sends_once}
    ran = run(tmp_path, *experiments, evals=evals)
    assert started(ran) == {("a", "doomed"): 1, ("a", "other"): 2, ("b", "other"): 2}
    (event,) = ran.all(NotStarted)
    assert (event.experiment_id, event.eval_id, event.count) == (None, "doomed", 3)
    assert dict(event.by_experiment) == {"a": 1, "b": 2}
    assert ran.accounted


def test_an_authors_fatal_error_of_an_experiment_stops_the_one_it_ran_under(tmp_path: Path) -> None:
    """The eval found out that this configuration cannot work."""
    experiments = [an_experiment(agent().agent, id=id) for id in ("a", "b")]
    evals = {"doomed": doomed_eval(ExperimentFatalError("wrong model")), "x": sends_once, "y": sends_once}
    ran = run(tmp_path, *experiments, evals=evals)
    assert started(ran) == {("a", "doomed"): 1, ("b", "doomed"): 1}
    assert [(event.experiment_id, event.count) for event in ran.all(NotStarted)] == [("a", 2), ("b", 2)]
    assert ran.finished.not_started_why == (("experiment-fatal", 4),)
    assert ran.accounted


def test_a_setup_that_is_fatal_stops_the_experiment(tmp_path: Path) -> None:
    """An agent's setup runs for each attempt, and would fail for each."""

    async def setup(ctx: Any) -> None:
        raise ExperimentFatalError("no licence")

    bot = define_agent(name="bot", evidence_coverage=complete, send=agent().agent.send, setup=setup)
    ran = run(tmp_path, an_experiment(bot, runs=3))
    assert (ran.started, ran.finished.not_started) == (1, 5)
    assert ran.results[0].error_info is not None
    assert (ran.results[0].error_info.code, ran.results[0].error_info.phase) == ("experiment-fatal", "setup")


@pytest.mark.parametrize(("scope", "not_started"), [("attempt", 0), ("eval", 2), ("experiment", 5)])
def test_a_classifier_may_name_the_scope(tmp_path: Path, scope: Any, not_started: int) -> None:
    """For errors of a client that knows nothing of niceeval; the experiment's classifier as well as the agent's."""
    experiment = an_experiment(
        raising(PermissionError("401")), runs=3, classify_failure=lambda error: FailureClass(scope=scope)
    )
    ran = run(tmp_path, experiment)
    assert ran.finished.not_started == not_started
    assert ran.accounted


def test_a_refusal_may_doom_once_its_retries_are_used_up(tmp_path: Path) -> None:
    """It is sent again first, and only then says more than that this attempt broke."""
    calls: list[str] = []

    def answer(input: TurnInput, ctx: Any) -> Turn:
        calls.append(ctx.eval_id)
        raise ConnectionRefusedError

    experiment = an_experiment(
        agent(answer).agent, classify_failure=lambda error: FailureClass(retryable=True, scope="experiment")
    )
    ran = run(tmp_path, experiment)
    assert (calls, ran.finished.not_started) == (["doomed"] * 4, 1)


def test_what_is_under_way_goes_on(tmp_path: Path) -> None:
    """Only starting stops: what runs may have got past the cause, and has its own result."""
    under_way = asyncio.Event()
    failed = asyncio.Event()

    async def answer(input: TurnInput, ctx: Any) -> Turn:
        if ctx.eval_id == "doomed":
            await under_way.wait()
            failed.set()
            raise ExperimentFatalError("no key")
        under_way.set()
        await failed.wait()
        await asyncio.sleep(0.01)
        return turn()

    evals = {"doomed": sends_once, "other": sends_once, "never": sends_once}
    ran = run(tmp_path, an_experiment(agent(answer).agent), evals=evals, concurrency=2)
    assert (ran.finished.errored, ran.finished.passed, ran.finished.not_started) == (1, 1, 1)
    assert ran.accounted


def test_what_is_doomed_is_not_started_rather_than_cancelled(tmp_path: Path) -> None:
    """Early exit would call the eval's other attempts unnecessary; the fatal error is the reason that is said."""
    bad = an_experiment(raising(EvalFatalError("no")), runs=3, early_exit=True)
    ran = run(tmp_path, bad)
    assert ran.finished.not_started_why == (("eval-fatal", 2),)
    assert ran.finished.cancelled == 2, "the other eval passed at its first attempt"
    assert ran.accounted


def test_a_last_attempt_that_is_fatal_keeps_nothing_back(tmp_path: Path) -> None:
    """Nothing is said of attempts that are not there."""
    ran = run(tmp_path, an_experiment(raising(ExperimentFatalError("no"), when="other")))
    assert ran.all(NotStarted) == []
    assert ran.finished.not_started == 0


def test_an_author_cannot_swallow_what_an_adapter_called_fatal(tmp_path: Path) -> None:
    """`except Exception` around a send hides no error of the agent's."""

    async def swallows(t: EvalContext) -> None:
        try:
            await t.send("go")
        except Exception:  # noqa: BLE001 - what an author may write
            return

    bad = an_experiment(raising(ExperimentFatalError("no key")), runs=2)
    ran = run(tmp_path, bad, evals={"doomed": swallows})
    assert (ran.finished.errored, ran.finished.not_started) == (1, 1)


def test_a_budget_and_a_fatal_error_are_told_apart(tmp_path: Path) -> None:
    """Each with its count; together with what finished they are all that were planned."""
    evals = {"doomed": sends_once, "x": sends_once, "y": sends_once}
    bad = an_experiment(raising(EvalFatalError("no"), when="doomed"), id="bad", runs=2)
    poor = an_experiment(agent().agent, id="poor", runs=4, budget=0.5)
    ran = run(tmp_path, bad, poor, evals=evals)
    assert dict(ran.finished.not_started_why) == {"eval-fatal": 1, "budget": 10}
    assert ran.accounted
