"""What is run again after a change and what is not, and what `--dry` says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import niceeval._version
from tests.journey.carry_project import BOT, PRICES, CarryProject, copied, enter

LOCAL = '''
"""The experiment that most tests run."""

from adapters.bots import bot
from niceeval import define_experiment

# Chosen in May.
experiment = define_experiment(
    agent=bot("calm"),
    description="first",
    model="acme-1",
    reasoning_effort="low",
    flags={"prompt": "a"},
    labels={"line": "support"},
    runs=1,
    timeout=60,
    budget=5.0,
    max_concurrency=4,
    evals="*",
)
'''
SWEEP = """
from adapters.bots import bot
from niceeval import define_experiment

base = define_experiment(agent=bot(), evals=["plain"])
experiments = {
    "small": base.replace(model="acme-small", flags={"size": 1}),
    "large": base.replace(model="acme-large"),
}
"""
SIZES = """
from adapters.bots import bot
from niceeval import define_experiment

SIZES = ["small", "large"]
base = define_experiment(agent=bot(), evals=["plain"])
experiments = {size: base.replace(model=f"acme-{size}") for size in SIZES}
"""
VERSIONED = """
from adapters.bots import bot
from niceeval import define_experiment

def build():
    with open("build.txt") as file:
        return file.read()

experiments = {
    "text": define_experiment(agent=bot(version="build 1"), evals=["plain"]),
    "asked": define_experiment(agent=bot(version=build), evals=["plain"]),
}
"""
SHARING = """
# The same for all.
from evals._shared import question
from niceeval import define_eval

@define_eval()
async def shares(t):
    (await t.send(question())).succeeded()
"""
SQL = """
from niceeval import define_eval
from niceeval.loaders import load_yaml

@define_eval(cases=load_yaml("data/sql_cases.yaml"))
async def sql(t, row):
    (await t.send(row["question"])).succeeded()
"""
RULES = """
from niceeval import define_eval
from niceeval.loaders import load_text

RULES = load_text("data/rules.txt")

@define_eval()
async def rules(t):
    (await t.send(RULES)).succeeded()
"""
PLAIN = """
from niceeval import define_eval

@define_eval(timeout=None)
async def plain(t):
    (await t.send("slow")).succeeded()
"""
FILES = {
    "adapters/bots.py": BOT,
    "adapters/prices.py": PRICES,
    "evals/_shared.py": 'def question():\n    return "How are you?"\n',
    **{f"evals/shares/n{number:02}_eval.py": SHARING for number in range(30)},
    "evals/sql_eval.py": SQL,
    "evals/data/sql_cases.yaml": "- question: one\n- question: two\n- question: three\n- question: four\n",
    "evals/rules_eval.py": RULES,
    "evals/data/rules.txt": "Be kind.\n",
    "evals/plain_eval.py": PLAIN,
    "experiments/local.py": LOCAL,
    "experiments/sweep.py": SWEEP,
    "experiments/sizes.py": SIZES,
    "experiments/versioned.py": VERSIONED,
    "build.txt": "7",
    "notes.txt": "read by hand",
}


@pytest.fixture(scope="module")
def ran_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project after its experiments were run once; 36 evals of which 30 share a module."""
    root = tmp_path_factory.mktemp("ran-before")
    with pytest.MonkeyPatch.context() as monkeypatch:
        project = enter(root, monkeypatch, _Deaf())  # type: ignore[arg-type]
        project.write(FILES)
        assert len(project.run().calls) == 36 + 6
    return root


class _Deaf:
    def readouterr(self) -> object:
        return type("Captured", (), {"out": "", "err": ""})


