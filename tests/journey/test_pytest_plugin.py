"""Evals as pytest items: what is collected, how it runs, how each outcome reads, and that nothing happens unasked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path

import pytest

import niceeval._pytest.plugin  # loaded before pytester takes note of what is, so that it stays loaded
from niceeval.results import open_results
from tests.unit.project_files import write_files

pytest_plugins = ["pytester"]

LOCAL = "--niceeval-experiment=local"

BOT = """
import asyncio
import os
import signal

from niceeval.adapter import ActionCalled, ActionResult, Message, Turn, complete_evidence_coverage, define_agent
from niceeval.adapter import Coverage, EvidenceCoverage

waiting = {}

def meeting(name):
    return waiting.setdefault(name, asyncio.Event())

async def send(input, ctx):
    word, _, rest = input.text.partition(" ")
    if word == "mark":
        open(rest, "a").write(f"{ctx.experiment_id} {ctx.eval_id}\\n")
    elif word == "print":
        print(rest)
    elif word == "log":
        ctx.log(rest)
    elif word == "raise":
        raise ConnectionError(rest)
    elif word == "call":
        call = ActionCalled(call_id="c1", name="search", input={"query": rest})
        return Turn(events=[call, ActionResult(call_id="c1", status="completed", output="found")])
    elif word == "tell":
        meeting(rest).set()
    elif word == "await":
        await meeting(rest).wait()
    elif word == "ctrl-c":
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)
    return Turn(events=[Message(role="assistant", text=f"You said {input.text}")])

def bot():
    return define_agent(name="bot", evidence_coverage=complete_evidence_coverage, send=send)
"""

EXPERIMENT = """
from adapters.bot import bot
from niceeval import define_experiment

experiment = define_experiment(agent=bot())
"""

PASSES = """
from niceeval import define_eval

@define_eval()
async def passes(t):
    turn = await t.send("hello")
    turn.succeeded()
"""

FAILS = """
from niceeval import define_eval
from niceeval.expect import includes

@define_eval()
async def fails(t):
    turn = await t.send("call weather")
    turn.called_tool("search", input={"query": "news"})
"""

SKIPS = """
from niceeval import define_eval

@define_eval()
async def skips(t):
    t.skip("no such feature yet")
"""

BREAKS = """
from niceeval import define_eval

@define_eval()
async def breaks(t):
    await t.send("raise no route to host")
"""

CASES = """
from niceeval import define_eval

@define_eval(cases={"oslo-today": "Oslo", "rome": "Rome"}, tags=["smoke", "needs-network"])
async def cities(t, city):
    turn = await t.send(city)
    turn.succeeded()
"""


def sends(*texts: str, name: str = "sends", options: str = "") -> str:
    """The text of an eval that sends these, one after the other, and wants each turn to succeed."""
    lines = "".join(f"    (await t.send({text!r})).succeeded()\n" for text in texts)
    return f"from niceeval import define_eval\n\n@define_eval({options})\nasync def {name}(t):\n{lines}"


class Evals:
    """A project in a folder of its own, and pytest runs in it."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self._pytester = pytester
        self.root = pytester.path
        self.add({"adapters/bot.py": BOT, "experiments/local.py": EXPERIMENT})

    def add(self, files: Mapping[str, str]) -> None:
        write_files(self.root, files)

    def run(self, *arguments: str) -> pytest.RunResult:
        """One run of pytest with its own plugins and ours; others cost more time than all the rest."""
        others = [name for name in ("xdist", "anyio", "hypothesispytest") if name != "xdist" or "-n2" not in arguments]
        return self._pytester.runpytest_inprocess(*(f"-pno:{name}" for name in others), *arguments)

    def runs(self) -> list[Path]:
        """The run folders, oldest first."""
        folder = self.root / ".niceeval"
        return sorted(path for path in folder.iterdir() if path.name[0].isdigit()) if folder.is_dir() else []

    def stored(self) -> list[tuple[str, str]]:
        """Eval and outcome of each attempt of the only run."""
        (run,) = self.runs()
        return sorted((attempt.eval_id, attempt.outcome) for attempt in open_results(run).attempts)


