"""Budgets: how many attempts start, what is said of the others, and by how much a limit can be passed at most."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from niceeval import EvalContext, Price, define_experiment
from niceeval._base.errors import NiceevalError
from niceeval._evidence.prices import CostGap
from niceeval._model.run_events import BudgetExceeded, EvalStart
from niceeval._run.budget import Budget
from niceeval._run.spending import Spending
from niceeval.adapter import RetryableSendError, Turn, Usage
from tests.unit.drive_harness import agent, turn
from tests.unit.run_harness import RanPlan, an_experiment, plan_of, run_plan_of, sends_once

DOLLAR = turn(usage=Usage(cost_usd=1.0))
TOKENS = turn(usage=Usage(input_tokens=1_000_000, output_tokens=0))
GAP = CostGap("model acme-1 has no price", "fix")


def cost(dollars: str) -> Spending:
    return Spending(sent=True, known=Decimal(dollars))


UNKNOWN = Spending(sent=True, gap=GAP)
UNSENT = Spending(sent=False)


def a_budget(limit: str, *measured: str) -> Budget:
    """A budget that so many finished attempts have used."""
    budget = Budget(Fraction(limit))
    for number, dollars in enumerate(measured, 1000):
        budget.start(number)
        budget.finish(number, "local", cost(dollars))
    return budget


def fill(budget: Budget) -> int:
    """Start attempts until none may; how many that were."""
    started = 0
    while budget.may_start():
        budget.start(started)
        started += 1
    return started


# The account ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "measured", "more"),
    [
        ("10", (), 1),
        ("10", ("1",), 9),
        ("0.3", ("0.1",), 2),
        ("10", ("1", "2", "2"), 3),
        ("10", ("4",), 1),
        ("10", ("10",), 0),
        ("10", ("11",), 0),
        ("3", ("0", "3"), 0),
    ],
)
def test_as_many_start_as_fit_at_the_mean_cost(limit: str, measured: tuple[str, ...], more: int) -> None:
    """One alone at first; then spent + reserved + one more must not pass the limit, exactly, also with thirds."""
    assert fill(a_budget(limit, *measured)) == more


def test_attempts_that_cost_nothing_are_not_held_back() -> None:
    """A mean of 0 is a cost that is known."""
    budget = a_budget("1", "0")
    for number in range(50):
        assert budget.may_start()
        budget.start(number)


def test_an_attempt_that_sent_nothing_says_nothing() -> None:
    """The next one runs alone still."""
    budget = a_budget("10")
    budget.start(0)
    budget.finish(0, "local", UNSENT)
    assert fill(budget) == 1
    assert budget.spent == 0


def test_a_cancelled_attempt_counts_its_reservation_and_not_in_the_mean() -> None:
    """What it cost is not known in whole: at least what was reserved, or what is known where that is more."""
    budget = a_budget("10", "1")
    for number, spending in enumerate((UNKNOWN, Spending(sent=True, known=Decimal(3), gap=GAP), UNSENT)):
        budget.start(number)
        budget.cancel(number, spending)
    assert (budget.spent, budget.mean, budget.reserved) == (Fraction(5), Fraction(1), Fraction(0))


def test_a_later_attempt_of_unknown_cost_counts_its_reservation() -> None:
    """Something is known of what its experiment's attempts cost, so the limit can still be kept."""
    budget = a_budget("10", "2")
    budget.start(0)
    budget.finish(0, "local", UNKNOWN)
    assert (budget.spent, budget.mean) == (Fraction(4), Fraction(2))
    assert budget.unenforceable is None


def test_a_first_attempt_of_unknown_cost_ends_it() -> None:
    """Also where another experiment of the same scope has costs."""
    budget = a_budget("10", "2")
    budget.start(0)
    budget.finish(0, "other", UNKNOWN)
    assert budget.unenforceable is not None
    assert (budget.unenforceable.experiment_id, budget.unenforceable.gap) == ("other", GAP)
    assert not budget.may_start()


