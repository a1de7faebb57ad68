"""Which stored attempts stand for a sample: early exit, whole samples, what failed, was slow, or cannot be read."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from niceeval._record import disk
from niceeval.results import open_results
from tests.journey.carry_project import CarryProject, enter

AGENT = """
import os

from niceeval.adapter import Message, Turn, complete_evidence_coverage, define_agent

def outcome_of(attempt):
    with open(os.getcwd() + ".outcomes") as file:
        return file.read().split()[attempt]

def send(input, ctx):
    with open("calls.txt", "a") as calls:
        calls.write(f"{ctx.experiment_id} {ctx.eval_id} {ctx.attempt}\\n")
    said = outcome_of(ctx.attempt)
    if said == "errored":
        raise ValueError("down")
    message = Message(role="assistant", text=said)
    return Turn(events=[message], status="failed" if said == "failed" else "completed")

def bot():
    return define_agent(name="bot", evidence_coverage=complete_evidence_coverage, send=send)
"""
EVAL = """
from niceeval import define_eval

@define_eval()
async def one(t):
    turn = await t.send("go")
    if turn.message == "skipped":
        t.skip("not today")
    turn.succeeded()
"""
EXPERIMENT = """
from adapters.bots import bot
from niceeval import define_experiment

experiment = define_experiment(agent=bot())
"""
FILES = {"adapters/bots.py": AGENT, "evals/one_eval.py": EVAL, "experiments/local.py": EXPERIMENT}
WHOLE, EARLY = "--no-early-exit", "--early-exit"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CarryProject:
    """One eval whose attempts come to what a file beside it says, by their number."""
    made = enter(tmp_path, monkeypatch, capsys)
    made.write(FILES)
    return made


def _outcomes(project: CarryProject, *outcomes: str) -> None:
    Path(f"{project.root}.outcomes").write_text(" ".join(outcomes), "utf-8")


def _in_order(runs: int, *arguments: str) -> tuple[str, ...]:
    return ("local", "--runs", str(runs), "--max-concurrency", "1", *arguments)


def _stored(results: Mapping[tuple[str, str, int], Any]) -> dict[int, tuple[str, bool]]:
    """Attempt -> outcome, and whether it was carried."""
    return {number: (one["outcome"], "carriedFrom" in one) for (_, _, number), one in results.items()}


Sample = tuple[list[str], tuple[int, str], tuple[int, str], list[tuple[str, str, str]]]
# What the first run's attempts came to; how it and the second one are started; what the second one plans.
SAMPLES: dict[str, Sample] = {
    "a whole sample is carried whole": (
        ["passed"] * 3, (3, WHOLE), (3, WHOLE), [("carry", "1-3", "passed before")],
    ),
    "more runs add attempts": (
        ["passed"] * 3, (3, WHOLE), (5, WHOLE),
        [("carry", "1-3", "passed before"), ("run", "4-5", "no earlier result")],
    ),
    "fewer runs take the first": (
        ["passed"] * 3, (3, WHOLE), (2, WHOLE), [("carry", "1-2", "passed before")],
    ),
    "a failure draws the sample again whole": (
        ["passed", "failed", "passed"], (3, WHOLE), (3, WHOLE),
        [("run", "1", "sample drawn again whole"), ("run", "2", "failed before"),
         ("run", "3", "sample drawn again whole")],
    ),
    "also a failure that is not asked for any more": (
        ["passed", "passed", "failed"], (3, WHOLE), (2, WHOLE), [("run", "1-2", "sample drawn again whole")],
    ),
    "and with more runs than before": (
        ["passed", "errored"], (2, WHOLE), (3, WHOLE),
        [("run", "1", "sample drawn again whole"), ("run", "2", "errored before"), ("run", "3", "no earlier result")],
    ),
    "what was skipped is tried again": (
        ["skipped"], (1, EARLY), (1, EARLY), [("run", "1", "skipped before")],
    ),
    "what was skipped is no pass of a sample": (
        ["passed", "skipped"], (2, WHOLE), (2, WHOLE),
        [("run", "1", "sample drawn again whole"), ("run", "2", "skipped before")],
    ),
    "with early exit one pass is enough": (
        ["passed"] * 3, (3, EARLY), (3, EARLY), [("carry", "1", "passed before"), ("skip", "2-3", "passed before")],
    ),
    "whichever attempt it was": (
        ["failed", "passed", "passed"], (3, EARLY), (3, EARLY),
        [("skip", "1", "passed before"), ("carry", "2", "passed before"), ("skip", "3", "passed before")],
    ),
    "it is enough for more runs, too": (
        ["passed"] * 3, (1, EARLY), (3, EARLY), [("carry", "1", "passed before"), ("skip", "2-3", "passed before")],
    ),
    "several passes are all carried": (
        ["passed"] * 3, (3, WHOLE), (3, EARLY), [("carry", "1-3", "passed before")],
    ),
    "failures alone are run again": (
        ["failed"] * 3, (3, EARLY), (3, EARLY), [("run", "1-3", "failed before")],
    ),
    "after an error early exit has left the others out": (
        ["errored"] * 3, (3, EARLY), (3, EARLY), [("run", "1", "errored before"), ("run", "2-3", "no earlier result")],
    ),
    "a sample that early exit cut short is filled up": (
        ["passed"] * 3, (3, EARLY), (3, WHOLE), [("carry", "1", "passed before"), ("run", "2-3", "no earlier result")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_what_stands_for_a_sample(project: CarryProject, name: str) -> None:
    """The plan says it, and the run does it."""
    outcomes, (runs, how), (runs_again, how_again), expected = SAMPLES[name]
    _outcomes(project, *outcomes)
    project.run(*_in_order(runs, how))
    _outcomes(project, *["passed"] * 5)
    again = _in_order(runs_again, how_again)
    assert [(action, numbers, reason) for action, _, numbers, reason in project.plan(*again)] == expected
    ran = project.run(*again)
    assert ran.carried == sum(_size(numbers) for action, numbers, _ in expected if action == "carry")
    to_run = sum(_size(numbers) for action, numbers, _ in expected if action == "run")
    assert len(ran.calls) == (to_run if how_again == WHOLE else min(to_run, 1))


def _size(numbers: str) -> int:
    first, _, last = numbers.partition("-")
    return int(last or first) - int(first) + 1


def test_a_result_of_another_run_is_the_newest_that_counts(project: CarryProject) -> None:
    """What passed once and has failed since is run again."""
    _outcomes(project, "passed")
    project.run("local")
    _outcomes(project, "failed")
    project.run("local", "--force")
    assert project.reasons("local") == {("run", "failed before"): 1}


@pytest.mark.parametrize(
    ("first", "second", "cut"),
    [
        ((3, EARLY), (3, EARLY), True),
        ((1, EARLY), (3, EARLY), True),
        ((3, EARLY), (3, WHOLE), False),
        ((3, EARLY), (1, EARLY), False),
    ],
    ids=["cut before and now", "cut now", "cut before, filled up now", "cut before, complete now"],
)
def test_a_carried_pass_is_marked_where_its_sample_is_cut_short_now(
    project: CarryProject, first: tuple[int, str], second: tuple[int, str], cut: bool
) -> None:
    """Whatever it was when it ran."""
    _outcomes(project, *["passed"] * 3)
    project.run(*_in_order(*first))
    result = project.run(*_in_order(*second)).results["local", "one", 0]
    assert (result.get("earlyExited", False), "carriedFrom" in result) == (cut, True)


def test_a_carried_result_lies_in_the_new_run_as_it_was(project: CarryProject) -> None:
    """With its origin, its own locator and time, and its files as hard links; however often it is carried."""
    _outcomes(project, "passed")
    first = project.run("local").results["local", "one", 0]
    for _ in range(2):
        again = project.run("local").results["local", "one", 0]
    origin, *_, newest = project.runs()
    assert again["carriedFrom"] == {"run": origin.name, "locator": first["locator"]}
    same = ("locator", "startedAt", "durationMs", "outcome", "assertions", "fingerprint", "identity", "attempt")
    assert {name: again[name] for name in same} == {name: first[name] for name in same}
    files = {path.name: path for path in (origin / first["artifactsDir"]).iterdir()}
    copies = {path.name: path for path in (newest / again["artifactsDir"]).iterdir()}
    assert files.keys() == copies.keys() >= {"result.json", "events.json", "sources.json"}
    assert {name for name in files if not os.path.samefile(files[name], copies[name])} == {"result.json"}


def test_a_carried_result_counts_once(project: CarryProject) -> None:
    """In three runs it is one attempt, whose newest copy is shown as carried."""
    _outcomes(project, "passed")
    for _ in range(3):
        ran = project.run("local")
    results = open_results(project.root)
    assert (len(results.runs), len(results.attempts)) == (3, 1)
    assert results.attempts[0].carried_from is not None
    code, out, _ = project.say("show", results.attempts[0].locator)
    assert (code, f"carried from {project.runs()[0].name}" in out) == (0, True)
    assert (ran.summary["carried"], ran.summary["passed"]) == (1, 1)


def test_a_run_is_whole_without_the_runs_that_it_carried_from(project: CarryProject) -> None:
    """The old one may be deleted."""
    _outcomes(project, "passed")
    project.run("local")
    project.run("local")
    shutil.rmtree(project.runs()[0])
    (attempt,) = open_results(project.root).attempts
    assert [event.text for event in attempt.events() or [] if hasattr(event, "text")] == ["go", "passed"]
    assert attempt.sources() is not None
    assert project.run("local").carried == 1


def test_where_links_are_not_possible_files_are_copied(project: CarryProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another file system, say."""
    _outcomes(project, "passed")
    project.run("local")

    def refuse(source: str, target: str) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(disk, "link", refuse)
    result = project.run("local").results["local", "one", 0]
    copy = project.runs()[-1] / result["artifactsDir"] / "events.json"
    original = project.runs()[0] / result["artifactsDir"] / "events.json"
    assert copy.read_bytes() == original.read_bytes()
    assert not os.path.samefile(copy, original)


