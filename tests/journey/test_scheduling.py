"""Which attempts run when: limits, order, early exit, timeouts, hooks, and nothing that grows with their number."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from niceeval._cli.main import entry
from niceeval._record.writer import SealedAttempt
from niceeval._run.attempt import FinishedAttempt
from niceeval._run.seal import seal
from tests.journey.whole_runs import summary
from tests.unit.project_files import forget_adapters, write_files

AGENT = """
import asyncio
import os
import threading
from collections import Counter

from niceeval.adapter import Turn, complete_evidence_coverage, define_agent

LOG = []
RUNNING = Counter()
MOST = Counter()
SEEN = {}

def count(who, by):
    RUNNING[who] += by
    RUNNING["all"] += by
    MOST[who] = max(MOST[who], RUNNING[who])
    MOST["all"] = max(MOST["all"], RUNNING["all"])

async def send(input, ctx):
    LOG.append(("send", ctx.experiment_id, ctx.eval_id, ctx.attempt))
    count(ctx.experiment_id, 1)
    try:
        await asyncio.sleep(float(input.text))
    finally:
        count(ctx.experiment_id, -1)
    return Turn(status=ctx.flags.get("status", "completed"))

async def by_attempt(input, ctx):
    LOG.append(("send", ctx.experiment_id, ctx.eval_id, ctx.attempt))
    what = ctx.flags["attempts"][ctx.attempt]
    if what == "hangs":
        await asyncio.sleep(1000)
    if what == "raises":
        raise ValueError("down")
    return Turn(status=what)

def measure(input, ctx):
    number = len(LOG)
    LOG.append(number)
    if number in (200, 1900):
        fds = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        SEEN[number] = (len(asyncio.all_tasks(LOOP[0])) if LOOP else 0, threading.active_count(), fds)
    return Turn()

LOOP = []

async def measure_async(input, ctx):
    LOOP[:] = [asyncio.get_running_loop()]
    return measure(input, ctx)

async def teardown(ctx):
    LOG.append(("teardown", ctx.experiment_id, ctx.eval_id, ctx.attempt))

def up():
    LOG.append("up")

async def down():
    await asyncio.sleep(0)
    LOG.append("down")

def version():
    LOG.append("version")
    return "build 7"

def bot(send=send, **more):
    return define_agent(name="bot", evidence_coverage=complete_evidence_coverage, send=send, **more)
"""

EXPERIMENT = """
from adapters import counting
from adapters.counting import bot
from niceeval import define_experiment

experiment = define_experiment({arguments})
"""

EVAL = """
from niceeval import define_eval

@define_eval(cases={cases}{more})
async def e(t, seconds):
    (await t.send(str(seconds))).succeeded()
"""


def _experiment(**arguments: str) -> str:
    given = {"agent": "bot()", **arguments}
    return EXPERIMENT.format(arguments=", ".join(f"{name}={value}" for name, value in given.items()))


def _evals(seconds: Sequence[float], more: str = "") -> str:
    return EVAL.format(cases=repr({f"{number:04}": one for number, one in enumerate(seconds)}), more=more)


@dataclass(frozen=True)
class Ran:
    """One run in this process: its exit code, `summary.json`, and the agent's module with what it has noted."""

    code: int
    summary: dict[str, Any]
    agent: Any
    said: str

    @property
    def results(self) -> list[tuple[str, str, int, str]]:
        """Experiment, eval, attempt and outcome, in the order they are stored."""
        return [(one["experimentId"], one["id"], one["attempt"], one["outcome"]) for one in self.summary["results"]]

    @property
    def accounted(self) -> int:
        """Finished, not started and cancelled attempts together."""
        left_out: int = self.summary.get("notStarted", 0) + self.summary.get("cancelled", 0)
        return len(self.results) + left_out

    def noted(self, kind: str) -> list[tuple[Any, ...]]:
        """What the agent has noted of one kind, in order."""
        return [entry[1:] for entry in self.agent.LOG if isinstance(entry, tuple) and entry[0] == kind]


