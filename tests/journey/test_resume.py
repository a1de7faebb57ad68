"""Runs that were killed, and what the next one makes of them: what was sealed is never run again."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from niceeval.results import open_results
from tests.journey.carry_project import CarryProject, enter
from tests.journey.whole_runs import start, wait_for

AGENT = """
import asyncio
import os

from niceeval.adapter import Turn, complete_evidence_coverage, define_agent

async def send(input, ctx):
    with open("calls.txt", "a") as calls:
        calls.write(f"{ctx.experiment_id} {ctx.eval_id} {ctx.attempt}\\n")
    hold = os.getcwd() + ".hold"
    if os.path.exists(hold) and ctx.eval_id in open(hold).read().split():
        await asyncio.sleep(1000)
    said = input.text
    if said == "errored":
        raise ValueError("down")
    return Turn(status="failed" if said == "failed" else "completed")

agent = define_agent(name="bot", evidence_coverage=complete_evidence_coverage, send=send)
"""
EVAL = """
from niceeval import define_eval

@define_eval(cases={"a": "passed", "b": "failed", "c": "errored", "d": "skipped", "e": "passed", "f": "failed"})
async def e(t, said):
    turn = await t.send(said)
    if said == "skipped":
        t.skip("not today")
    turn.succeeded()
"""
EXPERIMENT = """
from adapters.bots import agent
from niceeval import define_experiment

experiment = define_experiment(agent=agent{more})
"""
OUTCOMES = {"a": "passed", "b": "failed", "c": "errored", "d": "skipped", "e": "passed", "f": "failed"}

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CarryProject:
    """Six cases of every outcome."""
    made = enter(tmp_path, monkeypatch, capsys)
    made.write(
        {
            "adapters/bots.py": AGENT,
            "evals/e_eval.py": EVAL,
            "experiments/local.py": EXPERIMENT.format(more=""),
            "experiments/other.py": EXPERIMENT.format(more=', evals=["e/a"]'),
        }
    )
    return made


def _hold(project: CarryProject, *cases: str) -> None:
    """Let the agent hang in these cases. The file lies outside the project: it is no input of an attempt."""
    Path(f"{project.root}.hold").write_text(" ".join(f"e/{case}" for case in cases), "utf-8")


def _calls(project: CarryProject) -> Counter[str]:
    path = project.root / "calls.txt"
    return Counter(line.split()[1] for line in path.read_text("utf-8").splitlines()) if path.exists() else Counter()


def _stored_in(project: CarryProject, run: int) -> int:
    # A folder that has not taken its name yet is not sealed; and folders take theirs while they are counted.
    found = os.walk(project.runs()[run])
    return sum("result.json" in files and not os.path.basename(folder).startswith(".") for folder, _, files in found)


def _killed_run(project: CarryProject, held: str, *arguments: str, stored: int) -> None:
    """A run that is killed when all but the held cases are stored."""
    _hold(project, *held)
    runs = len(project.runs()) if (project.root / ".niceeval").exists() else 0
    before = _calls(project)
    process = start(project.root, "local", *arguments)
    try:
        wait_for(
            lambda: (
                (project.root / ".niceeval").exists()
                and len(project.runs()) > runs
                and _stored_in(project, -1) == stored
                and all((_calls(project) - before)[f"e/{case}"] for case in held)
            )
        )
    finally:
        _kill(process)
    _hold(project)


def _kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_killed_run_is_resumed(project: CarryProject) -> None:
    """What it recorded is carried, whatever came out; only what is missing is run."""
    _killed_run(project, "ef", stored=4)
    assert project.plan("local") == [
        *(("carry", f"e/{case}", "1", "killed run") for case in "abcd"),
        *(("run", f"e/{case}", "1", "no earlier result") for case in "ef"),
    ]
    killed = project.runs()[0].name
    ran = project.run("local")
    assert {eval_id for _, eval_id, _ in ran.calls} == {"e/e", "e/f"}
    assert {key[1][2:]: one["outcome"] for key, one in ran.results.items()} == OUTCOMES
    origins = {key[1][2:]: one["carriedFrom"]["run"] for key, one in ran.results.items() if "carriedFrom" in one}
    assert origins == dict.fromkeys("abcd", killed)
    assert len(open_results(project.root).attempts) == 6


def test_a_killed_run_is_resumed_once(project: CarryProject) -> None:
    """Then the ordinary rules hold for what it recorded, too."""
    _killed_run(project, "ef", stored=4)
    project.run("local")
    assert project.reasons("local") == {
        ("carry", "passed before"): 2,
        ("run", "failed before"): 2,
        ("run", "errored before"): 1,
        ("run", "skipped before"): 1,
    }


def test_a_run_of_another_experiment_resumes_nothing_of_it(project: CarryProject) -> None:
    """The killed one still waits for a run of its own experiment."""
    _killed_run(project, "ef", stored=4)
    project.run("other")
    assert project.reasons("local") == {("carry", "killed run"): 4, ("run", "no earlier result"): 2}


def test_a_resume_that_is_killed_is_resumed_itself(project: CarryProject) -> None:
    """However often: no attempt that was sealed is run a second time."""
    _killed_run(project, "def", stored=3)
    _killed_run(project, "ef", stored=4)
    _killed_run(project, "f", stored=5)
    ran = project.run("local")
    assert {key[1][2:]: one["outcome"] for key, one in ran.results.items()} == OUTCOMES
    assert _calls(project) == {"e/a": 1, "e/b": 1, "e/c": 1, "e/d": 2, "e/e": 3, "e/f": 4}
    assert len(open_results(project.root).attempts) == 6


def test_a_resume_that_was_killed_while_it_took_over_loses_nothing(project: CarryProject) -> None:
    """What it had not taken over yet is still found where it was recorded."""
    _killed_run(project, "ef", stored=4)
    _killed_run(project, "ef", stored=4)
    for result in sorted(project.runs()[-1].rglob("result.json"))[1:3]:
        result.unlink()
    ran = project.run("local")
    assert {eval_id for _, eval_id, _ in ran.calls} == {"e/e", "e/f"}
    assert {key[1][2:]: one["outcome"] for key, one in ran.results.items()} == OUTCOMES


def test_what_has_changed_since_is_not_resumed(project: CarryProject) -> None:
    """A killed run's results are of what it ran."""
    _killed_run(project, "ef", stored=4)
    project.edit("evals/e_eval.py", "not today", "not now")
    assert project.reasons("local") == {
        ("run", "changed: eval source: evals/e_eval.py"): 4,
        ("run", "no earlier result"): 2,
    }


