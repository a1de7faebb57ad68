"""The mistakes that people make, each with its code, its place and what to do next; and never a frame of ours."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from niceeval._cli.main import entry
from tests.unit.project_files import AGENT, EVAL, EXPERIMENT, forget_adapters, write_files

SQL_CASES = "- {q: a, limit: 1}\n- q: b\n  limit: ten\n"
SQL_EVAL = """
from typing import TypedDict
from niceeval import EvalContext, define_eval
from niceeval.loaders import load_yaml

class Row(TypedDict):
    q: str
    limit: int

@define_eval(cases=load_yaml("data/sql_cases.yaml"))
async def sql(t: EvalContext, row: Row) -> None: ...
"""
FAN_OUT = """
from niceeval import define_eval

@define_eval(cases={cases})
async def f(t, row): ...
"""
SWEEP = """
from adapters.bots import bot
from niceeval import define_experiment

base = define_experiment(agent=bot())
experiments = {
    "a": base,
    "b": base.replace(evals=lambda info: "smok" in info.tags),
}
"""
VALIDATED = """
import pydantic
from niceeval import define_eval

class Row(pydantic.BaseModel):
    q: str
    @pydantic.field_validator("q")
    def known(cls, value):
        return {}[value]

@define_eval(cases=[{"q": "x"}])
async def sql(t, row: Row): ...
"""
USING_T = """
from niceeval import EvalContext, define_eval
from niceeval.loaders import load_text

@define_eval()
async def one(t: EvalContext) -> None:
    turn = await t.send("hi")
    {line}
"""
ASKING_AGENT = """
from niceeval.adapter import InputOption, InputRequest, InputRequested, Turn, complete_evidence_coverage, define_agent

OPTIONS = (InputOption(id="approve"), InputOption(id="deny"))

def send(input, ctx):
    return Turn(events=[InputRequested(request=InputRequest(id="r1", options=OPTIONS))], status="waiting")

def bot():
    return define_agent(name="asking", evidence_coverage=complete_evidence_coverage, send=send)
"""
NO_USAGE = """
from niceeval.adapter import Coverage, EvidenceCoverage, Turn, define_agent

COMPLETE = Coverage.complete
COVERAGE = EvidenceCoverage(events=COMPLETE, actions=COMPLETE, messages=COMPLETE, status=COMPLETE, data=COMPLETE)

def bot():
    return define_agent(name="support-bot", evidence_coverage=COVERAGE, send=lambda input, ctx: Turn())
"""

BASE: Mapping[str, str] = {
    "adapters/bots.py": AGENT,
    "evals/weather/brooklyn_eval.py": EVAL,
    "experiments/local.py": EXPERIMENT,
}


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A command line in a project, and what it is told; a file of None is not there."""

    args: str
    code: str
    message: str = ""
    place: str = ""
    next: str = ""
    files: Mapping[str, str | None] = field(default_factory=dict)


def with_eval(text: str) -> dict[str, str | None]:
    return {"evals/weather/brooklyn_eval.py": None, "evals/a_eval.py": text}


def with_line(line: str) -> dict[str, str | None]:
    return with_eval(USING_T.format(line=line))


