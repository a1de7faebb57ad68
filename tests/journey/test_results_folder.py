"""The results folder while runs are under way, cannot be written, are cleaned up, or are copied, renamed and read."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from niceeval._record.liveness import being_written, hold, let_go
from niceeval.results import open_results
from tests.journey.failing_disk import refusing
from tests.journey.test_crashes import Folder
from tests.journey.whole_runs import PATIENCE, command, environment, start, wait_for
from tests.unit.project_files import write_files

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name == "nt", reason="folders have no locks there")]

AGENT = """
import os
import time

from niceeval.adapter import Message, Turn, complete_evidence_coverage, define_agent

def send(input, ctx):
    with open("calls.txt", "a") as calls:
        calls.write(f"{ctx.experiment_id} {ctx.eval_id} {ctx.attempt}\\n")
    while os.path.exists("hold") and ctx.eval_id == "e/0019":
        time.sleep(0.01)
    if os.path.exists("lock"):
        for folder, _, _ in os.walk(".niceeval"):
            os.chmod(folder, 0o555)
    return Turn(events=[Message(role="assistant", text="hello")])

agent = define_agent(name="bot", evidence_coverage=complete_evidence_coverage, send=send)
"""
EVAL = """
from niceeval import define_eval

@define_eval(cases=range(20))
async def e(t, number):
    (await t.send("hello")).succeeded()
"""
EXPERIMENT = """
from adapters.bots import agent
from niceeval import define_experiment

