"""The block that says why an attempt did not pass."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from niceeval._base.terminal import ASCII, Style, cell_width, clean
from niceeval._model.assertion import UnavailableReason
from niceeval._model.result import AttemptResult, ErrorInfo, ExperimentInfo
from niceeval._reporters.excerpt import excerpt
from niceeval._reporters.failure_block import MAX_BYTES, MAX_LINES, Failure, failure_block, same_as_line
from tests.unit.result_builders import (
    SOURCE,
    a_failed_gate,
    a_result,
    a_timeout,
    an_assertion,
    an_unanswered_gate,
)


def block(result: AttemptResult, style: Style | None = None, *, source: str | None = SOURCE) -> list[str]:
    failure = Failure(experiment_id=result.experiment_id or "", runs=2, result=result)
    return failure_block(failure, style or Style(width=80), lambda file, line: source)


def replace_error(result: AttemptResult) -> AttemptResult:
    """The same attempt, which an exception of the eval ended."""
    error = ErrorInfo(code="author-error", phase="eval", message="KeyError: boom")
    return msgspec.structs.replace(result, error_info=error)


def test_a_failed_gate_has_place_caret_expected_and_received() -> None:
    """Everything needed to understand a failed gate stands in its block, in this order."""
    assert block(a_result("failed", attempt=1, assertions=[a_failed_gate()])) == [
        "✗ failed  weather/brooklyn · compare/bub-gpt-5.4 · attempt 2/2 · @k3f7qm2x",
        '  evals/weather/brooklyn_eval.py:11:5  gate  called_tool("get_weather")',
        '   11 │     turn.called_tool("get_weather", input={"city": re.compile("brooklyn…',
        "      │     ^^^^^^^^^^^^^^^^",
        "  expected  1 call of get_weather, input.city matches /brooklyn/i",
        '  received  0 such calls; nearest #4: input.city = "Queens"',
        "  evidence  #4 (call_1) · #5",
        "  next: niceeval show @k3f7qm2x                           34s · 58k tok · $0.44",
    ]


def test_an_unanswered_gate_reads_errored_with_channel_and_reason() -> None:
    """Missing evidence is an error with its reason, and nothing in the block looks like a pass."""
    shown = block(a_result("errored", cost=None, assertions=[an_unanswered_gate(evidence="#3 lookup_order")]))
    assert shown[0].startswith("! errored  ")
    assert "  unavailable  actions is partial: call_3 (turn 2) has no result" in shown
    assert "  seen         #3 lookup_order" in shown
    assert shown[-1].endswith("cost unknown")
    assert "✓" not in "".join(shown)


def test_a_declared_blind_spot_names_the_edit_that_helps() -> None:
    """Where the adapter itself cannot see a channel, showing the attempt would not help."""
    reason = UnavailableReason(
        code="coverage-unavailable", channel="actions", message="the API hides tool calls", declared=True
    )
    shown = block(a_result("errored", assertions=[an_unanswered_gate(reason=reason)]))
    assert "  unavailable  actions: the API hides tool calls" in shown
    assert "  next: an adapter with complete `actions`, or .optional() on this line" in shown


def test_an_error_shows_code_place_source_and_hint() -> None:
    """A timeout names what passed, where, and what to do; what is not known is said in words."""
    source = '    await t.send("Fix the bug")'
    shown = block(a_result("errored", tokens=None, cost=None, error_info=a_timeout()), source=source)
    assert shown[1:5] == [
        "  timeout: 600s passed in send, turn 2",
        "  evals/repo/fix_bug_eval.py:8:18",
        '    8 │     await t.send("Fix the bug")',
        "      │                  ^",
    ]
    assert shown[-2] == "  next: raise timeout=, or see where it hangs"
    assert shown[-1].endswith("34s · tokens unknown · cost unknown")


def test_the_users_own_frames_follow_an_error() -> None:
    """The innermost one whole, and of the project's own the innermost too where a library raised."""
    frames = ["adapters/bot.py:13 in send", "    await post()", "…/urllib/request.py:9 in open", "…/http/x.py:1 in f"]
    error = ErrorInfo(code="adapter-error", phase="eval", message="KeyError: 'x'", trace="\n".join(frames))
    shown = block(a_result("errored", error_info=error))
    assert [line.strip() for line in shown if line.startswith("    ")] == [
        "adapters/bot.py:13 in send",
        "await post()",
        "…/http/x.py:1 in f",
    ]
    assert "  in eval" in shown


def test_gates_come_before_soft_lines_and_the_rest_is_counted() -> None:
    """Up to three entries are shown, gates first; what was left out is a number."""
    soft = an_assertion("similarity", severity="soft", line=9)
    gates = [a_failed_gate(line=number) for number in range(11, 16)]
    shown = block(a_result("failed", assertions=[soft, *gates]))
    places = [line.split()[0] for line in shown if "  gate  " in line]
    assert places == [f"evals/weather/brooklyn_eval.py:{number}:5" for number in (11, 12, 13)]
    assert "  + 2 more" in shown
    assert not [line for line in shown if "soft" in line]


def test_under_strict_a_missed_soft_line_is_to_blame() -> None:
    """A soft entry is shown only where it decided the verdict."""
    strict = ExperimentInfo(id="x", flags={}, runs=1, early_exit=True, strict=True)
    soft = an_assertion("similarity", severity="soft", threshold=0.6)
    shown = block(a_result("failed", assertions=[soft], experiment=strict))
    assert shown[1] == "  evals/weather/brooklyn_eval.py:11:5  soft  similarity"


