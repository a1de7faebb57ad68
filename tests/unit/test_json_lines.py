"""`--json`: each event's line, what the schema says of it, and how a line stays short."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from niceeval._base.errors import NiceevalError, Place
from niceeval._model.result import CarriedFrom, Retry
from niceeval._model.run_events import (
    BudgetExceeded,
    EarlyExit,
    ExperimentFailed,
    Interrupted,
    LiveEvent,
    NotStarted,
    Progress,
    RunNotice,
)
from niceeval._reporters.ndjson import Ndjson
from niceeval._reporters.records import LINE_BYTES
from niceeval.reporters import events_schema
from tests.unit.result_builders import (
    a_failed_gate,
    a_result,
    a_start,
    a_timeout,
    an_assertion,
    an_unanswered_gate,
    completed,
    key_of,
    saved,
    started,
    the_end,
)

GOLDEN = Path(__file__).parents[1] / "data" / "events.ndjson"
SCHEMA = Draft202012Validator(events_schema())


def lines_of(events: Iterable[LiveEvent], *, secret: str = "s3cret") -> list[bytes]:
    written: list[bytes] = []
    ndjson = Ndjson(
        written.append, redact=lambda text: text.replace(secret, "[redacted]"), rerun="niceeval exp compare"
    )
    for event in events:
        ndjson.handle(event)
    return written


def records_of(events: Iterable[LiveEvent]) -> list[dict[str, Any]]:
    """The lines decoded, each held to the schema."""
    records = [json.loads(line) for line in lines_of(events)]
    for record in records:
        SCHEMA.validate(record)
    return records


def a_problem() -> NiceevalError:
    return NiceevalError("no-eval", place=Place("evals/a_eval.py", 1, 1))


def every_kind() -> list[LiveEvent]:
    failed = a_result("failed", eval_id="sql/0003", assertions=[a_failed_gate(), an_assertion(outcome="passed")])
    soft = an_assertion(
        "closed_qa", severity="soft", threshold=0.8, optional=True, label="tone", group="style", detail="0.4 of 1"
    )
    unanswered = a_result(
        "errored", eval_id="sql/0004", cost=None, tokens=None, locator=None, assertions=[an_unanswered_gate(), soft]
    )
    timed_out = a_result("errored", eval_id="sql/0005", error="600s passed", error_info=a_timeout())
    skipped = a_result("skipped", eval_id="sql/0006", skip_reason="no key", tokens=None, cost=None)
    carried = a_result(
        eval_id="sql/0001", carried_from=CarriedFrom(run="2026-07-01T09-12-44-010Z", locator="@q6ya3ndh")
    )
    retried = a_result(eval_id="sql/0007", retries=(Retry(turn=0, wait_ms=1250, reason="429"),))
    results = [failed, unanswered, timed_out, skipped, retried]
    return [
        dataclasses.replace(a_start(), carried=1, budget=15.0),
        completed(carried),
        *(event for result in results for event in (started(result), completed(result))),
        EarlyExit(experiment_id="compare/bub-gpt-5.4", eval_id="sql/0004", after="errored", cancelled=(1,)),
        ExperimentFailed(experiment_id="compare/bub-gpt-5.4", error=a_problem(), not_started=3),
        BudgetExceeded(
            experiment_id="compare/bub-gpt-5.4",
            budget=4.0,
            spent=3.71,
            reserved=0.44,
            not_started=3,
        ),
        BudgetExceeded(experiment_id=None, budget=4.0, spent=0.0, reserved=0.0, not_started=3, error=a_problem()),
        NotStarted(
            experiment_id=None, eval_id="sql/0009", count=2, code="eval-fatal", message="EvalFatalError: no data"
        ),
        RunNotice(code="loop-blocked", level="warning", message="the event loop was blocked for 1.2s"),
        Interrupted(cancelled=2),
        saved(),
        the_end(
            [carried, *results],
            not_started=8,
            not_started_why=(("budget", 6), ("eval-fatal", 2)),
            cancelled=1,
            carried=1,
            problems=(a_problem(),),
            estimated_cost_usd=0.88,
        ),
    ]


def test_the_lines_are_these() -> None:
    """Names, types and order of every kind of line: consumers depend on them."""
    assert b"".join(lines_of(every_kind())).decode() == GOLDEN.read_text("utf-8")


def test_every_line_follows_the_schema() -> None:
    """And the golden lines are of every type that it names, but for the plan of --dry, which is no event."""
    types = {record["type"] for record in records_of(every_kind())}
    assert types | {"run:plan"} == {name for name in events_schema()["$defs"] if ":" in name}


def test_what_is_unknown_is_absent() -> None:
    """Never 0 and never null."""
    result = a_result(tokens=None, cost=None, locator=None)
    _, record = records_of([a_start(), completed(result)])
    assert not {"usage", "estimatedCostUSD", "locator", "error", "skipReason"} & set(record)


def test_an_attempt_that_could_not_be_stored_says_so() -> None:
    """Its result is nowhere else."""
    event = dataclasses.replace(completed(a_result()), stored=False)
    assert records_of([a_start(), event])[1]["stored"] is False


def test_progress_has_no_line() -> None:
    """It is for people who watch."""
    assert len(lines_of([a_start(), Progress(key=key_of(a_result()), phase="send", text="x")])) == 1


def test_the_summary_comes_last_and_once() -> None:
    """Whatever is told afterwards, and however often the end is asked for."""
    written: list[bytes] = []
    ndjson = Ndjson(written.append, redact=str, rerun="niceeval exp")
    for event in (a_start(), the_end([]), RunNotice(code="x", level="info", message="x")):
        ndjson.handle(event)
    ndjson.end("broke", 2)
    assert [json.loads(line)["type"] for line in written] == ["run:start", "run:summary"]


@pytest.mark.parametrize("status", ["incomplete", "interrupted", "broke"])
def test_a_run_that_is_cut_short_ends_with_what_is_known(status: Any) -> None:
    """Finished and not started still add up to what was planned."""
    written: list[bytes] = []
    ndjson = Ndjson(written.append, redact=str, rerun="niceeval exp compare")
    ndjson.handle(a_start())
    ndjson.handle(started(a_result("failed")))
    ndjson.end(status, 7, [a_problem()])
    record = json.loads(written[-1])
    SCHEMA.validate(record)
    assert (record["status"], record["exitCode"], record["notStarted"], record["passed"]) == (status, 7, 1, 0)
    assert record["problems"][0]["code"] == "no-eval"


def test_without_a_plan_the_summary_stands_alone() -> None:
    """Wrong usage: the problem, and no duration of a run that never was."""
    written: list[bytes] = []
    Ndjson(written.append, redact=str, rerun="niceeval exp").end("incomplete", 1, [a_problem()])
    (record,) = map(json.loads, written)
    SCHEMA.validate(record)
    assert record["problems"] == [
        {
            "code": "no-eval",
            "message": a_problem().message(),
            "file": "evals/a_eval.py",
            "line": 1,
            "column": 1,
            "next": a_problem().next_step(),
        }
    ]
    assert "durationMs" not in record


def test_problems_read_the_same_in_every_language(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON is for programs."""
    before = lines_of([the_end([], problems=(a_problem(),))])
    monkeypatch.setenv("NICEEVAL_LANG", "zh")
    assert lines_of([the_end([], problems=(a_problem(),))]) == before