def test_force_resumes_nothing(project: CarryProject) -> None:
    """Everything is run."""
    _killed_run(project, "ef", stored=4)
    assert len(project.run("local", "--force").calls) == 6


def test_a_sample_of_a_killed_run_is_completed_and_not_drawn_again(project: CarryProject) -> None:
    """Its failure is a part of the sample: drawing again would be trying until lucky."""
    _killed_run(project, "cdef", "--runs", "2", "--no-early-exit", stored=4)
    ran = project.run("local", "--runs", "3", "--no-early-exit")
    assert {number: "carriedFrom" in ran.results["local", "e/b", number] for number in range(3)} == {
        0: True,
        1: True,
        2: False,
    }


def test_with_early_exit_a_pass_of_a_killed_run_is_enough(project: CarryProject) -> None:
    """As it would have been in that run."""
    _killed_run(project, "cdef", "--runs", "3", "--no-early-exit", stored=6)
    _, *rest = project.plan("local", "--runs", "3")
    assert ("carry", "e/b", "1-3", "killed run") in rest
    assert ("run", "e/f", "1-3", "no earlier result") in rest


def test_an_interrupted_run_is_no_killed_one(project: CarryProject) -> None:
    """It has its summary: what failed in it is run again."""
    _hold(project, "e", "f")
    process = start(project.root, "local")
    wait_for(lambda: _calls(project).total() == 6 and _stored_in(project, 0) == 4)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert project.reasons("local") == {
        ("carry", "passed before"): 1,
        ("run", "failed before"): 1,
        ("run", "errored before"): 1,
        ("run", "skipped before"): 1,
        ("run", "no earlier result"): 2,
    }