MISTAKES: Mapping[str, Mistake] = {
    "no command": Mistake(
        args="weather",
        code="not-a-command",
        message='"weather" is not a command; it matches the eval weather/brooklyn',
        next="niceeval exp local weather",
    ),
    "a command misspelt": Mistake(
        args="lst", code="not-a-command", message='"lst" is not a command; list is close', next="niceeval list"
    ),
    "an experiment as a command": Mistake(args="local", code="not-a-command", next="niceeval exp local"),
    "no such option": Mistake(
        args="exp --run 5",
        code="usage",
        message="exp has no option --run; --runs is close",
        next="niceeval exp --help",
    ),
    "an option without its value": Mistake(args="exp --runs", code="usage", message="--runs needs a value"),
    "an option's value": Mistake(
        args="exp --runs many", code="usage", message="--runs is 'many'; it is a whole number"
    ),
    "no runs": Mistake(args="exp --runs 0", code="usage", message="--runs is 0; an eval runs at least once"),
    "no concurrency": Mistake(args="exp --max-concurrency 0", code="usage", message="--max-concurrency is 0"),
    "a negative timeout": Mistake(args="exp --timeout -1", code="usage", message="--timeout is -1"),
    "an option of another tool": Mistake(
        args="exp --repeat 5", code="usage", message="exp has no option --repeat; it is --runs here"
    ),
    "a short option of another tool": Mistake(
        args="exp -k weather", code="usage", message="exp has no option -k; it is --eval here"
    ),
    "an option of another tool, where there is nothing like it": Mistake(
        args="list --no-cache", code="usage", message="list has no option --no-cache\n"
    ),
    "an extra argument": Mistake(args="list weather", code="usage", message="list takes no argument weather"),
    "outside a project": Mistake(
        args="exp",
        files=dict.fromkeys(BASE),
        code="no-project",
        message="no niceeval_config.py, evals/ or experiments/ here or above",
        next="niceeval init",
    ),
    "no experiments": Mistake(
        args="exp",
        files={"experiments/local.py": None},
        code="no-experiments",
        message="experiments/ has no experiment",
        next="write experiments/local.py: experiment = define_experiment(...)",
    ),
    "an experiment misspelt": Mistake(
        args="exp compar",
        files={"experiments/compare/bub.py": EXPERIMENT},
        code="unknown-experiment",
        message='no experiment or group "compar"; "compare" is close',
        next="niceeval exp compare",
    ),
    "an eval as experiment": Mistake(
        args="exp weather/brooklyn",
        code="eval-as-experiment",
        message='"weather/brooklyn" is an eval; exp takes the experiment first',
        next="niceeval exp local weather/brooklyn",
    ),
    "an eval's path as experiment": Mistake(
        args="exp evals/weather/brooklyn_eval.py",
        code="eval-as-experiment",
        next="niceeval exp local weather/brooklyn",
    ),
    "an experiment's path": Mistake(
        args="exp ./experiments\\local.py", code="unknown-experiment", next="niceeval exp local"
    ),
    "an eval's path as prefix": Mistake(
        args="exp local evals/weather/brooklyn_eval.py",
        code="nothing-selected",
        next="write weather/brooklyn, its id",
    ),
    "only evals under a name that nothing loads": Mistake(
        args="exp",
        files={"evals/weather/brooklyn_eval.py": None, "evals/order.py": EVAL},
        code="nothing-selected",
        message="warning[eval-file-name]: @define_eval in a file whose name does not end in _eval.py",
        next="rename it order_eval.py",
    ),
    "a prefix that hits nothing": Mistake(
        args="exp local weather/brook",
        code="nothing-selected",
        message='no eval of local is "weather/brook" or under "weather/brook/"',
        next="niceeval list",
    ),
    "--eval that hits nothing": Mistake(args="exp --eval nope", code="nothing-selected", next="niceeval list"),
    "a tag that hits nothing": Mistake(args="exp --tag nope", code="nothing-selected", next="niceeval list"),
    "an import that fails": Mistake(
        args="exp",
        files={"evals/a_eval.py": "import re\n\nimport adaptrs\n"},
        code="load-failed",
        message="ModuleNotFoundError: No module named 'adaptrs'",
        place="evals/a_eval.py:3:1",
        next="fix this file; the other 2 were loaded",
    ),
    "a syntax error": Mistake(
        args="list",
        files={"evals/a_eval.py": "def f(:\n"},
        code="load-failed",
        message="SyntaxError: invalid syntax",
        place="evals/a_eval.py:1:7",
    ),
    "a broken config": Mistake(
        args="exp",
        files={"niceeval_config.py": "from niceeval import define_config\n\nconfig = define_config(timout=5)\n"},
        code="load-failed",
        message="TypeError: define_config() got an unexpected keyword argument 'timout'",
        place="niceeval_config.py:3:10",
    ),
    "a file without an eval": Mistake(
        args="exp",
        files={"evals/a_eval.py": "from evals.weather.brooklyn_eval import one\n"},
        code="no-eval",
        message="no function here has @define_eval; imported ones do not count",
        place="evals/a_eval.py:1:1",
        next="decorate one, or rename the file",
    ),
    "a file without an experiment": Mistake(
        args="exp", files={"experiments/x.py": "x = 1\n"}, code="no-experiment", place="experiments/x.py:1:1"
    ),
    "one id twice": Mistake(
        args="exp",
        files={
            "evals/sql_eval.py": FAN_OUT.format(cases="[1]"),
            "evals/sql/0000_eval.py": EVAL,
        },
        code="duplicate-id",
        message="sql/0000 is defined twice (evals/sql_eval.py:3:1 and evals/sql/0000_eval.py:3:1)",
        next="rename one file",
    ),
    "no cases": Mistake(
        args="exp",
        files={"evals/sql_eval.py": FAN_OUT.format(cases="[]")},
        code="empty-cases",
        message="cases= has no rows",
        place="evals/sql_eval.py:3:14",
        next="give at least one row, or remove cases=",
    ),
    "a bad row": Mistake(
        args="exp",
        files={"evals/sql_eval.py": SQL_EVAL, "evals/data/sql_cases.yaml": SQL_CASES},
        code="case-row",
        message='case 0001, field limit: expected int, got "ten"',
        place="evals/data/sql_cases.yaml:3:10",
        next="correct the row, or the annotation at evals/sql_eval.py:10:36",
    ),
    "a part of a sweep that selects nothing": Mistake(
        args="exp",
        files={"experiments/local.py": SWEEP},
        code="nothing-selected",
        message="evals= of local/b selects none of the evals",
        place="experiments/local.py:7:10",
        next="niceeval list",
    ),
    "rows that are gone again": Mistake(
        args="exp",
        files={"evals/sql_eval.py": "ROWS = [1]\n" + FAN_OUT.format(cases="ROWS") + "\nROWS.clear()\n"},
        code="empty-cases",
        place="evals/sql_eval.py:5:14",
    ),
    "a validator that raises": Mistake(
        args="list",
        files={"evals/sql_eval.py": VALIDATED},
        code="case-row",
        message="case 0000, field (the row): cannot become Row: KeyError: 'x'",
        place="evals/sql_eval.py:10:14",
    ),
    "flags that are not JSON": Mistake(
        args="exp",
        files={"experiments/local.py": EXPERIMENT.replace("bot())", "bot(),\n    flags={'a': {'b': {1}}})")},
        code="flags-not-json",
        message="flags.a.b is not JSON: it is a set",
        place="experiments/local.py:5:5",
    ),
    "a plain function": Mistake(
        args="exp",
        files={"evals/a_eval.py": "from niceeval import define_eval\n\n@define_eval()\ndef one(t): ...\n"},
        code="not-async",
        message="eval one is a plain function",
        place="evals/a_eval.py:3:2",
        next="write `async def one`",
    ),
    "a loader in a test": Mistake(
        args="exp",
        files=with_line('load_text("data/x.txt")'),
        code="loader-in-test",
        message="load_text ran inside the eval, so its data cannot join the fingerprint",
        place="evals/a_eval.py:7:5",
        next="move the call to module level",
    ),
    "assert on a handle": Mistake(
        args="exp",
        files=with_line('assert turn.called_tool("x")'),
        code="handle-as-bool",
        message="an assertion handle has no truth value; the call recorded itself",
        place="evals/a_eval.py:7:",
        next="remove `assert`",
    ),
    "an option that was not offered": Mistake(
        args="exp",
        files={
            **with_line('await t.respond(turn.events[-1].request.choose("aprove"))'),
            "adapters/bots.py": ASKING_AGENT,
        },
        code="unknown-option",
        message='request r1 has no option "aprove"; it has approve, deny',
        place="evals/a_eval.py:7:",
        next='request.choose("approve")',
    ),
    "a send that is not awaited": Mistake(
        args="exp",
        files=with_line('t.send("And tomorrow?")'),
        code="send-not-awaited",
        place="evals/a_eval.py:7:5",
        next="write `await t.send(...)`",
    ),
    "t.sandbox of a direct agent": Mistake(
        args="exp",
        files=with_line("t.sandbox"),
        code="no-sandbox",
        place="evals/a_eval.py:7:5",
        next="use define_sandbox_agent, or remove the call",
    ),
    "no sandbox": Mistake(
        args="exp",
        files={"experiments/local.py": EXPERIMENT.replace("bot", "boxed").replace("boxeds", "bots")},
        code="sandbox-not-set",
        message="agent boxed needs a sandbox",
        place="experiments/local.py:4:14",
    ),
    "a send that cannot be called": Mistake(
        args="exp",
        files={"adapters/bots.py": AGENT.replace("send(input, ctx)", "send(input)")},
        code="agent-invalid",
        message="agent bot: send is called as send(input, ctx): too many positional arguments",
        place="adapters/bots.py:7:12",
        next="write `def send(input, ctx)`",
    ),
    "a channel that is missing": Mistake(
        args="exp",
        files={"adapters/bots.py": NO_USAGE},
        code="coverage-missing",
        message="agent support-bot says nothing about usage",
        place="adapters/bots.py:7:12",
        next='usage=Coverage.complete, or Coverage.unavailable("why")',
    ),
    "clean in CI": Mistake(
        args="clean",
        files={".niceeval/2026-07-02T03-10-24-123Z/summary.json": "{}"},
        code="needs-yes",
        message="clean asks before deleting 1 run (2 B), and stdin is no terminal",
        next="niceeval clean --yes",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_named_placed_and_answered(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1; code, message, place and next step as designed; no traceback and no file of niceeval's own."""
    files = {name: text for name, text in {**BASE, **mistake.files}.items() if text is not None}
    write_files(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    forget_adapters()
    code = entry(mistake.args.split())
    out, err = capsys.readouterr()
    printed = out + err
    assert code == 1, printed
    assert mistake.code in printed, printed
    for expected in (mistake.message, mistake.place, mistake.next and f"next: {mistake.next}"):
        assert expected in printed, printed
    assert "Traceback" not in printed, printed
    assert "niceeval/_" not in printed, printed


@pytest.mark.parametrize("args", ["list", "exp", "exp list", "show", "init", "why @a1b2c3d", "clean"])
def test_a_current_folder_that_is_gone_is_said(
    args: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another terminal deleted it."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    code = entry(args.split())
    err = capsys.readouterr().err
    assert (code, err.partition("\n")[0]) == (
        1,
        "error[no-folder]: the current folder is not there any more, or may not be read",
    )


@pytest.mark.parametrize("word", ["weather/brooklyn", "weather", "local", "local/"])
def test_show_of_an_id_names_the_newest_attempt(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An eval's, an experiment's, or what lies above one."""
    write_files(tmp_path, BASE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    forget_adapters()
    assert entry(["exp"]) == 0
    capsys.readouterr()
    assert entry(["show", word]) == 1
    err = capsys.readouterr().err
    kind = "eval" if word.startswith("weather") else "experiment"
    assert f'error[not-a-target]: "{word}" is the id of an {kind}; show takes an attempt, a run' in err
    command = err.partition("next: niceeval ")[2].partition(",")[0]
    assert entry(command.split()) == 0
    assert "weather/brooklyn" in capsys.readouterr().out