def test_an_optional_gate_that_failed_is_shown_as_what_it_is() -> None:
    """`.optional()` excuses missing evidence only: what failed all the same is named as the reason."""
    shown = block(a_result("failed", assertions=[msgspec.structs.replace(a_failed_gate(), optional=True)]))
    assert '  evals/weather/brooklyn_eval.py:11:5  gate  called_tool("get_weather")' in shown
    assert "no assertion says why" not in "".join(shown)


def test_passed_and_optional_entries_are_not_to_blame() -> None:
    """Only what decided the verdict is shown."""
    entries = [an_assertion(outcome="passed", line=1), an_unanswered_gate(optional=True), a_failed_gate()]
    shown = block(a_result("failed", assertions=entries))
    assert [line for line in shown if "  gate  " in line] == [
        '  evals/weather/brooklyn_eval.py:11:5  gate  called_tool("get_weather")'
    ]


@pytest.mark.parametrize(
    "result",
    [
        a_result("errored", assertions=[a_failed_gate(), an_unanswered_gate()]),
        replace_error(a_result("errored", assertions=[a_failed_gate()])),
    ],
    ids=["beside an unanswered one", "beside an error"],
)
def test_a_wrong_answer_is_shown_beside_what_made_the_attempt_errored(result: AttemptResult) -> None:
    """A gate that failed is named, and not left for whoever opens the attempt."""
    (line,) = [line for line in block(result) if line.startswith("  also failed  ")]
    assert "evals/weather/brooklyn_eval.py:11:5  gate  called_" in line


def test_the_same_end_again_is_one_line() -> None:
    """A second attempt that ended alike refers to the first."""
    failure = Failure(
        experiment_id="compare/bub-gpt-5.4",
        runs=2,
        result=a_result("failed", attempt=1, locator="@t5wq2czm", assertions=[a_failed_gate()]),
    )
    line = same_as_line(failure, Style(), "@k3f7qm2x")
    assert line.endswith("attempt 2/2 · @t5wq2czm  same as @k3f7qm2x")


_TEXT = st.text(max_size=3000)


@given(_TEXT, _TEXT, _TEXT, _TEXT, st.integers(1, 9), st.sampled_from([None, 50, 80, 200]))
def test_no_block_is_over_its_bounds(
    name: str, text: str, source: str, eval_id: str, entries: int, width: int | None
) -> None:
    """12 lines and 1,500 bytes hold for any text, and nothing in it steers a terminal."""
    gates = [a_failed_gate(name=name, expected=text, received=text, line=i + 1) for i in range(entries)]
    shown = block(a_result("failed", eval_id=eval_id, assertions=gates), Style(width=width), source=source)
    assert len(shown) <= MAX_LINES
    assert len("\n".join(shown).encode()) + 1 <= MAX_BYTES
    assert all(clean(line) == line for line in shown)
    assert shown[-1].startswith("  next: niceeval show @k3f7qm2x")


@given(_TEXT, _TEXT)
def test_no_error_block_is_over_its_bounds(message: str, trace: str) -> None:
    """The same holds for an error with a long message and long frames."""
    error = replace_error(a_timeout(), message, trace)
    shown = block(a_result("errored", error_info=error))
    assert len(shown) <= MAX_LINES
    assert len("\n".join(shown).encode()) + 1 <= MAX_BYTES


def replace_error(error: ErrorInfo, message: str, trace: str) -> ErrorInfo:
    return ErrorInfo(
        code=error.code, phase=error.phase, message=message, loc=error.loc, trace=trace * 3, next=error.next
    )


@pytest.mark.parametrize(
    ("source", "column"),
    [
        ('    t.called_tool("x")', 5),
        ("\t\tt.called_tool('x')", 3),
        ('    名字 = t.called_tool("x")', 10),
        ('    x = "👍", t.called_tool("x")', 14),
        ('    y = "' + "z" * 200 + '"; t.called_tool("x")', 213),
        ('    y = "' + "中" * 90 + '"; t.called_tool("x")', 103),
    ],
)
def test_the_caret_stands_under_the_call(source: str, column: int) -> None:
    """Wide characters, tabs and cuts do not move the caret away from what it marks."""
    shown, carets = excerpt(Style(), source, 7, column, 79)
    at = carets.index("^")
    position = 0
    for index, char in enumerate(shown):
        if position == at:
            assert shown[index:].startswith("t.called_tool")
            break
        position += cell_width(char)
    assert position == at
    assert carets.count("^") == len("t.called_tool")
    assert cell_width(shown) <= 79
    assert cell_width(carets) <= 79


@given(st.text(), st.integers(-2, 300), st.integers(20, 100))
def test_an_excerpt_is_never_wider_than_asked(source: str, column: int, cells: int) -> None:
    """Any source line, any column, any width."""
    for row in excerpt(Style(), source.replace("\n", " "), 7, column, cells):
        assert cell_width(row) <= cells


def test_source_that_cannot_be_had_is_left_out() -> None:
    """Without the file there is the place alone."""
    shown = block(a_result("failed", assertions=[a_failed_gate()]), source=None)
    assert not [line for line in shown if "│" in line]
    assert "evals/weather/brooklyn_eval.py:11:5" in shown[1]


def test_ascii_glyphs_are_used_throughout() -> None:
    """A stream without our glyphs gets none of them."""
    shown = block(a_result("failed", assertions=[a_failed_gate()]), replace(Style(width=80), glyphs=ASCII))
    assert "\n".join(shown).isascii()
