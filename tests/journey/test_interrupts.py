"""Runs that are ended from outside: Ctrl-C once, twice, SIGTERM, kill -9, a full disk. What was finished is stored."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from niceeval._base.guest import GRACE
from niceeval.reporters import events_schema
from tests.journey.faulty_project import FILES, experiment
from tests.journey.whole_runs import Done, command, environment, finish, project, run, run_folder, start, wait_for

pytestmark = pytest.mark.slow

NOTING = """
import asyncio
import sys
import threading
import time

from adapters import faulty
from niceeval.adapter import Turn, complete_evidence_coverage, define_agent

def note(*words):
    with open("notes.txt", "a") as notes:
        notes.write(" ".join(words) + "\\n")

async def send(input, ctx):
    note("send", ctx.eval_id)
    if input.text == "quick":
        return Turn()
    return await getattr(faulty, input.text)(ctx)

def plain_send(input, ctx):
    note("send", ctx.eval_id)
    return getattr(faulty, input.text)(ctx)

async def setup(ctx):
    note("setup", ctx.eval_id)

async def teardown(ctx):
    note("teardown", ctx.eval_id)
    if ctx.eval_id.startswith("tidies"):
        await asyncio.sleep(0.3)
    note("torn-down", ctx.eval_id)

def bot(send=send):
    hooks = {"setup": setup, "teardown": teardown}
    return define_agent(name="bot", evidence_coverage=complete_evidence_coverage, send=send, **hooks)

async def up():
    note("up")
    await asyncio.sleep(1000)

def plain_up():
    note("up")
    time.sleep(1000)

def down():
    note("down")
"""

QUICK = """
from niceeval import define_eval

@define_eval(cases={str(number): number for number in range(%s)})
async def quick(t, number):
    (await t.send("quick")).succeeded()
"""

SLOW = """
from niceeval import define_eval

@define_eval(cases={str(number): number for number in range(%s)})
async def slow(t, number):
    (await t.send("%s")).succeeded()
"""

TIDIES = """
from niceeval import define_eval

@define_eval()
async def tidies(t):
    (await t.send("quick")).succeeded()