def test_the_overshoot_is_bounded_by_what_was_in_flight() -> None:
    """Over 1,000 random sequences: by what those in flight at the last start cost beyond their reservations at most."""
    for seed in range(1_000):
        chance = random.Random(seed)
        budget = Budget(Fraction(str(round(chance.uniform(0.5, 20), 2))))
        costs = [Decimal(str(round(chance.choice((0.0, 0.2, 1.0)) * chance.expovariate(1), 6))) for _ in range(40)]
        width = chance.randint(1, 20)
        waiting, flying = list(range(40)), dict[int, Fraction]()
        last: dict[int, Fraction] = {}
        while flying or (waiting and budget.may_start()):
            while waiting and len(flying) < width and budget.may_start():
                before = budget.reserved
                attempt = waiting.pop()
                budget.start(attempt)
                flying[attempt] = budget.reserved - before
                last = dict(flying)
            done = chance.choice(list(flying))
            del flying[done]
            sent = chance.random() < 0.9
            costs[done] = costs[done] if sent else Decimal(0)
            budget.finish(done, "local", Spending(sent=sent, known=costs[done]))
        ran = [index for index in range(40) if index not in waiting]
        assert budget.spent == sum(Fraction(costs[index]) for index in ran)
        bound = sum((Fraction(costs[index]) - reserved for index, reserved in last.items()), Fraction(0))
        assert budget.spent - budget.limit <= bound, seed


# Through the runner --------------------------------------------------------------------------------------------------


def dollars_each(amount: float = 1.0) -> tuple[Any, Counter[str]]:
    """An agent whose every turn costs so much, and how many of its sends were under way at most, and at the first."""
    seen: Counter[str] = Counter()

    async def answer(input: Any, ctx: Any) -> Turn:
        seen["now"] += 1
        seen["peak"] = max(seen["peak"], seen["now"])
        if not seen["finished"]:
            seen["peak before the first had finished"] = seen["peak"]
        await asyncio.sleep(0.003)
        seen["now"] -= 1
        seen["finished"] += 1
        return turn(usage=Usage(cost_usd=amount))

    return agent(answer).agent, seen


@pytest.mark.parametrize("scope", ["experiment", "run"])
def test_exactly_as_many_attempts_start_as_the_budget_pays_for(tmp_path: Path, scope: str) -> None:
    """50 attempts, 20 at a time, $1.00 each, $10.00: 10 start, the first alone, the others side by side."""
    bot, seen = dollars_each()
    experiment = an_experiment(bot, runs=50, budget=10.0 if scope == "experiment" else None)
    plan = plan_of(tmp_path, [experiment], concurrency=20, budget=10.0 if scope == "run" else None)
    ran = run_plan_of(tmp_path, plan)
    (over,) = ran.all(BudgetExceeded)
    assert (ran.started, ran.finished.passed, ran.finished.not_started) == (10, 10, 40)
    assert (seen["peak before the first had finished"], seen["peak"]) == (1, 9)
    assert over.experiment_id == ("local" if scope == "experiment" else None)
    assert (over.budget, over.spent, over.reserved, over.not_started, over.error) == (10.0, 10.0, 1.0, 40, None)
    assert ran.finished.not_started_why == (("budget", 40),)
    assert (ran.finished.status, ran.finished.exit_code) == ("incomplete", 1)
    assert ran.accounted


def test_costs_of_a_tenth_add_up_exactly(tmp_path: Path) -> None:
    """Three attempts of $0.10 fit into $0.30, which sums of binary fractions pass."""
    bot, _ = dollars_each(0.1)
    ran = run_plan_of(tmp_path, plan_of(tmp_path, [an_experiment(bot, runs=5, budget=0.3)]))
    assert (ran.started, ran.finished.estimated_cost_usd) == (3, 0.3)


def test_a_budget_that_suffices_is_not_mentioned(tmp_path: Path) -> None:
    """Nothing is held back where the last attempt just fits."""
    bot, _ = dollars_each()
    ran = run_plan_of(tmp_path, plan_of(tmp_path, [an_experiment(bot, runs=5, budget=5.0)], budget=5.0))
    assert (ran.started, ran.all(BudgetExceeded), ran.finished.status) == (5, [], "passed")


def test_two_scopes_hold_at_once(tmp_path: Path) -> None:
    """The experiment's own budget stops it, and the run's stops what is left of the other."""
    bot, _ = dollars_each()
    experiments = [an_experiment(bot, id="a", runs=10, budget=3.0), an_experiment(bot, id="b", runs=10)]
    ran = run_plan_of(tmp_path, plan_of(tmp_path, experiments, budget=5.0))
    assert Counter(event.key.experiment_id for event in ran.all(EvalStart)) == {"a": 3, "b": 2}
    stops = {event.experiment_id: dict(event.by_experiment) for event in ran.all(BudgetExceeded)}
    assert stops == {"a": {"a": 7}, None: {"b": 8}}
    assert ran.finished.not_started == 15
    assert ran.accounted