@pytest.fixture
def evals(pytester: pytest.Pytester) -> Evals:
    return Evals(pytester)


def node_ids(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if "::" in line]


# Without an experiment ----------------------------------------------------------------------------------------------


def test_nothing_is_collected_unasked(evals: Evals) -> None:
    """A run of pytest that names no experiment costs nothing, also where it is given the folder or the file."""
    evals.add({"evals/a_eval.py": sends("mark sent"), "tests/test_own.py": "def test_own(): pass"})
    evals.run().assert_outcomes(passed=1)
    evals.run("evals").assert_outcomes()
    evals.run("evals/a_eval.py").assert_outcomes()
    assert not (evals.root / "sent").exists()
    assert evals.runs() == []


def test_unasked_the_plugin_loads_its_options_only() -> None:
    """Beside pytest itself: the package, its version, and one module without imports of its own."""
    code = """
        import sys, pytest
        before = set(sys.modules)
        import niceeval.pytest_plugin
        print(*sorted(set(sys.modules) - before))
    """
    environment = {**os.environ, "PYTHONPATH": str(Path(niceeval.__file__).parents[1])}
    program = [sys.executable, "-c", "\n".join(line.strip() for line in code.splitlines())]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["niceeval", "niceeval._version", "niceeval.pytest_plugin"]


# Collecting ---------------------------------------------------------------------------------------------------------


def test_an_item_for_each_case(evals: Evals) -> None:
    """Named after the function; a file with several evals names each."""
    two = sends("x", name="one") + sends("y", name="two")
    evals.add({"evals/weather/cities_eval.py": CASES, "evals/two_eval.py": two})
    result = evals.run("evals", LOCAL, "--collect-only", "-q")
    assert node_ids(result) == [
        "evals/two_eval.py::one",
        "evals/two_eval.py::two",
        "evals/weather/cities_eval.py::cities[oslo-today]",
        "evals/weather/cities_eval.py::cities[rome]",
    ]
    assert evals.runs() == []


def test_several_experiments_are_part_of_the_name(evals: Evals) -> None:
    """One group, or the option twice; an eval's items stand side by side."""
    evals.add(
        {"experiments/compare/a.py": EXPERIMENT, "experiments/compare/b.py": EXPERIMENT, "evals/x_eval.py": CASES}
    )
    wanted = [
        "evals/x_eval.py::cities[oslo-today][compare/a]",
        "evals/x_eval.py::cities[oslo-today][compare/b]",
        "evals/x_eval.py::cities[rome][compare/a]",
        "evals/x_eval.py::cities[rome][compare/b]",
    ]
    group = evals.run("evals", "--niceeval-experiment=compare", "--collect-only", "-q")
    assert node_ids(group) == wanted
    both = [f"--niceeval-experiment=compare/{one}" for one in ("b", "a")]
    assert node_ids(evals.run("evals", *both, "--collect-only", "-q")) == wanted
    evals.run(wanted[1], "--niceeval-experiment=compare").assert_outcomes(passed=1)
    (run,) = evals.runs()
    assert [attempt.experiment_id for attempt in open_results(run).attempts] == ["compare/b"]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["evals/x_eval.py::cities"], ["cities[oslo-today]", "cities[rome]"]),
        (["evals/x_eval.py::cities[rome]"], ["cities[rome]"]),
        (["evals/x_eval.py", "evals/y_eval.py"], ["cities[oslo-today]", "cities[rome]", "passes"]),
        (["evals", "-k", "rome or passes"], ["cities[rome]", "passes"]),
        (["evals", "-k", "x/oslo-today"], ["cities[oslo-today]"]),
        (["evals", "-m", "smoke"], ["cities[oslo-today]", "cities[rome]"]),
        (["evals", "-m", "not needs-network"], ["passes"]),
        (["evals", "--deselect", "evals/x_eval.py::cities[rome]"], ["cities[oslo-today]", "passes"]),
    ],
)
def test_what_is_selected_runs_and_nothing_else(evals: Evals, arguments: list[str], names: list[str]) -> None:
    """By path, node id, keyword and tag, as with any test."""
    evals.add({"evals/x_eval.py": CASES, "evals/y_eval.py": PASSES})
    result = evals.run(*arguments, LOCAL, "-v", "-W", "error", "--strict-markers")
    assert re.findall(r"::(\S+) PASSED", result.stdout.str()) == names
    assert len(evals.stored()) == len(names)