def test_after_the_results_were_deleted_everything_runs_again(project: CarryProject) -> None:
    """There is nothing left to carry."""
    _outcomes(project, "passed")
    project.run("local")
    shutil.rmtree(project.runs()[0])
    assert project.reasons("local") == {("run", "no earlier result"): 1}
    assert len(project.run("local").calls) == 1


def _delete_events(run: Path, folder: Path) -> None:
    (folder / "events.json").unlink()


def _delete_folder(run: Path, folder: Path) -> None:
    shutil.rmtree(folder)


def _lead_out(run: Path, folder: Path) -> None:
    _change_summary(run, artifactsDir="../../elsewhere")


def _break_assertions(run: Path, folder: Path) -> None:
    _change_summary(run, assertions=[{"name": 1}])


def _change_summary(run: Path, **fields: Any) -> None:
    summary = json.loads((run / "summary.json").read_text("utf-8"))
    summary["results"][0] |= fields
    (run / "summary.json").write_text(json.dumps(summary), "utf-8")


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (_delete_events, "events.json"),
        (_delete_folder, "No such file or directory"),
        (_lead_out, "artifactsDir leads out of the run folder"),
        (_break_assertions, "assertions of one"),
    ],
)
def test_what_cannot_be_carried_after_all_is_run_and_said(
    project: CarryProject, break_it: Callable[[Path, Path], None], said: str
) -> None:
    """The plan was made from the slim results; with early exit, what a pass made unnecessary may be needed again."""
    _outcomes(project, *["passed"] * 3)
    result = project.run(*_in_order(3)).results["local", "one", 0]
    run = project.runs()[0]
    break_it(run, run / result["artifactsDir"])
    assert [line[0] for line in project.plan(*_in_order(3))] == ["carry", "skip"]
    _outcomes(project, "failed", "passed", "passed")
    ran = project.run(*_in_order(3))
    assert _stored(ran.results) == {0: ("failed", False), 1: ("passed", False)}
    assert ran.summary["cancelled"] == 1
    assert "local one 0: not carried, so it is run: " in ran.err
    assert said in ran.err
    assert ran.code == 0


