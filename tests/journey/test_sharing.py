"""Several invocations of the same experiment at once: nothing is run twice, nobody waits for a dead one."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from niceeval.results import open_results
from tests.journey.whole_runs import project, start, wait_for

pytestmark = pytest.mark.slow

AGENT = """
import asyncio
import os

from niceeval.adapter import Turn, complete_evidence_coverage, define_agent

async def send(input, ctx):
    with open("calls.txt", "a") as calls:
        calls.write(f"{os.getpid()} {ctx.eval_id} {ctx.attempt}\\n")
    while os.path.exists("gate"):
        await asyncio.sleep(0.01)
    await asyncio.sleep(float(input.text))
    return Turn(status="failed" if ctx.eval_id.endswith("3") else "completed")

agent = define_agent(name="bot", evidence_coverage=complete_evidence_coverage, send=send)
"""
EVAL = """
from niceeval import define_eval

@define_eval(cases=["{seconds}"] * {count})
async def e(t, seconds):
    (await t.send(seconds)).succeeded()
"""
EXPERIMENT = """
from adapters.bots import agent
from niceeval import define_experiment

experiment = define_experiment(agent=agent)
"""


def _project(root: Path, *, count: int, seconds: float = 0.0) -> None:
    project(
        root,
        {
            "adapters/bots.py": AGENT,
            "evals/e_eval.py": EVAL.format(seconds=seconds, count=count),
            "experiments/local.py": EXPERIMENT,
        },
    )


def _calls(root: Path) -> list[tuple[int, str, int]]:
    path = root / "calls.txt"
    words = [line.split() for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    return [(int(pid), eval_id, int(attempt)) for pid, eval_id, attempt in words]


def _runs(root: Path) -> list[Path]:
    return sorted(path for path in (root / ".niceeval").iterdir() if not path.name.startswith("."))


def _summaries(root: Path) -> Iterator[dict[str, Any]]:
    for run in _runs(root):
        if (run / "summary.json").exists():
            yield json.loads((run / "summary.json").read_text("utf-8"))


def _until(condition: Callable[[], bool], *processes: subprocess.Popen[str]) -> None:
    """Wait for what only these processes can bring about; one that has ended already says why it did not."""

    def met() -> bool:
        if condition():
            return True
        for process in processes:
            assert process.poll() is None, process.communicate()
        return False

    wait_for(met)


def _ended(processes: Sequence[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    """Exit code and stderr of each."""
    ended = []
    for process in processes:
        _, err = process.communicate(timeout=60)
        assert "Traceback" not in err, err
        ended.append((process.returncode, err))
    return ended


def test_four_at_once_of_which_one_is_killed(tmp_path: Path) -> None:
    """Each that ends has every result once; what the killed one had in flight is all that is run twice."""
    _project(tmp_path, count=40, seconds=0.05)
    how = ("local", "--runs", "2", "--no-early-exit", "--max-concurrency", "4")
    (tmp_path / "gate").touch()
    processes = [start(tmp_path, *how) for _ in range(4)]
    _until(lambda: Counter(pid for pid, *_ in _calls(tmp_path)) == {one.pid: 4 for one in processes}, *processes)
    (tmp_path / "gate").unlink()
    _until(lambda: len(_calls(tmp_path)) > 30, *processes)
    processes[1].send_signal(signal.SIGKILL)
    ended = _ended(processes)
    assert [code for code, _ in ended] == [1, -9, 1, 1]
    finished = list(_summaries(tmp_path))
    assert len(finished) == 3
    for summary in finished:
        keys = Counter((one["id"], one["attempt"]) for one in summary["results"])
        assert len(keys) == 80
        assert set(keys.values()) == {1}
        assert (summary["failed"], summary["passed"]) == (8, 72)
    twice = Counter((eval_id, attempt) for _, eval_id, attempt in _calls(tmp_path))
    assert len(twice) == 80
    assert twice.total() <= 80 + 4
    assert max(twice.values()) <= 2
    assert len(open_results(tmp_path).attempts) == 80


def test_an_attempt_that_another_runs_is_waited_for_and_taken_over(tmp_path: Path) -> None:
    """Whatever comes out; the one that waits says so, and uses no processor for it."""
    _project(tmp_path, count=4)
    (tmp_path / "gate").touch()
    first = start(tmp_path, "local")
    _until(lambda: len(_calls(tmp_path)) == 4, first)
    second = start(tmp_path, "local")
    _until(lambda: len(_runs(tmp_path)) == 2, first, second)
    time.sleep(0.5)
    before = _cpu(second.pid)
    time.sleep(1.5)
    spent = _cpu(second.pid) - before
    (tmp_path / "gate").unlink()
    (code, _), (other, err) = _ended([first, second])
    assert (code, other, len(_calls(tmp_path))) == (1, 1, 4)
    run = _runs(tmp_path)[0].name
    assert f"run {run} is busy with attempts of this run" in err
    taken = list(_summaries(tmp_path))[1]["results"]
    assert [one["carriedFrom"]["run"] for one in taken] == [run] * 4
    assert spent < 0.5


def _cpu(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_what_another_will_not_finish_is_run(tmp_path: Path, number: signal.Signals) -> None:
    """Nobody waits for one that is dead, or has given up."""
    _project(tmp_path, count=4)
    (tmp_path / "gate").touch()
    first = start(tmp_path, "local")
    _until(lambda: len(_calls(tmp_path)) == 4, first)
    second = start(tmp_path, "local")
    _until(lambda: len(_runs(tmp_path)) == 2, first, second)
    time.sleep(0.5)
    assert len(_calls(tmp_path)) == 4
    first.send_signal(number)
    _until(lambda: len(_calls(tmp_path)) == 8, second)
    (tmp_path / "gate").unlink()
    _, (code, _) = _ended([first, second])
    assert code == 1
    assert len(list(_summaries(tmp_path))[-1]["results"]) == 4
    assert Counter(pid for pid, *_ in _calls(tmp_path))[second.pid] == 4


def test_force_runs_all_beside_one_that_is_running(tmp_path: Path) -> None:
    """It takes nothing over, and the other is not kept from ending."""
    _project(tmp_path, count=4)
    (tmp_path / "gate").touch()
    first = start(tmp_path, "local")
    _until(lambda: len(_calls(tmp_path)) == 4, first)
    second = start(tmp_path, "local", "--force")
    _until(lambda: len(_calls(tmp_path)) == 8, first, second)
    (tmp_path / "gate").unlink()
    _ended([first, second])
    assert all("carriedFrom" not in one for summary in _summaries(tmp_path) for one in summary["results"])


def test_a_pass_of_another_makes_attempts_unnecessary_here(tmp_path: Path) -> None:
    """Early exit holds for both: each has the pass, and what was left out adds up."""
    _project(tmp_path, count=3)
    (tmp_path / "gate").touch()
    first = start(tmp_path, "local", "--runs", "3", "--max-concurrency", "3")
    _until(lambda: len(_calls(tmp_path)) == 3, first)
    second = start(tmp_path, "local", "--runs", "3", "--max-concurrency", "3")
    _until(lambda: len(_calls(tmp_path)) == 6, first, second)
    (tmp_path / "gate").unlink()
    assert [code for code, _ in _ended([first, second])] == [0, 0]
    for summary in _summaries(tmp_path):
        assert {one["id"] for one in summary["results"] if one["outcome"] == "passed"} == {
            "e/0000",
            "e/0001",
            "e/0002",
        }
        assert len(summary["results"]) + summary["cancelled"] == 9
    assert max(Counter(call[1:] for call in _calls(tmp_path)).values()) == 1


def test_what_ended_before_is_not_adopted_although_a_third_is_still_running(tmp_path: Path) -> None:
    """A failure of a run that is over is run again: only what overlaps is shared."""
    _project(tmp_path, count=4)
    (tmp_path / "evals/long_eval.py").write_text(EVAL.format(seconds=0.0, count=1).replace(" e(", " long("), "utf-8")
    (tmp_path / "gate").touch()
    long = start(tmp_path, "local", "long")
    _until(lambda: len(_calls(tmp_path)) == 1, long)
    (tmp_path / "gate").unlink()
    (tmp_path / "gate").mkdir()
    try:
        os.kill(long.pid, signal.SIGSTOP)
        (tmp_path / "gate").rmdir()
        for _ in range(2):
            _ended([start(tmp_path, "local", "e")])
        failed = Counter(eval_id for _, eval_id, _ in _calls(tmp_path))["e/0003"]
    finally:
        os.kill(long.pid, signal.SIGCONT)
    _ended([long])
    assert failed == 2


def test_the_plan_beside_a_running_invocation_says_what_is_shared(tmp_path: Path) -> None:
    """What it has sealed already is carried, whatever came out."""
    _project(tmp_path, count=4, seconds=0.0)
    first = start(tmp_path, "local", "--max-concurrency", "1")
    assert _ended([first])[0][0] == 1
    (tmp_path / "gate").touch()
    other = start(tmp_path, "local", "--force", "--max-concurrency", "1")
    _until(lambda: len(_calls(tmp_path)) == 5, other)
    out, _ = start(tmp_path, "local", "--dry").communicate()
    assert "  run      e/0003  1  failed before" in out
    other.kill()
    other.communicate()


def test_files_and_threads_do_not_grow_with_what_is_shared(tmp_path: Path) -> None:
    """A second invocation that takes over everything needs no more than the first."""
    _project(tmp_path, count=300)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
    try:
        processes = [start(tmp_path, "local") for _ in range(2)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [code for code, _ in _ended(processes)] == [1, 1]
    assert len(_calls(tmp_path)) == 300
    assert not list((tmp_path / ".niceeval" / ".claims").glob("*.claims"))
