"""How an eval function ends: stops, skips, faults and plain asserts, each at the author's line."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from niceeval import EvalContext
from niceeval._base.errors import StopEval
from niceeval._judge.collector import MAX_ENTRIES
from niceeval.adapter import InputFile, Message, Turn
from niceeval.expect import equals
from tests.unit.drive_harness import Ran, Script, agent, line_of, load_eval, run_eval, says, tool, turn

HEAD = "import asyncio, contextlib\nfrom niceeval.expect import equals, includes\n\n"


def written(
    root: Path, body: str, script: Script | None = None, files: dict[str, str] | None = None, **how: Any
) -> Ran:
    """Run `async def run(t)` with this body, from a project's file."""
    source = HEAD + "async def run(t):\n" + indent(dedent(body).strip("\n"), "    ") + "\n"
    function = load_eval(root, {"evals/a_eval.py": source, **(files or {})})
    return run_eval(function, script, root=root, **how)


def error_loc(ran: Ran) -> str | None:
    """Where the fault is said to be."""
    assert ran.result.error_info is not None
    return ran.result.error_info.loc


# Sends nobody awaits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "column", "name"),
    [
        ('t.send("two")', 5, "send"),
        ('t.send_file("a.txt")', 5, "send_file"),
        ('side = t.new_session().send("two")', 12, "send"),
        ('[t.send("two") for _ in range(2)]', 6, "send"),
    ],
)
def test_a_send_that_is_not_awaited_is_an_authors_error(tmp_path: Path, call: str, column: int, name: str) -> None:
    """At its own line, however well the rest went; nothing is sent by it."""
    script = agent()
    ran = written(tmp_path, f'await t.send("one")\n{call}\nt.succeeded()', script, {"evals/a.txt": "x"})
    assert (ran.result.outcome, ran.error_code) == ("errored", "send-not-awaited")
    line = line_of(tmp_path, call)
    loc = error_loc(ran)
    assert loc is not None
    assert loc.startswith(f"evals/a_eval.py:{line}:")
    assert ran.result.error == f"t.{name}(...) was not awaited: nothing was sent"
    assert [input.text for input in script.inputs] == ["one"]


def test_a_send_that_still_runs_at_the_end_is_an_authors_error(tmp_path: Path) -> None:
    """It is cancelled, and its turn's evidence is lost."""

    async def slow(input: Any, ctx: Any) -> Turn:
        await asyncio.sleep(60)
        return turn()

    ran = written(tmp_path, 'task = asyncio.create_task(t.send("one"))\nawait asyncio.sleep(0)', agent(slow), grace=0.2)
    assert (ran.error_code, error_loc(ran)) == (
        "send-unfinished",
        f"evals/a_eval.py:{line_of(tmp_path, 'create_task')}:32",
    )
    assert [event["type"] for event in ran.events] == ["message"]


def test_a_handle_in_a_plain_assert_is_an_authors_error(tmp_path: Path) -> None:
    """It would pass by being truthy."""
    ran = written(tmp_path, 'turn = await t.send("go")\nassert turn.called_tool("x")')
    assert (ran.error_code, ran.result.outcome) == ("handle-as-bool", "errored")
    assert error_loc(ran) == f"evals/a_eval.py:{line_of(tmp_path, 'assert turn')}:5"


# Stops ------------------------------------------------------------------------------------------------------------

STOPS = {
    "skip": ('t.skip("later")', "skipped"),
    "require": ("t.require(1, equals(2))", "failed"),
    "input request": ("t.require_input_request()", "failed"),
    "data": ("(await t.send('x', output=int)).data", "failed"),
}


@pytest.mark.parametrize(("stop", "verdict"), STOPS.values(), ids=STOPS)
def test_an_authors_except_exception_does_not_swallow_a_stop(tmp_path: Path, stop: str, verdict: str) -> None:
    """What stands after it is not reached."""
    body = f"""
        await t.send("go")
        try:
            {stop}
        except Exception:
            t.log("swallowed")
        t.log("after")
    """
    ran = written(tmp_path, body)
    assert (ran.result.outcome, ran.error_code, ran.logs) == (verdict, None, ())


@pytest.mark.parametrize(("stop", "verdict"), STOPS.values(), ids=STOPS)
def test_a_stop_inside_a_task_group_is_unwrapped(tmp_path: Path, stop: str, verdict: str) -> None:
    """Also a nested one; the other tasks are cancelled."""
    body = f"""
        await t.send("go")
        async def one():
            {stop}
        async def other():
            await asyncio.sleep(60)
        async with asyncio.TaskGroup() as outer:
            outer.create_task(other())
            async with asyncio.TaskGroup() as inner:
                inner.create_task(one())
                inner.create_task(other())
    """
    ran = written(tmp_path, body)
    assert (ran.result.outcome, ran.error_code) == (verdict, None)


