"""Files that evals and adapters read by hand: whose results a changed one makes run again, and what is said of it."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from niceeval._base import file_reads
from tests.journey.carry_project import CarryProject, enter

ADAPTER = """
import asyncio
import json
import os
from functools import cache
from pathlib import Path

from adapters import texts
from niceeval.adapter import Message, Turn, complete_evidence_coverage, define_agent

HERE = Path(__file__).parent.parent

def answer(text):
    return Turn(events=[Message(role="assistant", text=str(text))])

def called(ctx):
    with open("calls.txt", "a") as calls:
        calls.write(f"{{ctx.experiment_id}} {{ctx.eval_id}} {{ctx.attempt}}\\n")

{body}
"""
AGENT = 'define_agent(name="bot", evidence_coverage=complete_evidence_coverage, send=send)'
IMPORTED = """
SYSTEM = {read}
async def send(input, ctx):
    called(ctx)
    return answer(SYSTEM)
def bot(): return {agent}
"""
IN_FACTORY = """
def bot():
    system = {read}
    async def send(input, ctx):
        called(ctx)
        return answer(system)
    return {agent}
"""
IN_SEND = """
async def send(input, ctx):
    called(ctx)
    return answer({read})
def bot(): return {agent}
"""
IN_THREAD = IN_SEND.replace("async def", "def")
CACHED = """
@cache
def system():
    return {read}
async def send(input, ctx):
    called(ctx)
    return answer(system())
def bot(): return {agent}
"""
IN_SETUP = """
def setup(ctx):
    Path("notes.txt").read_text("utf-8")
async def send(input, ctx):
    called(ctx)
    return answer("")
def bot(): return define_agent(name="bot", evidence_coverage=complete_evidence_coverage, setup=setup, send=send)
"""
TEXTS = """
from pathlib import Path

def text_of(name):
    with open(name, encoding="utf-8") as file:
        return file.read()
"""
EVAL = """
from niceeval import define_eval
{top}
@define_eval(cases=["one", "two"])
async def {name}(t, row):
    {inside}
    (await t.send(row)).succeeded()
"""
EXPERIMENT = """
from adapters.bots import bot
from niceeval import define_experiment