def test_a_tag_that_is_a_mark_of_pytests_own_does_nothing(evals: Evals) -> None:
    """`skip` as a tag is a word like any other; what cannot be a mark at all is found by `-k`."""
    evals.add({"evals/x_eval.py": sends("x", options="tags=['skip', 'xfail', 'a: b', '_c']")})
    result = evals.run("evals", LOCAL, "--strict-markers", "-W", "error", "-k", "skip and _c")
    result.assert_outcomes(passed=1)


def test_other_patterns_of_files_collect_nothing_twice(evals: Evals) -> None:
    """Neither `python_files` nor doctests make a module of what holds evals."""
    evals.add({"evals/x_eval.py": PASSES + "\ndef test_x(): '>>> 1'\n", "pytest.ini": "[pytest]\npython_files=*.py\n"})
    result = evals.run("evals", "evals/x_eval.py", LOCAL, "--collect-only", "-q", "--doctest-modules")
    assert node_ids(result) == ["evals/x_eval.py::passes"]


def test_a_file_that_does_not_load_is_a_collection_error(evals: Evals) -> None:
    """With the project's own frames and none of ours; nothing is run."""
    evals.add(
        {
            "adapters/tables.py": "def rows():\n    return {}['cities']\n",
            "evals/bad_eval.py": "from adapters.tables import rows\n\nROWS = rows()\n",
            "evals/good_eval.py": sends("mark sent"),
        }
    )
    result = evals.run("evals", LOCAL)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "*ERROR collecting evals/bad_eval.py*",
            "error[[]load-failed]: KeyError: 'cities'",
            "  adapters/tables.py:2:12",
            "*return {}[[]'cities']*",
            "*evals/bad_eval.py:3:8",
            "*ROWS = rows()",
        ]
    )
    assert "niceeval/_" not in result.stdout.str()
    assert not (evals.root / "sent").exists()


def test_a_file_that_is_not_among_the_paths_does_not_matter(evals: Evals) -> None:
    """As with any test file that is broken somewhere else; an experiment that is not asked for is no matter either."""
    evals.add({"evals/bad_eval.py": "1 / 0", "experiments/bad.py": "1 / 0", "evals/good_eval.py": PASSES})
    evals.run("evals/good_eval.py", LOCAL).assert_outcomes(passed=1)


def test_the_project_is_that_of_the_paths(evals: Evals) -> None:
    """Wherever pytest's own root is; node ids and places are from there, results in the project."""
    project = evals.root / "agents" / "desk"
    write_files(project, {"adapters/bot.py": BOT, "experiments/local.py": EXPERIMENT, "evals/f_eval.py": FAILS})
    result = evals.run("agents/desk/evals", LOCAL)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["agents/desk/evals/f_eval.py:7: failed", "FAILED agents/desk/evals/f_eval.py::fails - called_tool*"]
    )
    assert list((project / ".niceeval").iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evals", "--niceeval-experiment=locale"], '*no experiment or group "locale"; "local" is close'),
        (["elsewhere", LOCAL], "*no niceeval_config.py, evals/ or experiments/ here or above"),
        (["evals", "other/evals", LOCAL], "*evals, other/evals belong to different projects*"),
        (["evals", "--niceeval-experiment=broken"], "*ZeroDivisionError: division by zero"),
        (["evals", LOCAL, "--niceeval-runs=0"], "*--niceeval-runs: 0 is less than 1"),
        (["evals", LOCAL, "--niceeval-timeout=-1"], "*--niceeval-timeout: -1 is no positive number of seconds"),
        (["evals", LOCAL, "-n2"], "*xdist cannot divide them: add -n0*"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_is(evals: Evals, arguments: list[str], message: str) -> None:
    """A usage error of pytest, exit code 4."""
    evals.add({"project/evals/a_eval.py": sends("mark sent"), "project/experiments/local.py": EXPERIMENT})
    evals.add({"project/experiments/broken.py": "1 / 0", "project/other/evals/b_eval.py": PASSES})
    evals.add({"project/adapters/bot.py": BOT})
    (evals.root / "experiments" / "local.py").unlink()
    (evals.root / "experiments").rmdir()
    (evals.root / "elsewhere").mkdir()
    paths = [f"project/{one}" if one.endswith("evals") else one for one in arguments]
    result = evals.run(*paths)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message.replace("evals, other/evals", "project/evals, project/other/evals")])
    assert not (evals.root / "sent").exists()