"""


def _project(root: Path, how: str = "hangs", *, evals: dict[str, str] | None = None, **arguments: str) -> Path:
    send = "noting.plain_send" if how.startswith("plain") else "noting.send"
    given = {"agent": f"noting.bot({send})", **arguments}
    return project(
        root,
        {
            "adapters/faulty.py": FILES["adapters/faulty.py"],
            "adapters/noting.py": NOTING,
            "experiments/x.py": "from adapters import noting\n" + experiment(**given),
            **(evals or {"evals/quick_eval.py": QUICK % 5, "evals/slow_eval.py": SLOW % (3, how)}),
        },
    )


def _notes(root: Path) -> list[str]:
    path = root / "notes.txt"
    return path.read_text("utf-8").splitlines() if path.exists() else []


def _count(root: Path, words: str) -> int:
    return sum(line.startswith(words) for line in _notes(root))


def _stored(root: Path) -> int:
    # Folders take their names while they are counted, which `rglob` does not bear.
    return sum("result.json" in files for _, _, files in os.walk(root / ".niceeval"))


def _until_line(process: subprocess.Popen[str], text: str) -> list[str]:
    """Read stderr until a line holds the text."""
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"{text!r} was never said: {lines}")


def _waiting_run(root: Path, how: str = "hangs", *, short: bool = True) -> subprocess.Popen[str]:
    """A run whose quick attempts are stored and whose slow ones are under way."""
    # One after the other where a slow one holds the loop: the quick ones come first then, and are stored.
    alone = how in ("spins", "blocks")
    process = start(_project(root, how), *(("--max-concurrency", "1") if alone else ()), short=short)
    wait_for(lambda: _stored(root) == 5 and _count(root, "send slow") == (1 if alone else 3))
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_the_first_signal_ends_the_run_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    """Exit code 130; what was finished is stored, what ran is torn down, and the summary is marked."""
    process = _waiting_run(tmp_path)
    process.send_signal(number)
    done = finish(process, tmp_path)
    assert done.code == 130
    assert "interrupted: 3 attempts cancelled, tearing down; Ctrl-C again leaves at once" in done.err
    assert done.summary["interrupted"] is True
    assert done.summary["cancelled"] == 3
    assert sorted(eval_id for _, eval_id, _ in done.results) == [f"quick/{case}" for case in range(5)]
    assert _count(tmp_path, "torn-down") == _count(tmp_path, "setup") == 8
    assert "Traceback" not in done.out + done.err


def test_what_was_not_started_is_counted(tmp_path: Path) -> None:
    """Results, cancelled and not started attempts make up the plan."""
    _project(tmp_path, evals={"evals/quick_eval.py": QUICK % 5, "evals/slow_eval.py": SLOW % (20, "hangs")})
    process = start(tmp_path, "--max-concurrency", "2")
    wait_for(lambda: _stored(tmp_path) == 5 and _count(tmp_path, "send slow") == 2)
    process.send_signal(signal.SIGINT)
    done = finish(process, tmp_path)
    assert (done.summary["cancelled"], done.summary["notStarted"], len(done.results)) == (2, 18, 5)


@pytest.mark.parametrize("how", ["hangs", "swallows", "spins", "blocks", "plain_hangs", "plain_spins"])
def test_the_first_signal_is_answered_at_once_and_obeyed_soon(tmp_path: Path, how: str) -> None:
    """Also where a guest holds the loop or a thread: the line does not wait for it, and the end only for the grace."""
    process = _waiting_run(tmp_path, how)
    process.send_signal(signal.SIGINT)
    _until_line(process, "interrupted: ")
    done = finish(process, tmp_path)
    assert done.code == 130
    assert done.summary["interrupted"] is True
    assert len(done.results) == 5
    assert _count(tmp_path, "torn-down") == _count(tmp_path, "setup")


@pytest.mark.parametrize("how", ["hangs", "swallows", "spins", "swallows_and_spins", "blocks", "plain_hangs"])
def test_the_second_signal_leaves_at_once(tmp_path: Path, how: str) -> None:
    """Before the real grace period has passed, whatever the guests do; what was stored is whole."""
    process = _waiting_run(tmp_path, how, short=False)
    process.send_signal(signal.SIGINT)
    _until_line(process, "interrupted: ")
    asked = time.monotonic()
    process.send_signal(signal.SIGINT)
    done = finish(process, tmp_path)
    assert time.monotonic() - asked < GRACE
    assert done.code == 130
    assert _stored(tmp_path) == 5


def test_the_second_signal_does_not_wait_for_a_full_pipe(tmp_path: Path) -> None:
    """Nobody reads what the run has to say: it leaves all the same."""
    root = _project(tmp_path, evals={"evals/slow_eval.py": SLOW % (3, "hangs")})
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(write, True)
    process = start(root, short=False, stdout=write, stderr=write)
    os.close(write)
    wait_for(lambda: _count(root, "send slow") == 3)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    asked = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == 130
    assert time.monotonic() - asked < GRACE
    os.close(read)


@pytest.mark.parametrize("hook", ["noting.up", "noting.plain_up"])
def test_a_signal_during_an_experiments_setup(tmp_path: Path, hook: str) -> None:
    """Nothing was started; the teardown is run, since the setup was entered."""
    process = start(_project(tmp_path, setup=hook, teardown="noting.down"))
    wait_for(lambda: _count(tmp_path, "up") == 1)
    process.send_signal(signal.SIGINT)
    done = finish(process, tmp_path)
    assert done.code == 130
    assert done.summary["notStarted"] == 8
    assert _notes(tmp_path) == ["up", "down"]


def test_an_attempt_whose_eval_was_over_keeps_its_result(tmp_path: Path) -> None:
    """A signal that comes during the teardown waits for it and takes nothing away."""
    root = _project(tmp_path, evals={"evals/tidies_eval.py": TIDIES})
    process = start(root)
    wait_for(lambda: _count(root, "teardown tidies") == 1)
    process.send_signal(signal.SIGINT)
    done = finish(process, root)
    assert done.code == 130
    assert done.result("tidies")["outcome"] == "passed"
    assert _count(root, "torn-down") == 1


def test_a_killed_run_has_every_attempt_that_was_finished(tmp_path: Path) -> None:
    """kill -9 in the middle of 200 attempts: each stored one reads whole, and the run as unfinished."""
    root = _project(tmp_path, evals={"evals/quick_eval.py": QUICK % 200})
    process = start(root, "--max-concurrency", "4")
    wait_for(lambda: _stored(root) >= 60)
    process.kill()
    process.wait()
    found = (root / ".niceeval").rglob("result.json")
    folders = [path for path in found if not path.parent.name.startswith(".")]
    finished = [json.loads(path.read_text("utf-8")) for path in folders]
    assert all(result["outcome"] == "passed" for result in finished)
    # A teardown that had ended is followed by sealing and storing; only what ran at the same time may be missing.
    assert len(finished) >= _count(root, "torn-down") - 8
    assert not (run_folder(root) / "summary.json").exists()
    shown = subprocess.run(
        command("show", short=False), cwd=root, env=environment(), capture_output=True, text=True, timeout=60
    )
    assert shown.returncode == 0, shown.stderr
    assert "incomplete" in shown.stdout
    assert f"{len(finished)}" in shown.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_signal_while_the_project_is_loaded(tmp_path: Path, number: signal.Signals) -> None:
    """Exit code 130 and one word, although there is no run yet."""
    root = _project(tmp_path)
    (root / "evals" / "a_eval.py").write_text(
        "import time\nfrom pathlib import Path\nPath('notes.txt').write_text('loading')\ntime.sleep(60)\n"
    )
    process = start(root)
    wait_for(lambda: _notes(root) == ["loading"])
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err.strip().endswith("interrupted")
    assert "Traceback" not in out + err
    assert not (root / ".niceeval").exists()


@pytest.mark.parametrize("module", ["click", "msgspec"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("arguments", [["exp"], ["exp", "--json"]], ids=["text", "json"])
def test_a_signal_while_niceeval_itself_is_loaded(
    tmp_path: Path, module: str, number: signal.Signals, arguments: list[str]
) -> None:
    """One word and exit code 130 from the first moment on; with `--json` the line that ends every run."""
    (tmp_path / f"{module}.py").write_text(f"import os, time\nos.kill(os.getpid(), {int(number)})\ntime.sleep(20)\n")
    path = os.pathsep.join([str(tmp_path), environment()["PYTHONPATH"]])
    line = [sys.executable, "-m", "niceeval", *arguments]
    done = subprocess.run(
        line, cwd=tmp_path, env=environment(PYTHONPATH=path), capture_output=True, text=True, timeout=20
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
    ends = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(end["type"], end["status"], end["exitCode"]) for end in ends] == (
        [("run:summary", "interrupted", 130)] if "--json" in arguments else []
    )
    assert all(Draft202012Validator(events_schema()).is_valid(end) for end in ends)


@pytest.mark.parametrize("closed", [1, 2])
def test_a_run_that_nobody_listens_to_is_stored(tmp_path: Path, closed: int) -> None:
    """Started without stdout or without stderr, as a service may be."""
    root = _project(tmp_path, evals={"evals/quick_eval.py": QUICK % 3})
    done = finish(start(root, preexec_fn=lambda: os.close(closed)), root)
    assert done.code == 0
    assert len(done.results) == 3
    assert "Traceback" not in done.out + done.err


def test_a_real_grace_period_is_enough_for_everybody(tmp_path: Path) -> None:
    """With the limits that users have: the run is over one grace period after the timeout."""
    root = _project(tmp_path, "swallows")
    done = run(root, "--timeout", "1", short=False)
    assert done.code == 1
    assert done.error("slow/0")[0] == "timeout"
    assert done.error("slow/0")[2].endswith("send ignored the cancellation and was abandoned")
    assert GRACE <= done.seconds < 4 * GRACE


# A terminal -----------------------------------------------------------------------------------------------------


class _Terminal:
    """A run on a pseudo-terminal."""

    def __init__(self, root: Path, *arguments: str) -> None:
        self.controller, side = pty.openpty()
        self.before = termios.tcgetattr(side)
        self.side = side
        self.process = subprocess.Popen(
            command("exp", *arguments),
            cwd=root,
            env=environment(TERM="xterm-256color", COLUMNS="100", LINES="30"),
            stdin=side,
            stdout=side,
            stderr=side,
            start_new_session=True,
            preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),
        )
        os.set_blocking(self.controller, False)
        self.said = b""

    def read(self) -> bytes:
        """What has been written up to now."""
        try:
            while chunk := os.read(self.controller, 65536):
                self.said += chunk
        except (BlockingIOError, OSError):
            pass
        return self.said

    def ctrl_c(self) -> None:
        """Type it."""
        os.write(self.controller, b"\x03")

    def end(self) -> int:
        """Wait for the process, reading on, so that it is never held up."""
        wait_for(lambda: (self.read(), self.process.poll() is not None)[1], 30)
        self.read()
        return self.process.returncode


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("how", ["hangs", "spins"])
def test_the_terminal_is_left_as_it_was(tmp_path: Path, how: str, times: int) -> None:
    """Its modes are the same, and the cursor that the board hid is shown again, after one Ctrl-C and after two."""
    terminal = _Terminal(_project(tmp_path, how))
    wait_for(lambda: (terminal.read(), _count(tmp_path, "send slow") >= 1 and b"\x1b[?25l" in terminal.said)[1])
    terminal.ctrl_c()
    wait_for(lambda: b"interrupted" in terminal.read())
    if times == 2:
        terminal.ctrl_c()
    assert terminal.end() == 130
    assert termios.tcgetattr(terminal.side) == terminal.before
    assert terminal.said.rindex(b"\x1b[?25h") > terminal.said.rindex(b"\x1b[?25l")
    assert b"Traceback" not in terminal.said


# The disk -------------------------------------------------------------------------------------------------------

WRITES = """
import os
import shutil
from pathlib import Path