def test_a_stop_beside_a_real_error_does_not_hide_it(tmp_path: Path) -> None:
    """The attempt is errored by the error."""
    body = """
        async def stop():
            t.skip("no")
        async def bug():
            raise KeyError("x")
        async with asyncio.TaskGroup() as group:
            group.create_task(stop())
            group.create_task(bug())
    """
    ran = written(tmp_path, body)
    assert (ran.result.outcome, ran.result.error) == ("errored", "KeyError: 'x'")
    assert error_loc(ran) is not None
    assert str(error_loc(ran)).startswith(f"evals/a_eval.py:{line_of(tmp_path, 'raise KeyError')}:")


def test_a_failed_gate_beside_a_skip_counts(tmp_path: Path) -> None:
    """In one group of tasks as in one line after the other."""
    body = """
        async def stop():
            t.skip("no")
        async def miss():
            t.require(1, equals(2))
        async with asyncio.TaskGroup() as group:
            group.create_task(stop())
            group.create_task(miss())
    """
    assert written(tmp_path, body).result.outcome == "failed"


def test_a_fault_that_was_swallowed_is_still_one(tmp_path: Path) -> None:
    """An agent that failed cannot be caught away: nothing can be concluded."""
    body = """
        with contextlib.suppress(BaseException):
            await t.send("go")
        t.check(1, equals(1))
    """
    ran = written(tmp_path, body, agent(RuntimeError("502")))
    assert (ran.result.outcome, ran.error_code, ran.outcomes) == ("errored", "adapter-error", ["passed"])


# Parallel lines -----------------------------------------------------------------------------------------------------

PARALLEL = {
    "gather": """
        one, two = t.new_session(), t.new_session()
        turns = await asyncio.gather(
            one.send("first"),
            two.send("second"),
        )
    """,
    "task group": """
        one, two = t.new_session(), t.new_session()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(one.send("first")),
                group.create_task(two.send("second")),
            ]
        turns = [task.result() for task in tasks]
    """,
    "create_task": """
        one, two = t.new_session(), t.new_session()
        first = asyncio.create_task(
            one.send("first"))
        turns = [
            None, await two.send("second")]
        turns[0] = await first
    """,
    "wait_for": """
        one, two = t.new_session(), t.new_session()
        turns = [
            await asyncio.wait_for(one.send("first"), 10),
            await asyncio.wait_for(two.send("second"), 10),
        ]
    """,
}


@pytest.mark.parametrize("body", PARALLEL.values(), ids=PARALLEL)
def test_parallel_sends_keep_their_call_sites(tmp_path: Path, body: str) -> None:
    """Each user message points at the call that sent it; events stay with their line."""

    async def echo(input: Any, ctx: Any) -> Turn:
        await asyncio.sleep(0.01 if input.text == "first" else 0)
        return turn(says(f"re: {input.text}"), *tool("c", input.text))

    asserts = """
turns[0].called_tool("first", count=1)
turns[0].not_called_tool("second")
one.message_includes("re: first")
two.tool_order(["second"])
t.called_tool("first", count=1)
"""
    ran = written(tmp_path, dedent(body).strip("\n") + asserts, agent(echo))
    assert ran.result.outcome == "passed"
    locs = {event["text"]: event["loc"]["line"] for event in ran.events if event.get("role") == "user"}
    assert locs == {text: line_of(tmp_path, f'send("{text}")') for text in ("first", "second")}


def test_two_sends_at_once_on_one_line_are_an_authors_error(tmp_path: Path) -> None:
    """A session is one conversation; the error names the send it waits for."""

    async def slow(input: Any, ctx: Any) -> Turn:
        await asyncio.sleep(0.01)
        return turn()

    script = agent(slow)
    ran = written(tmp_path, 'await asyncio.gather(\n    t.send("one"),\n    t.send("two"))', script, grace=0.2)
    assert (ran.result.outcome, ran.error_code) == ("errored", "session-busy")
    assert ran.result.error is not None
    assert f"the send at line {line_of(tmp_path, 'one')}" in ran.result.error
    assert str(error_loc(ran)).startswith(f"evals/a_eval.py:{line_of(tmp_path, 'two')}:")
    assert [input.text for input in script.inputs] == ["one"]


def test_one_send_after_the_other_on_one_line_is_fine(tmp_path: Path) -> None:
    """A send that ended in time leaves the line free, also after a timeout of the author's own."""

    async def first_hangs(input: Any, ctx: Any) -> Turn:
        await asyncio.sleep(60 if input.text == "one" else 0)
        return turn()

    body = """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(t.send("one"), 0.02)
        (await t.send("two")).used_no_tools()
        t.used_no_tools()
    """
    ran = written(tmp_path, body, agent(first_hangs), grace=0.2)
    assert (ran.error_code, ran.outcomes) == (None, ["passed", "unavailable"])


