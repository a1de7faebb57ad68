"""Whole runs that a budget stops, a service refuses or a fatal error dooms: every form of them tells one story."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.journey.whole_runs import Done, project, run

pytestmark = pytest.mark.slow

BOTS = """
from pathlib import Path

from niceeval import ExperimentFatalError
from niceeval.adapter import (
    FailureClass, Message, RetryableSendError, Turn, Usage, complete_evidence_coverage, define_agent,
)

LOG = Path(__file__).parents[1] / "sends.log"

class Busy(Exception):
    pass

def bot(cost=None, refuse=0, busy=0, fatal=None):
    refused = {}

    async def send(input, ctx):
        key = (ctx.eval_id, ctx.attempt, input.text)
        with LOG.open("a") as log:
            log.write(f"{ctx.eval_id} {input.text}\\n")
        if fatal is not None and ctx.eval_id == fatal:
            raise ExperimentFatalError("the key is wrong")
        refused[key] = refused.get(key, 0) + 1
        if refused[key] <= refuse:
            raise RetryableSendError("429", retry_after=0.02)
        if refused[key] <= busy:
            raise Busy("come back later")
        return Turn(
            events=[Message(role="assistant", text="ok")],
            usage=Usage(input_tokens=10, output_tokens=5, cost_usd=cost),
        )

    def classify(error):
        return FailureClass(retryable=True, reason="busy") if isinstance(error, Busy) else None

    return define_agent(
        name="bot", evidence_coverage=complete_evidence_coverage, send=send, classify_failure=classify
    )
"""

EVALS = """
from niceeval import define_eval

@define_eval(cases=[{}, {}, {}, {}, {}, {}])
async def case(t, row):
    turn = await t.send("go")
    turn.succeeded()
"""


def experiment(arguments: str, bot: str = "") -> str:
    return f"""
from adapters.bots import bot
from niceeval import define_experiment

