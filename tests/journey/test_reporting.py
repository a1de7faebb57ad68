"""What a run tells others: one truth from attempts to exit code, JUnit and Markdown; `--json` however a run ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from lxml import etree

from niceeval._cli.main import entry
from niceeval.reporters import events_schema
from tests.unit.project_files import AGENT, EVAL, EXPERIMENT, forget_adapters, write_files

SCHEMA = Draft202012Validator(events_schema())

ADAPTER = """
from niceeval.adapter import Coverage, EvidenceCoverage, Turn, define_agent


def send(input, ctx):
    print("an adapter that prints")
    word = input.text.split()[ctx.attempt]
    if word == "errored":
        raise ConnectionError("the service is down")
    return Turn(events=[{"type": "message", "role": "assistant", "text": word}])


agent = define_agent(
    name="bot",
    evidence_coverage=EvidenceCoverage.complete_except(actions=Coverage.partial("half of them are sent")),
    send=send,
)
"""

VERDICTS = """
from niceeval import define_eval
from niceeval.expect import equals


@define_eval()
async def verdicts(t):
    turn = await t.send({words!r})
    if turn.message == "skipped":
        t.skip("no key")
    if turn.message == "soft":
        t.check(turn.message, equals("passed")).at_least(1)
        return
    if turn.message in ("unavailable", "optional"):
        entry = turn.not_called_tool("refund")
        if turn.message == "optional":
            entry.optional()
        turn.message_includes(turn.message)
        return
    t.check(turn.message, equals("passed"))
"""

EXPERIMENTS = """
from adapters.words import agent
from niceeval import define_experiment

experiment = define_experiment(agent=agent, runs={runs}, early_exit={early_exit}, max_concurrency=1)
"""


@dataclass(frozen=True)
class Row:
    """Words say how each attempt goes; `attempts` is what they come to, in the order they ran."""

    words: str
    attempts: Sequence[str]
    outcome: str
    exit_code: int
    junit: Sequence[str]
    early_exit: bool = False
    strict: bool = False


TRUTH = [
    Row("passed", ["passed"], "passed", 0, ["-"]),
    Row("failed", ["failed"], "failed", 1, ["failure"]),
    Row("errored", ["errored"], "errored", 1, ["error"]),
    Row("skipped", ["skipped"], "skipped", 0, ["skipped"]),
    Row("unavailable", ["errored"], "errored", 1, ["error"]),
    Row("optional", ["passed"], "passed", 0, ["-"]),
    Row("soft", ["passed"], "passed", 0, ["-"]),
    Row("soft", ["failed"], "failed", 1, ["failure"], strict=True),
    Row("failed passed", ["failed", "passed"], "passed", 0, ["flakyFailure", "-"]),
    Row("errored passed", ["errored", "passed"], "passed", 0, ["flakyError", "-"]),
    Row("failed errored", ["failed", "errored"], "failed", 1, ["failure", "error"]),
    Row("skipped failed", ["skipped", "failed"], "failed", 1, ["skipped", "failure"]),
    Row("skipped passed", ["skipped", "passed"], "passed", 0, ["skipped", "-"]),
    Row("passed failed", ["passed"], "passed", 0, ["-"], early_exit=True),
    Row("errored passed", ["errored"], "errored", 1, ["error"], early_exit=True),
    Row("failed passed", ["failed", "passed"], "passed", 0, ["flakyFailure", "-"], early_exit=True),
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run one command line in a project of these files; gives exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def command(line: str, files: Mapping[str, str]) -> tuple[int, str, str]:
        write_files(tmp_path, files)
        forget_adapters()
        capfd.readouterr()
        code = entry(line.split())
        out, err = capfd.readouterr()
        return code, out, err

    return command


def in_a_process(folder: Path, line: str, files: Mapping[str, str]) -> subprocess.Popen[str]:
    """The same as a process of its own, whose stdout is the descriptor 1."""
    write_files(folder, files)
    return subprocess.Popen(
        [sys.executable, "-m", "niceeval", *line.split()],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def events_of(stdout: str) -> list[dict[str, Any]]:
    """Every line decoded and held to the schema; the summary is there once, and last."""
    records = [json.loads(line) for line in stdout.splitlines()]
    for record in records:
        SCHEMA.validate(record)
    assert [record["type"] for record in records].count("run:summary") == 1
    assert records[-1]["type"] == "run:summary"
    return records


@pytest.mark.parametrize(
    "row", TRUTH, ids=lambda row: f"{row.words}{' early' * row.early_exit}{' strict' * row.strict}"
)
def test_every_form_tells_the_same(row: Row, run: Callable[..., Any], tmp_path: Path) -> None:
    """Attempts, the eval's outcome, the exit code, JUnit and Markdown agree."""
    files = {
        "adapters/words.py": ADAPTER,
        "evals/a_eval.py": VERDICTS.format(words=row.words),
        "experiments/local.py": EXPERIMENTS.format(runs=len(row.words.split()), early_exit=row.early_exit),
    }
    command = "exp local --json --junit out/junit.xml --markdown out/report.md" + " --strict" * row.strict
    code, out, err = run(command, files)
    events = events_of(out)
    assert code == events[-1]["exitCode"] == row.exit_code, err
    assert events[-1]["status"] == ("passed" if row.exit_code == 0 else row.outcome)
    outcomes = [record["outcome"] for record in events if record["type"] == "eval:complete"]
    assert outcomes == row.attempts
    assert events[-1]["cancelled"] == len(row.words.split()) - len(row.attempts)
    root = etree.parse(tmp_path / "out/junit.xml").getroot()
    said = [[child.tag for child in test if child.tag != "system-out"] for test in root.iter("testcase")]
    assert [tags[0] if tags else "-" for tags in said] == list(row.junit)
    red = int(root.get("failures")) + int(root.get("errors"))
    assert (red > 0) == (row.exit_code != 0)
    markdown = (tmp_path / "out/report.md").read_text("utf-8")
    assert f"## niceeval: {events[-1]['status'].upper()}" in markdown
    assert ("### Not passed" in markdown) == (row.exit_code != 0)
    assert bool(re.search(rf"<summary>. {row.outcome} ", markdown)) == (row.exit_code != 0)