# Plain assert -------------------------------------------------------------------------------------------------------


def test_a_plain_assert_is_a_failed_gate_named_after_its_source(tmp_path: Path) -> None:
    """With its line; it stops the eval like any exception, and is no error."""
    ran = written(tmp_path, 'turn = await t.send("go")\nassert turn.status == 1\nt.log("after")')
    assert (ran.result.outcome, ran.error_code, ran.logs) == ("failed", None, ())
    assert (ran.only.name, ran.only.severity, ran.only.outcome) == ("assert turn.status == 1", "gate", "failed")
    assert ran.only.loc is not None
    assert (ran.only.loc.file, ran.only.loc.line) == ("evals/a_eval.py", line_of(tmp_path, "assert turn"))


def test_an_asserts_message_is_kept(tmp_path: Path) -> None:
    """Where the author gave one."""
    entry = written(tmp_path, 'assert 1 == 2, "one is not two"').only
    assert "one is not two" in (entry.received, entry.detail)


def test_an_assert_without_a_message_does_not_make_one_up(tmp_path: Path) -> None:
    """The exception's name says nothing."""
    entry = written(tmp_path, "assert len([])").only
    assert (entry.expected, entry.received, entry.detail) == ("the assertion holds", "it does not", None)


def test_an_assert_of_several_lines_is_named_on_one(tmp_path: Path) -> None:
    """As a whole, wherever in it Python says it failed."""
    name = written(tmp_path, "value = 1\nassert (\n    value ==\n    2\n)").only.name
    assert name.startswith("assert")
    assert "value == 2" in name
    assert "\n" not in name


def test_an_assert_that_holds_records_nothing(tmp_path: Path) -> None:
    """As Python does."""
    ran = written(tmp_path, "assert 1 == 1")
    assert (ran.result.outcome, ran.result.assertions) == ("passed", ())


def test_an_assert_in_a_module_of_the_project_is_a_failed_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With that module's line, and its source kept beside the result."""
    monkeypatch.syspath_prepend(str(tmp_path))
    files = {"shared_checks_a.py": "def polite(text):\n    assert 'please' in text\n"}
    ran = written(tmp_path, 'from shared_checks_a import polite\npolite("now!")', files=files)
    assert (ran.result.outcome, ran.only.name) == ("failed", "assert 'please' in text")
    assert ran.only.loc is not None
    assert (ran.only.loc.file, ran.only.loc.line) == ("shared_checks_a.py", 2)


@pytest.mark.parametrize("folder", ["outside", "project/.venv/lib", "project/lib/site-packages"])
def test_an_assertion_error_of_a_library_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """It says nothing about the agent; the author's line is where it was called."""
    library = tmp_path / folder
    library.mkdir(parents=True)
    name = f"strict_lib_{abs(hash(folder))}"
    (library / f"{name}.py").write_text("def check():\n    assert False, 'internal'\n")
    monkeypatch.syspath_prepend(str(library))
    project = tmp_path / "project"
    ran = written(project, f"import {name}\n{name}.check()")
    assert (ran.result.outcome, ran.error_code, ran.result.assertions) == ("errored", "author-error", ())
    assert str(error_loc(ran)).startswith(f"evals/a_eval.py:{line_of(project, '.check()')}:")


def test_an_assert_inside_a_task_group_is_a_failed_gate(tmp_path: Path) -> None:
    """Unwrapped like everything else."""
    body = """
        async def one():
            assert 1 == 2
        async with asyncio.TaskGroup() as group:
            group.create_task(one())
    """
    ran = written(tmp_path, body)
    assert (ran.result.outcome, ran.only.name) == ("failed", "assert 1 == 2")


def test_an_adapters_assertion_error_is_the_adapters(tmp_path: Path) -> None:
    """It is no check of the eval's."""
    ran = written(tmp_path, 'await t.send("go")', agent(AssertionError("no events")))
    assert (ran.result.outcome, ran.error_code, ran.result.assertions) == ("errored", "adapter-error", ())


# Authors' exceptions --------------------------------------------------------------------------------------------------


def test_an_authors_exception_has_the_users_frames_only(tmp_path: Path) -> None:
    """Relative to the project, outermost first, without ours and without asyncio's."""
    body = """
        def inner():
            return {}["missing"]
        async def outer():
            return inner()
        await asyncio.gather(outer())
    """
    ran = written(tmp_path, body)
    assert (ran.result.outcome, ran.error_code, ran.result.error) == ("errored", "author-error", "KeyError: 'missing'")
    info = ran.result.error_info
    assert info is not None
    assert info.phase == "eval"
    assert info.loc is not None
    assert info.loc.startswith(f"evals/a_eval.py:{line_of(tmp_path, 'missing')}:")
    assert info.trace is not None
    places = [line for line in info.trace.splitlines() if not line.startswith("    ")]
    assert [place.partition(":")[0] for place in places] == ["evals/a_eval.py"] * len(places)
    assert [place.rpartition(" in ")[2] for place in places] == ["run", "outer", "inner"]
    assert "_run/attempt.py" not in info.trace
    assert str(tmp_path) not in info.trace


