"""Sandbox agents through the whole command line, on this machine's own sandbox."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.docker_engine import why_no_image
from tests.journey.sandbox_project import DockerPlace, Place
from tests.journey.whole_runs import project, wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="processes are found through /proc: run it on Linux"),
]

KILLS = {Place: 8, DockerPlace: 20}
HOSTILE = """
for i in 1 2 3; do
  setsid nohup bash -c 'trap \\"\\" TERM HUP INT; while :; do sleep 1; done' >/dev/null 2>&1 &
  (setsid bash -c 'trap \\"\\" TERM; sleep 1000 & sleep 1000' &)
done
sleep 1000
"""


def lines(text: str) -> list[dict[str, Any]]:
    """The records of `--json`."""
    return [json.loads(line) for line in text.splitlines()]


BACKENDS = [
    pytest.param(Place, id="local"),
    pytest.param(
        DockerPlace,
        id="docker",
        marks=pytest.mark.skipif(why_no_image() is not None, reason=str(why_no_image())),
    ),
]


@pytest.mark.parametrize("kind", BACKENDS)
def test_a_killed_run_leaves_nothing_that_the_next_one_does_not_find(tmp_path: Path, kind: type[Place]) -> None:
    """`kill -9` at many moments of a run: its processes die with it, and the next run removes its sandboxes."""
    place = kind(tmp_path, "echo x > x; sleep 0.2; sleep 300 &", options="warm_pool=1", more="runs=3, early_exit=False")
    window = min(_seconds_with_sandboxes(place, lambda passed: False), 2.0)
    assert place.standing == []
    moments = random.Random(11)
    left = 0
    for _ in range(KILLS[kind]):
        delay = moments.uniform(0.0, window)
        _seconds_with_sandboxes(place, lambda passed, delay=delay: passed >= delay)
        left += len(place.standing)
    assert left, "no kill met a sandbox: the moments are too early"
    assert place.run("--force").code == 0
    wait_for(lambda: not place.processes)
    # What was half made or half removed says nothing of itself, and is somebody's for a minute.
    for folder in place.folders:
        assert not (folder / "about.json").exists()
        os.utime(folder, (1, 1))
    assert place.niceeval("sandbox", "prune", "--yes").returncode == 0
    assert place.standing == []


def _seconds_with_sandboxes(place: Place, is_time: Callable[[float], bool]) -> float:
    """Run, and kill it when it is time, by the seconds since its first sandbox; how many it had in the end.

    A kill that is due at once may come before there is any: that is a moment, too.
    """
    process = place.start("--force")
    before = set(place.standing)
    wait_for(lambda: process.poll() is not None or set(place.standing) - before, 60)
    began = time.monotonic()
    while process.poll() is None and not is_time(time.monotonic() - began):
        time.sleep(0.005)
    process.kill()
    _, err = process.communicate()
    assert process.returncode in (0, -signal.SIGKILL), err
    return time.monotonic() - began


@pytest.mark.parametrize("kind", BACKENDS)
def test_hostile_agents_leave_nothing(tmp_path: Path, kind: type[Place]) -> None:
    """30 attempts, 10 at a time, that time out with children that resist: each names phase and limit; none lives."""
    place = kind(tmp_path, HOSTILE, more="runs=30, early_exit=False, timeout=5, max_concurrency=10")
    done = place.run("--max-concurrency", "10", "--no-early-exit")
    assert len(done.results) == 30, done.err
    for result in done.results.values():
        error = result["errorInfo"]
        assert error["code"] == "timeout"
        assert error["message"].startswith(f"5s passed in {error['phase']}")
    assert "send" in {result["errorInfo"]["phase"] for result in done.results.values()}
    assert place.standing == []
    wait_for(lambda: not place.processes)


def test_sandboxes_are_kept_listed_entered_and_removed(tmp_path: Path) -> None:
    """`--keep-sandbox`, and the three commands."""
    place = Place(tmp_path, "echo kept > it.txt")
    done = place.run("--keep-sandbox", "all")
    assert done.code == 0
    (result,) = done.results.values()
    assert result["sandbox"]["kept"] is True
    assert result["sandbox"]["backend"] == "local"
    locator = result["locator"]
    assert f"niceeval sandbox enter {locator}" in done.out + done.err
    # Another run leaves it alone.
    assert place.run("--force").code == 0
    (standing,) = [
        one for one in json.loads(place.niceeval("sandbox", "list", "--json").stdout) if one["backend"] == "local"
    ]
    assert (standing["id"], standing["state"]) == (result["sandbox"]["id"], "kept")
    shell = tmp_path / "shell"
    shell.write_text(f"#!{sys.executable}\nimport os\nprint('it says', open('it.txt').read())\n", "utf-8")
    shell.chmod(0o755)
    entered = place.niceeval("sandbox", "enter", locator, env={"SHELL": str(shell)})
    assert "it says kept" in entered.stdout, entered.stderr
    assert "no sandbox is left over" in place.niceeval("sandbox", "prune", "--yes").stdout
    asked = place.niceeval("sandbox", "prune", "--all")
    assert asked.returncode == 1
    assert "error[sandbox-needs-yes]" in asked.stderr
    assert place.niceeval("sandbox", "prune", "--all", "--yes").returncode == 0
    assert place.folders == []
    gone = place.niceeval("sandbox", "enter", locator)
    assert gone.returncode == 1
    assert "error[sandbox-gone]" in gone.stderr


def test_results_depend_on_the_sandbox_by_name(tmp_path: Path) -> None:
    """A pass is carried; another pool changes nothing; another option is named; a value of `env` is not shown."""
    place = Place(tmp_path, "true", options='env={"KEY": "s3cret-value"}')
    first = place.run()
    assert first.code == 0
    locator = first.result("one")["locator"]
    place.shape('env={"KEY": "s3cret-value"}, warm_pool=2')
    assert place.run().result("one")["carriedFrom"]
    place.shape('env={"KEY": "an0ther-value"}')
    why = place.niceeval("why", locator)
    assert "sandbox.env.KEY" in why.stdout
    plan = place.niceeval("exp", "--dry")
    assert "sandbox local" in plan.stdout
    assert "changed: sandbox.env.KEY" in plan.stdout
    stored = "".join(path.read_text("utf-8") for path in place.root.glob(".niceeval/**/*.json"))
    assert "s3cret-value" not in stored
    assert "an0ther-value" not in why.stdout + plan.stdout


def test_results_of_reused_sandboxes_are_marked_and_not_carried(tmp_path: Path) -> None:
    """With `--json` the events say so; a next run runs what was reused once more."""
    place = Place(tmp_path, "true", more="runs=2, early_exit=False, reuse_sandboxes=True, max_concurrency=1")
    process = place.start("--json")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    ended = [record for record in lines(out) if record["type"] == "eval:complete"]
    assert [record["sandbox"].get("reused", False) for record in ended] == [False, True]
    assert all("sandbox" in record["phases"] for record in ended)
    plans = lines(place.niceeval("exp", "--dry", "--json").stdout)
    assert [record["action"] for record in plans if record["type"] == "run:plan"].count("run") >= 1
    assert place.folders == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_no_sandbox(tmp_path: Path, number: int) -> None:
    """Ctrl-C while commands run, with sandboxes started ahead."""
    place = Place(tmp_path, "sleep 300", options="warm_pool=2", more="runs=6, early_exit=False, max_concurrency=2")
    process = place.start()
    wait_for(lambda: len(place.folders) >= 3, 60)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert place.folders == []
    wait_for(lambda: not place.processes)


def test_an_experiment_without_a_sandbox_does_not_run(tmp_path: Path) -> None:
    """`sandbox-not-set` before anything runs; the config's sandbox stands in; a direct agent needs none."""
    place = Place(tmp_path, "true")
    text = (place.root / "experiments/local.py").read_text("utf-8").replace("sandbox=local_sandbox(), ", "")
    project(place.root, {"experiments/local.py": text})
    done = place.niceeval("exp")
    assert done.returncode == 1
    assert "error[sandbox-not-set]" in done.stderr
    config = "from niceeval import define_config\nfrom niceeval.sandbox import local_sandbox\n"
    project(place.root, {"niceeval_config.py": f"{config}config = define_config(sandbox=local_sandbox())\n"})
    assert place.run().code == 0