experiment = define_experiment(agent=bot({bot}), {arguments})
"""


def a_project(root: Path, **experiments: str) -> Path:
    files = {"adapters/bots.py": BOTS, "evals/case_eval.py": EVALS}
    files |= {f"experiments/{name}.py": text for name, text in experiments.items()}
    return project(root, files)


def sends(root: Path) -> list[str]:
    return (root / "sends.log").read_text("utf-8").splitlines()


def json_lines(done: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.out.splitlines()]


def accounted(record: dict[str, Any]) -> int:
    """Finished, not started and cancelled attempts."""
    names = ("passed", "failed", "errored", "skipped", "notStarted", "cancelled")
    return sum(int(record.get(name, 0)) for name in names)


@pytest.mark.parametrize("where", ["experiment", "command line"])
def test_a_budget_stops_a_run_and_the_next_one_goes_on(tmp_path: Path, where: str) -> None:
    """Text, `run:summary`, summary.json and exit code agree; what was carried costs the next run nothing."""
    own = where == "experiment"
    root = a_project(tmp_path, local=experiment('model="m"' + (", budget=3" if own else ""), "cost=1.0"))
    options = () if own else ("--budget", "3")
    first = run(root, "local", *options)
    assert first.code == 1
    scope, command = ("local", "niceeval exp local --budget 6") if own else ("the run", "niceeval exp local --budget 6")
    assert f"budget: {scope} stopped at $3.00 + $1.00 of $3.00; 3 not started\n  next: {command}\n" in first.err
    assert "attempts  3 passed · 0 failed · 3 not started (budget)" in first.out
    assert first.out.splitlines()[-1] == "INCOMPLETE (exit 1)"
    assert (first.summary["passed"], first.summary["notStarted"], len(sends(root))) == (3, 3, 3)
    assert accounted(first.summary) == 6

    second = run(root, "local", "--json", *options)
    *_, end = lines = json_lines(second)
    assert second.code == 0
    assert (lines[0]["planned"], lines[0]["carried"], lines[0].get("budget")) == (6, 3, None if own else 3.0)
    assert (end["status"], end["passed"], end["carried"], end["notStarted"]) == ("passed", 6, 3, 0)
    assert (end["estimatedCostUSD"], accounted(end), len(sends(root))) == (3.0, 6, 6)
    assert (second.summary["carried"], second.summary["estimatedCostUSD"]) == (3, 6.0)


def test_the_printed_command_runs_and_finishes_the_work(tmp_path: Path) -> None:
    """As it is printed, from the same folder."""
    root = a_project(tmp_path, local=experiment('model="m"', "cost=1.0"))
    first = run(root, "local", "--budget", "3")
    found = re.search(r"budget: .*\n  next: niceeval exp (.*)\n", first.err)
    assert found is not None
    second = run(root, *found[1].split())
    assert (second.code, second.summary["passed"], len(sends(root))) == (0, 6, 6)


@pytest.mark.parametrize("as_json", [False, True])
def test_without_a_price_nothing_more_is_spent(tmp_path: Path, as_json: bool) -> None:
    """`budget-unenforceable` with the place of the budget and the edit; the cost is a word, never `$0.00`."""
    root = a_project(tmp_path, local=experiment('model="acme-1", budget=3'))
    done = run(root, "local", *(["--json"] if as_json else []))
    assert done.err.splitlines()[-3:] == [
        "error[budget-unenforceable]: the first attempt has no cost: model acme-1 has no price",
        "  experiments/local.py:4:61",
        '  next: pricing={"acme-1": Price(...)} in niceeval_config.py, or drop the budget',
    ]
    assert (done.code, len(sends(root)), accounted(done.summary)) == (1, 1, 6)
    assert "$0" not in done.out + done.err
    assert "estimatedCostUSD" not in done.summary
    if as_json:
        (stop,) = [one for one in json_lines(done) if one["type"] == "run:budgetExceeded"]
        assert (stop["error"]["code"], stop["error"]["line"], stop["notStarted"]) == ("budget-unenforceable", 4, 5)
        end = json_lines(done)[-1]
        assert (end["notStarted"], end["notStartedWhy"], accounted(end)) == (5, {"budget-unenforceable": 5}, 6)
        assert [problem["code"] for problem in end["problems"]] == ["budget-unenforceable"]
        assert "estimatedCostUSD" not in end
    else:
        assert "cost unknown" in done.out
        assert "5 not started (budget-unenforceable)" in done.out


def test_a_price_in_the_configuration_is_the_edit_that_helps(tmp_path: Path) -> None:
    """The one that the error names."""
    root = a_project(tmp_path, local=experiment('model="acme-1", budget=3'))
    config = "from niceeval import Price, define_config\n"
    config += 'config = define_config(pricing={"acme-*": Price(input_per_mtok=1000, output_per_mtok=2000)})\n'
    (root / "niceeval_config.py").write_text(config)
    done = run(root, "local")
    assert (done.code, done.summary["passed"], done.summary["estimatedCostUSD"]) == (0, 6, 0.12)


@pytest.mark.parametrize(
    ("bot", "reason"), [("cost=1.0, refuse=2", "429"), ("cost=1.0, busy=2", "busy")], ids=["the error", "a classifier"]
)
def test_a_service_that_refuses_is_asked_again(tmp_path: Path, bot: str, reason: str) -> None:
    """It sees each input three times; every result says so, and costs one turn."""
    root = a_project(tmp_path, local=experiment('model="m"', bot))
    done = run(root, "local", "case/0000", "case/0001")
    assert (done.code, len(sends(root)), done.summary["estimatedCostUSD"]) == (0, 6, 2.0)
    for result in done.results.values():
        assert [(one["turn"], one["reason"]) for one in result["retries"]] == [(0, reason)] * 2
    if reason == "429":
        assert {one["waitMs"] for result in done.results.values() for one in result["retries"]} == {20}


def test_a_service_that_never_accepts_ends_the_attempt(tmp_path: Path) -> None:
    """After four tries of the send; in the result, in the JSON lines, and nothing was spent."""
    root = a_project(tmp_path, local=experiment('model="m"', "cost=1.0, refuse=99"))
    done = run(root, "local", "case/0000", "--json", "--budget", "5")
    (complete,) = [one for one in json_lines(done) if one["type"] == "eval:complete"]
    assert (done.code, len(sends(root))) == (1, 4)
    assert (complete["error"]["code"], complete["error"]["message"]) == ("adapter-error", "RetryableSendError: 429")
    assert [one["waitMs"] for one in complete["retries"]] == [20, 20, 20]
    assert "estimatedCostUSD" not in complete
    assert [one for one in json_lines(done) if one["type"] == "run:budgetExceeded"] == []


def test_a_fatal_error_is_said_with_its_cause_and_its_count(tmp_path: Path) -> None:
    """The second of six evals finds that the key is wrong; four are not started."""
    root = a_project(tmp_path, local=experiment('model="m"', 'cost=1.0, fatal="case/0001"'))
    done = run(root, "local", "--max-concurrency", "1")
    assert done.code == 1
    why = "experiment-fatal: local stopped: ExperimentFatalError: the key is wrong; 4 not started"
    assert why in done.err.splitlines()
    assert "attempts  1 passed · 0 failed · 1 errored · 4 not started (experiment-fatal)" in done.out
    assert done.out.splitlines()[-1] == "ERRORED (exit 1)"
    assert done.error("case/0001")[0] == "experiment-fatal"
    assert accounted(done.summary) == 6
