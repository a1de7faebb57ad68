"""The end of a run."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from niceeval._base.errors import NiceevalError, Place
from niceeval._base.terminal import Style
from niceeval._model.result import AttemptResult
from niceeval._model.run_events import EarlyExit, RunStart
from niceeval._model.usage import Usage
from niceeval._reporters.state import RunState
from niceeval._reporters.summary import MAX_INDEX, Ending, summary
from tests.unit.result_builders import (
    a_failed_gate,
    a_result,
    a_run,
    a_start,
    a_timeout,
    an_outline,
    an_unanswered_gate,
)

ENDING = Ending(rerun="niceeval exp compare")


def end_of(start: RunStart, results: list[AttemptResult], *, ending: Ending = ENDING, **end: Any) -> list[str]:
    state = RunState()
    for event in a_run(start, results, **end):
        state.apply(event, 0.0)
    return summary(state, Style(), ending)


def test_the_last_screen_answers() -> None:
    """Did it pass, what broke, where is it, what to type: rows, index, totals, results, next, last word."""
    results = [
        a_result(eval_id="sql/0003", attempt=0),
        a_result("failed", eval_id="sql/0003", attempt=1),
        a_result("failed", assertions=[a_failed_gate()]),
        a_result("failed", attempt=1, locator="@t5wq2czm", assertions=[a_failed_gate()]),
        a_result("errored", eval_id="refund/policy", locator="@d2vq6wnt", cost=None, assertions=[an_unanswered_gate()]),
        a_result("skipped", eval_id="x/y", tokens=None, cost=None, skip_reason="no key"),
    ]
    assert end_of(a_start(an_outline(evals=4, runs=2)), results, planned=8, not_started=2) == [
        "compare/bub-gpt-5.4 (bub, gpt-5.4)  1/3 evals passed, 1 errored",
        "  ✓ sql/0003          1/2 passed (50%)                    mean 34s · 58k tok · $0.44",
        "  ✗ weather/brooklyn  0/2 passed (0%)                     mean 34s · 58k tok · $0.44",
        "  ! refund/policy     0/1 passed (1 of 2 ran), 1 errored  mean 34s · 58k tok · cost unknown",
        "  - x/y               skipped: no key",
        "not passed",
        '  ✗ weather/brooklyn  compare/bub-gpt-5.4  :11 called_tool("get_weather")  @k3f7qm2x',
        "  ! refund/policy     compare/bub-gpt-5.4  :19 unavailable: actions        @d2vq6wnt",
        "evals     1 passed · 1 failed · 1 errored · 1 skipped",
        "attempts  1 passed · 3 failed · 1 errored · 1 skipped · 2 not started",
        "6m 31s · 290k tok · $1.76 + 1 attempt of unknown cost",
        "results   .niceeval/2026-07-02T03-10-24-123Z",
        "next: niceeval show @k3f7qm2x",
        "next: niceeval exp compare  (what did not pass, and the 2 not started)",
        "FAILED (exit 1)",
    ]


def test_above_twenty_rows_whole_passes_fold() -> None:
    """A long list shows one line for the evals whose every attempt passed, and each of the others."""
    results = [a_result(eval_id=f"sql/{number:04d}", cost=0.25) for number in range(24)]
    results.append(a_result("failed", assertions=[a_failed_gate()]))
    shown = end_of(a_start(an_outline(evals=25)), results)
    assert shown[1:3] == [
        "  ✓ 24 evals, every attempt passed     mean 34s · 58k tok · $0.25",
        "  ✗ weather/brooklyn  0/1 passed (0%)  mean 34s · 58k tok · $0.44",
    ]


def test_a_sample_cut_by_early_exit_claims_no_rate() -> None:
    """A sample that stopped at its first pass shows no percentage."""
    state = RunState()
    start = a_start(an_outline(runs=3, early_exit=True))
    for event in a_run(start, [a_result()], cancelled=2):
        state.apply(event, 0.0)
    state.apply(
        EarlyExit(experiment_id="compare/bub-gpt-5.4", eval_id="weather/brooklyn", after="passed", cancelled=(1, 2)),
        0.0,
    )
    shown = summary(state, Style(), ENDING)
    assert shown[1] == "  ✓ weather/brooklyn  1/1 passed (early exit)  mean 34s · 58k tok · $0.44"
    assert "6m 31s · 58k tok · $0.44 · 2 cancelled" in shown


@pytest.mark.parametrize(
    ("status", "exit_code", "word"),
    [
        ("passed", 0, "PASSED (exit 0)"),
        ("failed", 1, "FAILED (exit 1)"),
        ("errored", 1, "ERRORED (exit 1)"),
        ("incomplete", 1, "INCOMPLETE (exit 1)"),
        ("interrupted", 130, "INTERRUPTED (exit 130)"),
    ],
)
def test_the_last_word_is_the_exit(status: Any, exit_code: int, word: str) -> None:
    """The last line says how it ended and what the shell sees."""
    assert end_of(a_start(), [a_result()], status=status, exit_code=exit_code)[-1] == word


def test_an_interrupted_run_says_what_is_stored() -> None:
    """After Ctrl-C the command that runs it again stands beside what was kept."""
    shown = end_of(
        a_start(an_outline(evals=3)), [a_result()], planned=3, not_started=1, cancelled=1, status="interrupted"
    )
    assert "next: niceeval exp compare  (1 of 3 attempts are stored)" in shown


def test_all_passed_points_to_show() -> None:
    """There is always something to type."""
    assert end_of(a_start(), [a_result()])[-2:] == ["next: niceeval show", "PASSED (exit 0)"]


def test_nothing_known_about_cost_and_tokens_is_said_in_words() -> None:
    """No figure stands where nothing was measured."""
    shown = end_of(a_start(), [a_result(tokens=None, cost=None)])
    assert "6m 31s · tokens unknown · cost unknown" in shown
    assert "$" not in "\n".join(shown)


def test_files_that_did_not_load_are_named() -> None:
    """A problem of the project stands with its code and place."""
    error = NiceevalError(
        "load-failed", place=Place("evals/a_eval.py", 3, 1), error="ModuleNotFoundError: x", others=""
    )
    shown = end_of(a_start(), [a_result()], status="incomplete", problems=(error,) * 5)
    assert "error[load-failed]: ModuleNotFoundError: x (evals/a_eval.py:3:1)" in shown
    assert "+ 2 more: niceeval list" in shown


def test_an_error_is_indexed_by_its_code() -> None:
    """The line of an attempt that an error ended says which."""
    shown = end_of(a_start(), [a_result("errored", error_info=a_timeout())])
    assert "  ! weather/brooklyn  compare/bub-gpt-5.4  timeout: 600s passed in send, turn 2  @k3f7qm2x" in shown


@pytest.mark.parametrize("limit", [None, 3000, 9000])
def test_thousands_of_failures_stay_within_bounds(limit: int | None) -> None:
    """Rows and index lines are bounded, the rest is counted exactly, and the totals are always whole."""
    results = [
        a_result("failed", eval_id=f"sql/{number:04d}", locator=f"@x{number:07d}", assertions=[a_failed_gate()])
        for number in range(2000)
    ]
    ending = Ending(rerun="niceeval exp compare", limit=limit)
    shown = end_of(a_start(an_outline(evals=2000)), results, ending=ending)
    index = shown[shown.index("not passed") + 1 :]
    entries = [line for line in index if line.startswith("  ✗")]
    assert len(entries) <= MAX_INDEX
    assert f"+ {2000 - len(entries):,} more: niceeval show" in index
    assert "attempts  0 passed · 2000 failed" in shown
    if limit is not None:
        assert len("\n".join(shown).encode()) < limit


def test_quiet_leaves_out_rows_and_commands() -> None:
    """--quiet keeps index lines, totals, results and the last word, unchanged."""
    results = [a_result("failed", assertions=[a_failed_gate()])]
    quiet = end_of(a_start(), results, ending=Ending(rerun="niceeval exp compare", brief=True))
    full = end_of(a_start(), results)
    assert set(quiet) < set(full)
    assert quiet[0] == "not passed"
    assert not [line for line in quiet if line.startswith("next:")]


def test_ids_of_others_are_cleaned() -> None:
    """Nothing an eval, an agent or a reason is called reaches the terminal as it is."""
    skipped = a_result(
        "skipped",
        experiment_id="a\x1b[2J",
        eval_id="\u202e[red]:smile:",
        skip_reason="\x1b]0;x\x07why",
        tokens=None,
        cost=None,
    )
    shown = end_of(a_start(an_outline("a\x1b[2J")), [skipped])
    assert shown[0].startswith("a␛ (bub")
    assert shown[1] == "  - \\u{202e}[red]:smile:  skipped: ␛why"


def test_a_partly_measured_cost_is_not_given_for_the_whole() -> None:
    """Where one turn's cost is unknown, what the others cost is not the attempt's cost."""
    shown = end_of(a_start(), [replace(a_result(cost=None), usage=Usage(input_tokens=5, cost_usd=0.2))])
    assert "6m 31s · 5 tok · cost unknown" in shown