@pytest.mark.parametrize("text", ["{", '{"id": "one"}', "[]"])
def test_a_result_that_cannot_be_read_is_run_and_said(project: CarryProject, text: str) -> None:
    """Before anything starts."""
    _outcomes(project, "passed")
    result = project.run("local").results["local", "one", 0]
    run = project.runs()[0]
    (run / "summary.json").unlink()
    (run / result["artifactsDir"] / "result.json").write_text(text, "utf-8")
    ran = project.run("local")
    assert len(ran.calls) == 1
    assert f"warning[unreadable]: {run.name}/{result['artifactsDir']}/result.json: " in ran.err


def test_results_of_a_tool_without_identities_say_so(project: CarryProject) -> None:
    """They cannot be compared."""
    _outcomes(project, "passed")
    project.run("local")
    _change_summary(project.runs()[0], fingerprint="0" * 64, identity=None)
    assert project.reasons("local") == {("run", "changed: identity (not recorded before)"): 1}


VERSIONS = {
    "raises": ('def build():\n    raise OSError("no service")\n', "OSError: no service"),
    "exits": ("def build():\n    raise SystemExit(3)\n", "SystemExit: 3"),
    "gives no text": ("def build():\n    return 7\n", "it gave int, not text"),
    "is not a plain function": ('async def build():\n    return "7"\n', "it gave coroutine, not text"),
}


@pytest.mark.parametrize("how", VERSIONS)
def test_an_agent_that_cannot_say_its_version_is_never_carried(project: CarryProject, how: str) -> None:
    """Whether it is still the same is not known; that is said, and the run goes on."""
    build, said = VERSIONS[how]
    _outcomes(project, "passed")
    project.edit("adapters/bots.py", "send=send)", "send=send, version=build)")
    project.edit("adapters/bots.py", "def bot():", f"{build}\ndef bot():")
    project.run("local")
    assert project.reasons("local") == {("run", "changed: agent version (unknown)"): 1}
    ran = project.run("local")
    assert (len(ran.calls), ran.code) == (1, 0)
    assert f"warning[agent-version]: agent bot could not say its version: {said}" in ran.err


def test_nothing_of_the_project_is_called_where_all_is_carried(project: CarryProject) -> None:
    """No agent, no hook of an experiment."""
    _outcomes(project, "passed")
    project.edit("experiments/local.py", "agent=bot()", "agent=bot(), setup=up, teardown=up")
    project.edit(
        "experiments/local.py", "\nexperiment", '\ndef up():\n    open("up.txt", "a").write("x")\n\nexperiment'
    )
    project.run("local")
    assert (project.root / "up.txt").read_text("utf-8") == "xx"
    assert project.run("local").calls == ()
    assert (project.root / "up.txt").read_text("utf-8") == "xx"