# Running ------------------------------------------------------------------------------------------------------------


def test_attempts_run_at_the_same_time_in_one_run(evals: Evals) -> None:
    """Each of these waits for the other one; one by one they would never end."""
    evals.add({"evals/a_eval.py": sends("tell a", "await b"), "evals/b_eval.py": sends("tell b", "await a")})
    evals.run("evals", LOCAL, "--niceeval-timeout=20").assert_outcomes(passed=2)
    assert evals.stored() == [("a", "passed"), ("b", "passed")]


def test_results_are_those_of_any_other_run(evals: Evals) -> None:
    """A later `niceeval exp` can take them over; the reporters of the project are told what happens."""
    config = """
        from niceeval import define_config

        class Told:
            def handle(self, event):
                with open("told", "a") as file:
                    file.write(type(event).__name__ + "\\n")

        config = define_config(reporters=[Told()])
    """
    evals.add({"niceeval_config.py": config, "evals/p_eval.py": PASSES})
    evals.run("evals", LOCAL).assert_outcomes(passed=1)
    (run,) = evals.runs()
    (attempt,) = open_results(run).attempts
    assert attempt.fingerprint is not None
    told = (evals.root / "told").read_text("utf-8").split()
    assert told == ["RunStart", "EvalStart", "EvalComplete", "RunSaved", "RunFinished"]


def test_an_eval_that_blocks_the_loop_is_interrupted(evals: Evals) -> None:
    """As everywhere: it is named, and the others are judged all the same."""
    blocks = sends("x").replace("async def sends(t):\n", "async def sends(t):\n    import time\n    time.sleep(30)\n")
    evals.add({"evals/b_eval.py": blocks, "evals/p_eval.py": PASSES})
    result = evals.run("evals", LOCAL, "--niceeval-timeout=0.5")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*timeout: it blocked the event loop*", "*evals/b_eval.py:6:*"])


def test_what_ends_first_is_reported_first(evals: Evals) -> None:
    """A slow eval holds up nobody's report; among those that are over, the order is the session's."""
    evals.add({"evals/a_eval.py": sends("await b"), "evals/b_eval.py": sends("x"), "evals/c_eval.py": sends("tell b")})
    result = evals.run("evals", LOCAL, "-v", "--niceeval-max-concurrency=2")
    result.assert_outcomes(passed=3)
    assert re.findall(r"evals/(\w)_eval.py::sends PASSED", result.stdout.str())[0] == "b"


def test_ordinary_tests_come_first(evals: Evals) -> None:
    """So that none of them holds up attempts under way; their fixtures have what they need."""
    own = """
        import os, pytest

        @pytest.fixture(scope="session")
        def made():
            yield 1
            assert os.path.exists(".niceeval")

        def test_one(made): assert not os.path.exists(".niceeval")
        def test_two(made): assert made == 1
    """
    evals.add({"evals/a_eval.py": PASSES, "evals/test_here.py": own, "tests/test_there.py": own})
    result = evals.run("evals", "tests", LOCAL, "-v")
    result.assert_outcomes(passed=5)
    assert node_ids(result)[-1].startswith("evals/a_eval.py::passes PASSED")


