"""`Json`: a run as one document in the words of `--json`."""

from __future__ import annotations

import json
from pathlib import Path

from jsonschema import Draft202012Validator

from niceeval.reporters import Json, events_schema
from tests.unit.result_builders import a_failed_gate, a_result
from tests.unit.stored_runs import a_stored_run, report


def test_the_document_holds_counts_evals_and_attempts(tmp_path: Path) -> None:
    """An eval's outcome is the fold of its attempts."""
    results = [
        a_result("failed", eval_id="a", assertions=[a_failed_gate()]),
        a_result("passed", eval_id="a", attempt=1),
        a_result("skipped", eval_id="b", skip_reason="no key"),
    ]
    report(Json("report.json"), a_stored_run(tmp_path, results, status="passed", exit_code=0))
    document = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert (document["format"], document["schemaVersion"]) == ("niceeval.report", 1)
    assert (document["status"], document["exitCode"], document["failed"], document["passed"]) == ("passed", 0, 1, 1)
    found = [
        (item["evalId"], item["outcome"], [one["outcome"] for one in item["attempts"]]) for item in document["evals"]
    ]
    assert found == [("a", "passed", ["failed", "passed"]), ("b", "skipped", ["skipped"])]


def test_an_attempt_has_the_fields_of_its_event(tmp_path: Path) -> None:
    """So that one reader serves both."""
    report(Json("report.json"), a_stored_run(tmp_path, [a_result("failed", assertions=[a_failed_gate()])]))
    document = json.loads((tmp_path / "report.json").read_text("utf-8"))
    (item,) = document["evals"]
    event = {"type": "eval:complete", "experimentId": item["experimentId"], "evalId": item["evalId"]}
    Draft202012Validator(events_schema()).validate({**event, **item["attempts"][0]})


def test_an_empty_run_is_a_document_too(tmp_path: Path) -> None:
    """With no evals in it."""
    report(Json("report.json"), a_stored_run(tmp_path, []))
    assert json.loads((tmp_path / "report.json").read_text("utf-8"))["evals"] == []
