"""Changes that reach an attempt by a way of their own: each has to be seen, or a stale pass would stand for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.journey.carry_project import enter
from tests.unit.project_files import write_files

BOT = """
from niceeval.adapter import Message, Turn, Usage, complete_evidence_coverage, define_agent

def bot(manner="calm", *more, **also):
    def send(input, ctx):
        with open("calls.txt", "a") as calls:
            calls.write(f"{ctx.experiment_id} {ctx.eval_id} {ctx.attempt}\\n")
        usage = Usage(input_tokens=1000, output_tokens=1000)
        return Turn(events=[Message(role="assistant", text=str(manner))], usage=usage)
    return define_agent(name="bot", evidence_coverage=complete_evidence_coverage, send=send)
"""
PLAIN = """
from niceeval import define_eval

@define_eval()
async def plain(t):
    (await t.send("hello")).succeeded()
"""
TOP = "from adapters.bots import bot\nfrom niceeval import define_experiment\n"
LOCAL, SHARED, BOTS, PLAIN_EVAL = (
    "experiments/local.py",
    "experiments/shared.py",
    "adapters/bots.py",
    "evals/plain_eval.py",
)
SENDING = BOT.replace("        usage =", "        from experiments.local import PROMPT\n        usage =")


@dataclass(frozen=True)
class Hole:
    """Files of a project, and a change in one of them (file, old, new) that an attempt of `experiment` depends on.

    `again` are the evals that have to run again for it, of all that the project has.
    """

    what: str
    files: Mapping[str, str]
    edit: tuple[str, str, str]
    experiment: str = "local"
    again: frozenset[str] = field(default_factory=lambda: frozenset({"plain"}))


def _experiment(what: str, text: str, edit: tuple[str, str], *, of: str = "local", **more: str) -> Hole:
    """A change in experiments/local.py."""
    return Hole(what, {LOCAL: TOP + text, **more}, (LOCAL, *edit), of)


GOOD, BAD = '"good"', '"bad"'
TO_BAD = (GOOD, BAD)
SHARED_PROMPT = 'PROMPT = "good"\nexperiment = define_experiment(agent=bot())\n'
SHARED_BASE = 'experiment = define_experiment(agent=bot(), labels={"p": "good"})\n'
ROWS = "- {q: one, p: good}\n- {q: two, p: fine}\n"
CASES_HEAD = "from niceeval import define_eval\nfrom niceeval.loaders import load_yaml\n"
CASES = """
@define_eval(cases=CASES)
async def rows(t, row):
    (await t.send(row["q"])).succeeded()
"""
READS = """
@define_eval()
async def reads(t):
    (await t.send(CASES[0]["p"])).succeeded()
"""
MANY = """
from niceeval import define_eval
from niceeval.loaders import load_yaml

@define_eval(cases=load_yaml("one.yaml"))
async def one(t, row):
    (await t.send(row["q"])).succeeded()

@define_eval(cases=load_yaml("two.yaml"))
async def two(t, row):
    (await t.send(row["q"])).succeeded()
"""
DEEP = """
from niceeval.adapter import Message, Turn

class Deep:
    def send(self, input, ctx):
        with open("calls.txt", "a") as calls:
            calls.write(f"{ctx.experiment_id} {ctx.eval_id} {ctx.attempt}\\n")
        return Turn(events=[Message(role="assistant", text=self.manner())])
"""
# The class is found by a name that is made at run time: only the object itself tells where it comes from.
HIDDEN = """
import importlib

from niceeval.adapter import complete_evidence_coverage, define_agent

def bot():
    made = getattr(importlib.import_module(".".join(["adapters", "own"])), "Own")()
    return define_agent(name="bot", evidence_coverage=complete_evidence_coverage, send=made.send)
"""
OWN = 'from adapters.deep import Deep\n\nclass Own(Deep):\n    def manner(self):\n        return "good"\n'
CONFIG = """
from niceeval import Price, define_config

config = define_config(pricing={"acme*": Price(input_per_mtok=1, output_per_mtok=2)})
"""
FROZEN = """
from dataclasses import dataclass, replace

@dataclass(frozen=True)
class Settings:
    labels: str = ""

    def replace(self, **changed):
        return replace(self, **changed)

