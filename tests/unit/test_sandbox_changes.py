"""`t.sandbox` in an eval: operations, assertions on what the agent changed, and values that are known at the end."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from niceeval import EvalContext, define_eval
from niceeval._base.errors import ProjectError
from niceeval._model.assertion import AssertionResult
from niceeval._record.writer import SealedAttempt
from niceeval.adapter import SandboxAgentContext, Turn, TurnInput
from niceeval.expect import command_succeeded, equals, includes, is_defined, is_true, not_
from niceeval.sandbox import DiffRules, SandboxFileError
from tests.unit.drive_harness import agent, run_eval, turn
from tests.unit.ledger_world import needs_git
from tests.unit.sandbox_harness import run_in_sandbox

pytestmark = needs_git

WORK = (
    "echo 'TODO: x' >> app.py; rm old.txt; echo new > new.txt; chmod +x run.sh; printf 'a\\0' > bin; ln -s app.py link"
)
ROWS: dict[str, tuple[Any, str]] = {
    "changed": (lambda t: t.sandbox.file_changed("app.py"), "passed"),
    "created": (lambda t: t.sandbox.file_changed("new.txt"), "passed"),
    "created, by another way of writing it": (lambda t: t.sandbox.file_changed("./sub/../new.txt"), "passed"),
    "by its whole path": (lambda t: t.sandbox.file_changed(f"{t.sandbox.workdir}/new.txt"), "passed"),
    "its mode": (lambda t: t.sandbox.file_changed("run.sh"), "passed"),
    "not changed": (lambda t: t.sandbox.file_changed("same.txt"), "failed"),
    "not there": (lambda t: t.sandbox.file_changed("nowhere.txt"), "failed"),
    "the eval's": (lambda t: t.sandbox.file_changed("eval.txt"), "failed"),
    "changed, but deleted": (lambda t: t.sandbox.file_changed("old.txt"), "failed"),
    "deleted": (lambda t: t.sandbox.file_deleted("old.txt"), "passed"),
    "not deleted": (lambda t: t.sandbox.file_deleted("app.py"), "failed"),
    "changed, where it is ignored": (lambda t: t.sandbox.file_changed("build/x"), "path-ignored"),
    "deleted, where it is ignored": (lambda t: t.sandbox.file_deleted(".git/config"), "path-ignored"),
    "no such line": (lambda t: t.sandbox.not_in_diff("FIXME"), "passed"),
    "such a line": (lambda t: t.sandbox.not_in_diff("TODO"), "failed"),
    "such a path": (lambda t: t.sandbox.not_in_diff(re.compile(r"^old\.")), "failed"),
    "a line that was there": (lambda t: t.sandbox.not_in_diff("first line"), "passed"),
    "a pattern": (lambda t: t.sandbox.not_in_diff(re.compile("todo", re.I)), "failed"),
    "get": (lambda t: t.check(t.sandbox.diff.get("app.py"), equals("first line\nTODO: x\n")), "passed"),
    "get, not changed": (lambda t: t.check(t.sandbox.diff.get("same.txt"), equals(None)), "passed"),
    "get, deleted": (lambda t: t.check(t.sandbox.diff.get("old.txt"), is_defined()), "failed"),
    "get, ignored": (lambda t: t.check(t.sandbox.diff.get("dist/a"), is_defined()), "path-ignored"),
    "get, binary": (lambda t: t.check(t.sandbox.diff.get("bin"), is_defined()), "diff-not-collected"),
    "is_empty": (lambda t: t.check(t.sandbox.diff.is_empty(), equals(False)), "passed"),
    "matches": (lambda t: t.check(t.sandbox.diff.matches("new.txt"), is_true()), "passed"),
    "matches not": (lambda t: t.check(t.sandbox.diff.matches("nothing"), is_true()), "failed"),
    "file": (lambda t: t.check(t.sandbox.file("eval.txt"), includes("eval")), "passed"),
    "file, as it is at the end": (lambda t: t.check(t.sandbox.file("late.txt"), equals("late")), "passed"),
    "file, not there": (lambda t: t.check(t.sandbox.file("nowhere"), equals(None)), "passed"),
    "file, a folder": (lambda t: t.check(t.sandbox.file("build"), is_defined()), "diff-not-collected"),
    "a predicate": (lambda t: t.check(t.sandbox.file("eval.txt"), not_(includes("x"))), "passed"),
}  # fmt: skip


async def every_row(t: EvalContext) -> None:
    await t.sandbox.write_files({"app.py": "first line\n", "old.txt": "o", "run.sh": "r", "same.txt": "s"})
    await t.send(WORK)
    await t.sandbox.write_files({"eval.txt": "eval", "build/x": "b"})
    for label, (record, _) in ROWS.items():
        record(t).label(label).optional()
    await t.sandbox.write_files({"late.txt": "late"})


@pytest.fixture(scope="module")
def every() -> SealedAttempt:
    """One attempt that has recorded all rows."""
    return run_in_sandbox(every_row)


@pytest.mark.slow
@pytest.mark.parametrize("label", ROWS)
def test_each_assertion_and_value(every: SealedAttempt, label: str) -> None:
    """What is known is answered, what is not looked at or kept is unavailable with its reason."""
    (entry,) = [entry for entry in every.result.assertions if entry.label == label]
    found = entry.outcome if entry.reason is None else entry.reason.code
    assert found == ROWS[label][1], entry


@pytest.mark.slow
def test_the_diff_is_stored_with_the_attempt(every: SealedAttempt) -> None:
    """Beside the result, which says so."""
    assert every.diff is not None
    assert every.result.has_diff
    assert sorted(every.diff.generated_files) == ["app.py", "new.txt"]
    assert every.diff.deleted_files == ("old.txt",)
    assert {path: file.kind for path, file in every.diff.other_files.items()} == {
        "run.sh": "mode",
        "bin": "binary",
        "link": "symlink",
    }


def entries_of(sealed: SealedAttempt) -> list[str]:
    """Outcome, or the reason's code, of each entry."""
    return [outcome(entry) for entry in sealed.result.assertions]