def test_what_guests_print_does_not_reach_stdout(tmp_path: Path) -> None:
    """Neither print, nor what is written to descriptor 1, nor a child process, nor a file's top level."""
    noisy = """
    import os
    import subprocess
    import sys

    from niceeval import define_eval

    print("while loading")

    @define_eval()
    async def one(t):
        print("printed")
        os.write(1, b"written\\n")
        subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
    """
    files = {"adapters/bots.py": AGENT, "experiments/e.py": EXPERIMENT, "evals/a_eval.py": noisy}
    process = in_a_process(tmp_path, "exp --json", files)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    events_of(out)
    for text in ("while loading", "printed", "written", "from a child"):
        assert text in err


def test_stderr_stays_plain_sentences(run: Callable[..., Any]) -> None:
    """Progress lines, no JSON, and none of the blocks that belong to stdout."""
    files = {"adapters/bots.py": AGENT, "experiments/e.py": EXPERIMENT, "evals/a_eval.py": EVAL}
    _, _, err = run("exp --json", files)
    assert err.splitlines()[0].startswith("niceeval ")
    assert [line for line in err.splitlines() if line.startswith("✓ passed")]
    assert "{" not in err


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("exp --json --runs many", "usage"),
        ("exp nowhere --json", "unknown-experiment"),
        ("exp --nosuch --json", "usage"),
        ("exp --json --runs 0", "usage"),
    ],
)
def test_wrong_usage_is_a_summary_alone(run: Callable[..., Any], line: str, code: str) -> None:
    """With the problem, its hint, and the exit code."""
    files = {"adapters/bots.py": AGENT, "experiments/e.py": EXPERIMENT, "evals/a_eval.py": EVAL}
    exit_code, out, err = run(line, files)
    (summary,) = events_of(out)
    assert (exit_code, summary["exitCode"], summary["status"]) == (1, 1, "incomplete")
    assert [problem["code"] for problem in summary["problems"]] == [code]
    assert f"error[{code}]" in err


