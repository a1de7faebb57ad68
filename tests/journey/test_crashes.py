"""A run that ends at any operation on the file system, or is refused it: nothing that was sealed is lost or run again.

Every operation of a small run is enumerated (mkdir, open, write, fsync, close, rename, link, unlink, syncfs). A process
is killed before each of them, and after the last; each operation is also refused alone. Of the rest, the first and the
last operation of each kind (operation, file) are taken: writes that are cut in half, refusals from there on, durable
runs; and the first of each kind in a run that resumes a killed one.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

from niceeval._cli.main import entry
from niceeval.results import open_results
from tests.journey.carry_project import forget_project_modules
from tests.journey.failing_disk import Act, FailingDisk, How, Operation, failing, just_done, refusing
from tests.journey.whole_runs import environment
from tests.unit.project_files import write_files

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names open files by /proc"),
]

AGENT = """
import os

from niceeval.adapter import Message, Turn, Usage, complete_evidence_coverage, define_agent

def send(input, ctx):
    line = f"{ctx.experiment_id} {ctx.eval_id} {ctx.attempt}\\n"
    calls = os.open("calls.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(calls, line.encode())
    os.close(calls)
    ctx.log("asked: " + input.text)
    if input.text == "errored":
        raise ValueError("down")
    said = Message(role="assistant", text=input.text)
    return Turn(events=[said], usage=Usage(input_tokens=3, output_tokens=2))

agent = define_agent(name="bot", evidence_coverage=complete_evidence_coverage, send=send)
"""
EVAL = """
from niceeval import define_eval
from niceeval.expect import includes

@define_eval()
async def e(t):
    turn = await t.send("{said}")
    t.check(turn.message, includes("passed"))
"""
EXPERIMENT = """
from adapters.bots import agent
from niceeval import define_experiment

experiment = define_experiment(agent=agent, {more})
"""
EVALS = {"good": "passed", "bad": "not this", "down": "errored", "done": "passed"}
FILES = {
    "adapters/bots.py": AGENT,
    **{f"evals/{name}_eval.py": EVAL.format(said=said) for name, said in EVALS.items()},
    "experiments/both/first.py": EXPERIMENT.format(more='runs=2, early_exit=False, evals=["good", "bad", "done"]'),
    "experiments/both/second.py": EXPERIMENT.format(more='evals=["good", "down"]'),
}
COMMAND = ("exp", "both", "--max-concurrency", "1")

Key: TypeAlias = tuple[str, str, int]
"""Experiment, eval, attempt."""

FIRST, SECOND = "both/first", "both/second"
CARRIED: set[Key] = {(FIRST, "done", 0), (FIRST, "done", 1)}
OUTCOMES: dict[Key, str] = {
    (FIRST, "bad", 0): "failed",
    (FIRST, "bad", 1): "failed",
    (FIRST, "done", 0): "passed",
    (FIRST, "done", 1): "passed",
    (FIRST, "good", 0): "passed",
    (FIRST, "good", 1): "passed",
    (SECOND, "down", 0): "errored",
    (SECOND, "good", 0): "passed",
}
NOT_PASSED = {key for key, outcome in OUTCOMES.items() if outcome != "passed"}
CODE = 1


@dataclass(frozen=True)
class Ended:
    """A command that was run in this process."""

    code: int
    out: str
    err: str


class Folder:
    """A copy of a project, in which commands are run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.results = root / ".niceeval"

    def run(self, *arguments: str, act: Act = just_done) -> tuple[Ended, FailingDisk]:
        """A command line, in this process."""
        out, err = io.StringIO(), io.StringIO()
        path = list(sys.path)
        forget_project_modules()
        try:
            with (
                contextlib.chdir(self.root),
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(err),
                failing(act) as disk,
            ):
                code = entry(list(arguments))
        finally:
            sys.path[:] = path
        ended = Ended(code, out.getvalue(), err.getvalue())
        assert "Traceback" not in ended.out + ended.err, ended.err
        assert "error[broke]" not in ended.err, ended.err
        return ended, disk

    def kill(self, how: How, number: int, *arguments: str) -> str:
        """A command line, in a process that is killed at an operation; what it had said by then."""
        line = [sys.executable, "-B", "-m", "tests.journey.failing_disk", how, str(number), *arguments]
        done = subprocess.run(line, cwd=self.root, env=environment(), capture_output=True, timeout=60, check=False)
        assert done.returncode == -9, (how, number, done.stderr)
        return done.stderr.decode("utf-8", "replace")

    def calls(self) -> list[Key]:
        """What the agent was called for."""
        path = self.root / "calls.txt"
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        return [(words[0], words[1], int(words[2])) for words in map(str.split, lines)]

    def runs(self) -> list[Path]:
        """The run folders, oldest first."""
        return sorted(self.results.glob("2*")) if self.results.is_dir() else []

    def sealed(self, run: Path) -> dict[Key, str]:
        """The attempts whose folders are in place in a run, each with when it was started."""
        found: dict[Key, str] = {}
        # Folders take their names while they are looked at, which `rglob` does not bear.
        for folder, _, files in os.walk(run):
            if "result.json" in files and not os.path.basename(folder).startswith(".tmp-"):
                said = json.loads(Path(folder, "result.json").read_text("utf-8"))
                found[said["experimentId"], said["id"], said["attempt"]] = said["startedAt"]
        return found

    def audit(self, *arguments: str) -> tuple[int, list[str]]:
        """A command line, in a process of its own: how much it changed by the record, and what past it."""
        line = [sys.executable, "-B", "-m", "tests.journey.failing_disk", "audit", "0", *arguments]
        done = subprocess.run(line, cwd=self.root, env=environment(), capture_output=True, timeout=60, text=True)
        inside, *outside = (line for line in done.stderr.splitlines() if line.startswith(("inside", "outside")))
        return int(inside.split()[1]), outside


def _made(template: Path, place: Path) -> Folder:
    shutil.copytree(template, place)
    return Folder(place)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which two attempts were run before."""
    folder = Folder(tmp_path_factory.mktemp("template"))
    write_files(folder.root, FILES)
    ended, _ = folder.run("exp", FIRST, "done")
    assert (ended.code, len(folder.calls())) == (0, 2), ended.err
    return folder.root


@pytest.fixture(scope="module")
def killed_template(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a run that was killed after half of its attempts."""
    folder = _made(template, tmp_path_factory.mktemp("killed") / "project")
    operations = _operations(template, folder.root.parent / "counted")
    renames = [number for number, one in enumerate(operations) if one.name == "rename"]
    folder.kill("after", renames[4], *COMMAND)
    assert len(folder.sealed(folder.runs()[-1])) == 5
    return folder.root


def _operations(template: Path, place: Path, *more: str) -> list[Operation]:
    """Every operation of a run, in order."""
    ended, disk = _made(template, place).run(*COMMAND, *more)
    assert ended.code == CODE
    shutil.rmtree(place)
    return disk.seen


def _first_of_each(operations: Sequence[Operation]) -> list[int]:
    """The number of the first operation of each kind."""
    return sorted({operation: number for number, operation in reversed(list(enumerate(operations)))}.values())


def _one_of_each(operations: Sequence[Operation]) -> list[int]:
    """The numbers of the first and the last operation of each kind."""
    last = {operation: number for number, operation in enumerate(operations)}
    return sorted({*_first_of_each(operations), *last.values()})


# What has to hold after any of it ---------------------------------------------------------------------------------


def _holds_up(folder: Folder, before: Sequence[Path]) -> None:
    """The next run finishes the work, and what was sealed is neither lost nor run again."""
    _is_readable(folder)
    new = [run for run in folder.runs() if run not in before]
    sealed: dict[Key, str] = {}
    for run in [*_killed(before), *new]:
        sealed |= folder.sealed(run)
    finished = bool(new) and _is_finished(new[-1])
    so_far = folder.calls()
    assert len(so_far) == len(set(so_far)), "an attempt was run twice"
    ended, _ = folder.run(*COMMAND)
    assert ended.code == CODE, ended.err
    called = folder.calls()[len(so_far) :]
    if finished:
        # That run had ended: this is another one, which runs again what did not pass.
        assert set(called) == NOT_PASSED
    else:
        assert sorted(called) == sorted(OUTCOMES.keys() - sealed.keys() - CARRIED)
    last = folder.runs()[-1]
    results = {
        (one["experimentId"], one["id"], one["attempt"]): one
        for one in json.loads((last / "summary.json").read_text("utf-8"))["results"]
    }
    assert {key: one["outcome"] for key, one in results.items()} == OUTCOMES
    kept = sealed if not finished else {key: sealed[key] for key in sealed.keys() - NOT_PASSED}
    assert {key: results[key]["startedAt"] for key in kept} == kept
    assert not list(last.rglob(".tmp-*"))
    claims = folder.results / ".claims"
    assert not claims.exists() or os.listdir(claims) == ["lock"]
    _is_readable(folder)


def _killed(runs: Sequence[Path]) -> list[Path]:
    return [run for run in runs if not (run / "summary.json").exists()]


def _is_finished(run: Path) -> bool:
    path = run / "summary.json"
    return path.exists() and not json.loads(path.read_text("utf-8")).get("notStored")


def _is_readable(folder: Folder) -> None:
    """Every run opens whole, with everything beside every result."""
    if not folder.results.exists():
        return
    results = open_results(folder.results)
    assert results.skipped == ()
    for attempt in results.attempts:
        assert attempt.events()
        assert attempt.sources()
        assert attempt.o11y()
        assert attempt.logs()


def test_the_record_changes_nothing_past_its_operations(template: Path, tmp_path: Path) -> None:
    """What the interpreter itself sees of changes to the results folder all comes from them: none is left out here."""
    folder = _made(template, tmp_path / "project")
    inside, outside = folder.audit(*COMMAND, "--durable")
    assert (inside > 50, outside) == (True, [])
    inside, outside = folder.audit("clean", "--yes")
    assert (inside > 50, outside) == (True, [])


def test_a_durable_attempt_is_synced_before_it_counts(template: Path, tmp_path: Path) -> None:
    """Each file, then its folder, then it takes its name, then the folder above; only then is it said to be stored."""
    operations = _operations(template, tmp_path / "counted", "--durable")
    renames = [number for number, one in enumerate(operations) if one == ("rename", "attempt folder")]
    assert len(renames) == len(OUTCOMES)
    for number in renames:
        start = max(at for at in range(number) if operations[at] == ("make_folder", "attempt folder"))
        files = operations[start + 1 : number - 1]
        made = sorted(one.kind for one in files if one.name in ("create", "link"))
        assert "result.json" in made
        assert sorted(one.kind for one in files if one.name == "sync") == made
        assert operations[number - 1] == ("sync", "attempt folder")
        assert operations[number + 1] == ("sync", "parent folder")
    made_folders = [number for number, one in enumerate(operations) if one == ("make_folder", "parent folder")]
    assert all(operations[number + 1].name == "sync" for number in made_folders)


# Killed -----------------------------------------------------------------------------------------------------------


def _kill_at(template: Path, place: Path, points: Sequence[tuple[How, int]], *more: str) -> None:
    """Kill a run at each of the points; two processes at a time, while the next runs are in this one."""

    def killed(point: tuple[How, int]) -> tuple[tuple[How, int], Folder, str]:
        folder = _made(template, place / f"{point[0]}-{point[1]}")
        return point, folder, folder.kill(*point, *COMMAND, *more)

    before = Folder(template).runs()
    with ThreadPoolExecutor(2) as pool:
        for point, folder, said in pool.map(killed, points):
            try:
                _holds_up(folder, [folder.results / run.name for run in before])
            except AssertionError as error:
                raise AssertionError(f"killed {point[0]} operation {point[1]}: {said}") from error
            shutil.rmtree(folder.root)


PARTS = 4
"""Into how many tests an enumeration is cut, so that they can run side by side."""


@pytest.mark.parametrize("part", range(PARTS))
def test_a_run_that_is_killed_at_any_operation(template: Path, tmp_path: Path, part: int) -> None:
    """Before each, and after the last; a write also when half of it is done."""
    operations = _operations(template, tmp_path / "counted")
    points: list[tuple[How, int]] = [("before", number) for number in range(len(operations))]
    points.append(("after", len(operations) - 1))
    points += [("torn", number) for number in _one_of_each(operations) if operations[number].name == "write"]
    _kill_at(template, tmp_path, points[part::PARTS])


def test_a_durable_run_that_is_killed(template: Path, tmp_path: Path) -> None:
    """At the first and the last operation of each kind that other runs do not have."""
    operations = _operations(template, tmp_path / "counted", "--durable")
    points: list[tuple[How, int]] = [
        ("after", number) for number in _one_of_each(operations) if operations[number].name == "sync"
    ]
    _kill_at(template, tmp_path, points, "--durable")


def test_a_run_that_is_killed_while_it_resumes_another(killed_template: Path, tmp_path: Path) -> None:
    """Before the first operation of each kind: the run after that resumes both."""
    operations = _operations(killed_template, tmp_path / "counted")
    points: list[tuple[How, int]] = [("before", number) for number in _first_of_each(operations)]
    _kill_at(killed_template, tmp_path, points)


# Refused ----------------------------------------------------------------------------------------------------------


def _refuse_at(template: Path, place: Path, cases: Sequence[tuple[str, Act]], *more: str) -> None:
    """Refuse operations as each case says: one message, exit code 1, and the next run finishes the work."""
    for name, act in cases:
        folder = _made(template, place / name)
        runs = folder.runs()
        ended, _ = folder.run(*COMMAND, *more, act=act)
        try:
            assert ended.code == CODE
            _said_clearly(folder, runs, ended)
            _holds_up(folder, runs)
        except AssertionError as error:
            raise AssertionError(f"refused {name}: {ended.err}") from error
        shutil.rmtree(folder.root)


def _said_clearly(folder: Folder, runs: Sequence[Path], ended: Ended) -> None:
    """A run that is not whole on the disk has said so, with what the system said."""
    new = [run for run in folder.runs() if run not in runs]
    if not new or not _is_finished(new[-1]):
        assert re.search(r"^error\[cannot-write\]: .*No space left on device", ended.err, re.M)


@pytest.mark.parametrize("part", range(2))
def test_a_run_that_is_refused_one_operation(template: Path, tmp_path: Path, part: int) -> None:
    """Each of them in turn; the disk has room again afterwards."""
    operations = _operations(template, tmp_path / "counted")
    cases = [(f"only-{number}", refusing(_only(number))) for number in range(len(operations))]
    _refuse_at(template, tmp_path, cases[part::2])


@pytest.mark.parametrize("part", range(2))
def test_a_run_that_is_refused_everything_from_an_operation_on(template: Path, tmp_path: Path, part: int) -> None:
    """From the first and the last of each kind on: the disk is full until the run is over."""
    operations = _operations(template, tmp_path / "counted")
    cases = [(f"from-{number}", refusing(_from(number))) for number in _one_of_each(operations)]
    _refuse_at(template, tmp_path, cases[part::2])


def test_a_durable_run_that_is_refused_a_sync(template: Path, tmp_path: Path) -> None:
    """An attempt that is in place already stays stored; the run is not finished, and says why."""
    operations = _operations(template, tmp_path / "counted", "--durable")
    cases = [
        (f"only-{number}", refusing(_only(number)))
        for number in _one_of_each(operations)
        if operations[number].name == "sync"
    ]
    _refuse_at(template, tmp_path, cases, "--durable")


def _only(wanted: int) -> Callable[[int], bool]:
    return lambda number: number == wanted


def _from(wanted: int) -> Callable[[int], bool]:
    return lambda number: number >= wanted