Run = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `niceeval exp` in this process on a project of these files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def command(files: dict[str, str], *arguments: str) -> Ran:
        forget_adapters()
        write_files(tmp_path, {"adapters/counting.py": AGENT, **files})
        code = entry(["exp", *arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Ran(code, summary(tmp_path), sys.modules["adapters.counting"], captured.out + captured.err)

    return command


def test_no_more_attempts_run_at_once_than_the_run_allows(run: Run) -> None:
    """The limit is reached and never passed."""
    files = {
        "evals/e_eval.py": _evals([0.005] * 40),
        "experiments/a.py": _experiment(),
        "experiments/b.py": _experiment(),
    }
    ran = run(files, "--max-concurrency", "4")
    assert ran.agent.MOST["all"] == 4
    assert len(ran.results) == 80


def test_an_experiment_has_a_limit_of_its_own(run: Run) -> None:
    """It holds for that experiment alone."""
    files = {
        "evals/e_eval.py": _evals([0.005] * 20),
        "experiments/narrow.py": _experiment(max_concurrency="2"),
        "experiments/wide.py": _experiment(),
    }
    ran = run(files, "--max-concurrency", "10")
    assert ran.agent.MOST["narrow"] == 2
    assert 2 < ran.agent.MOST["wide"] <= 10


def test_a_narrow_experiment_does_not_starve_the_others(run: Run) -> None:
    """The slow ones of an experiment that runs one at a time, planned first, do not hold the permits of the run."""
    files = {
        "evals/slow_eval.py": _evals([0.1] * 8),
        "evals/quick_eval.py": _evals([0.0] * 30),
        "experiments/a.py": _experiment(max_concurrency="1", evals='["slow"]'),
        "experiments/b.py": _experiment(evals='["quick"]'),
    }
    ran = run(files, "--max-concurrency", "3")
    order = [experiment for experiment, *_ in ran.noted("send")]
    assert Counter(order) == {"a": 8, "b": 30}
    assert order[-4:] == ["a"] * 4


def test_results_are_stored_in_discovery_order(run: Run) -> None:
    """Whatever order they finish in: experiment, then eval, then attempt."""
    seconds = [0.05, 0.0, 0.03, 0.01, 0.04, 0.0, 0.02]
    files = {
        "evals/e_eval.py": _evals(seconds),
        "experiments/a.py": _experiment(runs="2", early_exit="False"),
        "experiments/b.py": _experiment(),
    }
    ran = run(files, "--max-concurrency", "20")
    wanted = [("a", f"e/{case:04}", attempt) for case in range(7) for attempt in range(2)]
    wanted += [("b", f"e/{case:04}", 0) for case in range(7)]
    assert [result[:3] for result in ran.results] == wanted


ATTEMPTS = "{'attempts': %r}"


def _by_attempt(*what: str, **more: str) -> dict[str, str]:
    given = {"runs": str(len(what)), "flags": ATTEMPTS % (list(what),), **more}
    return {
        "evals/e_eval.py": _evals([0]),
        "experiments/x.py": _experiment(agent="bot(counting.by_attempt, teardown=counting.teardown)", **given),
    }


def test_a_pass_cancels_the_evals_other_attempts(run: Run) -> None:
    """They are torn down, leave no result, and are counted; the result that cut the sample short is marked."""
    ran = run(_by_attempt("completed", "hangs", "hangs", "hangs"))
    assert ran.code == 0
    assert ran.results == [("x", "e/0000", 0, "passed")]
    assert ran.summary["results"][0]["earlyExited"] is True
    assert ran.summary["cancelled"] == 3
    assert len(ran.noted("teardown")) == len(ran.noted("send"))
    assert ran.accounted == 4


def test_a_pass_keeps_those_that_wait_from_starting(run: Run) -> None:
    """One after the other, nothing but the first is sent."""
    ran = run(_by_attempt("completed", "hangs", "hangs"), "--max-concurrency", "1")
    assert len(ran.noted("send")) == 1
    assert (len(ran.results), ran.accounted) == (1, 3)


def test_an_error_cancels_the_others_too(run: Run) -> None:
    """It would repeat and cost the same."""
    ran = run(_by_attempt("raises", "hangs", "hangs"))
    assert ran.code == 1
    assert ran.results == [("x", "e/0000", 0, "errored")]
    assert (ran.summary["cancelled"], ran.accounted) == (2, 3)


def test_a_failure_cancels_nothing(run: Run) -> None:
    """Another attempt may pass; then it is that pass that ends the sample."""
    ran = run(_by_attempt("failed", "failed", "completed", "hangs"), "--max-concurrency", "1")
    assert [outcome for *_, outcome in ran.results] == ["failed", "failed", "passed"]
    assert ran.accounted == 4


@pytest.mark.parametrize("how", ["experiment", "flag"])
def test_without_early_exit_every_attempt_runs(run: Run, how: str) -> None:
    """Set in the experiment or on the command line."""
    more = {"early_exit": "False"} if how == "experiment" else {}
    ran = run(_by_attempt("completed", "raises", "completed", **more), *(["--no-early-exit"] if how == "flag" else []))
    assert [outcome for *_, outcome in ran.results] == ["passed", "errored", "passed"]
    assert not any("earlyExited" in result for result in ran.summary["results"])


def test_early_exit_of_one_eval_leaves_the_others_alone(run: Run) -> None:
    """Neither another eval nor the same eval under another experiment."""
    files = {
        "evals/e_eval.py": _evals([0.0, 0.02]),
        "experiments/a.py": _experiment(runs="3"),
        "experiments/b.py": _experiment(runs="2", early_exit="False"),
    }
    ran = run(files, "--max-concurrency", "1")
    kept = Counter((experiment, eval_id) for experiment, eval_id, *_ in ran.results)
    assert kept == {("a", "e/0000"): 1, ("a", "e/0001"): 1, ("b", "e/0000"): 2, ("b", "e/0001"): 2}
    assert ran.accounted == 10


TIMEOUTS = {
    "default": ({}, 600.0),
    "config": ({"config": 500}, 500.0),
    "experiment": ({"config": 500, "experiment": 400}, 400.0),
    "eval": ({"config": 500, "experiment": 400, "eval": 300}, 300.0),
    "flag": ({"config": 500, "experiment": 400, "eval": 300, "flag": 200}, 200.0),
}


@pytest.mark.parametrize(("given", "wanted"), TIMEOUTS.values(), ids=TIMEOUTS)
def test_the_nearest_timeout_holds(run: Run, given: dict[str, int], wanted: float) -> None:
    """Command line, eval, experiment, configuration, default."""
    config = f"timeout={given['config']}" if "config" in given else ""
    files = {
        "niceeval_config.py": f"from niceeval import define_config\n\nconfig = define_config({config})\n",
        "evals/e_eval.py": _evals([0], f", timeout={given['eval']}" if "eval" in given else ""),
        "experiments/x.py": _experiment(**({"timeout": str(given["experiment"])} if "experiment" in given else {})),
    }
    ran = run(files, *(("--timeout", str(given["flag"])) if "flag" in given else ()))
    assert ran.summary["results"][0]["experiment"]["timeout"] == wanted


def test_an_experiments_hooks_run_once(run: Run) -> None:
    """Setup before the first of its attempts, teardown after the last, however many there are at a time."""
    files = {
        "evals/e_eval.py": _evals([0.002] * 12),
        "experiments/x.py": _experiment(setup="counting.up", teardown="counting.down"),
    }
    ran = run(files, "--max-concurrency", "5")
    log = [entry if isinstance(entry, str) else entry[0] for entry in ran.agent.LOG]
    assert log == ["up", *["send"] * 12, "down"]


def test_an_agents_version_is_asked_once_and_stored(run: Run) -> None:
    """A callable's text stands in every result."""
    files = {
        "evals/e_eval.py": _evals([0.0] * 3),
        "experiments/x.py": _experiment(agent="bot(version=counting.version)"),
    }
    ran = run(files)
    assert {result["experiment"]["agentVersion"] for result in ran.summary["results"]} == {"build 7"}
    assert ran.agent.LOG.count("version") == 1


@pytest.mark.slow
@pytest.mark.parametrize("send", ["measure", "measure_async"])
def test_nothing_grows_with_the_number_of_attempts(run: Run, send: str) -> None:
    """Tasks, threads and open files are after 1,900 attempts what they were after 200."""
    files = {"evals/e_eval.py": _evals([0.0] * 2000), "experiments/x.py": _experiment(agent=f"bot(counting.{send})")}
    ran = run(files, "--quiet", "--max-concurrency", "8")
    assert len(ran.results) == 2000
    early, late = ran.agent.SEEN[200], ran.agent.SEEN[1900]
    # Each attempt under way has a few of each, and how many are is a matter of the moment.
    assert all(after <= before + 8 * 6 for before, after in zip(early, late, strict=True)), (early, late)


def test_a_fault_of_our_own_is_one_attempts_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever keeps niceeval from sealing one attempt, the others are stored, and the run says that it broke."""

    def sometimes(finished: FinishedAttempt, **how: Any) -> SealedAttempt:
        if finished.plan.eval.id == "e/0002":
            raise TypeError("not our day")
        return seal(finished, **how)

    monkeypatch.setattr("niceeval._run.run.seal", sometimes)
    ran = run({"evals/e_eval.py": _evals([0.01] * 6), "experiments/x.py": _experiment()})
    assert ran.code == 1
    assert [eval_id for _, eval_id, *_ in ran.results] == [f"e/{case:04}" for case in (0, 1, 3, 4, 5)]
    assert ran.accounted == 6
    assert "niceeval broke: x e/0002 0: TypeError: not our day" in ran.said
