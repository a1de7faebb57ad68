"""Whole runs with guests that misbehave: each attempt carries its own error, the others are as if it was not there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.journey.faulty_project import FILES, HOOKS, LOOP, PLAIN, experiment
from tests.journey.whole_runs import Done, project, run, run_folder

pytestmark = pytest.mark.slow

ALL_AT_ONCE = ("--max-concurrency", "60")
INNOCENT = [f"innocent/{number}" for number in range(6)]


def _whole_run(name: str) -> Callable[[pytest.TempPathFactory], Done]:
    @pytest.fixture(scope="module", name=name)
    def fixture(tmp_path_factory: pytest.TempPathFactory) -> Done:
        return run(project(tmp_path_factory.mktemp(name), FILES), name, *ALL_AT_ONCE)

    return fixture


loop_run = _whole_run("loop")
plain_run = _whole_run("plain")
hooks_run = _whole_run("hooks")
authors_run = _whole_run("authors")


@pytest.fixture(params=["loop", "plain", "hooks", "authors"])
def any_run(request: pytest.FixtureRequest) -> Done:
    """Each of the four runs."""
    done: Done = request.getfixturevalue(request.param)
    return done


def test_the_run_goes_on_to_its_end(any_run: Done) -> None:
    """Every planned attempt has a result, the exit code is that of errored evals, and niceeval itself did not break."""
    assert any_run.code == 1
    assert not any_run.summary.keys() & {"notStarted", "cancelled", "interrupted"}
    assert any_run.summary["passed"] + any_run.summary["errored"] == len(any_run.results)
    assert "Traceback" not in any_run.out + any_run.err
    assert "error[broke]" not in any_run.err


def test_the_run_ends_soon_after_the_last_timeout(any_run: Done) -> None:
    """Blocked loops, abandoned threads and tasks, and threads of a guest's own hold up neither the run nor the exit."""
    assert any_run.seconds < 40


def test_innocent_attempts_pass_beside_the_others(any_run: Done) -> None:
    """Their timeout is shorter than the time that others block the loop; that time is excused."""
    assert {eval_id: any_run.result(eval_id)["outcome"] for eval_id in INNOCENT} == dict.fromkeys(INNOCENT, "passed")


ADAPTER_ERRORS = {
    "raises": "ValueError: the agent is down",
    "unsayable": "Unsayable: (its text raises SystemExit)",
    "odd": "Odd: not an Exception",
    "leaves": "SystemExit: 3",
    "interrupts": "KeyboardInterrupt",
    "cancels_itself": "the guest ended with CancelledError, but nobody had cancelled it",
    "own_timeout": "TimeoutError",
}


@pytest.mark.parametrize(("name", "message"), ADAPTER_ERRORS.items(), ids=ADAPTER_ERRORS)
def test_what_send_raises_is_that_attempts_error(loop: Done, name: str, message: str) -> None:
    """Also what is no Exception, cannot be printed, or would end the process."""
    assert loop.error(f"loop/{name}") == ("adapter-error", "send", message)


def test_an_error_names_the_senders_line_and_the_users_frames(loop: Done) -> None:
    """`loc` is the eval's `t.send`, the trace ends in the adapter, and no frame of ours is in it."""
    info = loop.result("loop/raises")["errorInfo"]
    assert info["loc"].startswith("evals/loop_eval.py:5:")
    assert re.search(r"adapters/faulty\.py:\d+ in raises\n", info["trace"])
    assert "niceeval/_" not in info["trace"]


MALFORMED = {
    "none": "send returned None",
    "mapping": "send returned",
    "text": "send returned",
    "wrong_status": "status 'done'",
    "waits_for_nothing": 'status is "waiting"',
    "wrong_event": "events[0]",
}


@pytest.mark.parametrize(("name", "problem"), MALFORMED.items(), ids=MALFORMED)
def test_what_is_no_turn_is_refused_by_name(loop: Done, name: str, problem: str) -> None:
    """The error says which agent returned what."""
    code, phase, message = loop.error(f"loop/{name}")
    assert (code, phase) == ("turn-malformed", "send")
    assert message.startswith("bot returned a turn that cannot be used: ")
    assert problem in message


def test_a_send_that_hangs_is_cancelled_at_the_timeout(loop: Done) -> None:
    """The error names the phase and the turn in which the time passed."""
    assert loop.error("loop/hangs") == ("timeout", "send", "1s passed in send, turn 1")