experiment = define_experiment(agent=bot())
"""
READ_TEXT = 'Path("notes.txt").read_text("utf-8")'


@dataclass(frozen=True)
class Case:
    """How `notes.txt` is read, what becomes of it, and what that makes run again, of the four attempts of two evals.

    `adapter` is the body of the adapter, `read` the expression in it; `top` and `inside` stand in the first eval.
    """

    what: str
    adapter: str = IN_SEND
    read: str = "''"
    top: str = ""
    inside: str = "pass"
    change: Callable[[Path], object] = lambda root: _write(root / "notes.txt", "Be brief.\n")
    run: int = 4
    why: str = "changed: file: notes.txt"
    first: Callable[[Path], object] = lambda root: None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _touch(root: Path) -> None:
    os.utime(root / "notes.txt", (1, 1))


def _large(root: Path) -> None:
    with open(root / "notes.txt", "wb") as file:
        file.truncate(file_reads.MAX_DIGESTED + 1)


CASES = [
    # Where it is read.
    Case("at import", IMPORTED, READ_TEXT),
    Case("in the factory", IN_FACTORY, READ_TEXT),
    Case("in an async send", IN_SEND, READ_TEXT),
    Case("in a send that is a plain function", IN_THREAD, READ_TEXT),
    Case("in asyncio.to_thread", IN_SEND, 'await asyncio.to_thread(Path("notes.txt").read_text, "utf-8")'),
    Case("in an executor", IN_SEND,
         'await asyncio.get_running_loop().run_in_executor(None, texts.text_of, "notes.txt")'),
    Case("in setup", IN_SETUP),
    Case("by a module that the adapter imports", IN_SEND, 'texts.text_of("notes.txt")'),
    Case("once, and kept in memory", CACHED, READ_TEXT),
    Case("once, in the factory's helper", IN_FACTORY, 'texts.text_of("notes.txt")'),
    Case("in one of two evals", inside='open("notes.txt").close()', run=2),
    Case("at the top of one of two evals", top='NOTES = open("notes.txt").read()', run=2),
    Case("in one attempt", inside='row == "two" and open("notes.txt").close()', run=1),
    Case("as a turn's file", inside='await t.send("look", files=["../notes.txt"])', run=2),
    # How it is read.
    Case("open(rb)", read='open("notes.txt", "rb").read()'),
    Case("json.load", read='json.load(open("notes.txt"))', first=lambda root: _write(root / "notes.txt", "[1]"),
         change=lambda root: _write(root / "notes.txt", "[2]")),
    Case("os.open", read='os.close(os.open("notes.txt", os.O_RDONLY))'),
    Case("an absolute path", read='(HERE / "notes.txt").read_bytes()'),
    Case("a path with a detour", read='open(f"{HERE}/adapters/../notes.txt").read()'),
    Case("bytes as a path", read='open(b"notes.txt").read()'),
    Case("from another folder", read='(os.chdir(HERE / "adapters"), open("../notes.txt").read(), os.chdir(HERE))'),
    # What becomes of it.
    Case("nothing", read=READ_TEXT, change=lambda root: None, run=0),
    Case("touched", read=READ_TEXT, change=_touch, run=0),
    Case("written as it was", read=READ_TEXT, change=lambda root: _write(root / "notes.txt", "Be kind.\n"), run=0),
    Case("deleted", read='os.path.exists("notes.txt") and open("notes.txt").read()',
         change=lambda root: (root / "notes.txt").unlink(), why="changed: file: notes.txt (removed)"),
    Case("deleted, read at import", IMPORTED, 'os.path.exists("notes.txt") and open("notes.txt").read()',
         change=lambda root: (root / "notes.txt").unlink(), why="changed: file: notes.txt (removed)"),
    Case("added", inside="import contextlib\n    with contextlib.suppress(OSError): open('more.txt')", run=2,
         change=lambda root: _write(root / "more.txt", "more"), why="changed: file: more.txt (added)"),
    Case("a large file, untouched", read='open("notes.txt", "rb").read(1)', first=_large, change=lambda root: None,
         run=0),
    Case("a large file, touched", read='open("notes.txt", "rb").read(1)', first=_large, change=_touch),
    # What is no input.
    Case("nobody reads it", run=0),
    Case("outside the project", read='open(f"{HERE}.notes").read()', run=0,
         first=lambda root: _write(Path(f"{root}.notes"), "1"),
         change=lambda root: _write(Path(f"{root}.notes"), "2")),
    Case("written by the attempt", read='(open("notes.txt", "w").close(), open("notes.txt").read())', run=0),
    Case("put in place by the attempt", run=0,
         read='(Path(f"{HERE}.new").touch(), os.replace(f"{HERE}.new", "notes.txt"), open("notes.txt").read())'),
    Case("appended to after it was read", read='(open("notes.txt").read(), open("notes.txt", "a").write("1"))', run=0),
    Case("secrets", read='open(".env").read()', first=lambda root: _write(root / ".env", "KEY=1\n"), run=0,
         change=lambda root: _write(root / ".env", "KEY=2\n")),
]  # fmt: skip


def _files(case: Case) -> dict[str, str]:
    return {
        "adapters/bots.py": ADAPTER.format(body=case.adapter.format(read=case.read, agent=AGENT)),
        "adapters/texts.py": TEXTS,
        "evals/a_eval.py": EVAL.format(name="a", top=case.top, inside=case.inside),
        "evals/b_eval.py": EVAL.format(name="b", top="", inside="pass"),
        "experiments/local.py": EXPERIMENT,
        "notes.txt": "Be kind.\n",
    }


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CarryProject:
    """An empty one."""
    return enter(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_what_a_changed_file_makes_run_again(project: CarryProject, case: Case) -> None:
    """Whoever read it, and nobody else; the plan names the file."""
    project.write(_files(case))
    case.first(project.root)
    assert project.run("local").attempts.total() >= 4
    case.change(project.root)
    assert _attempts(project) == +Counter({("run", case.why): case.run, ("carry", "passed before"): 4 - case.run})
    assert project.run("local").carried == 4 - case.run


def _attempts(project: CarryProject) -> Counter[tuple[str, str]]:
    return Counter((action, reason) for action, _, _, reason in project.plan("local"))


def test_each_attempt_depends_on_the_file_of_its_own_row(project: CarryProject) -> None:
    """Also where a module that all share opens it, once it is seen to open another one for each."""
    files = _files(Case("rows", top="from adapters.texts import text_of", inside="text_of(f'data/{row}.txt')"))
    files["evals/a_eval.py"] = files["evals/a_eval.py"].replace('["one", "two"]', "[str(row) for row in range(30)]")
    project.write({**files, **{f"data/{row}.txt": "" for row in range(30)}})
    project.run("local", "--max-concurrency", "1")
    _write(project.root / "data/7.txt", "seven")
    assert _attempts(project) == Counter({("run", "changed: file: data/7.txt"): 1, ("carry", "passed before"): 31})


def test_an_experiment_depends_on_the_prompt_that_it_gave_to_the_factory(project: CarryProject) -> None:
    """And not on the one of another experiment that uses the same adapter."""
    factory = "def bot(prompt):\n    system = Path(prompt).read_text()\n    async def send(input, ctx):\n        "
    factory += "called(ctx)\n        return answer(system)\n    return {agent}\n"
    files = _files(Case("prompts", factory))
    for name in ("local", "other"):
        files[f"experiments/{name}.py"] = EXPERIMENT.replace("bot()", f'bot("{name}.txt")')
        files[f"{name}.txt"] = name
    project.write(files)
    project.run()
    _write(project.root / "other.txt", "changed")
    assert project.reasons("local") == Counter({("carry", "passed before"): 4})
    assert project.reasons("other") == Counter({("run", "changed: file: other.txt"): 4})


def test_data_that_count_by_row_are_not_counted_whole(project: CarryProject) -> None:
    """niceeval's own loaders say what they have read themselves."""
    files = _files(Case("rows"))
    top = "from niceeval.loaders import load_yaml\n"
    files["evals/a_eval.py"] = EVAL.format(name="a", top=top, inside="pass").replace(
        '["one", "two"]', 'load_yaml("rows.yaml")'
    )
    project.write({**files, "evals/rows.yaml": "- one\n- two\n"})
    project.run("local")
    project.edit("evals/rows.yaml", "two", "zwei")
    assert _attempts(project)["run", "changed: row 0001 of evals/rows.yaml"] == 1
    assert _attempts(project)["carry", "passed before"] == 3