from niceeval.adapter import Message, Turn, complete_evidence_coverage, define_agent

async def send(input, ctx):
    if input.text == "fills":
        return Turn(events=[Message(role="assistant", text="x" * 200_000)])
    (run,) = Path(".niceeval").glob("2*")
    if input.text == "removes":
        shutil.rmtree(run)
    if input.text == "replaces":
        shutil.rmtree(run)
        run.write_text("a file")
    return Turn()

def bot():
    return define_agent(name="bot", evidence_coverage=complete_evidence_coverage, send=send)
"""

ONE_OF = """
from niceeval import define_eval

@define_eval(cases=%s)
async def one(t, case):
    (await t.send(case)).succeeded()
"""


def _writing(root: Path, cases: list[str]) -> Path:
    return project(
        root,
        {
            "adapters/faulty.py": FILES["adapters/faulty.py"],
            "adapters/writes.py": WRITES,
            "evals/one_eval.py": ONE_OF % {f"{number}-{case}": case for number, case in enumerate(cases)},
            "experiments/x.py": "from adapters import writes\n" + experiment(agent="writes.bot()"),
        },
    )


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


def _said_once(done: Done, code: str) -> str:
    (line,) = re.findall(rf"^error\[{code}\]: .*$", done.err, re.M)
    return str(line)


def test_an_attempt_that_the_disk_does_not_take_is_said_and_the_run_goes_on(tmp_path: Path) -> None:
    """The others are stored, the exit code is 1, and the message names the attempt and what the system said."""
    root = _writing(tmp_path, ["good", "fills", "good"])
    done = finish(start(root, preexec_fn=_limited), root)
    assert done.code == 1
    assert "x one/1-fills" in _said_once(done, "cannot-write")
    assert "File too large" in _said_once(done, "cannot-write")
    assert sorted(eval_id for _, eval_id, _ in done.results) == ["one/0-good", "one/2-good"]
    assert "Traceback" not in done.out + done.err


def test_a_summary_that_the_disk_does_not_take_is_said(tmp_path: Path) -> None:
    """The attempts are stored, the run reads as unfinished, and the exit code is 1."""
    root = _writing(tmp_path, ["good"] * 150)
    done = finish(start(root, preexec_fn=_limited), root)
    assert done.code == 1
    assert "summary.json: File too large" in _said_once(done, "cannot-write")
    assert done.summary == {}
    assert _stored(root) == 150
    assert "Traceback" not in done.out + done.err


def _in_the_way(root: Path) -> None:
    (root / ".niceeval").write_text("not a folder")


def _dangling(root: Path) -> None:
    (root / ".niceeval").symlink_to("/proc/nowhere/results")


@pytest.mark.parametrize("spoil", [_in_the_way, _dangling])
def test_a_results_folder_that_cannot_be_made_ends_the_run_before_it_starts(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    """One message with the path, exit code 1, and nothing was sent."""
    root = _writing(tmp_path, ["good"])
    spoil(root)
    process = start(root)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert re.search(r"^error\[cannot-write\]: .*\.niceeval: ", err, re.M)
    assert "Traceback" not in out + err


def test_a_run_folder_that_vanishes_is_made_again(tmp_path: Path) -> None:
    """Somebody cleans up in the middle: what is finished from then on is stored."""
    root = _writing(tmp_path, ["good", "removes", "good"])
    done = run(root, "--max-concurrency", "1")
    assert "Traceback" not in done.out + done.err
    assert "error[broke]" not in done.err


def test_a_run_folder_that_was_replaced_by_a_file_is_said(tmp_path: Path) -> None:
    """Nothing can be stored any more: the run ends with exit code 1 and says so."""
    root = _writing(tmp_path, ["good", "replaces", "good"])
    process = start(root, "--max-concurrency", "1")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "error[cannot-write]: " in err
    assert "error[broke]" not in err
    assert "Traceback" not in out + err