@pytest.mark.parametrize("name", ["loop/swallows", "plain/plain_hangs", "plain/plain_spins", "plain/swallows"])
def test_a_send_that_ignores_the_cancellation_is_abandoned(loop: Done, plain: Done, name: str) -> None:
    """A task or a thread that goes on is named, and nobody waits for it."""
    done = loop if name.startswith("loop") else plain
    message = "1s passed in send, turn 1; send ignored the cancellation and was abandoned"
    assert done.error(name) == ("timeout", "send", message)


@pytest.mark.parametrize("name", ["blocks", "spins"])
def test_a_send_that_blocks_the_loop_beyond_its_timeout_is_interrupted(loop: Done, name: str) -> None:
    """The line that blocks is in the trace, and a diagnostic says that others had to wait."""
    code, phase, message = loop.error(f"loop/{name}")
    assert (code, phase) == ("timeout", "send")
    assert "blocked the event loop" in message
    assert re.search(rf"adapters/faulty\.py:\d+ in {name}\n", loop.result(f"loop/{name}")["errorInfo"]["trace"])
    assert f" in {name};" in loop.diagnostics(f"loop/{name}")["loop-blocked"]


@pytest.mark.parametrize(
    ("name", "function"), [("swallows_and_spins", "swallows_and_spins"), ("spins_in_a_callback", "spin")]
)
def test_blocking_where_no_send_is_awaited_is_charged_to_its_attempt(loop: Done, name: str, function: str) -> None:
    """In the grace period, or in a callback: the guest is known by what started the code that runs."""
    assert loop.error(f"loop/{name}")[:2] == ("timeout", "send")
    assert f" in {function};" in loop.diagnostics(f"loop/{name}")["loop-blocked"]


def test_a_short_block_is_a_warning_with_its_line(loop: Done) -> None:
    """An attempt with time left is not interrupted; the diagnostic names file and line."""
    line = next(
        number
        for number, text in enumerate(FILES["adapters/faulty.py"].lstrip("\n").splitlines(), 1)
        if "BLOCKS SHORTLY" in text
    )
    assert loop.result("patient/blocks_shortly")["outcome"] == "passed"
    assert f"adapters/faulty.py:{line} in blocks_shortly" in loop.diagnostics("patient/blocks_shortly")["loop-blocked"]


def test_only_those_who_block_are_told(any_run: Done) -> None:
    """No innocent attempt carries a diagnostic about the loop."""
    told = {eval_id for _, eval_id, _ in any_run.results if "loop-blocked" in any_run.diagnostics(eval_id)}
    blocking = {
        *(f"loop/{name}" for name in ("blocks", "spins", "swallows_and_spins", "spins_in_a_callback")),
        "patient/blocks_shortly",
        *("hooks/setup-blocks", "hooks/teardown-blocks"),
        *("authors/spins", "authors/spins_at_the_end"),
    }
    # Ten thousand checks without an await may take a busy machine more than a second.
    told -= {"authors/checks_for_ever", "authors/catches_and_checks_for_ever"}
    assert told == blocking & {eval_id for _, eval_id, _ in any_run.results}


USABLE = {
    "floods": ("turn-cut", "16,000,000 bytes"),
    "floods_lazily": ("turn-cut", "20,000 events"),
    "surrogates": ("turn-normalised", "lone surrogates"),
    "not_a_number": ("turn-normalised", "NaN"),
    "cyclic": ("turn-normalised", "refers to itself"),
    "nested": ("turn-normalised", "events[0].input.v[0]"),
    "reuses_a_call_id": ("call-pairing", "call c"),
    "result_without_call": ("call-pairing", "never made"),
}


@pytest.mark.parametrize(("name", "diagnostic"), USABLE.items(), ids=USABLE)
def test_what_can_be_used_of_a_turn_is_used_and_the_loss_is_said(
    loop: Done, name: str, diagnostic: tuple[str, str]
) -> None:
    """The attempt passes what it can, with a diagnostic about what was cut or changed."""
    code, text = diagnostic
    assert loop.result(f"loop/{name}")["outcome"] == "passed"
    assert text in loop.diagnostics(f"loop/{name}")[code]


@pytest.mark.parametrize("name", ["mutates", "exits_in_the_background", "odd_logs"])
def test_what_an_adapter_does_beside_its_turn_has_no_effect_on_it(loop: Done, name: str) -> None:
    """Changing the events it handed over, leaving the process from a task of its own, logging what is no text."""
    assert loop.result(f"loop/{name}")["outcome"] == "passed"


