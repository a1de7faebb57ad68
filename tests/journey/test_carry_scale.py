"""Many attempts of which none has to be run again: no guest is called, and it costs less than running them."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from pathlib import Path

import pytest

from tests.journey.whole_runs import command, environment, project

pytestmark = pytest.mark.slow

EVALS, RUNS = 300, 5
FILES = {
    "evals/instant_eval.py": f"""
        from niceeval import define_eval

        print("loaded")

        @define_eval(cases=range({EVALS}))
        async def instant(t, row):
            with open("calls.txt", "a") as calls:
                calls.write("eval ")
            (await t.send("hello")).succeeded()
        """,
    "experiments/local.py": f"""
        from niceeval import define_experiment
        from niceeval.adapter import Message, Turn, complete_evidence_coverage, define_agent

        def called(what):
            with open("calls.txt", "a") as calls:
                calls.write(what + " ")

        async def send(input, ctx):
            called("send")
            return Turn(events=[Message(role="assistant", text="hello you")])

        async def hook(ctx):
            called("hook")

        def around():
            called("around")

        agent = define_agent(
            name="instant", evidence_coverage=complete_evidence_coverage, send=send, setup=hook, teardown=hook
        )
        experiment = define_experiment(agent=agent, runs={RUNS}, early_exit=False, setup=around, teardown=around)
        """,
}
MOST_FILES = 48
"""Files that a run may have open, however many attempts it has."""


def _run(root: Path) -> float:
    """A whole run with few open files; the seconds of processor time that it took."""
    process = subprocess.Popen(
        command("exp", "local", "--quiet", "--max-concurrency", "100", short=False),
        cwd=root,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (MOST_FILES, MOST_FILES)),
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime


def test_carrying_everything_calls_nobody_and_costs_less_than_running(tmp_path: Path) -> None:
    """1,500 attempts, 100 at once, with few files open: all are there again, each with its files."""
    project(tmp_path, FILES)
    first = _run(tmp_path)
    calls = (tmp_path / "calls.txt").read_text("utf-8").split()
    assert (calls.count("eval"), calls.count("send"), calls.count("hook")) == (EVALS * RUNS, EVALS * RUNS, 3_000)
    second = _run(tmp_path)
    assert len((tmp_path / "calls.txt").read_text("utf-8").split()) == len(calls)
    assert second <= first
    *_, newest = sorted(path for path in (tmp_path / ".niceeval").iterdir() if not path.name.startswith("."))
    summary = json.loads((newest / "summary.json").read_text("utf-8"))
    assert (summary["carried"], summary["passed"]) == (EVALS * RUNS, EVALS * RUNS)
    assert sum(1 for _ in newest.rglob("events.json")) == EVALS * RUNS