def test_several_attempts_are_one_item(evals: Evals) -> None:
    """Folded as everywhere: one pass is enough; early exit is the experiment's."""
    flaky = """
        from niceeval import define_eval

        tries = []

        @define_eval()
        async def flaky(t):
            await t.send("x")
            tries.append(1)
            assert len(tries) == 2
    """
    evals.add({"evals/flaky_eval.py": flaky, "evals/f_eval.py": FAILS})
    result = evals.run("evals", LOCAL, "--niceeval-runs=3", "--niceeval-max-concurrency=1")
    result.assert_outcomes(passed=1, failed=1)
    assert evals.stored() == [*[("f", "failed")] * 3, ("flaky", "failed"), ("flaky", "passed")]
    result.stdout.fnmatch_lines(
        ["*failed  f*attempt 1/3*", "*failed  f*attempt 2/3*same as @*", "*attempt 3/3*same as @*"]
    )


def test_first_failure_stops_what_runs(evals: Evals) -> None:
    """`-x` sees a failure when it happens, not when the items before it are over; nothing more is sent."""
    evals.add(
        {
            "evals/a_eval.py": sends("await never"),
            "evals/b_eval.py": FAILS,
            "evals/c_eval.py": sends("await never"),
            "evals/d_eval.py": sends("mark sent"),
        }
    )
    result = evals.run("evals", LOCAL, "-x", "--niceeval-max-concurrency=2")
    result.assert_outcomes(failed=1)
    assert evals.stored() == [("b", "failed")]
    assert not (evals.root / "sent").exists()
    result.stdout.fnmatch_lines(["*stopping after 1 failures*"])


def test_interrupting_stores_what_has_finished(evals: Evals) -> None:
    """Ctrl-C ends the run in good order, and pytest with its own exit code."""
    evals.add({"evals/a_eval.py": PASSES, "evals/b_eval.py": sends("ctrl-c"), "evals/c_eval.py": sends("mark sent")})
    result = evals.run("evals", LOCAL, "--niceeval-max-concurrency=1")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert evals.stored() == [("a", "passed")]
    result.stdout.fnmatch_lines(["niceeval: interrupted, tearing down; Ctrl-C again leaves at once"])
    result.stdout.fnmatch_lines(["*niceeval was interrupted: 1 of 3 attempts are stored*"])
    assert not (evals.root / "sent").exists()


def test_last_failed_runs_what_failed(evals: Evals) -> None:
    """pytest's cache knows evals by their node ids; an errored one counts as failed there."""
    evals.add({"evals/f_eval.py": FAILS, "evals/p_eval.py": PASSES, "evals/e_eval.py": BREAKS})
    evals.run("evals", LOCAL)
    again = evals.run("evals", LOCAL, "--lf")
    again.assert_outcomes(failed=1, errors=1)
    evals.add(
        {"evals/f_eval.py": PASSES.replace("passes", "fails"), "evals/e_eval.py": PASSES.replace("passes", "breaks")}
    )
    evals.run("evals", LOCAL, "--lf").assert_outcomes(passed=2)


def test_marks_of_a_conftest_hold_before_anything_is_spent(evals: Evals) -> None:
    """What is marked to be skipped is not sent; an expected failure is one."""
    conftest = """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                if item.path.name == "a_eval.py":
                    item.add_marker(pytest.mark.skip(reason="too dear"))
                if item.path.name == "f_eval.py":
                    item.add_marker(pytest.mark.xfail(reason="known"))
                if item.path.name == "g_eval.py":
                    item.add_marker(pytest.mark.xfail(run=False))
    """
    evals.add({"conftest.py": conftest, "evals/a_eval.py": sends("mark sent"), "evals/f_eval.py": FAILS})
    evals.add({"evals/g_eval.py": sends("mark sent")})
    evals.run("evals", LOCAL).assert_outcomes(skipped=1, xfailed=2)
    assert not (evals.root / "sent").exists()
    assert evals.stored() == [("f", "failed")]
    evals.run("evals/a_eval.py", LOCAL).assert_outcomes(skipped=1)
    assert len(evals.runs()) == 1