def test_an_exception_that_cannot_say_what_it_is_is_survived(tmp_path: Path) -> None:
    """Its class has to do."""
    body = """
        class Odd(Exception):
            def __str__(self):
                raise ValueError
        raise Odd
    """
    ran = written(tmp_path, body)
    assert (ran.result.outcome, ran.result.error) == ("errored", "Odd: (its text raises ValueError)")


@pytest.mark.parametrize("leaving", ["raise SystemExit(0)", "raise KeyboardInterrupt", "raise asyncio.CancelledError"])
def test_an_eval_cannot_leave_the_process(tmp_path: Path, leaving: str) -> None:
    """Its exception is that attempt's alone, and no pass."""
    ran = written(tmp_path, f"t.check(1, equals(1))\n{leaving}")
    assert (ran.result.outcome, ran.error_code) == ("errored", "author-error")


def test_a_mistyped_argument_is_the_authors_error(tmp_path: Path) -> None:
    """Python's own words, at the author's line."""
    ran = written(tmp_path, '(await t.send("go")).called_tool("a", inputs={})')
    assert (ran.result.outcome, ran.error_code) == ("errored", "author-error")
    assert ran.result.error is not None
    assert "unexpected keyword argument 'inputs'" in ran.result.error


def test_endless_recording_ends(tmp_path: Path) -> None:
    """A loop that never stops must not take the machine's memory; `except Exception` does not keep it alive."""
    body = """
        while True:
            try:
                t.check(1, equals(1))
            except Exception:
                pass
    """
    ran = written(tmp_path, body)
    assert (ran.result.outcome, ran.error_code) == ("errored", "too-many-entries")
    assert len(ran.result.assertions) == MAX_ENTRIES
    assert str(error_loc(ran)).startswith(f"evals/a_eval.py:{line_of(tmp_path, 't.check')}:")