base = Settings()
"""

HOLES = [
    # What other modules read of an experiment file.
    Hole("a literal that another experiment file imports",
         {SHARED: TOP + SHARED_PROMPT,
          LOCAL: TOP + "from experiments.shared import PROMPT\nexperiment = define_experiment(agent=bot(PROMPT))\n"},
         (SHARED, *TO_BAD)),
    Hole("a literal that is read from an imported experiment file",
         {SHARED: TOP + 'PROMPTS = {"a": "good"}\nexperiment = define_experiment(agent=bot())\n',
          LOCAL: TOP + 'import experiments.shared as b\nexperiment = define_experiment(agent=bot(b.PROMPTS["a"]))\n'},
         (SHARED, *TO_BAD)),
    _experiment("a literal that the adapter imports", SHARED_PROMPT, TO_BAD, **{BOTS: SENDING}),
    _experiment("a literal that is read by its name", 'PROMPT = "good"\nexperiment = define_experiment('
                'agent=bot(globals()["PROM" + "PT"]))\n', TO_BAD),
    Hole("the text at the head of an imported experiment file",
         {SHARED: '"""good"""\n' + TOP + SHARED_PROMPT,
          LOCAL: TOP + "import experiments.shared as b\nexperiment = define_experiment(agent=bot(b.__doc__))\n"},
         (SHARED, '"""good"""', '"""bad"""')),
    # Entries of a sweep that know of each other.
    _experiment("an entry that is made from another one",
                'experiments = {"a": define_experiment(agent=bot("good"))}\n'
                'experiments["c"] = experiments["a"].replace(flags={"x": 1})\n', TO_BAD, of="local/c"),
    _experiment("an entry that is given a name on the way",
                'experiments = {"a": (base := define_experiment(agent=bot("good"))), "c": base.replace(flags={})}\n',
                TO_BAD, of="local/c"),
    _experiment("a variable of a function that is called experiments",
                'def manner():\n    experiments = {"a": "good"}\n    return list(experiments.values())[0]\n'
                "experiment = define_experiment(agent=bot(manner()))\n", TO_BAD),
    _experiment("a loop that gives names on the way",
                'experiments = {n: define_experiment(agent=bot(p)) for n in ("a", "b") if (p := "good")}\n',
                TO_BAD, of="local/a"),
    Hole("an entry of an imported sweep",
         {SHARED: TOP + 'experiments = {"a": define_experiment(agent=bot("good"))}\n',
          LOCAL: TOP + "from experiments.shared import experiments as others\n"
                       'experiment = others["a"].replace(runs=1)\n'},
         (SHARED, *TO_BAD)),
    # Keywords that are left out, and read again.
    _experiment("labels that are read again", SHARED_BASE.replace("experiment =", "base =")
                + 'experiment = base.replace(agent=bot(base.labels["p"]))\n', TO_BAD),
    _experiment("flags that are read again", 'base = define_experiment(agent=bot(), flags={"p": "good"})\n'
                'experiment = base.replace(agent=bot(base.flags["p"]), flags={})\n', TO_BAD),
    _experiment("the model that is read again", 'base = define_experiment(agent=bot(), model="good")\n'
                "experiment = base.replace(agent=bot(base.model), model=None)\n", TO_BAD),
    _experiment("an experiment that is handed to a function", SHARED_BASE.replace("experiment =", "base =")
                + "experiment = base.replace(agent=bot(base))\n", TO_BAD),
    _experiment("an experiment under a second name", SHARED_BASE.replace("experiment =", "base =")
                + "other = base\nexperiment = base.replace(agent=bot(other))\n", TO_BAD),
    _experiment("an experiment that a match takes apart", SHARED_BASE.replace("experiment =", "base =")
                + "match base:\n    case object(labels=found):\n"
                  '        experiment = base.replace(agent=bot(found["p"]))\n', TO_BAD),
    _experiment("an experiment that a function makes", 'def made():\n    return define_experiment(agent=bot(), '
                'labels={"p": "good"})\nexperiment = define_experiment(agent=bot(made()))\n', TO_BAD),
    _experiment("a label that is given a name on the way",
                'base = define_experiment(agent=bot(), labels={"p": (p := "good")})\n'
                "experiment = base.replace(agent=bot(p))\n", TO_BAD),
    Hole("labels of an imported experiment",
         {SHARED: TOP + SHARED_BASE,
          LOCAL: TOP + "from experiments.shared import experiment as base\n"
                       'experiment = base.replace(agent=bot(base.labels["p"]))\n'},
         (SHARED, *TO_BAD)),
    Hole("labels of an experiment of an imported file",
         {SHARED: TOP + SHARED_BASE,
          LOCAL: TOP + "import experiments.shared as b\n"
                       "experiment = define_experiment(agent=bot(b.experiment))\n"},
         (SHARED, *TO_BAD)),
    Hole("a replace of what is no experiment",
         {"adapters/settings.py": FROZEN,
          LOCAL: TOP + "from adapters.settings import base\n"
                       'experiment = define_experiment(agent=bot(base.replace(labels="good")))\n'},
         (LOCAL, *TO_BAD)),
    _experiment("a define_experiment of the author's own", "define_experiment_ = define_experiment\n"
                "def define_experiment(agent, labels):\n    return define_experiment_(agent=bot(labels))\n"
                'experiment = define_experiment(agent=None, labels="good")\n', TO_BAD),
    # Data that one eval takes row by row and another one whole.
    Hole("cases that another eval of the file reads",
         {PLAIN_EVAL: CASES_HEAD + 'CASES = load_yaml("rows.yaml")\n' + CASES + READS, "evals/rows.yaml": ROWS},
         ("evals/rows.yaml", "good", "bad"), again=frozenset({"plain/rows/0000", "plain/rows/0001", "plain/reads"})),
    Hole("cases that a function takes examples from",
         {PLAIN_EVAL: CASES_HEAD + 'CASES = load_yaml("rows.yaml")\ndef examples():\n    return CASES[:1]\n'
                      + CASES.replace("rows", "plain").replace('row["q"]', 'str(examples())'),
          "evals/rows.yaml": ROWS},
         ("evals/rows.yaml", "good", "bad"), again=frozenset({"plain/0000", "plain/0001"})),
    Hole("cases that an eval of another file imports",
         {"evals/base_eval.py": CASES_HEAD + 'CASES = load_yaml("rows.yaml")\n' + CASES,
          PLAIN_EVAL: CASES_HEAD + "from evals.base_eval import CASES\n" + READS.replace("reads", "plain"),
          "evals/rows.yaml": ROWS},
         ("evals/rows.yaml", "good", "bad"), again=frozenset({"plain", "base/0000"})),
    Hole("cases that another eval finds by their name",
         {"evals/_rows.py": 'from niceeval.loaders import load_yaml\n\nCASES = load_yaml("rows.yaml")\n',
          PLAIN_EVAL: CASES_HEAD + "import evals._rows as found\n"
                      + READS.replace("reads", "plain").replace("CASES[", 'getattr(found, "CASES")['),
          "evals/rows.yaml": ROWS},
         ("evals/rows.yaml", "good", "bad")),
    Hole("data that is read by a loader under another name",
         {"evals/_load.py": "from niceeval.loaders import load_yaml as read\n",
          PLAIN_EVAL: "from evals._load import read\n" + CASES_HEAD + 'CASES = read("rows.yaml")\n'
                      + READS.replace("reads", "plain"),
          "evals/rows.yaml": ROWS},
         ("evals/rows.yaml", "good", "bad")),
    # Code that no import statement names.
    Hole("what a module that is imported by a text says",
         {"adapters/manners.py": 'MANNER = "good"\n',
          BOTS: BOT + '\nfrom importlib import import_module as load\nMANNER = load("adapters.manners").MANNER\n',
          LOCAL: TOP + "experiment = define_experiment(agent=bot())\n"},
         ("adapters/manners.py", *TO_BAD)),
    Hole("a class whose send is inherited",
         {"adapters/own.py": OWN, "adapters/deep.py": DEEP, BOTS: HIDDEN,
          LOCAL: TOP + "experiment = define_experiment(agent=bot())\n"},
         ("adapters/own.py", *TO_BAD)),
    Hole("the class that it is inherited from",
         {"adapters/own.py": OWN, "adapters/deep.py": DEEP, BOTS: HIDDEN,
          LOCAL: TOP + "experiment = define_experiment(agent=bot())\n"},
         ("adapters/deep.py", "role=\"assistant\", text=self.manner()", "role=\"assistant\", text=\"\"")),
    Hole("the price of the model",
         {"niceeval_config.py": CONFIG, LOCAL: TOP + 'experiment = define_experiment(agent=bot(), model="acme-1")\n'},
         ("niceeval_config.py", "output_per_mtok=2", "output_per_mtok=3")),
]  # fmt: skip

NO_MORE = frozenset[str]()
HARMLESS = [
    Hole("labels of an imported experiment that only makes others",
         {SHARED: TOP + SHARED_BASE,
          LOCAL: TOP + "from experiments.shared import experiment as base\nexperiment = base.replace(runs=1)\n"},
         (SHARED, *TO_BAD), again=NO_MORE),
    _experiment("labels of a base that is not read", SHARED_BASE.replace("experiment =", "base =")
                + "experiment = base.replace(runs=1)\n", TO_BAD),
    _experiment("another entry", 'experiments = {"a": define_experiment(agent=bot("good")),\n'
                '    "c": define_experiment(agent=bot())}\n', TO_BAD, of="local/c"),
    Hole("a row of another eval of the file",
         {PLAIN_EVAL: MANY, "evals/one.yaml": ROWS, "evals/two.yaml": ROWS},
         ("evals/two.yaml", "good", "bad"), again=frozenset({"plain/two/0000"})),
    Hole("a row that another file has loaded",
         {"evals/_rows.py": 'from niceeval.loaders import load_yaml\n\nCASES = load_yaml("rows.yaml")\n',
          PLAIN_EVAL: CASES_HEAD + "from evals._rows import CASES\n" + CASES.replace("rows", "plain"),
          "evals/rows.yaml": ROWS},
         ("evals/rows.yaml", "good", "bad"), again=frozenset({"plain/0000"})),
    Hole("a row whose file is named by more than a text",
         {PLAIN_EVAL: CASES_HEAD + "from pathlib import Path\n" + CASES.replace("rows", "plain").replace(
             "=CASES", '=load_yaml(Path(__file__).parent / "rows.yaml")'),
          "evals/rows.yaml": ROWS},
         ("evals/rows.yaml", "good", "bad"), again=frozenset({"plain/0000"})),
    Hole("the price of another model",
         {"niceeval_config.py": CONFIG, LOCAL: TOP + 'experiment = define_experiment(agent=bot(), model="other-1")\n'},
         ("niceeval_config.py", "output_per_mtok=2", "output_per_mtok=3"), again=NO_MORE),
]  # fmt: skip
HARMLESS = [replace(one, again=NO_MORE) if one.edit[0] == LOCAL else one for one in HARMLESS]


@pytest.mark.parametrize("hole", [*HOLES, *HARMLESS], ids=lambda hole: hole.what)
def test_what_a_change_reaches_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], hole: Hole
) -> None:
    """And nothing else does."""
    project = enter(tmp_path, monkeypatch, capsys)
    project.write({BOTS: BOT, PLAIN_EVAL: PLAIN, LOCAL: TOP + "experiment = define_experiment(agent=bot())\n"})
    project.write(hole.files)
    first = project.run(hole.experiment)
    assert first.code == 0, first.err
    assert first.attempts.keys() >= hole.again
    assert {action for action, *_ in project.plan(hole.experiment)} == {"carry"}
    project.edit(*hole.edit)
    assert {eval_id for action, eval_id, *_ in project.plan(hole.experiment) if action == "run"} == hole.again


OPTIMIZED = {"PYTHONOPTIMIZE": "1"}
RUN_OF_EXP = ["-m", "niceeval", "exp", "local"]
RUN_OF_PYTEST = ["-m", "pytest", "-p", "no:cacheprovider", "--niceeval-experiment", "local", "evals"]
LOAD = """
import sys
from pathlib import Path
from niceeval._discover.loading import load_file