def test_an_experiment_that_may_not_start_yet_does_not_hold_up_the_others(tmp_path: Path) -> None:
    """While one runs alone under its budget, another experiment without one goes on."""
    seen: list[str] = []
    others_have_run = asyncio.Event()

    async def answer(input: Any, ctx: Any) -> Turn:
        seen.append(ctx.experiment_id)
        if seen.count("b") == 5:
            others_have_run.set()
        if ctx.experiment_id == "a":
            await others_have_run.wait()
        return DOLLAR

    bot = agent(answer).agent
    experiments = [an_experiment(bot, id="a", runs=2, budget=9.0), an_experiment(bot, id="b", runs=5)]
    ran = run_plan_of(tmp_path, plan_of(tmp_path, experiments))
    assert ran.finished.passed == 7
    assert seen[:6].count("a") == 1


def unenforceable(root: Path, step: Any, *, pricing: dict[str, Price] | None = None, **fields: Any) -> RanPlan:
    experiment = an_experiment(agent(step).agent, runs=5, budget=10.0, **fields)
    return run_plan_of(root, plan_of(root, [experiment], pricing=pricing))


CACHED = Usage(input_tokens=1, output_tokens=1, cache_read_tokens=5)


@pytest.mark.parametrize(
    ("step", "fields", "problem", "fix"),
    [
        (TOKENS, {}, "model acme-1 has no price", 'pricing={"acme-1": Price(...)} in niceeval_config.py'),
        (
            TOKENS,
            {"model": None},
            "no cost was measured and no model is set",
            'model="..." in the experiment, or cost_usd in the adapter\'s Usage',
        ),
        (turn(usage=None), {}, "a turn reported no usage", "usage=Usage(...) in the adapter's Turn"),
        (
            turn(usage=Usage(input_tokens=5)),
            {"pricing": {"acme-1": Price(input_per_mtok=1, output_per_mtok=1)}},
            "a turn did not report both input and output tokens",
            "input_tokens and output_tokens in the adapter's Usage",
        ),
        (
            turn(usage=CACHED),
            {"pricing": {"acme-1": Price(input_per_mtok=1, output_per_mtok=1)}},
            "the price of acme-1 says nothing about the cache that a turn used",
            'pricing={"acme-1": Price(..., cache_read_per_mtok=...)} in niceeval_config.py',
        ),
        (
            ValueError("down"),
            {},
            "a send ended in an error, so its cost is not known",
            "correct what ended that send",
        ),
    ],
)
def test_without_a_cost_of_the_first_attempt_nothing_more_starts(
    tmp_path: Path, step: Any, fields: dict[str, Any], problem: str, fix: str
) -> None:
    """`budget-unenforceable`: why, where, and the edit that helps; a problem of the run, so that it is never green."""
    ran = unenforceable(tmp_path, step, **fields)
    (over,) = ran.all(BudgetExceeded)
    error = over.error
    assert error is not None
    assert (error.code, str(error)) == ("budget-unenforceable", f"the first attempt has no cost: {problem}")
    assert error.next_step() == f"{fix}, or drop the budget"
    assert str(error.place) == "experiments/local.py:9:5"
    assert (ran.started, over.not_started, over.spent) == (1, 4, 0.0)
    assert ran.finished.not_started_why == (("budget-unenforceable", 4),)
    assert ran.finished.problems == (error,)
    assert ran.finished.exit_code == 1
    assert ran.finished.estimated_cost_usd is None
    assert ran.accounted


def test_a_price_of_the_project_makes_it_enforceable(tmp_path: Path) -> None:
    """The same attempts, priced by their tokens."""
    pricing = {"acme-*": Price(input_per_mtok=2, output_per_mtok=1)}
    ran = unenforceable(tmp_path, TOKENS, pricing=pricing)
    assert (ran.started, ran.finished.estimated_cost_usd, ran.all(BudgetExceeded)) == (5, 10.0, [])


def test_one_experiment_without_a_price_stops_a_run_that_has_a_budget(tmp_path: Path) -> None:
    """The other's costs say nothing of it; the error points to the one that has none."""
    experiments = [
        an_experiment(agent(DOLLAR).agent, id="a", runs=2),
        an_experiment(agent(TOKENS).agent, id="b", runs=5),
    ]
    ran = run_plan_of(tmp_path, plan_of(tmp_path, experiments, budget=50.0, concurrency=1))
    (over,) = ran.all(BudgetExceeded)
    assert over.error is not None
    assert str(over.error.place) == "experiments/b.py:9:5"
    assert (ran.started, over.experiment_id, dict(over.by_experiment)) == (3, None, {"b": 4})