def test_a_sample_is_drawn_again_whole_where_one_attempt_of_it_read_what_has_changed(project: CarryProject) -> None:
    """Without early exit its attempts belong together; with it, those that stand are enough."""
    send = IN_SEND.replace("{read}", 'open(f"{{ctx.attempt}}.txt").read()')
    project.write({**_files(Case("sample", send)), "0.txt": "0", "1.txt": "1"})
    whole = ("local", "a/0000", "--runs", "2", "--no-early-exit")
    project.run(*whole)
    _write(project.root / "1.txt", "eins")
    assert project.plan(*whole) == [
        ("run", "a/0000", "1", "sample drawn again whole"),
        ("run", "a/0000", "2", "changed: file: 1.txt"),
    ]
    assert project.plan("local", "a/0000", "--runs", "2", "--early-exit") == [
        ("carry", "a/0000", "1", "passed before"),
        ("skip", "a/0000", "2", "passed before"),
    ]


def test_what_was_changed_back_is_carried_from_an_older_run(project: CarryProject) -> None:
    """As with sources."""
    project.write(_files(Case("back", IN_SEND, READ_TEXT)))
    project.run("local")
    _write(project.root / "notes.txt", "Be brief.\n")
    assert project.run("local").carried == 0
    _write(project.root / "notes.txt", "Be kind.\n")
    assert project.run("local").carried == 4


def test_why_names_the_file(project: CarryProject) -> None:
    """And the result has it beside its identity."""
    project.write(_files(Case("why", IN_SEND, READ_TEXT)))
    result = project.run("local").results["local", "a/0000", 0]
    assert list(result["identity"]["reads"]) == ["notes.txt"]
    assert result["identity"]["reads"]["notes.txt"].startswith("sha256:")
    _write(project.root / "notes.txt", "Be brief.\n")
    assert project.say("why", result["locator"])[1].splitlines()[1:] == [
        "  changed: file: notes.txt",
        "  next run: run (changed: file: notes.txt)",
    ]


def test_an_attempt_that_read_very_many_files_is_run_again(project: CarryProject) -> None:
    """They are too many to store with each result, and one that is not stored might have changed."""
    read = '[path.read_text() for path in Path("kb").iterdir()]'
    project.write({**_files(Case("many", IN_SEND, read)), **{f"kb/{n}.md": "" for n in range(201)}})
    result = project.run("local").results["local", "a/0000", 0]
    assert (len(result["identity"]["reads"]), result["identity"]["readsCut"]) == (200, True)
    why = "changed: files read by hand (more than 200, which are too many to compare)"
    assert _attempts(project) == Counter({("run", why): 4})


def test_very_many_files_that_were_read_at_import_count_together(project: CarryProject) -> None:
    """One part of the identity stands for all."""
    read = '[path.read_text() for path in sorted(Path("kb").iterdir())]'
    project.write({**_files(Case("many", IMPORTED, read)), **{f"kb/{n}.md": "" for n in range(201)}})
    project.run("local")
    assert _attempts(project) == Counter({("carry", "passed before"): 4})
    _write(project.root / "kb/7.md", "seven")
    assert _attempts(project) == Counter({("run", "changed: files read by hand"): 4})


def _without_reads(identity: dict[str, Any]) -> None:
    del identity["reads"]


def _leading_out(identity: dict[str, Any]) -> None:
    identity["reads"] = {"../../etc/passwd": "missing"}


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_without_reads, "changed: files read by hand (not recorded before)"),
        (_leading_out, "changed: file: ../../etc/passwd (added)"),
    ],
)
def test_a_result_that_does_not_say_what_was_read_is_run_again(
    project: CarryProject, spoil: Callable[[dict[str, Any]], None], why: str
) -> None:
    """Nobody knows whether it still holds."""
    project.write(_files(Case("spoilt")))
    project.run("local")
    (path,) = project.runs()[0].glob("summary.json")
    document = json.loads(path.read_bytes())
    for result in document["results"]:
        spoil(result["identity"])
    path.write_text(json.dumps(document), "utf-8")
    assert _attempts(project) == Counter({("run", why): 4})