@pytest.fixture
def project(
    ran_before: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CarryProject:
    """A copy of it."""
    copied(ran_before, tmp_path)
    capsys.readouterr()
    return enter(tmp_path, monkeypatch, capsys)


@dataclass(frozen=True)
class Change:
    """What is changed, and what has to be run again for it: how many attempts, for which reason.

    `edit` is (file, old text, new text); `run` counts the attempts that run; the rest of `of` is carried.
    """

    what: str
    edit: tuple[str, str, str] | None = None
    arguments: tuple[str, ...] = ("local",)
    run: int = 0
    why: str = ""
    of: int = 36
    also: Callable[[Path], object] = lambda _: None


LOCAL_FILE, SWEEP_FILE, BOTS = "experiments/local.py", "experiments/sweep.py", "adapters/bots.py"
SOURCE = "changed: experiment source: experiments/local.py"

CHANGES = [
    Change("nothing"),
    # The evals' side.
    Change("the prompt in an eval", ("evals/plain_eval.py", '"slow"', '"quick"'), run=1,
           why="changed: eval source: evals/plain_eval.py"),
    Change("a comment in an eval", ("evals/shares/n07_eval.py", "# The same for all.", "# The same."), run=1,
           why="changed: eval source: evals/shares/n07_eval.py"),
    Change("a module that 30 evals import", ("evals/_shared.py", "How are you?", "How do you do?"), run=30,
           why="changed: eval source: evals/_shared.py"),
    Change("the row of one case", ("evals/data/sql_cases.yaml", "three", "drei"), run=1,
           why="changed: row 0002 of evals/data/sql_cases.yaml"),
    Change("a comment among the rows", ("evals/data/sql_cases.yaml", "- question: two", "# 2\n- {question: two}")),
    Change("data that is no row", ("evals/data/rules.txt", "kind", "brief"), run=1,
           why="changed: data: evals/data/rules.txt"),
    Change("a file that nobody opens", ("notes.txt", "hand", "eye")),
    Change("a new eval beside the others", also=lambda root: (root / "evals/new_eval.py").write_text(
        PLAIN.replace("plain", "new"), "utf-8"), run=1, why="no earlier result", of=37),
    # The experiment's side.
    Change("a flag added", (LOCAL_FILE, '{"prompt": "a"}', '{"prompt": "a", "deep": [1]}'), run=36,
           why="changed: flags.deep: (none) -> [1]"),
    Change("a flag changed", (LOCAL_FILE, '"a"', '"b"'), run=36, why='changed: flags.prompt: "a" -> "b"'),
    Change("a flag with a long value", (LOCAL_FILE, '"a"', f'"{"b" * 300}"'), run=36, why="changed: flags.prompt"),
    Change("the model", (LOCAL_FILE, "acme-1", "acme-2"), run=36, why='changed: model: "acme-1" -> "acme-2"'),
    Change("the reasoning effort", (LOCAL_FILE, '"low"', '"high"'), run=36,
           why='changed: reasoning_effort: "low" -> "high"'),
    Change("four things", (LOCAL_FILE, 'model="acme-1",\n    reasoning_effort="low",\n    flags={"prompt": "a"}',
                           'model=None,\n    reasoning_effort="high",\n    flags={"x": 1, "y": 2}'), run=36,
           why="changed: flags.prompt: \"a\" -> (none); flags.x: (none) -> 1; flags.y: (none) -> 2; 2 more"),
    Change("strict", arguments=("local", "--strict"), run=36, why="changed: strict: false -> true"),
    Change("an argument of the agent's factory", (LOCAL_FILE, 'bot("calm")', 'bot("terse")'), run=36, why=SOURCE),
    Change("the adapter", (BOTS, '"hello"', '"Hello"'), run=36, why="changed: adapter source: adapters/bots.py"),
    Change("a module that the adapter imports", ("adapters/prices.py", "0.001", "0.002"), run=36,
           why="changed: adapter source: adapters/prices.py"),
    Change("the agent's name", (BOTS, 'name="bot"', 'name="robot"'), run=36,
           why='changed: adapter source: adapters/bots.py; agent: "bot" -> "robot"'),
    # What cannot change an attempt.
    Change("labels", (LOCAL_FILE, "support", "sales")),
    Change("description", (LOCAL_FILE, "first", "second")),
    Change("a longer timeout", (LOCAL_FILE, "timeout=60", "timeout=600")),
    Change("the budget", (LOCAL_FILE, "budget=5.0", "budget=50.0")),
    Change("no budget", (LOCAL_FILE, "    budget=5.0,\n", "")),
    Change("max_concurrency", (LOCAL_FILE, "max_concurrency=4", "max_concurrency=1")),
    Change("early_exit", (LOCAL_FILE, "runs=1", "runs=1, early_exit=False")),
    Change("which evals", (LOCAL_FILE, 'evals="*"', 'evals=["sql", "plain"]'), of=5),
    Change("a comment in the experiment's file", (LOCAL_FILE, "Chosen in May.", "Chosen in June.")),
    Change("the text at its head", (LOCAL_FILE, "most tests", "every test")),
    Change("its layout", (LOCAL_FILE, 'bot("calm"),\n', "bot(\n        'calm'\n    ),\n\n")),
    Change("the order of its arguments' lines", (LOCAL_FILE, "    runs=1,\n    timeout=60,\n",
                                                 "    timeout=60,\n    runs=1,\n")),
    Change("a value given by a name", (LOCAL_FILE, "runs=1", "runs=RUNS"),
           also=lambda root: _prepend(root / LOCAL_FILE, "RUNS = 1\n")),
    Change("another experiment's file", (SWEEP_FILE, "acme-large", "acme-huge")),
    Change("the concurrency of the run", arguments=("local", "--max-concurrency", "1")),
    # Sweeps.
    Change("an entry added", (SWEEP_FILE, '    "large"', '    "new": base.replace(model="m"),\n    "large"'),
           arguments=("sweep",), run=1, why="no earlier result", of=3),
    Change("another entry's flags", (SWEEP_FILE, '"size": 1', '"size": 2'), arguments=("sweep",), run=1,
           why="changed: flags.size: 1 -> 2", of=2),
    Change("another entry's agent", (SWEEP_FILE, 'model="acme-large"', 'model="acme-large", agent=bot("terse")'),
           arguments=("sweep",), run=1, why="changed: experiment source: experiments/sweep.py", of=2),
    Change("what all entries share", (SWEEP_FILE, "agent=bot()", 'agent=bot("terse")'), arguments=("sweep",), run=2,
           why="changed: experiment source: experiments/sweep.py", of=2),
    Change("an entry more in a loop", ("experiments/sizes.py", '"large"]', '"large", "huge"]'), arguments=("sizes",),
           run=1, why="no earlier result", of=3),
    Change("an entry's model in a loop", ("experiments/sizes.py", "acme-{size}", "acme2-{size}"),
           arguments=("sizes/small",), run=1, why='changed: model: "acme-small" -> "acme2-small"', of=1),
    # Versions.
    Change("the agent's version, as text", ("experiments/versioned.py", "build 1", "build 2"),
           arguments=("versioned/text",), run=1, of=1,
           why='changed: agent version: "build 1" -> "build 2"; experiment source: experiments/versioned.py'),
    Change("the agent's version, as it is asked for", ("build.txt", "7", "8"), arguments=("versioned/asked",), run=1,
           why='changed: agent version: "7" -> "8"', of=1),
    # Amounts.
    Change("a timeout that the slowest pass took longer than", arguments=("local", "plain", "--timeout", "0.04"),
           run=1, why="took 0s, over timeout 0.04s", of=1),
    Change("--force", arguments=("local", "--force"), run=36, why="--force"),
]  # fmt: skip


def _prepend(path: Path, text: str) -> None:
    path.write_text(text + path.read_text("utf-8"), "utf-8")


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.what)
def test_what_a_change_makes_run_again(project: CarryProject, change: Change) -> None:
    """As many attempts as it may have changed, with the change as the reason; all others are carried."""
    if change.edit is not None:
        project.edit(*change.edit)
    change.also(project.root)
    lines = project.reasons(*change.arguments)
    expected = Counter({("run", change.why): change.run, ("carry", "passed before"): change.of - change.run})
    assert lines == +expected
    ran = project.run(*change.arguments)
    assert (len(ran.calls), ran.carried, len(ran.results)) == (change.run, change.of - change.run, change.of)