def test_secrets_are_replaced_but_in_ids() -> None:
    """An id is a checked-in name, and has to stay one."""
    result = a_result("failed", eval_id="s3cret", assertions=[a_failed_gate(received="it is s3cret")])
    record = records_of([a_start(), completed(result)])[1]
    assert record["evalId"] == "s3cret"
    assert record["assertions"][0]["received"] == "it is [redacted]"


@given(st.text(alphabet=st.characters(), max_size=50))
def test_any_text_is_one_line_of_ascii(text: str) -> None:
    """No text ends a line early or steers a terminal; what can be encoded comes back as it was."""
    (_, line) = lines_of([a_start(), completed(a_result("errored", error="x", skip_reason=text))], secret="\0never")
    assert line.isascii()
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert all(0x20 <= byte < 0x7F for byte in line[:-1])
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert json.loads(line).get("skipReason") == whole


@pytest.mark.parametrize(
    ("number", "text"), [(1, "x" * 200_000), (500, "y" * 2_000), (5_000, "z"), (40, "界" * 2_000), (3_000, "\x00" * 50)]
)
def test_a_line_is_never_longer_than_64_kib(number: int, text: str) -> None:
    """Texts are cut first, then assertions, which are counted."""
    gates = [a_failed_gate(expected=text, received=text) for _ in range(number)]
    (_, line) = lines_of([a_start(), completed(a_result("failed", assertions=gates))])
    assert len(line) <= LINE_BYTES
    record = json.loads(line)
    SCHEMA.validate(record)
    assert len(record["assertions"]) + record.get("assertionsLeftOut", 0) == number