def test_endless_sending_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As endless recording does."""
    monkeypatch.setattr("niceeval._drive.driver.MAX_TURNS", 5)
    script = agent()
    ran = written(tmp_path, 'while True:\n    await t.send("again")', script)
    assert (ran.result.outcome, ran.error_code, len(script.inputs)) == ("errored", "too-many-turns", 5)


# What is there, and what is not ---------------------------------------------------------------------------------------


def test_a_direct_agent_has_no_sandbox(tmp_path: Path) -> None:
    """Named, at the line."""
    ran = written(tmp_path, 't.sandbox.file_changed("a.py")', agent(name="support-bot"))
    assert (ran.result.outcome, ran.error_code) == ("errored", "no-sandbox")
    assert error_loc(ran) == f"evals/a_eval.py:{line_of(tmp_path, 't.sandbox')}:5"
    assert ran.result.error is not None
    assert "agent support-bot is direct" in ran.result.error


def test_files_are_read_relative_to_the_eval_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the current folder is; an InputFile goes as it is."""
    monkeypatch.chdir("/")
    script = agent()
    body = """
        from niceeval.adapter import InputFile
        from pathlib import Path
        raw = InputFile(filename="raw.bin", mime_type="x/y", data=b"raw")
        await t.send("see", files=["data/a.csv", Path("data/b"), raw])
        await t.send_file("../top.txt", "caption")
    """
    files = {"evals/data/a.csv": "n\n1\n", "evals/data/b": "b", "top.txt": "top"}
    ran = written(tmp_path, body, script, files)
    assert ran.result.outcome == "passed"
    first, second = script.inputs
    assert [(file.filename, file.mime_type, file.data) for file in first.files] == [
        ("a.csv", "text/csv", b"n\n1\n"),
        ("b", "application/octet-stream", b"b"),
        ("raw.bin", "x/y", b"raw"),
    ]
    assert (second.text, second.files) == (
        "caption",
        (InputFile(filename="top.txt", mime_type="text/plain", data=b"top"),),
    )
    assert second.files[0].base64() == "dG9w"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('t.send("x", files=["missing.txt"])', "missing.txt: no such file or directory"),
        ('t.send_file("missing.txt")', "missing.txt: no such file or directory"),
        ('t.send_file(".")', ".: is a directory"),
        ('t.send("x", files="a.txt")', "files='a.txt': is no list of files; write files=[...]"),
        ('t.send("x", files=3)', "files=3: is no list of files; write files=[...]"),
        ('t.send("x", files=[3])', "3: is neither a path nor an InputFile"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_authors_error(tmp_path: Path, call: str, message: str) -> None:
    """Before anything is sent."""
    script = agent()
    ran = written(tmp_path, f"await {call}", script)
    assert (ran.error_code, ran.result.error, script.inputs) == ("bad-file", message, [])
    assert str(error_loc(ran)).startswith(f"evals/a_eval.py:{line_of(tmp_path, 'await')}:")


@pytest.mark.parametrize("text", ["3", "None", "b'x'"])
def test_text_is_text(tmp_path: Path, text: str) -> None:
    """Everything else is an author's error."""
    ran = written(tmp_path, f"await t.send({text})")
    assert (ran.result.outcome, ran.error_code) == ("errored", "bad-argument")


def test_the_setting_can_be_read() -> None:
    """Model, effort and flags, as the experiment gives them; the agent sees the same."""
    got: list[Any] = []
    script = agent()

    async def case(t: EvalContext) -> None:
        got.extend([t.model, t.reasoning_effort, t.flags])
        await t.send("go")

    run_eval(case, script, model="gpt", flags={"prompt": "concise"})
    assert got == ["gpt", None, {"prompt": "concise"}]
    context = script.contexts[0]
    assert (context.model, context.flags, context.eval_id, context.attempt) == ("gpt", {"prompt": "concise"}, "case", 0)


def test_what_happened_can_be_read() -> None:
    """On `t`, a session and a turn; before anything was sent there is nothing."""
    got: list[Any] = []

    def first(input: Any, ctx: Any) -> Turn:
        ctx.session.capture(f"s-{input.text}")
        return turn(says("one"), says(f"re: {input.text}"), *tool("c", "look"))

    async def case(t: EvalContext) -> None:
        got.append((t.reply, t.session_id, t.events, t.usage, t.tool_calls))
        side = t.new_session()
        main = await t.send("main")
        other = await side.send("side")
        got.append((t.reply, t.session_id, side.reply, side.session_id, main.message, other.message))
        got.append([event.text for event in t.events if isinstance(event, Message) and event.role == "user"])
        got.append([(call.name, call.status, call.event) for call in t.tool_calls])
        got.append([len(t.tool_calls), len(side.tool_calls), len(other.tool_calls), len(side.events)])
        assert t.usage is not None
        assert side.usage is not None
        got.append([t.usage.input_tokens, side.usage.input_tokens, main.usage])

    ran = run_eval(case, agent(first))
    assert ran.result.outcome == "passed", ran.result.error
    assert got[0] == ("", None, [], None, [])
    assert got[1] == ("re: main", "s-main", "re: side", "s-side", "re: main", "re: side")
    assert got[2] == ["main", "side"]
    assert got[3] == [("look", "completed", 3), ("look", "completed", 8)]
    assert got[4] == [2, 1, 1, 5]
    assert got[5] == [20, 10, turn().usage]


def test_an_echoed_input_is_one_message() -> None:
    """Some protocols give it back; it is in the stream already."""

    async def case(t: EvalContext) -> None:
        await t.send("go")

    ran = run_eval(case, agent(turn(Message(role="user", text="go"), says("hi"))))
    assert [(event["role"], event["text"]) for event in ran.events] == [("user", "go"), ("assistant", "hi")]


def test_log_lines_are_kept_with_their_turn() -> None:
    """The eval's and the adapter's, bounded in length; anything can be logged."""

    def chatty(input: Any, ctx: Any) -> Turn:
        ctx.log("calling")
        ctx.diagnostic("slow", "warning", "took 3 s", {"seconds": 3})
        return turn()

    async def case(t: EvalContext) -> None:
        t.log("before\ud800")
        await t.send("go")
        t.log({"n": 1})
        t.log("x" * 10_000)

    ran = run_eval(case, agent(chatty))
    assert [(line.source, line.text, line.turn) for line in ran.logs[:3]] == [
        ("eval", "before�", None),
        ("adapter", "calling", 0),
        ("eval", "{'n': 1}", 0),
    ]
    assert ran.logs[3].text.endswith(" chars]")
    assert len(ran.logs[3].text) < 4_100
    (diagnostic,) = ran.result.diagnostics
    assert (diagnostic.code, diagnostic.level, diagnostic.data, diagnostic.turn) == (
        "slow",
        "warning",
        {"seconds": 3},
        0,
    )


def test_endless_logging_is_counted_not_kept() -> None:
    """What is left out is said."""

    async def case(t: EvalContext) -> None:
        for number in range(2_500):
            t.log(number)

    ran = run_eval(case)
    assert len(ran.logs) == 2_000
    assert "500 more log lines were not kept" in [diagnostic.message for diagnostic in ran.result.diagnostics]


def test_a_loader_inside_an_eval_is_an_authors_error(tmp_path: Path) -> None:
    """Its data cannot join the fingerprint; the place is the call."""
    body = 'from niceeval.loaders import load_text\nload_text("a.txt")'
    ran = written(tmp_path, body, files={"evals/a.txt": "x"})
    assert (ran.result.outcome, ran.error_code) == ("errored", "loader-in-test")
    assert str(error_loc(ran)).startswith(f"evals/a_eval.py:{line_of(tmp_path, 'a.txt')}:")
    assert ran.result.error_info is not None
    assert ran.result.error_info.next == "move the call to module level"


def test_a_loader_at_module_level_is_fine(tmp_path: Path) -> None:
    """As it is meant to be."""
    source = 'from niceeval.loaders import load_text\nTEXT = load_text("a.txt")\nasync def run(t):\n    t.log(TEXT)\n'
    function = load_eval(tmp_path, {"evals/a.txt": "x", "evals/a_eval.py": source})
    assert run_eval(function, root=tmp_path).logs[0].text == "x"


# The end ------------------------------------------------------------------------------------------------------------


def test_late_sends_and_checks_have_no_effect() -> None:
    """What outlives its eval meets a sealed attempt; it is counted."""
    kept: list[EvalContext] = []
    script = agent()

    async def case(t: EvalContext) -> None:
        kept.append(t)

    ran = run_eval(case, script)
    late: list[Callable[[EvalContext], object]] = [
        lambda t: t.check(1, equals(2)),
        lambda t: t.send("late"),
        lambda t: t.succeeded(),
    ]
    for act in late:
        with pytest.raises(StopEval):
            act(kept[0])
    assert (ran.driver.late, ran.driver.collector.entries, script.inputs) == (3, [], [])


def test_a_turn_that_comes_back_late_does_not_change_the_attempt() -> None:
    """An eval that swallows its cancellation is abandoned; its send's turn is not seen."""

    async def slow(input: Any, ctx: Any) -> Turn:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await asyncio.sleep(0.3)
        return turn(says("late"))

    async def case(t: EvalContext) -> None:
        t.not_event("message")
        await t.send("go")

    ran = run_eval(case, agent(slow), timeout=0.05, grace=0.05)
    assert (ran.error_code, ran.outcomes) == ("timeout", ["unavailable"])
    assert [event["type"] for event in ran.events] == ["message"]


def test_python_that_is_too_deep_is_the_authors_error(tmp_path: Path) -> None:
    """A RecursionError is trimmed like any other."""
    ran = written(tmp_path, "def again():\n    again()\nagain()")
    assert (ran.result.outcome, ran.error_code) == ("errored", "author-error")
    assert ran.result.error_info is not None
    assert ran.result.error_info.trace is not None
    assert len(ran.result.error_info.trace.splitlines()) <= 24


def test_a_turn_that_was_not_awaited_is_named_when_it_is_used(tmp_path: Path) -> None:
    """The slip everybody makes once: no AttributeError of ours, and the line of the send."""
    ran = written(tmp_path, 'turn = t.send("go")\nturn.succeeded()')
    assert (ran.error_code, ran.result.assertions) == ("send-not-awaited", ())
    assert ran.result.error_info is not None
    assert ran.result.error_info.loc == f"evals/a_eval.py:{line_of(tmp_path, 'turn = t.send')}:12"


def test_a_task_that_the_eval_left_behind_sends_nothing_any_more(tmp_path: Path) -> None:
    """It was reported; what it would send belongs to nobody."""
    ran = written(tmp_path, 'import asyncio\nasyncio.create_task(t.send("late"))\nt.log("over")')
    assert ran.error_code == "send-not-awaited"
    assert ran.events == []


# Another attempt's `t` ----------------------------------------------------------------------------------------------

FOREIGN = """
from niceeval.expect import equals, is_true

KEPT = []

async def keep(t):
    KEPT.append(t)
    await t.send("go")
    KEPT.append(t.new_session())
    KEPT.append(await KEPT[1].send("go"))
    KEPT.append(t.check(1, equals(1)))

async def run(t):
    first, session, turn, handle = KEPT
    t.check(1, equals(1))
    CALL
    t.check(1, equals(2))
"""
FOREIGN_CALLS = [
    "first.check(False, is_true())",
    "first.require(True, is_true())",
    'first.require("YES", equals("NO"))',
    "first.succeeded()",
    'first.check(1, "no matcher")',
    'first.skip("not mine")',
    "first.points(1, 'x')",
    'first.log("x")',
    "first.new_session()",
    'await first.send("x")',
    'await session.send("x")',
    "session.succeeded()",
    "session.require_input_request()",
    'await session.respond("x")',
    "turn.succeeded()",
    "handle.soft()",
    'handle.label("x")',
    "first.reply",
    "session.events",
    "turn.message",
    "turn.data",
    "turn.usage",
    'turn.called_tool("")',
    "first.sandbox",
    "await asyncio.gather(asyncio.to_thread(first.check, 1, equals(1)), return_exceptions=True)",
]


@pytest.mark.parametrize("call", FOREIGN_CALLS)
@pytest.mark.parametrize("sealed", [True, False])
def test_another_attempts_t_is_an_authors_error(tmp_path: Path, call: str, sealed: bool) -> None:
    """It can neither end this eval as if that were known already, nor change the other attempt."""
    source = "import asyncio\n" + FOREIGN.replace("CALL", call)
    run = load_eval(tmp_path, {"evals/a_eval.py": source})
    keep = run.__globals__["keep"]

    async def keep_running(t: EvalContext) -> None:
        await keep(t)
        inner.append(await asyncio.to_thread(run_eval, run, root=tmp_path))

    inner: list[Ran] = []
    if sealed:
        other = run_eval(keep, root=tmp_path)
        ran = run_eval(run, root=tmp_path)
    else:
        other = run_eval(keep_running)
        (ran,) = inner
    assert (ran.result.outcome, ran.error_code) == ("errored", "foreign-context")
    if "to_thread" not in call:
        assert str(error_loc(ran)).startswith(f"evals/a_eval.py:{line_of(tmp_path, call)}:")
        assert ran.outcomes == ["passed"]
    (entry,) = other.result.assertions
    assert (other.result.outcome, entry.severity, entry.label, other.logs) == ("passed", "gate", None, ())


def test_a_send_of_another_attempt_cannot_be_awaited(tmp_path: Path) -> None:
    """It would drive that attempt's conversation; the place is the `await`."""
    source = """
        KEPT = []

        async def keep(t):
            KEPT.append(t.send("go"))

        async def run(t):
            await KEPT[0]
    """
    run = load_eval(tmp_path, {"evals/a_eval.py": source})
    script = agent()
    run_eval(run.__globals__["keep"], script, root=tmp_path)
    ran = run_eval(run, script, root=tmp_path)
    assert (ran.result.outcome, ran.error_code, script.inputs) == ("errored", "foreign-context", [])
    assert str(error_loc(ran)).startswith(f"evals/a_eval.py:{line_of(tmp_path, 'await KEPT')}:")


def test_another_attempts_stop_ends_an_eval_for_no_reason_of_its_own(tmp_path: Path) -> None:
    """Also where it comes from a thread that knows of no attempt."""
    source = """
        import threading
        from niceeval.expect import equals

        KEPT = []

        async def keep(t):
            KEPT.append(t)

        def elsewhere(raised):
            try:
                KEPT[0].check(1, equals(2))
            except BaseException as error:
                raised.append(error)

        async def run(t):
            raised = []
            thread = threading.Thread(target=elsewhere, args=(raised,))
            thread.start()
            thread.join()
            raise raised[0]
    """
    run = load_eval(tmp_path, {"evals/a_eval.py": source})
    run_eval(run.__globals__["keep"], root=tmp_path)
    ran = run_eval(run, root=tmp_path)
    assert (ran.result.outcome, ran.error_code) == ("errored", "foreign-context")


# Tasks nobody awaits ------------------------------------------------------------------------------------------------

LATER = {
    "evals/parts.py": """
        import asyncio
        from niceeval.expect import equals

        async def later(t):
            await asyncio.sleep(0.05)
            t.check(1, equals(2))

        async def asserts(t):
            reply = "no"
            assert reply == "yes"

        async def breaks(t):
            raise ValueError("no such row")

        async def checks(t):
            t.check(1, equals(1))

        async def requires(t):
            t.require(1, equals(2))

        async def rests(t):
            await asyncio.sleep(60)
    """
}
USE = "import sys, pathlib; sys.path.insert(0, str(pathlib.Path(__file__).parent)); sys.modules.pop('parts', None)\n"


@pytest.mark.parametrize(
    "start",
    [
        "task = asyncio.create_task(parts.later(t))",
        "asyncio.ensure_future(parts.later(t))",
        "task = asyncio.create_task(parts.later(t)); await asyncio.sleep(0)",
        "both = asyncio.gather(parts.later(t), parts.rests(t)); await asyncio.sleep(0)",
        "task = asyncio.create_task(asyncio.wait_for(parts.later(t), 5)); await asyncio.sleep(0.01)",
        "task = asyncio.create_task(parts.later(t)); await asyncio.wait({task}, timeout=0)",
    ],
)
def test_a_task_that_still_runs_at_the_end_is_an_authors_error(tmp_path: Path, start: str) -> None:
    """What it would have asserted is not known; it is named, with the line where it stands, and cancelled."""
    ran = written(tmp_path, USE + "import parts\n" + start, files=LATER, grace=0.2)
    assert (ran.result.outcome, ran.error_code, ran.outcomes) == ("errored", "task-unfinished", [])
    assert "later" in str(ran.result.error)
    waits = "asyncio.sleep(" in start or "asyncio.wait(" in start
    line = line_of(tmp_path, "asyncio.sleep(0.05)" if waits else "async def later", "evals/parts.py")
    assert str(error_loc(ran)).startswith(f"evals/parts.py:{line}")


@pytest.mark.parametrize(("task", "text"), [("asserts", "AssertionError"), ("breaks", "ValueError: no such row")])
@pytest.mark.parametrize("end", ["await asyncio.sleep(0)", 'await asyncio.sleep(0); t.skip("enough")'])
def test_a_task_that_failed_unseen_is_an_authors_error(tmp_path: Path, task: str, text: str, end: str) -> None:
    """At the line that raised."""
    body = f"{USE}import parts\ntask = asyncio.create_task(parts.{task}(t))\n{end}"
    ran = written(tmp_path, body, files=LATER)
    assert (ran.result.outcome, ran.error_code) == ("errored", "task-failed")
    assert text in str(ran.result.error)
    raising = {"asserts": "assert reply", "breaks": "raise ValueError"}[task]
    assert str(error_loc(ran)).startswith(f"evals/parts.py:{line_of(tmp_path, raising, 'evals/parts.py')}")


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("await asyncio.create_task(parts.checks(t))", "passed"),
        ("await asyncio.gather(parts.checks(t), parts.checks(t))", "passed"),
        ("task = asyncio.create_task(parts.checks(t)); await asyncio.sleep(0)", "passed"),
        ("task = asyncio.create_task(parts.requires(t)); await asyncio.sleep(0)", "failed"),
        ("task = asyncio.create_task(parts.rests(t)); await asyncio.sleep(0); task.cancel()", "passed"),
        ("task = asyncio.create_task(parts.breaks(t)); await asyncio.wait({task}); task.exception()", "passed"),
        ("await asyncio.gather(parts.breaks(t), return_exceptions=True)", "passed"),
        ("for _ in range(200): await asyncio.gather(parts.checks(t), parts.checks(t))", "passed"),
    ],
)
def test_tasks_that_ended_or_were_ended_are_nobodys_error(tmp_path: Path, body: str, outcome: str) -> None:
    """They were awaited, recorded what they had to, were cancelled by the eval, or their failure was looked at."""
    ran = written(tmp_path, USE + "import parts\n" + body, files=LATER)
    assert (ran.result.outcome, ran.error_code) == (outcome, None)