def outcome(entry: AssertionResult) -> str:
    return entry.outcome if entry.reason is None else entry.reason.code


def test_without_a_send_nothing_can_be_said() -> None:
    """No send, no window: that nothing changed would be no finding."""

    async def nothing_sent(t: EvalContext) -> None:
        t.sandbox.file_changed("a")
        t.sandbox.not_in_diff("a")
        t.check(t.sandbox.diff.is_empty(), is_true())

    sealed = run_in_sandbox(nothing_sent)
    assert entries_of(sealed) == ["no-turn"] * 3
    assert (sealed.diff, sealed.result.has_diff) == (None, False)


def test_a_broken_ledger_makes_its_assertions_unavailable() -> None:
    """Never a silent pass; the rest of the attempt is judged as ever."""

    async def breaks_it(input: TurnInput, ctx: SandboxAgentContext) -> Turn:
        await ctx.sandbox.run_shell(f"rm -rf {ctx.sandbox.private_dir}/ledger/git; echo x > new")
        return turn()

    async def asks(t: EvalContext) -> None:
        (await t.send("go")).succeeded()
        t.sandbox.file_changed("new")
        t.sandbox.not_in_diff("a")

    sealed = run_in_sandbox(asks, breaks_it)
    assert entries_of(sealed) == ["passed", "diff-not-collected", "diff-not-collected"]
    assert sealed.result.outcome == "errored"
    assert "diff-failed" in [found.code for found in sealed.result.diagnostics]


def test_hidden_tests_see_what_the_agent_did_and_the_agent_does_not() -> None:
    """Files that are written after the send, and the results file, are the eval's own."""

    async def hidden(t: EvalContext) -> None:
        await t.send("echo 'print(6 * 7)' > answer.py; ls -A > seen.txt")
        await t.sandbox.write_files({"check.sh": "grep -q '6 . 7' answer.py && cat __niceeval__/results.json"})
        ran = await t.sandbox.run_command("sh", ["check.sh"])
        t.require(ran, command_succeeded())
        t.require(json.loads(ran.stdout)["totalTurns"], equals(1))
        await t.send("ls -A > again.txt")
        t.check(t.sandbox.diff.get("seen.txt"), equals("answer.py\nseen.txt\n"))
        t.check(t.sandbox.diff.get("again.txt"), equals("again.txt\nanswer.py\ncheck.sh\nseen.txt\n"))
        t.check(t.sandbox.diff.get("check.sh"), equals(None))

    sealed = run_in_sandbox(hidden)
    assert (sealed.result.outcome, entries_of(sealed)) == ("passed", ["passed"] * 5)


def test_a_send_that_was_cancelled_is_blamed_for_what_it_did_and_no_more() -> None:
    """An eval may give up on a send and go on: the window closes there."""

    async def cancels(t: EvalContext) -> None:
        sending = asyncio.ensure_future(t.send("echo 1 > begun.txt; sleep 600"))
        for _ in range(3000):
            if await t.sandbox.file_exists("begun.txt"):
                break
            await asyncio.sleep(0.01)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await t.sandbox.write_files({"eval.txt": "e"})
        await t.send("echo 2 > second.txt")

    sealed = run_in_sandbox(cancels)
    assert sealed.diff is not None
    assert sealed.diff.generated_files == {"begun.txt": "1\n", "second.txt": "2\n"}


