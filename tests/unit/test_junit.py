"""`JUnit`: a file that CI systems read, that is red exactly where the run is not passed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from niceeval._base.errors import NiceevalError, Place, ResultsError
from niceeval._model.result import AttemptResult
from niceeval._reporters.junit import xml_attribute, xml_text
from niceeval.reporters import JUnit
from tests.unit.result_builders import (
    a_failed_gate,
    a_result,
    a_start,
    a_timeout,
    an_unanswered_gate,
    the_end,
)
from tests.unit.stored_runs import a_stored_run, report

SCHEMA = etree.XMLSchema(etree.parse(Path(__file__).parents[1] / "data" / "junit.xsd"))
HOSTILE = "\x00\x08\x0b\x1b[2J\x7f\x85\ud800\uffff ]]> <b>&amp; \"'\r\nnext \U0001f600 界"


def junit_of(root: Path, results: Sequence[AttemptResult], **end: Any) -> Any:
    """The run's report, valid as a whole, and in each of its suites."""
    report(JUnit("junit.xml"), a_stored_run(root, results, **end))
    return valid(root / "junit.xml")


def valid(path: Path) -> Any:
    tree = etree.parse(path)
    SCHEMA.assertValid(tree)
    for suite in tree.getroot():
        SCHEMA.assertValid(suite)
        assert int(suite.get("tests")) == len(suite.findall("testcase"))
        for attribute, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(attribute)) == len(suite.findall(f"testcase/{element}"))
    return tree.getroot()


def elements(root: Any) -> list[tuple[str, str | None]]:
    """Each test's name, and the element that says what became of it."""
    found = []
    for test in root.iter("testcase"):
        said = [child.tag for child in test if child.tag != "system-out"]
        found.append((test.get("name"), said[0] if said else None))
    return found


def test_each_verdict_has_its_element(tmp_path: Path) -> None:
    """Failed is a failure, errored an error, skipped skipped; a suite is an experiment, a test an attempt."""
    results = [
        a_result("failed", eval_id="a", assertions=[a_failed_gate()]),
        a_result("errored", eval_id="b", error_info=a_timeout()),
        a_result("errored", eval_id="c", assertions=[an_unanswered_gate()]),
        a_result("skipped", eval_id="d", skip_reason="no key"),
        a_result("passed", eval_id="e", experiment_id="other"),
    ]
    root = junit_of(tmp_path, results)
    assert [suite.get("name") for suite in root] == ["compare/bub-gpt-5.4", "other"]
    assert elements(root) == [
        ("a #1", "failure"),
        ("b #1", "error"),
        ("c #1", "error"),
        ("d #1", "skipped"),
        ("e #1", None),
    ]
    assert [test.get("classname") for test in root.iter("testcase")] == ["compare/bub-gpt-5.4"] * 4 + ["other"]
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("5", "1", "2")
    assert [error.get("type") for error in root.iter("error")] == ["timeout", "coverage-partial"]
    assert root.find(".//skipped").get("message") == "no key"


def test_a_failure_says_where_what_was_wanted_and_what_came(tmp_path: Path) -> None:
    """And the command that shows it."""
    (failure,) = junit_of(tmp_path, [a_result("failed", assertions=[a_failed_gate()])]).iter("failure")
    assert failure.get("type") == "gate"
    assert failure.get("message").startswith('called_tool("get_weather"): received 0 such calls')
    assert "evals/weather/brooklyn_eval.py:11:5" in failure.text
    assert "expected  1 call of get_weather" in failure.text
    assert failure.text.endswith("niceeval show @k3f7qm2x")


def test_properties_say_experiment_tokens_cost_and_locators(tmp_path: Path) -> None:
    """Of the suite as properties, of a test in the form that its output admits."""
    results = [a_result(eval_id="a"), a_result(eval_id="b", attempt=1, locator="@aaaaaaaa")]
    root = junit_of(tmp_path, results)
    properties = {item.get("name"): item.get("value") for item in root.iter("property")}
    assert properties == {
        "experiment": "compare/bub-gpt-5.4",
        "agent": "bub",
        "model": "gpt-5.4",
        "run": properties["run"],
        "tokens": "116000",
        "cost": "0.88",
        "locator a #1": "@k3f7qm2x",
        "locator b #2": "@aaaaaaaa",
    }
    assert root.find(".//system-out").text.splitlines() == [
        "[[PROPERTY|experiment=compare/bub-gpt-5.4]]",
        "[[PROPERTY|locator=@k3f7qm2x]]",
        "[[PROPERTY|tokens=58000]]",
        "[[PROPERTY|cost=0.44]]",
    ]


def test_a_sum_that_is_not_known_whole_is_left_out(tmp_path: Path) -> None:
    """A partial cost would read as the cost."""
    root = junit_of(tmp_path, [a_result(eval_id="a"), a_result(eval_id="b", cost=None, tokens=None)])
    assert not {"tokens", "cost"} & {item.get("name") for item in root.iter("property")}


