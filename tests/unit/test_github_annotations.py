"""`GitHubAnnotations`: commands that GitHub obeys, made of texts that it must not."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from niceeval._model.result import AttemptResult
from niceeval.reporters import GitHubAnnotations
from tests.unit.result_builders import a_failed_gate, a_result, a_timeout, an_assertion
from tests.unit.stored_runs import a_stored_run, report


def annotations(root: Path, results: Sequence[AttemptResult], **options: Any) -> list[str]:
    stream = io.StringIO()
    report(
        GitHubAnnotations(**{"environ": {"GITHUB_ACTIONS": "true"}, **options}, stream=stream),
        a_stored_run(root, results),
    )
    return stream.getvalue().splitlines()


def test_a_failure_is_on_its_line(tmp_path: Path) -> None:
    """File from the repository's root, line, column, title; then what the block says, on several lines."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "project").mkdir()
    (line,) = annotations(tmp_path / "project", [a_result("failed", assertions=[a_failed_gate()])])
    assert line.startswith(
        "::error file=project/evals/weather/brooklyn_eval.py,line=11,col=5,"
        "title=failed%3A weather/brooklyn (compare/bub-gpt-5.4)::"
    )
    assert "%0A  expected  1 call of get_weather" in line
    assert line.endswith("%0Aniceeval show @k3f7qm2x")


def test_an_error_is_where_it_happened(tmp_path: Path) -> None:
    """Without a repository, from the project's root."""
    (line,) = annotations(tmp_path, [a_result("errored", error_info=a_timeout())])
    assert line.startswith("::error file=evals/repo/fix_bug_eval.py,line=8,col=18,title=errored")


def test_only_evals_that_did_not_pass_have_one(tmp_path: Path) -> None:
    """One per eval, however many of its attempts failed."""
    results = [
        a_result("failed", eval_id="a"),
        a_result("failed", eval_id="a", attempt=1),
        a_result("failed", eval_id="b"),
        a_result("passed", eval_id="b", attempt=1),
        a_result("skipped", eval_id="c"),
    ]
    assert [line.split("title=")[1][:12] for line in annotations(tmp_path, results)] == ["failed%3A a "]


@pytest.mark.parametrize(
    ("options", "lines"),
    [({}, 1), ({"environ": {}}, 0), ({"environ": {"GITHUB_ACTIONS": ""}}, 0), ({"environ": {}, "always": True}, 1)],
)
def test_it_speaks_in_a_workflow_or_where_it_is_told_to(tmp_path: Path, options: dict[str, Any], lines: int) -> None:
    """Elsewhere nobody reads these lines."""
    assert len(annotations(tmp_path, [a_result("failed")], **options)) == lines


def test_more_than_github_shows_are_counted(tmp_path: Path) -> None:
    """A limit that GitHub has, and does not tell about."""
    lines = annotations(tmp_path, [a_result("failed", eval_id=f"sql/{number}") for number in range(14)])
    assert len(lines) == 11
    assert lines[-1] == "::notice title=niceeval::4 more did not pass: niceeval show"


def test_no_text_ends_a_command_or_starts_one(tmp_path: Path) -> None:
    """Line ends, percent signs, colons and commas are escaped; controls are spelled out."""
    hostile = "x,line=1::y%0A%\n::error::z\r\x1b[2J\u202e"
    results = [a_result("failed", eval_id="a,b:c%", assertions=[a_failed_gate(received=hostile)])]
    (line,) = annotations(tmp_path, results)
    properties, _, message = line.removeprefix("::error ").partition("::")
    assert properties.split(",")[-1].startswith("title=failed%3A a%2Cb%3Ac%25")
    assert "%250A%25" in message
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", line)


@pytest.mark.parametrize("file", ["../outside.py", "/etc/passwd"])
def test_a_file_outside_the_repository_is_not_named(tmp_path: Path, file: str) -> None:
    """GitHub could not show it."""
    (line,) = annotations(tmp_path, [a_result("failed", assertions=[an_assertion(file=file)])])
    assert line.startswith("::error title=")
