"""The board and the painter, read back from an emulated terminal."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from niceeval._base.terminal import Stream, Style, cell_width
from niceeval._model.run_events import EarlyExit, Progress
from niceeval._reporters.board import board
from niceeval._reporters.eta import Eta
from niceeval._reporters.painter import Painter, Text
from niceeval._reporters.state import RunState
from tests.unit.fake_terminals import Emulator
from tests.unit.result_builders import a_result, a_start, an_outline, completed, key_of, started


def a_busy_state(*, experiments: int = 3, evals: int = 14, running: int = 11, done: int = 20) -> RunState:
    """A run in its middle: some finished, some running, the first of them the longest."""
    state = RunState()
    outlines = [an_outline(f"compare/model-{number}", evals=evals, runs=2) for number in range(experiments)]
    state.apply(a_start(*outlines), 0.0)
    verdicts = ("passed", "passed", "failed", "errored", "skipped")
    for number in range(done + running):
        result = a_result(
            verdicts[number % 5],  # type: ignore[arg-type]
            experiment_id=outlines[number % experiments].id,
            eval_id=f"sql/{number // experiments // 2:04d}",
            attempt=number // experiments % 2,
        )
        state.apply(started(result), float(number))
        if number < done:
            state.apply(completed(result), number + 12.0)
        else:
            state.apply(Progress(key=key_of(result), phase="send", turn=3, text="shell: pytest -q"), number + 1.0)
    return state


def rows_of(state: RunState, columns: int, rows: int, *, now: float = 252.0, style: Style | None = None) -> list[str]:
    return board(state, style or Style(), columns=columns, rows=rows, now=now, eta=Eta())


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40), (60, 10), (50, 12), (30, 5), (200, 60)])
@pytest.mark.parametrize("experiments", [1, 3, 40])
def test_the_board_fits_the_terminal(columns: int, rows: int, experiments: int) -> None:
    """No row reaches the last column, and two rows of the screen stay free."""
    shown = rows_of(a_busy_state(experiments=experiments), columns, rows)
    assert len(shown) <= rows - 2
    assert max(map(cell_width, shown)) < columns


@given(st.text(min_size=1), st.text(), st.integers(40, 160), st.integers(5, 50))
def test_no_text_of_a_guest_widens_the_board(id: str, text: str, columns: int, rows: int) -> None:
    """Ids and progress texts of any script and any length stay in their columns."""
    state = RunState()
    state.apply(a_start(an_outline(id), title=id), 0.0)
    result = a_result(experiment_id=id, eval_id=id)
    state.apply(started(result), 0.0)
    state.apply(Progress(key=key_of(result), phase="send", turn=1, text=text), 0.0)
    shown = rows_of(state, columns, rows)
    assert max(map(cell_width, shown)) < columns
    assert len(shown) <= rows - 2


def test_eighty_columns_show_counts_and_the_longest_first() -> None:
    """The rows of the design: plan and clock, bar and verdicts, spend and queue, experiments, what runs."""
    shown = rows_of(a_busy_state(), 80, 24)
    assert shown[0].startswith("compare   3 experiments x 14 evals x 2 runs = 84 attempts")
    assert shown[0].endswith("04:12")
    assert "20/84  ✓ 8 passed  ✗ 4 failed  ! 4 errored  - 4 skipped" in shown[1]
    assert shown[2].startswith("spent $8.80 · 53 queued")
    assert shown[3].split() == ["experiment", "done", "passed", "failed", "errored", "running", "cost"]
    assert shown[4].split() == ["model-0", "7/28", "3", "1", "2", "4", "$3.08"]
    assert shown[8].split()[:3] == ["model-2", "sql/0003", "1/2"]
    assert "send, turn 3 · shell: pytest" in shown[8]
    assert shown[8].endswith("3:52")


def test_a_hundred_and_twenty_columns_show_more() -> None:
    """Wide terminals get the agent, skipped, means, tokens, and each attempt's limit."""
    shown = rows_of(a_busy_state(), 120, 40)
    assert shown[3].split() == [
        "experiment", "agent", "done", "passed", "failed", "errored", "skipped", "running", "mean", "tok", "cost",
    ]  # fmt: skip
    assert shown[8].endswith("3:52 of 10:00")