def test_attempts_that_send_nothing_come_before_the_first_that_counts(tmp_path: Path) -> None:
    """Skipped ones, and ones whose input was never accepted, neither cost anything nor make it unenforceable."""

    async def skips(t: EvalContext) -> None:
        t.skip("not today")

    def refuses(input: Any, ctx: Any) -> Turn:
        if ctx.eval_id == "refused":
            raise RetryableSendError("429")
        return DOLLAR

    evals = {"a": skips, "refused": sends_once, "x": sends_once, "y": sends_once, "z": sends_once}
    experiment = an_experiment(agent(refuses).agent, budget=2.0)
    ran = run_plan_of(tmp_path, plan_of(tmp_path, [experiment], evals))
    end = ran.finished
    assert (end.skipped, end.errored, end.passed, end.not_started) == (1, 1, 2, 1)
    assert [event.error for event in ran.all(BudgetExceeded)] == [None]


def test_a_later_error_does_not_end_the_budget(tmp_path: Path) -> None:
    """It counts as a mean attempt: 5 of $1.00 start under $5.00, one of which came to nothing known."""
    experiment = an_experiment(agent(DOLLAR, ValueError("down"), DOLLAR).agent, runs=9, budget=5.0)
    ran = run_plan_of(tmp_path, plan_of(tmp_path, [experiment], concurrency=1))
    assert (ran.finished.passed, ran.finished.errored, ran.finished.not_started) == (4, 1, 4)
    assert [event.spent for event in ran.all(BudgetExceeded)] == [5.0]


def test_early_exit_and_a_budget_account_for_every_attempt(tmp_path: Path) -> None:
    """What a pass made unnecessary is cancelled, what the budget kept back is not started."""
    evals = {f"e{number}": sends_once for number in range(5)}
    bot, _ = dollars_each()
    ran = run_plan_of(
        tmp_path, plan_of(tmp_path, [an_experiment(bot, runs=3, early_exit=True, budget=2.0)], evals, concurrency=1)
    )
    assert (ran.finished.passed, ran.finished.cancelled, ran.finished.not_started) == (2, 4, 9)
    assert ran.accounted


def test_what_early_exit_cuts_off_is_paid_for(tmp_path: Path) -> None:
    """After a failure two attempts run; one passes, and the other, cancelled in its send, counts as $1.00."""
    both = asyncio.Event()

    async def answer(input: Any, ctx: Any) -> Turn:
        if ctx.eval_id == "a" and ctx.attempt == 2:
            both.set()
            await asyncio.sleep(60)
        elif ctx.eval_id == "a" and ctx.attempt == 1:
            await both.wait()
        return turn(usage=Usage(cost_usd=1.0), status="failed" if ctx.attempt == 0 else "completed")

    async def succeeds(t: EvalContext) -> None:
        (await t.send("go")).succeeded()

    experiment = an_experiment(agent(answer).agent, runs=3, early_exit=True, budget=3.0)
    ran = run_plan_of(tmp_path, plan_of(tmp_path, [experiment], {"a": succeeds, "b": succeeds}, concurrency=2))
    assert (ran.finished.failed, ran.finished.passed, ran.finished.cancelled, ran.finished.not_started) == (1, 1, 1, 3)
    assert [event.spent for event in ran.all(BudgetExceeded)] == [3.0]
    assert ran.accounted


def test_an_interrupt_is_no_budget(tmp_path: Path) -> None:
    """What Ctrl-C kept from starting has that reason."""
    bot, _ = dollars_each()

    def stop(event: Any, handle: Any) -> None:
        if isinstance(event, EvalStart):
            handle.interrupt()

    ran = run_plan_of(tmp_path, plan_of(tmp_path, [an_experiment(bot, runs=5, budget=2.0)]), on_event=stop)
    assert (ran.finished.status, ran.finished.not_started_why) == ("interrupted", (("interrupted", 4),))
    assert ran.accounted


# Where it is set -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [0, -1, float("nan"), float("inf"), True, "5"])
def test_what_is_no_amount_is_refused(budget: Any) -> None:
    """At the experiment's own line."""
    make: Callable[..., object] = define_experiment
    with pytest.raises(NiceevalError) as caught:
        make(agent=agent().agent, budget=budget)
    assert caught.value.code == "bad-argument"
    assert "budget" in str(caught.value)