def test_events_are_stored_as_they_were_handed_over(loop: Done) -> None:
    """An adapter that goes on using its list and its mappings changes nothing that was taken."""
    folder = run_folder(loop.root) / loop.result("loop/mutates")["artifactsDir"]
    assert '"text":"first"' in (folder / "events.json").read_text("utf-8")


def test_a_task_that_leaves_the_process_is_reported(loop: Done) -> None:
    """SystemExit in a task that nobody waits for does not end the run; it is a warning."""
    assert "warning[task-error]: a task nobody waits for raised SystemExit; the run goes on" in loop.err


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("plain_leaves", "adapter-error", "SystemExit: 3"),
        ("raises", "adapter-error", "ValueError: the agent is down"),
        ("cancels_itself", "adapter-error", "the guest ended with CancelledError"),
        ("none", "turn-malformed", "send returned None"),
        ("hangs", "timeout", "1s passed in send, turn 1"),
    ],
)
def test_a_plain_send_fails_as_an_async_one_does(plain: Done, name: str, code: str, message: str) -> None:
    """Whether it raises in its thread or what it returned raises on the loop."""
    found = plain.error(f"plain/{name}")
    assert found[:2] == (code, "send")
    assert message in found[2]


def test_a_guests_own_thread_does_not_hold_the_process(plain: Done) -> None:
    """The attempt passed, the thread sleeps for a quarter of an hour, and the process has left."""
    assert plain.result("plain/plain_holds_the_process")["outcome"] == "passed"


SETUPS = {
    "raises": ("setup-failed", "ValueError: setup is broken"),
    "exits": ("setup-failed", "SystemExit: 5"),
    "cancels": ("setup-failed", "CancelledError"),
    "hangs": ("timeout", "1s passed in setup"),
    "swallows": ("timeout", "setup ignored the cancellation and was abandoned"),
    "blocks": ("timeout", "blocked the event loop"),
}


@pytest.mark.parametrize(("what", "expected"), SETUPS.items(), ids=SETUPS)
def test_an_agents_setup_that_fails_is_named(hooks: Done, what: str, expected: tuple[str, str]) -> None:
    """The attempt is errored in phase `setup`."""
    code, phase, message = hooks.error(f"hooks/setup-{what}")
    assert (code, phase) == (expected[0], "setup")
    assert expected[1] in message


TEARDOWNS = {
    "raises": "ValueError: teardown is broken",
    "exits": "SystemExit: 5",
    "cancels": "CancelledError",
    "hangs": "teardown ran longer than 0.5s",
    "swallows": "teardown ran longer than 0.5s",
    "blocks": "LoopBlocked",
}


@pytest.mark.parametrize(("what", "message"), TEARDOWNS.items(), ids=TEARDOWNS)
def test_an_agents_teardown_that_fails_leaves_the_verdict(hooks: Done, what: str, message: str) -> None:
    """A diagnostic says what went wrong; the attempt passed before."""
    assert hooks.result(f"hooks/teardown-{what}")["outcome"] == "passed"
    assert message in hooks.diagnostics(f"hooks/teardown-{what}")["teardown-failed"]


def test_agents_teardowns_that_fail_are_said_once(hooks: Done) -> None:
    """A result that passed is not looked into: the console has the count for the experiment, and the first of them."""
    said = [line for line in hooks.err.splitlines() if line.startswith("warning[teardown-failed]: ")]
    assert len(said) == 1
    assert re.match(rf".*: experiment hooks: in {len(TEARDOWNS)} attempts, first: hooked: teardown: \w+", said[0])


AUTHORS = {
    "loops": ("timeout", "eval", "1s passed in eval"),
    "spins": ("timeout", "eval", "blocked the event loop"),
    "checks_for_ever": ("too-many-entries", "eval", "10,000"),
    "catches_and_checks_for_ever": ("too-many-entries", "eval", "10,000"),
    "swallows": ("timeout", "eval", "eval ignored the cancellation and was abandoned"),
    "leaves_a_send": ("send-unfinished", "eval", "still running"),
    "exits": ("author-error", "eval", "SystemExit: 7"),
    "exits_in_a_group": ("author-error", "eval", "SystemExit: 7"),
    "exits_at_the_end": ("author-error", "eval", "SystemExit: 7"),
    "spins_at_the_end": ("timeout", "eval", "blocked the event loop"),
    "cancels_itself": ("author-error", "eval", "CancelledError"),
}