def test_below_sixty_columns_three_rows_remain() -> None:
    """A narrow terminal gets the totals only."""
    assert len(rows_of(a_busy_state(), 50, 12)) == 3


def test_what_does_not_fit_is_counted() -> None:
    """Experiments and attempts that are left out are a number, never silently gone."""
    shown = rows_of(a_busy_state(experiments=30, running=20), 80, 24)
    more = next(row for row in shown if row.startswith("+ "))
    named = sum(row.startswith("model-") and "/28" in row for row in shown)
    assert more == f"+ {30 - named} more experiments"
    assert any(re.match(r"running: \d+ of 20, longest first", row) for row in shown)


def test_near_its_timeout_an_attempt_shows_it() -> None:
    """Past 80 % of the limit the elapsed time stands beside it."""
    state = RunState()
    state.apply(a_start(an_outline()), 0.0)
    state.apply(started(a_result(), timeout=600.0), 0.0)
    assert rows_of(state, 80, 24, now=479.0)[-1].endswith("7:59")
    assert rows_of(state, 80, 24, now=511.0)[-1].endswith("8:31 of 10:00")


def test_unknown_cost_is_a_word() -> None:
    """Attempts without a cost are said to be of unknown cost; nothing reads as free."""
    state = RunState()
    state.apply(a_start(an_outline(evals=3)), 0.0)
    for number, cost in enumerate((None, 0.5)):
        result = a_result(eval_id=f"e/{number}", cost=cost)
        state.apply(started(result), 0.0)
        state.apply(completed(result), 1.0)
        third = rows_of(state, 80, 24)[2]
        assert third.startswith("cost unknown" if number == 0 else "spent $0.50 + 1 attempt of unknown cost")
        assert "$0.00" not in third


def test_cancelled_attempts_leave_the_denominator() -> None:
    """Early exit makes the total smaller and is counted in its own words."""
    state = RunState()
    state.apply(a_start(an_outline(runs=4, early_exit=True)), 0.0)
    state.apply(started(a_result()), 0.0)
    state.apply(completed(a_result()), 1.0)
    cancelled = EarlyExit(
        experiment_id="compare/bub-gpt-5.4", eval_id="weather/brooklyn", after="passed", cancelled=(1, 2, 3)
    )
    state.apply(cancelled, 1.0)
    shown = rows_of(state, 80, 24)
    assert "  1/1  ✓ 1 passed" in shown[1]
    assert "0 queued · 3 cancelled" in shown[2]


def test_equal_attempts_are_foretold() -> None:
    """No figure before 5 attempts and a fifth of them; at half-way it is right within a quarter."""
    state, eta = RunState(), Eta()
    state.apply(a_start(an_outline(evals=80), concurrency=4), 0.0)
    said = {}
    for batch in range(20):
        results = [a_result(eval_id=f"e/{batch * 4 + number}") for number in range(4)]
        for result in results:
            state.apply(started(result), batch * 60.0)
        said[batch] = eta.text(state, batch * 60.0 + 30.0)
        for result in results:
            state.apply(completed(result), batch * 60.0 + 60.0)
    assert [said[batch] for batch in range(4)] == [""] * 4
    assert said[10] in ("~8 min left", "~9 min left", "~10 min left", "~11 min left")


def test_no_figure_while_an_experiment_has_no_attempt_finished() -> None:
    """Each experiment with work left must have shown how long it takes."""
    state = RunState()
    state.apply(a_start(an_outline("a", evals=10), an_outline("b", evals=1)), 0.0)
    for number in range(8):
        result = a_result(experiment_id="a", eval_id=f"e/{number}")
        state.apply(started(result), number * 10.0)
        state.apply(completed(result), number * 10.0 + 10.0)
    assert Eta().text(state, 80.0) == ""
    result = a_result(experiment_id="b")
    state.apply(started(result), 80.0)
    state.apply(completed(result), 90.0)
    assert Eta().text(state, 90.0) == "~20 s left"


def test_an_overrun_figure_is_withdrawn() -> None:
    """A hanging last attempt takes the promise away."""
    state, eta = RunState(), Eta()
    state.apply(a_start(an_outline(evals=10)), 0.0)
    for number in range(9):
        result = a_result(eval_id=f"e/{number}")
        state.apply(started(result), number * 10.0)
        state.apply(completed(result), number * 10.0 + 10.0)
    state.apply(started(a_result(eval_id="e/9")), 90.0)
    assert eta.text(state, 90.0) == "~10 s left"
    assert eta.text(state, 120.0) == ""


