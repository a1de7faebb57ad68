"""`Markdown`: a comment for a pull request, whatever agents and projects have written."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from niceeval._base.errors import NiceevalError
from niceeval._model.result import AttemptResult
from niceeval._reporters.markdown import MAX_BYTES, code, html_text
from niceeval.reporters import Markdown
from tests.unit.result_builders import a_failed_gate, a_result, a_timeout
from tests.unit.stored_runs import a_stored_run, report

HOSTILE = "</pre><script>x</script> @someone #12 [a](https://e.example) | `` ``` \n\n# head\n| a | b |\n::error::x"


def markdown_of(root: Path, results: Sequence[AttemptResult], **end: Any) -> str:
    report(Markdown("report.md"), a_stored_run(root, results, **end))
    return (root / "report.md").read_text("utf-8")


def test_headline_totals_and_a_row_per_experiment(tmp_path: Path) -> None:
    """Passed evals of those judged, attempts, errored, means and cost."""
    results = [
        a_result("failed", eval_id="a", assertions=[a_failed_gate()]),
        a_result("passed", eval_id="a", attempt=1),
        a_result("errored", eval_id="b", error_info=a_timeout()),
        a_result("skipped", eval_id="c", tokens=None, cost=None),
        a_result("passed", eval_id="a", experiment_id="other", cost=None),
    ]
    lines = markdown_of(tmp_path, results, status="errored", estimated_cost_usd=1.32).splitlines()
    assert lines[:2] == ["<!-- niceeval -->", "## niceeval: ERRORED"]
    assert "**evals** 2 passed · 0 failed · 1 errored · 1 skipped  " in lines
    assert "**attempts** 2 passed · 1 failed · 1 errored · 1 skipped  " in lines
    assert any(line.startswith("6m 31s · $1.32 · run `") for line in lines)
    assert "| `compare/bub-gpt-5.4` | `bub, gpt-5.4` | 1/2 | 1/3 | 1 | 34s | 58k tok | $0.44 |" in lines
    assert "| `other` | `bub, gpt-5.4` | 1/1 | 1/1 | 0 | 34s | 58k tok | cost unknown |" in lines


def test_what_did_not_pass_is_in_folds_with_expected_and_received(tmp_path: Path) -> None:
    """Failed first, then errored; an eval that passed in the end is not among them."""
    results = [
        a_result("errored", eval_id="b", error_info=a_timeout()),
        a_result("failed", eval_id="c", assertions=[a_failed_gate()]),
        a_result("failed", eval_id="d"),
        a_result("passed", eval_id="d", attempt=1),
    ]
    text = markdown_of(tmp_path, results)
    folds = re.findall(r"<summary>(.*?)</summary>", text)
    assert [re.sub("<.*?>", "", html.unescape(fold)) for fold in folds] == [
        "✗ failed c · compare/bub-gpt-5.4 · @k3f7qm2x, 0/1 passed",
        "! errored b · compare/bub-gpt-5.4 · @k3f7qm2x, 0/1 passed",
    ]
    assert "expected  1 call of get_weather" in text
    assert "received  0 such calls" in text
    assert "timeout" not in folds[0]


def test_a_passed_run_has_no_such_part(tmp_path: Path) -> None:
    """Headline and table are the whole comment."""
    assert "Not passed" not in markdown_of(tmp_path, [a_result()])


def test_untrusted_text_cannot_leave_its_place(tmp_path: Path) -> None:
    """No tag, mention, reference, link, row or heading of somebody else's."""
    result = a_result(
        "failed", eval_id="a", assertions=[a_failed_gate(name=HOSTILE, expected=HOSTILE, received=HOSTILE)]
    )
    text = markdown_of(tmp_path, [result], problems=(NiceevalError("usage", problem=HOSTILE, command=""),))
    assert set(re.findall(r"</?([a-z]+)", text)) == {"details", "summary", "code", "pre"}
    assert text.count("<pre>") == text.count("</pre>") == 2
    assert not re.search(r"@someone|(?<!&)#12|\]\(|https://", text)
    assert [line for line in text.splitlines() if line.startswith(("#", "|"))] == [
        "## niceeval: FAILED",
        *[line for line in text.splitlines() if line.startswith(("| experiment", "|---", "| `compare"))],
        "### Not passed",
    ]
    inside = "".join(re.findall(r"<pre>(.*?)</pre>", text, re.DOTALL))
    assert "</pre><script>x</script> @someone #12 [a](https://e.example) |" in html.unescape(inside)


@given(st.text(alphabet=st.characters(), max_size=40))
def test_a_name_is_one_code_span_and_one_cell(text: str) -> None:
    """Delimiters are longer than any run of backticks inside; no bar, no line end."""
    span = code(text)
    ticks = re.match("`+", span)
    assert ticks is not None
    inside = span[len(ticks[0]) : -len(ticks[0])]
    assert span.endswith(ticks[0])
    assert not re.search(rf"(?<!`){ticks[0]}(?!`)", inside)
    assert "|" not in span
    assert len(span.splitlines()) == 1


@given(st.text())
def test_html_text_comes_back_as_it_was(text: str) -> None:
    """And has no character that a reader of HTML or Markdown acts upon."""
    said = html_text(text)
    assert not re.search(r"[<>@|`\[\]]|#(?!\d+;)|://", said)
    clean = text.replace("\x00", "")
    assert html.unescape(html_text(clean)) == clean


@pytest.mark.parametrize("text", ["x" * 5_000, "界" * 5_000, "<@|" * 2_000])
def test_it_is_never_longer_than_a_comment_may_be(tmp_path: Path, text: str) -> None:
    """What is left out is counted, with the command that shows it."""
    results = [
        a_result("failed", eval_id=f"sql/{number:04d}", assertions=[a_failed_gate(received=text)])
        for number in range(200)
    ]
    said = markdown_of(tmp_path, results)
    assert len(said.encode()) <= MAX_BYTES
    shown = said.count("<details>")
    assert 0 < shown < 200
    assert said.splitlines()[-1] == f"+ {200 - shown} more: `niceeval show`"


def test_many_experiments_are_counted(tmp_path: Path) -> None:
    """Rows end at fifty."""
    text = markdown_of(tmp_path, [a_result(experiment_id=f"x/{number:03d}") for number in range(60)])
    assert len(re.findall(r"^\| `x/", text, re.MULTILINE)) == 50
    assert "+ 10 more experiments" in text