@pytest.mark.parametrize(("name", "expected"), AUTHORS.items(), ids=AUTHORS)
def test_an_evals_fault_is_its_own(authors: Done, name: str, expected: tuple[str, str, str]) -> None:
    """Loops, exits and cancellations of an eval function end in one precise error of that eval."""
    code, phase, message = authors.error(f"authors/{name}")
    assert (code, phase) == expected[:2]
    assert expected[2] in message


def test_an_eval_that_catches_everything_and_sends_for_ever_is_abandoned(authors: Done) -> None:
    """Once its attempt is sealed it rests at its next send: it must not hold the loop with refused ones."""
    code, _, message = authors.error("authors/swallows_and_sends")
    assert code == "timeout"
    assert message.endswith("eval ignored the cancellation and was abandoned")


@pytest.mark.parametrize("name", ["leaves_tasks", "leaves_a_stubborn_task"])
def test_an_authors_background_tasks_hold_up_nothing(authors: Done, name: str) -> None:
    """They are an error of their eval, and end with the process at the latest."""
    code, phase, message = authors.error(f"authors/{name}")
    assert (code, phase) == ("task-unfinished", "eval")
    assert "background was still running" in message


def test_every_misbehaviour_of_the_project_is_looked_at() -> None:
    """A case that is added to the project without an expectation here would prove nothing."""
    looked_at = {*ADAPTER_ERRORS, *MALFORMED, *USABLE, "mutates", "exits_in_the_background", "odd_logs"}
    looked_at |= {"hangs", "swallows", "swallows_and_spins", "spins_in_a_callback", "blocks", "spins"}
    assert set(LOOP) == looked_at
    assert {name for name in PLAIN if name.startswith("plain_")} == {
        "plain_hangs",
        "plain_leaves",
        "plain_spins",
        "plain_holds_the_process",
    }
    assert {*HOOKS} == {f"setup-{what}" for what in SETUPS} | {f"teardown-{what}" for what in TEARDOWNS}


# Experiments ----------------------------------------------------------------------------------------------------

SERVICE = """
import sys
import time
from pathlib import Path

from adapters.faulty import bot

def note(word):
    with open("notes.txt", "a") as notes:
        notes.write(word + "\\n")

async def raises():
    raise ValueError("no service")

async def exits():
    sys.exit(1)

def hangs():
    time.sleep(1000)

def up():
    note("up")

def down():
    note("down")

def version():
    return 42

def versioned():
    return bot("versioned", version=version)
"""

ONE = """
from niceeval import define_eval

@define_eval()
async def one(t):
    (await t.send("good")).succeeded()
"""


def _service(**arguments: str) -> dict[str, str]:
    given = ", ".join(f"{name}={value}" for name, value in {"agent": "service.bot()", **arguments}.items())
    return {
        "adapters/faulty.py": FILES["adapters/faulty.py"],
        "adapters/service.py": SERVICE,
        "evals/one_eval.py": ONE,
        "experiments/good.py": experiment(agent="bot()"),
        "experiments/served.py": (
            "from adapters import service\nfrom niceeval import define_experiment\n\n"
            f"experiment = define_experiment({given})\n"
        ),
    }


@pytest.mark.parametrize(
    ("hook", "problem"),
    [
        ("service.raises", "ValueError: no service"),
        ("service.exits", "SystemExit: 1"),
        ("service.hangs", "setup ran longer than 1s"),
    ],
)
def test_an_experiments_setup_that_fails_keeps_its_own_attempts_from_starting(
    tmp_path: Path, hook: str, problem: str
) -> None:
    """The other experiment runs; teardown runs once, since setup was entered; the exit code is 1."""
    done = run(project(tmp_path, _service(setup=hook, teardown="service.down")))
    assert done.code == 1
    assert done.result("one", "good")["outcome"] == "passed"
    assert [key[0] for key in done.results] == ["good"]
    assert done.summary["notStarted"] == 1
    assert "error[experiment-setup-failed]: setup of experiment served: " in done.err
    assert problem in done.err
    assert (tmp_path / "notes.txt").read_text() == "down\n"


@pytest.mark.parametrize(
    ("hook", "problem"),
    [
        ("service.raises", "ValueError: no service"),
        ("service.exits", "SystemExit: 1"),
        ("service.hangs", "teardown ran longer than 0.5s"),
    ],
)
def test_an_experiments_teardown_that_fails_is_said_and_changes_no_result(
    tmp_path: Path, hook: str, problem: str
) -> None:
    """Setup ran once, the attempt passed, and the run is what its attempts are."""
    done = run(project(tmp_path, _service(setup="service.up", teardown=hook)))
    assert done.code == 0
    assert done.result("one", "served")["outcome"] == "passed"
    assert f"error[experiment-teardown-failed]: teardown of experiment served: {problem}" in done.err.replace(
        "GuestTimeout: ", ""
    )
    assert (tmp_path / "notes.txt").read_text() == "up\n"