def test_a_failure_is_kept_however_many_tasks_come_after_it(tmp_path: Path) -> None:
    """Tasks that ended well are let go of, the others are not."""
    body = USE + (
        "import parts\nasyncio.create_task(parts.breaks(t))\n"
        "for _ in range(100): await asyncio.gather(parts.checks(t), parts.checks(t))"
    )
    assert written(tmp_path, body, files=LATER).error_code == "task-failed"


def test_an_adapters_own_tasks_are_not_the_evals(tmp_path: Path) -> None:
    """A client keeps a consumer in the background, and another one of its tasks broke."""

    async def consume() -> None:
        await asyncio.sleep(60)

    async def breaks() -> None:
        raise ValueError("the stream closed")

    kept: list[Any] = []

    async def send(input: Any, ctx: Any) -> Turn:
        kept.extend([asyncio.create_task(consume()), asyncio.create_task(breaks())])
        await asyncio.sleep(0)
        return turn(says("hi"))

    ran = written(tmp_path, 'await asyncio.gather(t.send("go"), t.new_session().send("go"))', agent(send))
    assert (ran.result.outcome, ran.error_code) == ("passed", None)
    for task in kept:
        with contextlib.suppress(ValueError, asyncio.CancelledError):
            task.result()


def test_a_left_task_of_an_eval_that_was_stopped_is_ended_in_silence(tmp_path: Path) -> None:
    """The eval's own outcome stands."""
    body = USE + "import parts\ntask = asyncio.create_task(parts.later(t))\nawait asyncio.sleep(0)\nassert 1 == 2"
    ran = written(tmp_path, body, files=LATER, grace=0.2)
    assert (ran.result.outcome, ran.outcomes) == ("failed", ["failed"])


def test_what_a_thread_records_after_the_end_is_an_authors_error(tmp_path: Path) -> None:
    """Before the attempt is sealed, at the line that recorded."""
    body = """
        import threading
        over, done = threading.Event(), threading.Event()
        def later():
            over.wait(5)
            try:
                t.check(1, equals(2))
            except BaseException:
                done.set()
        threading.Thread(target=later).start()
        await t.send("go")
        t.events_satisfy("at the end", lambda events: over.set() or done.wait(5))
    """
    ran = written(tmp_path, body)
    assert (ran.error_code, ran.outcomes) == ("recorded-late", ["passed"])
    assert str(error_loc(ran)).startswith(f"evals/a_eval.py:{line_of(tmp_path, 'equals(2)')}")