def test_a_hostile_text_stays_text(tmp_path: Path) -> None:
    """Controls are gone, markup is escaped, and everything else is there."""
    results = [
        a_result("failed", eval_id="a", assertions=[a_failed_gate(name="x", received=HOSTILE.replace("\ud800", ""))]),
        a_result("errored", eval_id="b", error=HOSTILE.replace("\ud800", "")),
    ]
    root = junit_of(tmp_path, results)
    assert "[2J ]]> <b>&amp; \"'\nnext \U0001f600 界" in root.find(".//failure").text
    raw = (tmp_path / "junit.xml").read_text("utf-8")
    assert not any(ord(char) < 0x20 and char != "\n" for char in raw)
    assert "\x7f" not in raw


@given(st.text(alphabet=st.characters()))
def test_any_text_gives_xml(text: str) -> None:
    """Both in an attribute and between tags, with every character that XML can hold but the controls."""
    root = etree.fromstring(f"<a b={xml_attribute(text)}>{xml_text(text)}</a>".encode())
    kept = "".join(
        char
        for char in text.replace("\r\n", "\n").replace("\r", "\n")
        if char in "\t\n"
        or (
            ord(char) >= 0x20
            and not 0x7F <= ord(char) < 0xA0
            and not 0xD800 <= ord(char) < 0xE000
            and ord(char) not in (0xFFFE, 0xFFFF)
        )
    )
    assert (root.text or "") == kept


def test_an_attempt_that_its_eval_overcame_counts_as_passed(tmp_path: Path) -> None:
    """It is shown as flaky: the exit code of such a run is 0."""
    results = [
        a_result("failed", eval_id="a", assertions=[a_failed_gate()]),
        a_result("errored", eval_id="a", attempt=1, error_info=a_timeout()),
        a_result("passed", eval_id="a", attempt=2),
    ]
    root = junit_of(tmp_path, results)
    assert elements(root) == [("a #1", "flakyFailure"), ("a #2", "flakyError"), ("a #3", None)]
    assert (root.get("failures"), root.get("errors")) == ("0", "0")


@pytest.mark.parametrize(
    ("end", "type"),
    [
        (
            {"problems": (NiceevalError("no-eval", place=Place("evals/a_eval.py", 1, 1)),), "status": "incomplete"},
            "no-eval",
        ),
        ({"not_started": 3, "status": "incomplete"}, "not-started"),
        ({"not_started": 3, "status": "interrupted"}, "interrupted"),
        ({"status": "interrupted"}, "interrupted"),
    ],
)
def test_what_no_attempt_says_is_an_error_of_the_run(tmp_path: Path, end: dict[str, Any], type: str) -> None:
    """A run that is not passed is never green in CI."""
    root = junit_of(tmp_path, [a_result()], **end)
    (error,) = root.iter("error")
    assert error.get("type") == type
    assert root[-1].get("name") == "niceeval"


def test_a_run_without_a_summary_is_reported_from_its_attempts(tmp_path: Path) -> None:
    """The disk was full, say: what was stored is still told."""
    results = [a_result(eval_id="b"), a_result(eval_id="a", attempt=1), a_result("failed", eval_id="a")]
    root = junit_of(tmp_path, results, saved=False)
    assert [name for name, _ in elements(root)] == ["a #1", "a #2", "b #1"]


def test_nothing_that_ran_is_a_report_too(tmp_path: Path) -> None:
    """CI that waits for the file finds it, with the reason."""
    problem = NiceevalError("no-eval", place=Place("evals/a_eval.py", 1, 1))
    start = dataclasses.replace(a_start(), root=str(tmp_path), planned=0)
    report(JUnit("junit.xml"), [start, the_end([], status="incomplete", problems=(problem,))])
    assert elements(valid(tmp_path / "junit.xml")) == [("no-eval evals/a_eval.py:1:1", "error")]


def test_the_file_of_an_earlier_run_is_not_taken_for_this_ones(tmp_path: Path) -> None:
    """It is removed when a run starts, and written whole at the end."""
    target = tmp_path / "out" / "junit.xml"
    target.parent.mkdir()
    target.write_text("old")
    reporter = JUnit("out/junit.xml")
    start, *rest = a_stored_run(tmp_path, [a_result()])
    reporter.handle(start)
    assert list(target.parent.iterdir()) == []
    report(reporter, rest)
    assert [path.name for path in target.parent.iterdir()] == ["junit.xml"]


def test_a_folder_that_cannot_be_written_is_said_at_the_start(tmp_path: Path) -> None:
    """Before anything was spent."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError) as raised:
        JUnit("file/junit.xml").handle(a_stored_run(tmp_path, [])[0])
    assert raised.value.code == "cannot-write"


def test_a_second_run_with_the_same_reporter_starts_anew(tmp_path: Path) -> None:
    """Nothing of the first is in the second's file."""
    reporter = JUnit("junit.xml")
    report(reporter, a_stored_run(tmp_path, [a_result(eval_id="a")]))
    report(reporter, a_stored_run(tmp_path, [a_result(eval_id="b")]))
    assert elements(valid(tmp_path / "junit.xml")) == [("b #1", None)]