experiment = define_experiment(agent=agent)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Twenty evals; the last one waits while there is a file `hold`."""
    write_files(tmp_path, {"adapters/bots.py": AGENT, "evals/e_eval.py": EVAL, "experiments/local.py": EXPERIMENT})
    return Folder(tmp_path)


@pytest.fixture
def held(folder: Folder) -> Iterator[subprocess.Popen[str]]:
    """A run of which all but the last attempt are stored."""
    (folder.root / "hold").touch()
    process = start(folder.root, "local", short=False)
    wait_for(lambda: folder.runs() and len(folder.sealed(folder.runs()[-1])) == 19 and len(folder.calls()) == 20)
    yield process
    process.kill()
    process.communicate()


def _let_end(folder: Folder, process: subprocess.Popen[str]) -> str:
    (folder.root / "hold").unlink()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out + err


# Cleaning up ----------------------------------------------------------------------------------------------------


def test_clean_keeps_a_run_that_is_being_written(folder: Folder, held: subprocess.Popen[str]) -> None:
    """It says so, deletes the others, and the run ends as if nothing had been."""
    (live,) = folder.runs()
    for name in ("2026-07-02T03-10-24-123Z", "2026-07-02T03-10-24-123Z-2"):
        shutil.copytree(live, folder.results / name)
    ended, _ = folder.run("clean", "--yes")
    assert ended.out.startswith("deleted 2 runs (")
    assert f"kept    {live.name}  it is being written\n" in ended.out
    assert folder.runs() == [live]
    assert folder.run("clean", "--yes")[0].out.startswith(".niceeval/ has no runs to delete\nkept ")
    assert "error" not in _let_end(folder, held)
    assert len(open_results(live).attempts) == 20
    assert folder.run("clean", "--yes")[0].out.startswith("deleted 1 run (")
    assert os.listdir(folder.results) == []


def test_clean_takes_away_what_killed_commands_left(folder: Folder, held: subprocess.Popen[str]) -> None:
    """Their runs, what a killed clean had half deleted, and what they had claimed."""
    held.send_signal(signal.SIGKILL)
    held.wait()
    shutil.copytree(folder.runs()[0], folder.results / ".tmp-2026-07-02T03-10-24-123Z")
    assert len(os.listdir(folder.results / ".claims")) == 2
    ended, _ = folder.run("clean", "--yes")
    assert ended.out.startswith("deleted 1 run (")
    assert os.listdir(folder.results) == []


def test_a_clean_that_is_killed_leaves_no_half_run(folder: Folder) -> None:
    """At whichever operation: a run is there whole, or it is no run any more; the next clean takes the rest."""
    folder.run("exp", "local")
    (run,) = folder.runs()
    tried = Folder(folder.root.with_name(f"{folder.root.name}-tried"))
    shutil.copytree(folder.root, tried.root)
    _, disk = tried.run("clean", "--yes")
    assert [operation.name for operation in disk.seen][:2] == ["rename", "remove_tree"]
    for number in range(len(disk.seen)):
        copy = Folder(folder.root.with_name(f"{folder.root.name}-{number}"))
        shutil.copytree(folder.root, copy.root)
        copy.kill("before", number, "clean", "--yes")
        assert [len(copy.sealed(left)) for left in copy.runs()] == ([20] if number == 0 else [])
        copy.run("clean", "--yes")
        assert [name for name in os.listdir(copy.results) if name != ".claims"] == []
    assert len(folder.sealed(run)) == 20


def test_cleaning_all_the_time_takes_nothing_from_runs(folder: Folder) -> None:
    """From the moment a run begins until it ends it is kept, however the two meet."""
    processes = [start(folder.root, "local", "--force", short=False) for _ in range(3)]
    while any(process.poll() is None for process in processes):
        folder.run("clean", "--yes")
    for process in processes:
        out, err = process.communicate()
        assert (process.returncode, "error" in out + err) == (0, False), err
        assert "20/20 passed" in out + err or "20 passed" in out + err


# Showing --------------------------------------------------------------------------------------------------------


def test_show_tells_a_run_that_goes_on_from_one_that_was_killed(folder: Folder, held: subprocess.Popen[str]) -> None:
    """`running` while its process lives, `incomplete` and how to go on when it is gone."""
    (run,) = folder.runs()
    said = folder.run("show")[0].out
    assert f"running       {run.name}  19 attempts up to now\n" in said
    assert "killed" not in said
    document = folder.run("show", "--json")[0].out
    assert '"running":true' in document.replace(" ", "")
    held.kill()
    held.wait()
    said = folder.run("show")[0].out
    assert f"incomplete    {run.name}  19 attempts, no summary.json (killed)\n" in said
    assert "running" not in said


def test_a_process_that_a_guest_left_behind_does_not_keep_a_run_alive(tmp_path: Path) -> None:
    """A forked process has the lock's file too, and closes it."""
    run = tmp_path / "2026-07-02T03-10-24-123Z"
    run.mkdir()
    code = (
        "import os, sys, time\n"
        "from niceeval._record.liveness import hold\n"
        f"hold({str(run)!r})\n"
        "if os.fork() == 0:\n"
        "    time.sleep(30)\n"
        "    os._exit(0)\n"
        "print('forked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "start_new_session": True}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment(), **pipes)  # type: ignore[call-overload]
    assert process.stdout.readline() == b"forked\n"
    assert being_written(run)
    process.kill()
    process.wait()
    wait_for(lambda: not being_written(run))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def test_a_run_is_held_wherever_it_is_moved_and_its_copies_are_not(tmp_path: Path) -> None:
    """The lock is on the folder itself."""
    run = tmp_path / "run"
    run.mkdir()
    descriptor = hold(str(run))
    shutil.copytree(run, tmp_path / "copy")
    run.rename(tmp_path / "moved")
    assert [being_written(tmp_path / name) for name in ("run", "copy", "moved")] == [False, False, True]
    let_go(descriptor)
    assert not being_written(tmp_path / "moved")


# Copied, renamed, read ------------------------------------------------------------------------------------------


def test_runs_are_copied_renamed_and_read_while_another_run_writes(folder: Folder) -> None:
    """Each reads as before under any name; what is being written reads as far as it is."""
    folder.run("exp", "local")
    (done,) = folder.runs()
    expected = sorted((attempt.eval_id, attempt.locator) for attempt in open_results(done).attempts)
    (folder.root / "hold").touch()
    process = start(folder.root, "local", "--force", short=False)
    names = iter(range(1_000_000))
    seen, until = 0, time.monotonic() + PATIENCE
    while seen < 19 and time.monotonic() < until:
        results = open_results(folder.results)
        assert results.skipped == ()
        seen = max([0, *(len(run.attempts) for run in results.runs if run.running)])
        copy = shutil.copytree(done, folder.results / f"copy-{next(names)}")
        done = done.rename(folder.results / f"renamed-{next(names)}")
        for place in (copy, done):
            read = open_results(place)
            assert sorted((attempt.eval_id, attempt.locator) for attempt in read.attempts) == expected
            assert all(attempt.events() for attempt in read.attempts)
        shutil.rmtree(copy)
    live = next(run for run in open_results(folder.results).runs if run.running)
    copied = open_results(shutil.copytree(live.path, folder.results / "copy-of-live")).runs[0]
    assert (len(copied.attempts), copied.running, copied.complete) == (19, False, False)
    _let_end(folder, process)
    assert len(open_results(folder.results / live.name).attempts) == 20


def test_a_copy_of_all_results_counts_nothing_twice(folder: Folder) -> None:
    """A run beside its own copy is one set of attempts, and is carried as one."""
    folder.run("exp", "local")
    (run,) = folder.runs()
    shutil.copytree(run, run.with_name(f"{run.name}-2"))
    assert len(open_results(folder.results).attempts) == 20
    ended, _ = folder.run("exp", "local")
    assert (ended.code, len(folder.calls())) == (0, 20)


def test_a_killed_run_is_resumed_from_wherever_the_results_were_copied(
    folder: Folder, held: subprocess.Popen[str]
) -> None:
    """Claims that were copied along, of a process that lives elsewhere, hold nothing up."""
    copy = Folder(folder.root.with_name("copy"))
    shutil.copytree(folder.root, copy.root)
    (copy.root / "hold").unlink()
    ended, _ = copy.run("exp", "local")
    assert ended.code == 0, ended.err
    assert [key[1] for key in copy.calls()[20:]] == ["e/0019"]
    _let_end(folder, held)


# Not to be written ----------------------------------------------------------------------------------------------


def _as_ordinary_user() -> None:
    """Root may write anywhere: give that up (CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH)."""
    if os.geteuid() == 0 and any(ctypes.CDLL(None).prctl(24, capability, 0, 0, 0) for capability in (1, 2)):
        os._exit(77)


def _limited(folder: Folder, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        command("exp", *arguments, short=False),
        cwd=folder.root,
        env=environment(PYTHONDONTWRITEBYTECODE="1"),
        preexec_fn=_as_ordinary_user,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip("root stays root here")
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, done.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="gives up capabilities")
@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_that_may_not_be_written_to(folder: Folder, exists: bool) -> None:
    """The results folder, or the project: one message with the path, exit code 1, and nothing is sent."""
    if exists:
        folder.results.mkdir()
    locked = folder.results if exists else folder.root
    locked.chmod(0o555)
    code, err = _limited(folder, "local")
    locked.chmod(0o755)
    assert code == 1
    assert re.search(r"^error\[cannot-write\]: .*\.niceeval: Permission denied$", err, re.M)
    assert folder.calls() == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="gives up capabilities")