def test_planning_setups_sends_nothing(evals: Evals) -> None:
    """`--setup-plan` only looks."""
    evals.add({"evals/a_eval.py": sends("mark sent")})
    assert evals.run("evals", LOCAL, "--setup-plan").ret == 0
    assert evals.runs() == []


# Reporting ----------------------------------------------------------------------------------------------------------


def test_each_outcome_is_reported_as_what_it_is(evals: Evals) -> None:
    """The agent did it wrong: failed. No conclusion: error. Skipped: its own reason and place."""
    evals.add(
        {"evals/p_eval.py": PASSES, "evals/f_eval.py": FAILS, "evals/b_eval.py": BREAKS, "evals/s_eval.py": SKIPS}
    )
    result = evals.run("evals", LOCAL, "-rs")
    result.assert_outcomes(passed=1, failed=1, errors=1, skipped=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["SKIPPED [[]1] evals/s_eval.py:3: no such feature yet"])


def test_a_failure_shows_the_line_and_what_came(evals: Evals) -> None:
    """With the evidence, the locator and the command that shows more; the short summary says why."""
    evals.add({"evals/f_eval.py": FAILS})
    result = evals.run("evals", LOCAL)
    result.stdout.fnmatch_lines(
        [
            "*failed  f * local * attempt 1/1 * @*",
            '  evals/f_eval.py:7:5  gate  called_tool("search")',
            '    7 * turn.called_tool("search", input={"query": "news"})',
            "*     ^^^^^^^^^^^^^^^^",
            '  expected  at least 1 call of search, input.query = "news"',
            '  received  *input.query = "weather"*',
            "  next: niceeval show @*",
            "evals/f_eval.py:7: failed",
            "FAILED evals/f_eval.py::fails - called_tool*",
        ]
    )
    locator = re.search(r"niceeval show (@\w+)", result.stdout.str())
    (run,) = evals.runs()
    assert locator is not None
    assert open_results(run).find(locator[1]).eval_id == "f"


def test_an_error_shows_code_phase_and_the_users_frames(evals: Evals) -> None:
    """And no frame of niceeval's or pytest's."""
    evals.add({"evals/b_eval.py": BREAKS})
    result = evals.run("evals", LOCAL)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at setup of b *",
            "*errored  b *",
            "  adapter-error: ConnectionError: no route to host",
            "*in send*",
            "*adapters/bot.py*in send*",
            "ERROR evals/b_eval.py::breaks - adapter-error*",
        ]
    )
    assert "niceeval/_" not in result.stdout.str()


def test_an_experiment_that_cannot_start_is_an_error_of_each_item(evals: Evals) -> None:
    """With its code and the line that raised."""
    experiment = EXPERIMENT.replace("agent=bot()", "agent=bot(), setup=lambda: {}['port']")
    evals.add({"experiments/local.py": experiment, "evals/p_eval.py": PASSES, "evals/x_eval.py": CASES})
    result = evals.run("evals", LOCAL)
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(["error[[]experiment-setup-failed]: *KeyError: 'port'*", "  experiments/local.py:4:*"])


def test_what_was_not_started_says_why(evals: Evals) -> None:
    """A fatal error dooms the rest of its experiment: those items are errors of their own, and nothing was sent."""
    fatal = BREAKS.replace("import define_eval", "import ExperimentFatalError, define_eval")
    fatal = fatal.replace('await t.send("raise no route to host")', 'raise ExperimentFatalError("no key")')
    evals.add({"evals/b_eval.py": fatal, "evals/c_eval.py": sends("mark sent")})
    result = evals.run("evals", LOCAL, "--niceeval-max-concurrency=1")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["not started: *no key*", "ERROR evals/c_eval.py::sends - not started: *"])
    assert not (evals.root / "sent").exists()