def test_outside_of_a_project_too(run: Callable[..., Any]) -> None:
    """Where there is nothing to run at all."""
    code, out, _ = run("exp --json", {})
    assert (code, [problem["code"] for problem in events_of(out)[-1]["problems"]]) == (1, ["no-project"])


def test_a_file_that_does_not_load_is_in_the_summary(run: Callable[..., Any], tmp_path: Path) -> None:
    """The rest runs; JUnit has it as an error."""
    files = {
        "adapters/bots.py": AGENT,
        "experiments/e.py": EXPERIMENT,
        "evals/a_eval.py": EVAL,
        "evals/b_eval.py": "import nothing_of_that_name\n",
    }
    code, out, _ = run("exp --json --junit j.xml", files)
    events = events_of(out)
    assert (code, events[-1]["status"], events[-1]["passed"]) == (1, "incomplete", 1)
    assert [problem["code"] for problem in events[0]["problems"]] == ["load-failed"]
    assert [problem["code"] for problem in events[-1]["problems"]] == ["load-failed"]
    assert [error.get("type") for error in etree.parse(tmp_path / "j.xml").iter("error")] == ["load-failed"]


def test_when_nothing_loads_every_report_says_so(run: Callable[..., Any], tmp_path: Path) -> None:
    """There is no run, but CI finds what it waits for."""
    files = {"adapters/bots.py": AGENT, "experiments/e.py": EXPERIMENT, "evals/b_eval.py": "import nothing_like_it\n"}
    code, out, _ = run("exp --json --junit j.xml --markdown m.md", files)
    assert code == 1
    assert {problem["code"] for problem in events_of(out)[-1]["problems"]} >= {"load-failed"}
    assert "load-failed" in [error.get("type") for error in etree.parse(tmp_path / "j.xml").iter("error")]
    assert "load-failed" in (tmp_path / "m.md").read_text("utf-8")