def test_a_folder_that_may_not_be_written_to_any_more(folder: Folder) -> None:
    """What is stored by then stays; each that is not is said; the next run sends only those."""
    (folder.root / "lock").touch()
    code, err = _limited(folder, "local", "--max-concurrency", "1")
    assert code == 1
    assert "Permission denied" in err
    (folder.root / "lock").unlink()
    for path, _, _ in os.walk(folder.results):
        os.chmod(path, 0o755)
    sealed = folder.sealed(folder.runs()[-1])
    before = len(folder.calls())
    ended, _ = folder.run("exp", "local")
    assert ended.code == 0, ended.err
    assert len(folder.calls()) - before == 20 - len(sealed)


def test_a_disk_that_is_full_before_the_run_begins(folder: Folder) -> None:
    """One message, exit code 1, and nothing is sent."""
    ended, _ = folder.run("exp", "local", act=refusing(lambda number: True))
    assert ended.code == 1
    assert re.search(r"^error\[cannot-write\]: .*\.niceeval: No space left on device$", ended.err, re.M)
    assert folder.calls() == []


def test_results_that_a_disk_did_not_take_are_counted_apart(folder: Folder) -> None:
    """`summary.json` counts what it holds, says how many are missing, and the next run sends those only."""
    _, disk = folder.run("exp", "local", "--max-concurrency", "1")
    renames = [number for number, operation in enumerate(disk.seen) if operation.name == "rename"]
    shutil.rmtree(folder.results)
    refused = set(renames[3:5])
    ended, _ = folder.run("exp", "local", "--max-concurrency", "1", act=refusing(lambda number: number in refused))
    assert ended.code == 1
    (run,) = open_results(folder.results).runs
    assert (len(run.attempts), run.complete, run.resumable) == (18, True, True)
    text = (run.path / "summary.json").read_text("utf-8")
    assert ('"passed":18' in text, '"notStored":2' in text) == (True, True)
    before = len(folder.calls())
    assert folder.run("exp", "local")[0].code == 0
    assert len(folder.calls()) - before == 2