def test_logs_of_an_eval_are_its_own_and_prints_are_kept_apart(evals: Evals) -> None:
    """What is logged belongs to an attempt; what is printed while many run belongs to none, and is not lost."""
    evals.add({"evals/f_eval.py": FAILS.replace('"call', '"print a word\\nof mine")\n    turn = await t.send("call')})
    evals.add({"evals/b_eval.py": BREAKS.replace("await", 't.log("now it comes")\n    await')})
    result = evals.run("evals", LOCAL)
    result.assert_outcomes(failed=1, errors=1)
    result.stdout.fnmatch_lines(["*Captured log setup*", "eval: now it comes"])
    result.stdout.fnmatch_lines(["printed while the evals ran, by any of them:", "  a word", "  of mine"])
    assert "a word" not in result.stdout.str().split("= FAILURES =")[0]


def test_secrets_are_not_shown(evals: Evals) -> None:
    """A value of `.env` that an agent gives away is replaced, in failures, in logs and in what was printed."""
    given_away = FAILS.replace(
        '"call weather"', '"print hunter2-hunter2")\n    turn = await t.send("call hunter2-hunter2"'
    )
    evals.add(
        {
            ".env": "PASSWORD=hunter2-hunter2\n",
            "evals/f_eval.py": given_away.replace("turn.", "t.log('hunter2-hunter2')\n    turn."),
        }
    )
    result = evals.run("evals", LOCAL, "--junitxml=out.xml")
    result.assert_outcomes(failed=1)
    shown = result.stdout.str().replace('t.send("call hunter2-hunter2")', "").replace("t.log('hunter2-hunter2')", "")
    assert "hunter2" not in shown
    assert shown.count("[redacted]") >= 3
    assert "hunter2" not in (evals.root / "out.xml").read_text("utf-8")


def test_junit_has_every_outcome_with_its_figures(evals: Evals) -> None:
    """As pytest writes it: `failure`, `error`, `skipped`; the time is that of the attempts."""
    evals.add(
        {"evals/p_eval.py": PASSES, "evals/f_eval.py": FAILS, "evals/b_eval.py": BREAKS, "evals/s_eval.py": SKIPS}
    )
    evals.run("evals", LOCAL, "--junitxml=out.xml")
    cases = {case.get("name"): case for case in ElementTree.parse(evals.root / "out.xml").iter("testcase")}
    kinds = {name: [child.tag for child in case if child.tag != "properties"] for name, case in cases.items()}
    assert kinds == {"passes": [], "fails": ["failure"], "breaks": ["error"], "skips": ["skipped"]}
    (failure,) = cases["fails"].iter("failure")
    assert "called_tool" in str(failure.get("message"))
    assert "niceeval show @" in str(failure.text)
    properties = {one.get("name"): one.get("value") for one in cases["fails"].iter("property")}
    assert (properties["niceeval_experiment"], properties["niceeval_verdict"]) == ("local", "failed")
    assert properties["niceeval_locators"] in str(failure.text)


def test_limits_of_the_command_line_hold(evals: Evals) -> None:
    """`--niceeval-strict` lets soft assertions fail, `--niceeval-timeout` ends an attempt."""
    soft = PASSES.replace("turn.succeeded()", 'turn.message_includes("goodbye").at_least(1)')
    evals.add({"evals/s_eval.py": soft, "evals/w_eval.py": sends("await never")})
    evals.run("evals/s_eval.py", LOCAL).assert_outcomes(passed=1)
    result = evals.run("evals", LOCAL, "--niceeval-strict", "--niceeval-timeout=0.2")
    result.assert_outcomes(failed=1, errors=1)
    result.stdout.fnmatch_lines(["*timeout: *"])


def test_a_run_that_could_not_be_stored_is_no_success(evals: Evals) -> None:
    """Every eval passed, and there is nothing to show for it: that is said, and the exit code says so too."""
    broken = """
        import os
        from pathlib import Path
        from adapters.bot import bot
        from niceeval import define_experiment

        def forbid():
            (folder,) = [one for one in Path(".niceeval").iterdir() if one.name[0].isdigit()]
            os.rename(folder, folder.with_name("moved"))
            folder.touch()

        experiment = define_experiment(agent=bot(), setup=forbid)
    """
    evals.add({"experiments/local.py": broken, "evals/p_eval.py": PASSES})
    result = evals.run("evals", LOCAL)
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["error[[]cannot-write]: *"])