def test_a_report_that_cannot_be_written_stops_the_run_before_it_starts(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    """Nothing is spent for a file that will not be there."""
    files = {"adapters/bots.py": AGENT, "experiments/e.py": EXPERIMENT, "evals/a_eval.py": EVAL, "taken": ""}
    code, _, err = run("exp --junit taken/j.xml", files)
    assert code == 1
    assert "error[cannot-write]" in err
    assert not (tmp_path / ".niceeval").exists()


TAKES_THE_FILE = """
from pathlib import Path
from niceeval import define_eval

@define_eval()
async def takes(t):
    for name in ("j.xml", "m.md"):
        Path(name).mkdir()
"""


def test_a_file_that_was_asked_for_and_is_not_there_is_a_problem_of_the_run(run: Callable[..., Any]) -> None:
    """What the command line asks for counts: exit code 1, and the path rather than lines of code is named."""
    files = {"adapters/bots.py": AGENT, "experiments/e.py": EXPERIMENT, "evals/a_eval.py": TAKES_THE_FILE}
    code, out, err = run("exp --json --junit j.xml --markdown m.md", files)
    last = events_of(out)[-1]
    assert (code, last["exitCode"], last["status"], last["passed"]) == (1, 1, "incomplete", 1)
    assert [problem["code"] for problem in last["problems"]] == ["cannot-write"] * 2
    assert re.search(r"error\[cannot-write\]: reporter JUnit: .*j\.xml", err)
    assert ".py:" not in err
    assert "contextlib" not in err


CONFIG = """
from niceeval import define_config

class Writes:
    wants_progress = True
    def __init__(self, path):
        self.path = path
    async def handle(self, event):
        with open(self.path, "a") as file:
            print(type(event).__name__, getattr(event, "key", None) and event.key.eval_id, file=file)

class Raises:
    def handle(self, event):
        raise ValueError("boom")

config = define_config(reporters=[Writes("whole.txt"), Raises()])
"""

TWO_EVALS = """
from niceeval import define_eval
from niceeval_config import Writes

@define_eval(reporters=[Writes("own.txt")])
async def one(t):
    await t.send("hi")

@define_eval()
async def other(t):
    pass
"""


def test_reporters_of_the_project_and_of_an_eval_are_told(run: Callable[..., Any], tmp_path: Path) -> None:
    """One that raises costs a line on stderr and nothing else."""
    files = {
        "adapters/bots.py": AGENT,
        "experiments/e.py": EXPERIMENT,
        "niceeval_config.py": CONFIG,
        "evals/a_eval.py": TWO_EVALS,
    }
    code, out, err = run("exp", files)
    assert code == 0
    assert err.count("error[reporter-failed]: reporter Raises raised ValueError: boom at ") == 1
    assert out.splitlines()[-1] == "PASSED (exit 0)"
    whole = (tmp_path / "whole.txt").read_text("utf-8").splitlines()
    own = (tmp_path / "own.txt").read_text("utf-8").splitlines()
    assert whole[0] == own[0] == "RunStart None"
    assert whole[-1] == own[-1] == "RunFinished None"
    assert {"EvalComplete a/one", "EvalComplete a/other", "Progress a/one"} <= set(whole)
    assert {line.split()[1] for line in own} == {"None", "a/one"}


@pytest.mark.parametrize("argument", ["reporters=[object()]", "reporters=[Writes]", "reporters=Writes('x')"])
def test_what_is_no_reporter_is_said_where_it_is_named(run: Callable[..., Any], argument: str) -> None:
    """At the argument."""
    config = CONFIG.replace('reporters=[Writes("whole.txt"), Raises()]', argument)
    files = {"adapters/bots.py": AGENT, "experiments/e.py": EXPERIMENT, "evals/a_eval.py": EVAL}
    code, _, err = run("exp", {**files, "niceeval_config.py": config})
    assert code == 1
    assert "error[bad-argument]: define_config: reporters" in err
    assert "niceeval_config.py:15:24" in err


SLOW = """
import asyncio
import time

from niceeval import define_eval


@define_eval()
async def a_quick_one(t):
    pass


@define_eval()
async def slow(t):
    try:
        await asyncio.sleep(60)
    finally:
        if {stubborn}:
            time.sleep(2)
"""


def interrupted(folder: Path, *, stubborn: bool, signals: int) -> tuple[int, str, str]:
    """A run whose quick attempt is done and whose slow one is then interrupted."""
    files = {
        "adapters/bots.py": AGENT,
        "experiments/e.py": EXPERIMENT,
        "evals/a_eval.py": SLOW.format(stubborn=stubborn),
    }
    process = in_a_process(folder, "exp --json", files)
    assert process.stdout is not None
    seen = ""
    while '"eval:complete"' not in seen:
        line = process.stdout.readline()
        assert line, "the run ended before its first attempt was over"
        seen += line
    for number in range(signals):
        process.send_signal(signal.SIGINT)
        if number + 1 < signals:
            time.sleep(0.5)
    out, err = process.communicate(timeout=30)
    return process.returncode, seen + out, err


@pytest.mark.slow
def test_ctrl_c_ends_with_a_summary(tmp_path: Path) -> None:
    """Status, exit code, and what was not finished."""
    code, out, err = interrupted(tmp_path, stubborn=False, signals=1)
    summary = events_of(out)[-1]
    assert (code, summary["exitCode"], summary["status"]) == (130, 130, "interrupted"), err
    assert (summary["passed"], summary["cancelled"] + summary["notStarted"]) == (1, 1)


@pytest.mark.slow
def test_leaving_at_once_ends_with_a_summary_too(tmp_path: Path) -> None:
    """A second Ctrl-C, while an eval does not let go."""
    code, out, _ = interrupted(tmp_path, stubborn=True, signals=2)
    summary = events_of(out)[-1]
    assert (code, summary["exitCode"], summary["status"]) == (130, 130, "interrupted")