print(type(load_file(Path("evals/claims_eval.py"), Path("."))).__name__)
"""


def _python(root: Path, *arguments: str) -> tuple[int, str]:
    """A Python that takes `assert` out; exit code, and all that it printed."""
    variables = {**os.environ, **OPTIMIZED}
    done = subprocess.run([sys.executable, *arguments], cwd=root, env=variables, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("arguments", [RUN_OF_EXP, RUN_OF_PYTEST], ids=["exp", "pytest"])
def test_nothing_is_run_by_a_python_without_asserts(tmp_path: Path, arguments: list[str]) -> None:
    """A failing check would pass; what to do instead is said."""
    write_files(tmp_path, {BOTS: BOT, PLAIN_EVAL: PLAIN, LOCAL: TOP + "experiment = define_experiment(agent=bot())\n"})
    code, said = _python(tmp_path, *arguments)
    assert code != 0
    assert "a check that fails would pass" in said
    assert "unset PYTHONOPTIMIZE" in said
    assert not (tmp_path / "calls.txt").exists()


def test_the_asserts_of_loaded_files_stay_where_python_takes_others_out(tmp_path: Path) -> None:
    """Also for whoever only looks at the evals."""
    write_files(tmp_path, {"evals/claims_eval.py": "assert 1 == 2\n"})
    assert _python(tmp_path, "-c", LOAD) == (0, "LoadFailure\n")