def test_a_version_that_is_no_text_is_named(tmp_path: Path) -> None:
    """What it runs is not known, so nothing of it is carried; it runs all the same."""
    done = run(project(tmp_path, _service(agent="service.versioned()")))
    assert done.code == 0
    assert "warning[agent-version]: agent versioned could not say its version: it gave int, not text" in done.err
    assert done.result("one", "good")["outcome"] == "passed"


STUCK = """
async def send(input, ctx):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass
"""


def test_a_guest_that_cannot_be_interrupted_ends_the_process_with_what_is_stored(tmp_path: Path) -> None:
    """There is no way to take the loop back; the finished attempts are on disk, and one line says who held it."""
    files = {
        "adapters/faulty.py": FILES["adapters/faulty.py"],
        "adapters/stuck.py": STUCK,
        "evals/one_eval.py": ONE.replace("define_eval()", "define_eval(timeout=1.0)"),
        "experiments/a.py": experiment(agent="bot()"),
        "experiments/b.py": "from adapters import stuck\n" + experiment(agent="bot(send=stuck.send)"),
    }
    done = run(project(tmp_path, files), "--max-concurrency", "1")
    assert done.code == 1
    assert "error[loop-stuck]: b one 0 holds the event loop at adapters/stuck.py:" in done.err
    (stored,) = (tmp_path / ".niceeval").rglob("result.json")
    assert '"experimentId":"a"' in stored.read_text("utf-8")


# What concerns the process and the loop ---------------------------------------------------------------------------

REACHING = """
import asyncio
import os
import sys

from niceeval.adapter import Message, Turn

def said(text="hello"):
    return Turn(events=[Message(role="assistant", text=text)])

def waited(pid):
    return said(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))

async def forks_and_exits(ctx):
    pid = os.fork()
    if pid == 0:
        sys.exit(3)
    return waited(pid)

async def forks_and_returns(ctx):
    pid = os.fork()
    return said() if pid == 0 else waited(pid)

async def forks_and_raises(ctx):
    pid = os.fork()
    if pid == 0:
        raise ValueError("in the child")
    return waited(pid)

async def forks_and_yields(ctx):
    pid = os.fork()
    if pid == 0:
        while True:
            await asyncio.sleep(0)
    return waited(pid)

async def forks_in_a_task(ctx):
    async def child():
        pid = os.fork()
        return said() if pid == 0 else waited(pid)
    return await asyncio.create_task(child())

def plain_forks_and_exits(ctx):
    pid = os.fork()
    if pid == 0:
        sys.exit(3)
    return waited(pid)

async def cancels_all_others(ctx):
    for task in asyncio.all_tasks():
        if task is not asyncio.current_task():
            task.cancel()
    await asyncio.sleep(0.05)
    return said()

async def stops_the_loop(ctx):
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.01)
    return said()

async def runs_this_loop(ctx):
    work = asyncio.sleep(0)
    try:
        asyncio.get_event_loop().run_until_complete(work)
    finally:
        work.close()

async def runs_another_loop(ctx):
    loop, work = asyncio.new_event_loop(), asyncio.sleep(0)
    try:
        loop.run_until_complete(work)
    finally:
        work.close()
        loop.close()

async def send(input, ctx):
    return await globals()[input.text](ctx)

def plain_send(input, ctx):
    return globals()[input.text](ctx)
"""

REACHES = """
from niceeval import define_eval

@define_eval(timeout=20.0, cases={name: name for name in %s})
async def reaches(t, name):
    turn = await t.send(name)
    t.message_includes("%s")
"""


def _reaching(root: Path, *names: str, says: str = "hello", send: str = "send", **arguments: str) -> Done:
    files = {
        "adapters/faulty.py": FILES["adapters/faulty.py"],
        "adapters/reaching.py": REACHING,
        "evals/reaches_eval.py": REACHES % (list(names), says),
        "evals/innocent_eval.py": FILES["evals/innocent_eval.py"],
        "experiments/a.py": "from adapters import reaching\n"
        + experiment(agent=f"bot(send=reaching.{send})", evals='["reaches"]', **arguments),
        "experiments/b.py": experiment(agent="bot()", evals='["innocent"]'),
    }
    done = run(project(root, files), *ALL_AT_ONCE)
    assert "Traceback" not in done.out + done.err
    assert {eval_id: done.result(eval_id)["outcome"] for eval_id in INNOCENT} == dict.fromkeys(INNOCENT, "passed")
    assert len(done.results) == len(INNOCENT) + len(names)
    return done