def test_early_exit_makes_the_figure_an_upper_bound() -> None:
    """While a pass may cancel the rest, the figure says at most."""
    state = RunState()
    state.apply(a_start(an_outline(evals=5, runs=2, early_exit=True)), 0.0)
    for number in range(5):
        result = a_result("failed", eval_id=f"e/{number}")
        state.apply(started(result), number * 60.0)
        state.apply(completed(result), number * 60.0 + 60.0)
    assert Eta().text(state, 300.0) == "at most 5 min left"


def _painted(emulator: Emulator) -> Painter:
    out, err = Stream(emulator.stream()), Stream(emulator.stream())  # type: ignore[arg-type]
    return Painter(out, err, live=True)


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40), (50, 12)])
def test_permanent_lines_stand_once_above_the_board(columns: int, rows: int) -> None:
    """However often the board is repainted, each line is in scrollback and screen exactly once, in order."""
    emulator = Emulator(columns, rows)
    painter = _painted(emulator)
    state = a_busy_state()
    for number in range(100):
        texts = [Text("stdout" if number % 2 else "stderr", f"line {number}")] if number % 3 else []
        painter.show(texts, rows_of(state, columns, rows, now=252.0 + number), columns)
        assert emulator.screen.cursor.hidden
    painter.close()
    assert emulator.everything() == [f"line {number}" for number in range(100) if number % 3]
    assert not emulator.screen.cursor.hidden
    assert "\x1b[?1049h" not in "".join(emulator.raw)


def test_a_smaller_terminal_loses_no_permanent_line() -> None:
    """Resized to 50 columns in the middle, the board is repainted and each line stays, once."""
    emulator = Emulator(80, 24)
    painter = _painted(emulator)
    state = a_busy_state()
    for number in range(40):
        if number == 20:
            emulator.resize(50, 24)
        columns = 80 if number < 20 else 50
        painter.show([Text("stdout", f"line {number}")], rows_of(state, columns, 24), columns)
    assert emulator.shown()[-3].startswith("compare")
    painter.close()
    assert [row for row in emulator.everything() if row.startswith("line")] == [f"line {n}" for n in range(40)]


def test_only_changed_rows_are_written() -> None:
    """A clock that moves on costs one row; a board that did not change costs nothing."""
    painter = _painted(Emulator(80, 24))
    state = a_busy_state(running=0)
    first = painter.show([], rows_of(state, 80, 24, now=252.0), 80)
    assert painter.show([], rows_of(state, 80, 24, now=252.5), 80) == 0
    assert 0 < painter.show([], rows_of(state, 80, 24, now=253.0), 80) < first / 3


def test_rows_that_change_in_place_read_as_painted_anew() -> None:
    """After partial updates the screen shows exactly the newest board."""
    emulator = Emulator(80, 24)
    painter = _painted(emulator)
    state = a_busy_state()
    for number in range(5):
        newest = rows_of(state, 80, 24, now=252.0 + number * 37)
        painter.show([], newest, 80)
        assert emulator.shown() == [row.rstrip() for row in newest]


def test_wide_characters_line_up() -> None:
    """CJK and emoji ids leave the columns where they are."""
    state = RunState()
    ids = ["比较/模型一", "compare/👍", "plain"]
    state.apply(a_start(*[an_outline(id) for id in ids]), 0.0)
    for id in ids:
        result = a_result(experiment_id=id)
        state.apply(started(result), 0.0)
        state.apply(completed(result), 1.0)
    emulator = Emulator(80, 24)
    painter = _painted(emulator)
    painter.show([], rows_of(state, 80, 24), 80)
    screen = emulator.screen.buffer
    column = 79 - len("$0.44") - 1
    assert ["".join(screen[row][at].data for at in range(column, column + 6)).strip() for row in (4, 5, 6)] == [
        "$0.44"
    ] * 3


def test_colour_does_not_change_the_rows() -> None:
    """Without its colour a coloured board is the plain one."""
    state = a_busy_state()
    coloured = rows_of(state, 80, 24, style=replace(Style(), color=True))
    assert [re.sub(r"\x1b\[\d+m", "", row) for row in coloured] == rows_of(state, 80, 24)
