"""What the console says of results that were carried, of money, of retries, and of what was not started."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Iterable
from typing import Any

import pytest

from niceeval._base.errors import NiceevalError, Place
from niceeval._base.terminal import Style
from niceeval._model.result import AttemptResult, CarriedFrom
from niceeval._model.run_events import BudgetExceeded, EarlyExit, LiveEvent, NotStarted, Progress, RunStart
from niceeval._reporters.board import board
from niceeval._reporters.eta import Eta
from niceeval._reporters.ndjson import Ndjson
from niceeval._reporters.sentences import progress_line
from niceeval._reporters.state import RunState
from tests.unit.result_builders import (
    a_failed_gate,
    a_result,
    a_start,
    an_outline,
    completed,
    key_of,
    saved,
    started,
    the_end,
)
from tests.unit.test_console import printed

EARLIER = "2026-07-01T09-12-44-010Z"
BUB = "compare/bub-gpt-5.4"


def carried(outcome: Any = "passed", *, run: str = EARLIER, **fields: Any) -> AttemptResult:
    return a_result(outcome, carried_from=CarriedFrom(run=run, locator="@q6ya3ndh"), **fields)


def starting(*outlines: Any, carried: int = 0, budget: float | None = None) -> RunStart:
    return dataclasses.replace(a_start(*outlines), carried=carried, budget=budget)


def outline(version: str | None = "1.0", budget: float | None = None, **fields: Any) -> Any:
    return dataclasses.replace(an_outline(**fields), agent_version=version, budget=budget)


def folded(events: Iterable[LiveEvent], *, now: float = 0.0) -> RunState:
    state = RunState()
    for event in events:
        state.apply(event, now)
    return state


def foot(out: str) -> list[str]:
    """The end of a run, from its totals on."""
    lines = out.splitlines()
    return lines[next(index for index, line in enumerate(lines) if line.startswith("evals ")) :]


# Carried results -----------------------------------------------------------------------------------------------------


def test_a_run_says_once_what_it_has_taken_over() -> None:
    """How many, of which run; what passed earlier has no line of its own, and costs this run nothing."""
    results = [carried(eval_id="a"), carried(eval_id="b")]
    new = a_result(eval_id="c")
    events = [starting(outline(evals=3), carried=2), *map(completed, results), started(new), completed(new)]
    out, err = printed([*events, saved(), the_end([*results, new], carried=2)])
    assert err.splitlines() == [
        "niceeval 0.1.0 · compare · 3 attempts, 2 carried · concurrency 4",
        f"↺ carried 2 results of {EARLIER}",
        f"✓ passed  {BUB}  c  1/1 passed (100%)  mean 34s · 58k tok · $0.44",
    ]
    assert "attempts  3 passed · 0 failed" in foot(out)
    assert "6m 31s · 58k tok · $0.44 · 2 carried" in foot(out)


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (["2026-01", "2026-02"], "2026-02 and 2026-01"),
        (["2026-01", "2026-02", "2026-03"], "2026-03 and 2 other runs"),
    ],
)
def test_results_of_several_runs_name_the_newest(runs: list[str], said: str) -> None:
    """Two are named, more are counted."""
    results = [carried(eval_id=run, run=run) for run in runs]
    _, err = printed([starting(outline(evals=len(runs))), *map(completed, results), the_end(results)])
    assert f"carried {len(runs)} results of {said}" in err


def test_what_the_identity_cannot_see_stands_beside_it() -> None:
    """Where an agent has no version, its service may have changed."""
    seen = [completed(carried()), the_end([carried()])]
    _, err = printed([starting(outline(version=None), carried=1), *seen])
    assert f"↺ carried 1 result of {EARLIER} (cannot see: changes inside a deployed service)" in err.splitlines()
    _, err = printed([starting(outline(), outline(version=None, id="other"), carried=1), *seen])
    assert "cannot see" not in err


def test_a_carried_failure_is_a_line_and_no_block() -> None:
    """Its block was printed when it happened; the end lists it with the others."""
    old = carried("failed", eval_id="a", locator="@aaaaaaaa", assertions=[a_failed_gate()])
    new = a_result("failed", eval_id="b", locator="@bbbbbbbb", assertions=[a_failed_gate()])
    events = [starting(outline(evals=2), carried=1), completed(old), started(new), completed(new)]
    out, _ = printed([*events, saved(), the_end([old, new], carried=1)])
    lines = out.splitlines()
    assert lines[0] == f'✗ failed  a · {BUB} · :11 called_tool("get_weather") · @aaaaaaaa · carried'
    assert lines[1].startswith(f"✗ failed  b · {BUB} · attempt 1/1")
    assert sum("expected  1 call" in line for line in lines) == 1
    assert sum(line.startswith("  ✗ ") and "@aaaaaaaa" in line for line in lines) == 1


def test_verbose_says_of_each_attempt_where_it_is_from() -> None:
    """A line per attempt, carried or not."""
    _, err = printed([starting(outline(), carried=1), completed(carried()), the_end([carried()])], verbose=True)
    assert f"attempt 1/1  34s · 58k tok · $0.44  carried from {EARLIER}" in err


def test_quiet_says_nothing_of_it_but_in_the_end() -> None:
    """The foot has the count."""
    out, err = printed(
        [starting(outline(), carried=1), completed(carried()), the_end([carried()], carried=1)], quiet=True
    )
    assert err == ""
    assert "6m 31s · 1 carried" in out.splitlines()


def test_what_a_carried_pass_made_unnecessary_is_no_work_that_is_left() -> None:
    """The bar counts what has finished or still can."""
    state = folded(
        [
            starting(outline(runs=3, early_exit=True), carried=1),
            completed(carried()),
            EarlyExit(experiment_id=BUB, eval_id="weather/brooklyn", after="passed", cancelled=(1, 2)),
        ]
    )
    assert (state.counts.finished, state.expected, state.queued) == (1, 1, 0)


# The board -----------------------------------------------------------------------------------------------------------


def rows(state: RunState, columns: int = 100, now: float = 60.0) -> list[str]:
    return board(state, Style(), columns=columns, rows=24, now=now, eta=Eta())


def test_the_board_shows_what_is_spent_of_what_and_what_is_reserved() -> None:
    """For the run in its third row, for an experiment beside its counts; carried results are not paid again."""
    results = [a_result(eval_id=f"e/{number}", cost=0.5) for number in range(4)]
    running = [a_result(eval_id=f"r/{number}") for number in range(2)]
    state = folded(
        [
            starting(outline(evals=20, budget=4.0), carried=1, budget=15.0),
            completed(carried(eval_id="old", cost=3.0)),
            *(event for result in results for event in (started(result), completed(result))),
            *map(started, running),
        ]
    )
    shown = rows(state)
    assert "= 20 attempts, 1 carried" in shown[0]
    assert "5/20" in shown[1]
    assert shown[2].startswith("spent $2.00 of $15.00, $1.00 reserved · 13 queued")
    assert "$2.00 of $4.00" in shown[4]
    assert "· $2.00 of $15.00" in progress_line(state, Style(), 60.0)


def test_before_anything_is_spent_the_board_shows_the_budget() -> None:
    """Nothing reads as $0."""
    state = folded([starting(outline(evals=2, budget=4.0), budget=15.0), started(a_result())])
    assert rows(state)[2].startswith("budget $15.00 · 1 queued")
    assert "$0" not in "\n".join(rows(state))


def test_an_unknown_cost_stays_unknown_beside_a_budget() -> None:
    """Words, and no sum of what is not known."""
    result = a_result(cost=None)
    state = folded([starting(outline(evals=2, budget=4.0), budget=15.0), started(result), completed(result)])
    assert rows(state)[2].startswith("cost unknown, budget $15.00")
    known = a_result(eval_id="b", cost=1.0)
    for event in (started(known), completed(known)):
        state.apply(event, 0.0)
    assert rows(state)[2].startswith("spent $1.00 of $15.00 + 1 attempt of unknown cost")


@pytest.mark.parametrize("columns", [60, 74, 80, 100, 120, 160])
def test_great_sums_stay_in_their_column(columns: int) -> None:
    """Where sum and limit do not fit the limit is left out."""
    result = a_result(cost=123_456.0)
    state = folded([starting(outline(evals=2, budget=999_999.0), budget=999_999.0), started(result), completed(result)])
    assert all(len(row) < columns for row in rows(state, columns))
    assert any(row.rstrip().endswith("$123,456.00") for row in rows(state, columns)) == (columns > 74)


def test_a_retry_shows_in_the_row_of_what_runs() -> None:
    """Which one, how long it waits, and why; and no longer than it waits."""
    result = a_result()
    state = folded([starting(outline()), started(result)])
    key = key_of(result)
    state.apply(Progress(key=key, phase="send", turn=1, text="retry 2 in 12s (429)"), 0.0)
    assert "send, turn 1 · retry 2 in 12s (429)" in rows(state)[-1]
    state.apply(Progress(key=key, phase="send", turn=1, text=""), 0.0)
    assert "retry" not in rows(state)[-1]


@pytest.mark.parametrize(
    ("run_budget", "budget", "said"),
    [(None, None, True), (30.0, 30.0, True), (5.0, None, False), (None, 5.0, False)],
)
def test_no_time_is_promised_that_a_budget_may_cut_short(
    run_budget: float | None, budget: float | None, said: bool
) -> None:
    """Ten of twenty attempts at $0.50: $10.00 in all."""
    state = RunState()
    state.apply(starting(outline(evals=20, budget=budget), budget=run_budget), 0.0)
    for number in range(10):
        result = a_result(eval_id=f"e/{number}", cost=0.5)
        state.apply(started(result), number * 10.0)
        state.apply(completed(result), number * 10.0 + 10.0)
    assert bool(Eta().text(state, 100.0)) is said


def test_carried_results_say_nothing_of_how_long_it_takes() -> None:
    """Only what ran in this run is a measure of the rest."""
    state = RunState()
    state.apply(starting(outline(evals=20), carried=15), 0.0)
    for number in range(15):
        state.apply(completed(carried(eval_id=f"old/{number}")), 0.0)
    assert Eta().text(state, 10.0) == ""


# What was not started ------------------------------------------------------------------------------------------------


def over(**fields: Any) -> BudgetExceeded:
    given = {"experiment_id": BUB, "budget": 4.0, "spent": 3.71, "reserved": 0.44, "not_started": 3, **fields}
    return BudgetExceeded(**given)


def test_a_budget_that_stops_an_experiment_says_what_it_came_to() -> None:
    """Spent, what one more would have reserved, the limit, what was not started, and what to type."""
    done = a_result(cost=3.71)
    stop = over(by_experiment=((BUB, 3),))
    end = the_end([done], not_started=3, not_started_why=(("budget", 3),), status="incomplete", exit_code=1)
    events = [starting(outline(evals=2, runs=2, budget=4.0)), started(done), completed(done), stop, saved(), end]
    out, err = printed(events)
    assert err.splitlines()[-2:] == [
        f"budget: {BUB} stopped at $3.71 + $0.44 of $4.00; 3 not started",
        f"  next: niceeval exp {BUB} --budget 6",
    ]
    assert foot(out)[1:] == [
        "attempts  1 passed · 0 failed · 3 not started (budget)",
        "6m 31s · 58k tok · $3.71",
        "results   .niceeval/2026-07-02T03-10-24-123Z",
        "next: niceeval exp compare  (the 3 not started)",
        "INCOMPLETE (exit 1)",
    ]
    assert "  ✓ weather/brooklyn  1/1 passed (1 of 2 ran)  mean 34s · 58k tok · $3.71" in out.splitlines()


@pytest.mark.parametrize(
    ("event", "line", "command"),
    [
        (
            over(experiment_id=None, budget=15.0, spent=14.8, reserved=0.5, not_started=10),
            "budget: the run stopped at $14.80 + $0.50 of $15.00; 10 not started",
            "niceeval exp compare --budget 20",
        ),
        (
            over(budget=0.05, spent=0.04, reserved=0.02, not_started=2),
            f"budget: {BUB} stopped at $0.04 + $0.02 of $0.05; 2 not started",
            f"niceeval exp {BUB} --budget 0.08",
        ),
        (
            over(spent=4.0, reserved=0.0),
            f"budget: {BUB} stopped at $4.00 of $4.00; 3 not started",
            f"niceeval exp {BUB} --budget 4",
        ),
    ],
)
def test_the_command_has_a_budget_that_would_have_sufficed(event: BudgetExceeded, line: str, command: str) -> None:
    """At the mean, rounded up to dollars, or to cents below one."""
    _, err = printed([starting(outline(evals=20)), event, the_end([])])
    assert err.splitlines()[1:3] == [line, f"  next: {command}"]
    assert shlex.split(command)[:2] == ["niceeval", "exp"]


def test_a_budget_that_cannot_be_kept_is_an_error_with_an_edit() -> None:
    """On stderr in the form of every error, at the experiment; and once more beside the totals."""
    error = NiceevalError(
        "budget-unenforceable",
        place=Place("experiments/local.py", 9, 5),
        problem="model acme-1 has no price",
        fix='pricing={"acme-1": Price(...)} in niceeval_config.py',
    )
    done = a_result(cost=None)
    stop = over(spent=0.0, reserved=0.0, error=error, by_experiment=((BUB, 3),))
    end = the_end(
        [done], not_started=3, not_started_why=(("budget-unenforceable", 3),), status="incomplete", problems=(error,)
    )
    out, err = printed([starting(outline(evals=4, budget=4.0)), started(done), completed(done), stop, end])
    assert err.splitlines()[-3:] == [
        "error[budget-unenforceable]: the first attempt has no cost: model acme-1 has no price",
        "  experiments/local.py:9:5",
        '  next: pricing={"acme-1": Price(...)} in niceeval_config.py, or drop the budget',
    ]
    assert "attempts  1 passed · 0 failed · 3 not started (budget-unenforceable)" in out.splitlines()
    assert "6m 31s · 58k tok · cost unknown" in out.splitlines()
    assert "$0" not in out + err


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        ({"experiment_id": BUB, "eval_id": None, "code": "experiment-fatal"}, f"experiment-fatal: {BUB} stopped"),
        ({"experiment_id": BUB, "eval_id": "sql/1", "code": "eval-fatal"}, f"eval-fatal: sql/1 under {BUB} stopped"),
        (
            {"experiment_id": None, "eval_id": "sql/1", "code": "eval-fatal"},
            "eval-fatal: sql/1 under every experiment stopped",
        ),
    ],
)
def test_what_is_doomed_is_named_with_its_cause(scope: dict[str, Any], said: str) -> None:
    """The scope, the first line of the error, and how many attempts were not started."""
    event = NotStarted(count=12, message="ValueError: no \x1b[2Jkey\nsecond line", by_experiment=((BUB, 12),), **scope)
    end = the_end([], not_started=12, not_started_why=((scope["code"], 12),), status="incomplete")
    out, err = printed([starting(outline(evals=12)), event, end])
    assert err.splitlines()[-1] == f"{said}: ValueError: no ␛key; 12 not started"
    assert f"attempts  0 passed · 0 failed · 12 not started ({scope['code']})" in out.splitlines()


def test_several_reasons_are_counted_apart() -> None:
    """They are never added up into one."""
    why = (("budget", 3), ("eval-fatal", 2))
    out, _ = printed([starting(outline(evals=5)), the_end([], not_started=5, not_started_why=why, status="incomplete")])
    assert "attempts  0 passed · 0 failed · 5 not started (3 budget, 2 eval-fatal)" in out.splitlines()


def test_what_is_not_started_is_no_work_that_is_left() -> None:
    """The board goes to its end."""
    state = folded(
        [
            starting(outline(evals=5), outline(id="other", evals=5)),
            over(experiment_id=None, not_started=7, by_experiment=((BUB, 3), ("other", 4))),
            NotStarted(experiment_id=BUB, eval_id=None, count=1, code="x", message="", by_experiment=((BUB, 1),)),
        ]
    )
    assert (state.not_started, state.expected) == (8, 2)
    assert "8 not started" in rows(state)[2]
    assert [experiment.left for experiment in state.experiments.values()] == [1, 1]


def test_lines_of_json_that_end_early_count_what_was_kept_back() -> None:
    """Finished, not started and cancelled attempts are all that were planned, also where the run itself broke."""
    written: list[bytes] = []
    ndjson = Ndjson(written.append, redact=str, rerun="niceeval exp compare")
    old = carried(eval_id="old")
    stop = over(not_started=3, by_experiment=((BUB, 3),))
    for event in (starting(outline(evals=9), carried=1), completed(old), completed(a_result(eval_id="new")), stop):
        ndjson.handle(event)
    ndjson.end("broke", 2)
    record = json.loads(written[-1])
    assert (record["passed"], record["carried"], record["notStarted"], record["cancelled"]) == (2, 1, 7, 0)