@pytest.mark.parametrize(
    ("name", "send", "status"),
    [
        ("forks_and_exits", "send", "3"),
        ("forks_and_returns", "send", "0"),
        ("forks_and_raises", "send", "1"),
        ("forks_and_yields", "send", "0"),
        ("forks_in_a_task", "send", "0"),
        ("plain_forks_and_exits", "plain_send", "3"),
    ],
)
def test_a_forked_child_does_not_go_on_as_a_second_niceeval(tmp_path: Path, name: str, send: str, status: str) -> None:
    """It ends where the guest's call ends, with the status it asked for; the run says everything once."""
    done = _reaching(tmp_path, name, says=status, send=send)
    assert done.code == 0
    assert done.out.count("PASSED (exit 0)") == 1


def test_an_agent_that_cancels_all_tasks_reaches_its_own_attempt_only(tmp_path: Path) -> None:
    """Workers and the other attempts go on; the attempt says what it did."""
    done = _reaching(tmp_path, "cancels_all_others")
    assert done.code == 1
    assert done.result("reaches/cancels_all_others")["outcome"] == "errored"
    assert "of the run and of other attempts" in done.diagnostics("reaches/cancels_all_others")["tasks-cancelled"]


def test_a_loop_that_is_stopped_is_run_again(tmp_path: Path) -> None:
    """The attempt that stopped it passes as well, and one warning says that somebody did."""
    done = _reaching(tmp_path, "stops_the_loop")
    assert done.code == 0
    assert done.err.count("warning[loop-stopped]") == 1


@pytest.mark.parametrize("name", ["runs_this_loop", "runs_another_loop"])
def test_a_loop_inside_the_loop_is_the_attempts_error(tmp_path: Path, name: str) -> None:
    """asyncio refuses it, and that is what the attempt says."""
    done = _reaching(tmp_path, name)
    code, phase, message = done.error(f"reaches/{name}")
    assert (code, phase) == ("adapter-error", "send")
    assert message.startswith("RuntimeError: ")
    assert "running" in message


def test_an_experiments_teardown_without_a_setup_runs(tmp_path: Path) -> None:
    """Once, when the experiment was begun."""
    done = run(project(tmp_path, _service(teardown="service.down")))
    assert done.code == 0
    assert (tmp_path / "notes.txt").read_text() == "down\n"


FORKS_WHEN_LOADED = """
import os
import sys

if os.fork() == 0:
    sys.exit(0)
os.wait()
"""


def test_a_file_that_forks_when_it_is_loaded_makes_no_second_run(tmp_path: Path) -> None:
    """The child ends with the file."""
    done = run(project(tmp_path, {**_service(), "evals/one_eval.py": FORKS_WHEN_LOADED + ONE}))
    assert done.code == 0
    assert done.out.count("PASSED (exit 0)") == 1
    assert len(list((tmp_path / ".niceeval").glob("2*"))) == 1


CUTS = """
from niceeval import define_eval
from niceeval.expect import equals

SECRET = "sk-live-ABCDEFGHIJKLMNOPQRSTUVWXYZ"

@define_eval(cases={str(number): number for number in range(1960, 2010, 4)})
async def cuts(t, number):
    t.check({"k": "w" * number + SECRET}, equals(1))
    t.check("w" * number + SECRET, equals("x"))
    (await t.send("good")).message_includes("v" * number + SECRET)
"""


def test_a_secret_that_is_cut_in_two_is_not_stored_in_part(tmp_path: Path) -> None:
    """Wherever what is kept of a value ends."""
    files = {**_service(), "evals/one_eval.py": CUTS, ".env": "KEY=sk-live-ABCDEFGHIJKLMNOPQRSTUVWXYZ\n"}
    done = run(project(tmp_path, files), "good")
    assert done.code == 1
    written = "".join(
        path.read_text("utf-8")
        for path in run_folder(tmp_path).rglob("*.json")
        # What the eval's own file says is its source.
        if path.name != "sources.json"
    )
    assert "[redacted]" in written
    assert not re.search("[wv]sk-l", written)
    assert not re.search("[wv]sk-l", done.out + done.err)