def test_a_send_that_failed_is_blamed_too() -> None:
    """The diff of an errored attempt says how far its agent came."""

    async def fails(input: TurnInput, ctx: SandboxAgentContext) -> Turn:
        await ctx.sandbox.run_shell("echo 1 > begun.txt")
        raise RuntimeError("lost")

    async def sends(t: EvalContext) -> None:
        await t.send("go")

    sealed = run_in_sandbox(sends, fails)
    assert sealed.result.error_info is not None
    assert sealed.result.error_info.code == "adapter-error"
    assert sealed.diff is not None
    assert sealed.diff.generated_files == {"begun.txt": "1\n"}


async def never_awaited(t: EvalContext) -> None:
    t.sandbox.write_files({"a": "b"})


async def asked_before_it_is_there(t: EvalContext) -> None:
    t.require(t.sandbox.file("a"), is_defined())


async def asked_for_its_truth(t: EvalContext) -> None:
    assert t.sandbox.diff.is_empty()


async def compared(t: EvalContext) -> None:
    assert t.sandbox.file("a") == "x"


async def inside_a_list(t: EvalContext) -> None:
    t.check([t.sandbox.file("a")], is_defined())


async def used_as_its_value(t: EvalContext) -> None:
    t.sandbox.file("a").strip()


async def outside(t: EvalContext) -> None:
    t.sandbox.file_changed("../elsewhere")


async def empty_pattern(t: EvalContext) -> None:
    t.sandbox.not_in_diff("")


async def no_folder(t: EvalContext) -> None:
    await t.sandbox.upload_directory("no/such/folder")


async def not_there(t: EvalContext) -> None:
    await t.sandbox.read_file("no/such/file")


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (never_awaited, "sandbox-not-awaited"),
        (asked_before_it_is_there, "deferred-value"),
        (asked_for_its_truth, "deferred-value"),
        (compared, "deferred-value"),
        (inside_a_list, "deferred-inside"),
        (used_as_its_value, "deferred-value"),
        (outside, "bad-argument"),
        (empty_pattern, "bad-argument"),
        (no_folder, "bad-file"),
        (not_there, "sandbox-file"),
    ],
)
def test_an_authors_mistake_is_named_at_its_line(function: Any, code: str) -> None:
    """In phase eval, at the line of the call."""
    error = run_in_sandbox(function).result.error_info
    assert error is not None
    assert (error.code, error.phase) == (code, "eval")
    assert error.loc is not None
    assert error.loc.startswith(f"{Path(__file__).name}:{function.__code__.co_firstlineno + 1}")


def test_an_author_can_handle_what_the_sandbox_refuses() -> None:
    """Errors of operations are ordinary exceptions of `niceeval.sandbox`."""

    async def handles(t: EvalContext) -> None:
        with pytest.raises(SandboxFileError):
            await t.sandbox.read_file("no/such/file")
        t.check(await t.sandbox.file_exists("no"), equals(False))

    assert run_in_sandbox(handles).result.outcome == "passed"


def test_folders_of_this_machine_are_relative_to_the_eval_file(tmp_path: Path) -> None:
    """Up and down; the agent is blamed for neither."""
    given, copied = tmp_path / "given", tmp_path / "copied"
    given.mkdir()
    (given / "kept.txt").write_text("kept")
    (given / "left.md").write_text("left out")
    relative = os.path.relpath(tmp_path, Path(__file__).parent)

    async def copies(t: EvalContext) -> None:
        await t.send("echo x > made.txt")
        await t.sandbox.upload_directory(f"{relative}/given", "up", ignore=["*.md"])
        await t.sandbox.download_directory("up", f"{relative}/copied")
        t.check(t.sandbox.diff.get("up/kept.txt"), equals(None))

    assert run_in_sandbox(copies).result.outcome == "passed"
    assert {path.name: path.read_text() for path in copied.iterdir()} == {"kept.txt": "kept"}


def test_a_direct_agent_has_no_sandbox() -> None:
    """The error names the agent and the fix."""

    async def asks(t: EvalContext) -> None:
        t.sandbox.file_changed("a")

    error = run_eval(asks, agent()).result.error_info
    assert error is not None
    assert error.code == "no-sandbox"


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ({"ignore": ["*.lock"]}, "it is a DiffRules"),
        (DiffRules(ignore="*.lock"), "it is a list of patterns"),
        (DiffRules(ignore=[""]), "it is a pattern of paths"),
        (DiffRules(include=["dist"]), "which nothing leaves out"),
        (DiffRules(include=[".git/"]), "which nothing leaves out"),
    ],
)
def test_rules_that_would_do_nothing_are_refused(rules: Any, problem: str) -> None:
    """A slip in a pattern must not look at less, or at more, than its author believes."""
    with pytest.raises(ProjectError, match=problem) as raised:
        define_eval(diff=rules)
    assert raised.value.code == "bad-argument"