def test_a_new_niceeval_alone_runs_nothing_again(project: CarryProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its version is no part of the identity."""
    for module in ("_version", "_run.accounts"):
        monkeypatch.setattr(f"niceeval.{module}.__version__", "99.0.0")
    assert niceeval._version.__version__ == "99.0.0"
    ran = project.run("local")
    assert (len(ran.calls), ran.carried) == (0, 36)
    assert ran.summary["producer"]["version"] == "99.0.0"


def test_what_was_changed_back_is_carried_again(project: CarryProject) -> None:
    """An older run has the same identity."""
    project.edit(LOCAL_FILE, '"a"', '"b"')
    assert len(project.run("local").calls) == 36
    project.edit(LOCAL_FILE, '"b"', '"a"')
    assert project.run("local").carried == 36


def test_what_a_carried_result_says_of_its_experiment_is_of_today(project: CarryProject) -> None:
    """Labels and descriptions are for reports, which would show what nobody wants any more."""
    project.edit(LOCAL_FILE, "support", "sales")
    project.edit(LOCAL_FILE, "first", "second")
    result = project.run("local", "plain").results["local", "plain", 0]
    assert result["experiment"]["labels"] == {"line": "sales"}
    assert result["experiment"]["description"] == "second"


def test_the_plan_is_laid_out_like_this(project: CarryProject) -> None:
    """Per experiment, with the attempts of one reason on a line; nothing is started."""
    project.edit("evals/data/sql_cases.yaml", "three", "drei")
    _, out, err = project.say("exp", "local", "sql", "plain", "--dry", "--runs", "2", "--no-early-exit")
    lines = [" ".join(word for word in line.split(" ") if not word.startswith("@")) for line in out.splitlines()]
    assert lines == [
        "plan: 10 attempts, 6 run, 4 carry; nothing was started",
        "local (bot, acme-1)  runs 2 · budget $5.00 · concurrency 4",
        "  ↺ carry  plain     1  passed before,",
        "  run      plain     2  no earlier result",
        "  ↺ carry  sql/0000  1  passed before,",
        "  run      sql/0000  2  no earlier result",
        "  ↺ carry  sql/0001  1  passed before,",
        "  run      sql/0001  2  no earlier result",
        "  run      sql/0002  1-2  changed: row 0002 of evals/data/sql_cases.yaml",
        "  ↺ carry  sql/0003  1  passed before,",
        "  run      sql/0003  2  no earlier result",
        (
            "carry cannot see: changes inside a deployed service or another process, "
            "imports under names made at run time (bot has no `version`)"
        ),
    ]
    assert err == ""
    assert len(project.runs()) == 1


def test_an_agent_with_a_version_has_no_blind_spot(project: CarryProject) -> None:
    """What niceeval cannot see, its author has named."""
    assert "cannot see" not in project.say("exp", "versioned", "--dry")[1]


def test_why_names_what_has_changed_since_a_result(project: CarryProject) -> None:
    """Exactly, and what the next run does."""
    locator = project.run("local", "plain").results["local", "plain", 0]["locator"]
    code, out, _ = project.say("why", locator)
    assert (code, out.splitlines()[1:]) == (
        0,
        ["  nothing that niceeval can see has changed since", "  next run: carried (passed before)"],
    )
    project.edit(LOCAL_FILE, '"a"', '"b"')
    project.edit("evals/plain_eval.py", '"slow"', '"quick"')
    assert project.say("why", locator)[1].splitlines() == [
        f"{locator}  plain  local  passed",
        "  changed: eval source: evals/plain_eval.py",
        '  changed: flags.prompt: "a" -> "b"',
        '  next run: run (changed: eval source: evals/plain_eval.py; flags.prompt: "a" -> "b")',
    ]


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ("experiments/local.py", "  changed: experiment local is no longer there"),
        ("evals/plain_eval.py", "  changed: eval plain is no longer one of local"),
    ],
)
def test_why_says_what_is_gone(project: CarryProject, gone: str, said: str) -> None:
    """And that no run will have it."""
    locator = project.run("local", "plain").results["local", "plain", 0]["locator"]
    (project.root / gone).unlink()
    assert project.say("why", locator)[1].splitlines()[1:] == [said, "  next run: not part of it"]
