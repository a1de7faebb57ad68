"""Checks of ends: limits, cancelled calls, trees that will not go, and the end of the sandbox itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from niceeval._base.errors import SandboxError, SandboxGoneError, SandboxUnsupportedError
from niceeval.testing._sandbox.check import Bench, SandboxCheck, check, expect, expect_error, expect_same

STILL = 0.6
"""Seconds for which nothing must be heard of processes that are dead; each would say something every 0.05 s."""
BEGIN_LIMIT = 30.0
"""Seconds in which a tree must have begun."""
END_LIMIT = 45.0
"""Seconds in which a call that was to end must have ended."""

_BEAT = 'while :; do echo beat >> "{name}"; sleep 0.05; done'
_TREES = {
    "child": "sh -c '{beat}' & {beat}",
    "pipeline": "sh -c '{beat}' | cat",
    "double fork": "( ( sh -c '{beat}' & ) & ) ; while :; do sleep 0.1; done",
    "session": "setsid sh -c '{beat}' & while :; do sleep 0.1; done",
    "nohup": "nohup sh -c '{beat}' > /dev/null 2>&1 & while :; do sleep 0.1; done",
    "deaf": "trap '' TERM HUP INT QUIT; sh -c '{beat}' & while :; do sleep 0.1; done",
    "bare environment": "env -i PATH=\"$PATH\" setsid sh -c '{beat}' & while :; do sleep 0.1; done",
    "orphan": "( setsid sh -c '( {beat} ) &' & ) ; while :; do sleep 0.1; done",
}


async def _tree_dies(bench: Bench, kind: str, *, cancelled: bool = False) -> None:
    """Start a tree with a beat in it, end its command, and hear nothing any more."""
    script = _TREES[kind].format(beat=_BEAT.format(name="heart"))
    sandbox = bench.sandbox
    if cancelled:
        running = asyncio.create_task(sandbox.run_command("sh", ["-c", script], cwd=bench.folder))
        await _begun(bench, running)
        running.cancel()
        await asyncio.wait({running}, timeout=END_LIMIT)
        expect(running.done(), f"the cancelled call had not ended after {END_LIMIT:.0f} s")
        expect(running.cancelled(), "the cancelled call did not raise CancelledError")
    else:
        result = await sandbox.run_command("sh", ["-c", script], cwd=bench.folder, timeout=1.0)
        expect_same((result.timed_out, result.exit_code), (True, 124), "timed_out and the exit code")
    await _silent(bench)


async def _begun(bench: Bench, running: asyncio.Task[Any] | None = None) -> None:
    for _ in range(int(BEGIN_LIMIT / 0.1)):
        if running is not None and running.done():
            break
        if await bench.sandbox.file_exists(bench.path("heart")):
            return
        await asyncio.sleep(0.1)
    expect(False, "the tree of processes did not begin")


async def _silent(bench: Bench) -> None:
    first = await _beats(bench)
    await asyncio.sleep(STILL)
    more = await _beats(bench) - first
    expect(more == 0, f"something lives: it was heard {more} times after the call had returned")


async def _beats(bench: Bench) -> int:
    if not await bench.sandbox.file_exists(bench.path("heart")):
        return 0
    return len(await bench.sandbox.read_bytes(bench.path("heart"))) // 5


_TREE_NEXT = "find the whole tree: by a cgroup, a name space, a subreaper, or a marker in the environment"


@check("timeout-result", "a command whose limit passes has timed_out, 124, and its output so far", "keep what came")
async def timeout_result(bench: Bench) -> None:
    result = await bench.sandbox.run_command("sh", ["-c", "echo early; echo e >&2; sleep 60; echo late"], timeout=3.0)
    seen = (result.timed_out, result.exit_code, result.stdout, result.stderr)
    expect_same(seen, (True, 124, "early\n", "e\n"), "timed_out, the exit code and the output")
    expect(result.duration < 40, f"duration is {result.duration:.1f} s with timeout=3")


@check("timeout-unneeded", "a limit that does not pass changes nothing", "end the limit with the command")
async def timeout_unneeded(bench: Bench) -> None:
    result = await bench.sandbox.run_command("sh", ["-c", "echo x; exit 2"], timeout=60)
    expect_same((result.timed_out, result.exit_code, result.stdout), (False, 2, "x\n"), "the result")


@check("timeout-child", "after the limit no child is left", _TREE_NEXT)
async def timeout_child(bench: Bench) -> None:
    await _tree_dies(bench, "child")


@check("timeout-pipeline", "after the limit no part of a pipeline is left", _TREE_NEXT)
async def timeout_pipeline(bench: Bench) -> None:
    await _tree_dies(bench, "pipeline")


@check("timeout-double-fork", "after the limit no double-forked orphan is left", _TREE_NEXT)
async def timeout_double_fork(bench: Bench) -> None:
    await _tree_dies(bench, "double fork")


@check("timeout-session", "after the limit nothing with a session of its own is left", _TREE_NEXT)
async def timeout_session(bench: Bench) -> None:
    await _tree_dies(bench, "session")


@check("timeout-nohup", "after the limit nothing started with nohup is left", _TREE_NEXT)
async def timeout_nohup(bench: Bench) -> None:
    await _tree_dies(bench, "nohup")


@check("timeout-deaf", "after the limit nothing that ignores signals is left", "kill with SIGKILL")
async def timeout_deaf(bench: Bench) -> None:
    await _tree_dies(bench, "deaf")


@check(
    "timeout-bare",
    "after the limit nothing that cleared its environment is left",
    "an environment marker alone misses it: look at parents too",
    needs=("cleared_environment",),
)
async def timeout_bare(bench: Bench) -> None:
    await _tree_dies(bench, "bare environment")


@check("timeout-orphan", "after the limit no orphan in a session of its own is left", _TREE_NEXT)
async def timeout_orphan(bench: Bench) -> None:
    await _tree_dies(bench, "orphan")


@check(
    "timeout-flood", "the limit ends a command that prints without end", "read and watch the time at once", alone=True
)
async def timeout_flood(bench: Bench) -> None:
    result = await bench.sandbox.run_command("sh", ["-c", "while :; do echo yyyyyyyyyyyyyyyyyyyy; done"], timeout=1.0)
    expect_same((result.timed_out, result.exit_code), (True, 124), "timed_out and the exit code")


@check("timeout-stdin", "the limit ends a command that does not take its stdin", "write and watch the time at once")
async def timeout_stdin(bench: Bench) -> None:
    result = await bench.sandbox.run_command("sleep", ["60"], stdin=b"x" * 4_000_000, timeout=1.0)
    expect_same((result.timed_out, result.exit_code), (True, 124), "timed_out and the exit code")


@check("timeout-stopped", "the limit ends a command that has stopped itself", "kill with SIGKILL")
async def timeout_stopped(bench: Bench) -> None:
    result = await bench.sandbox.run_command("sh", ["-c", "kill -STOP $$; echo on"], timeout=1.0)
    expect_same((result.timed_out, result.exit_code, result.stdout), (True, 124, ""), "the result")


@check("timeout-others", "the limit of one command leaves another alone", "kill its tree, and nothing else")
async def timeout_others(bench: Bench) -> None:
    script = "while [ ! -e go ]; do sleep 0.05; done; echo well"
    other = asyncio.create_task(bench.sandbox.run_command("sh", ["-c", script], cwd=bench.folder, timeout=60))
    await bench.sandbox.run_command("sleep", ["60"], timeout=0.7)
    await bench.sandbox.write_files({bench.path("go"): ""})
    result = await other
    expect_same((result.stdout, result.exit_code), ("well\n", 0), "the other command's end")


@check("timeout-after", "the sandbox works on after a limit has passed", "kill the tree, not the sandbox")
async def timeout_after(bench: Bench) -> None:
    await bench.said("echo kept > file")
    await bench.sandbox.run_command("sleep", ["60"], timeout=0.5)
    expect_same(await bench.said("cat file"), "kept\n", "what the next command prints")


@check("cancel-child", "a cancelled call raises CancelledError, and no child is left", "kill, then raise it again")
async def cancel_child(bench: Bench) -> None:
    await _tree_dies(bench, "child", cancelled=True)


@check("cancel-orphan", "after a cancelled call no orphan in a session of its own is left", _TREE_NEXT)
async def cancel_orphan(bench: Bench) -> None:
    await _tree_dies(bench, "orphan", cancelled=True)


@check("cancel-deaf", "after a cancelled call nothing that ignores signals is left", "kill with SIGKILL")
async def cancel_deaf(bench: Bench) -> None:
    await _tree_dies(bench, "deaf", cancelled=True)


@check("cancel-early", "a call may be cancelled at any moment of its start", "clean up wherever it is cancelled")
async def cancel_early(bench: Bench) -> None:
    for delay in (0.0, 0.005, 0.02, 0.06):
        script = _BEAT.format(name="heart")
        running = asyncio.create_task(bench.sandbox.run_command("sh", ["-c", script], cwd=bench.folder))
        await asyncio.sleep(delay)
        running.cancel()
        await asyncio.wait({running}, timeout=END_LIMIT)
        expect(running.done(), f"cancelled after {delay} s the call had not ended {END_LIMIT:.0f} s later")
        expect(running.cancelled(), f"cancelled after {delay} s it did not raise CancelledError")
    await _silent(bench)
    expect_same(await bench.said("echo on"), "on\n", "what the next command prints")


@check("cancel-others", "a cancelled call leaves others alone", "kill its tree, and nothing else")
async def cancel_others(bench: Bench) -> None:
    script = "while [ ! -e go ]; do sleep 0.05; done; echo well"
    other = asyncio.create_task(bench.sandbox.run_command("sh", ["-c", script], cwd=bench.folder, timeout=60))
    running = asyncio.create_task(bench.sandbox.run_command("sleep", ["60"]))
    await asyncio.sleep(0.3)
    running.cancel()
    await asyncio.wait({running}, timeout=END_LIMIT)
    await bench.sandbox.write_files({bench.path("go"): ""})
    expect_same((await other).stdout, "well\n", "the other command's output")


@check("background-lives", "what a command leaves running lives on", "kill at a limit only", needs=("background",))
async def background_lives(bench: Bench) -> None:
    await bench.said("sh -c 'while [ ! -e go ]; do sleep 0.05; done; echo well > heart' > /dev/null 2>&1 &")
    await bench.sandbox.write_files({bench.path("go"): ""})
    await _begun(bench)


@check(
    "end-processes",
    "end_processes kills what commands left running; files stay, and the sandbox works on",
    "find it as at a limit",
    needs=("end_processes",),
    alone=True,
)
async def end_processes(bench: Bench) -> None:
    sandbox = await bench.fresh()
    beat = _BEAT.format(name="heart")
    await sandbox.end_processes()
    await sandbox.run_command(
        "sh", ["-c", f"sh -c '{beat}' > /dev/null 2>&1 & setsid sh -c '{beat}' > /dev/null 2>&1 &"]
    )
    mine = Bench(sandbox=sandbox, folder=".", host=bench.host, fresh=bench.fresh)
    await _begun(mine)
    await sandbox.end_processes()
    await _silent(mine)
    result = await sandbox.run_command("sh", ["-c", "test -s heart && echo on"])
    expect_same(result.stdout, "on\n", "what the next command prints")


@check(
    "root-refused",
    "without root, root=True is a SandboxUnsupportedError",
    "never run it as somebody else",
    without="root",
)
async def root_refused(bench: Bench) -> None:
    await expect_error(
        bench.sandbox.run_command("true", root=True), SandboxUnsupportedError, "run_command(..., root=True)"
    )


@check("stop-twice", "stop may be called again, also at the same time", "remember that it has ended", alone=True)
async def stop_twice(bench: Bench) -> None:
    sandbox = await bench.fresh()
    await sandbox.run_command("true")
    await asyncio.gather(sandbox.stop(), sandbox.stop())
    await sandbox.stop()


@check("stop-gone", "after stop every call is a SandboxGoneError", "look at it first", alone=True)
async def stop_gone(bench: Bench) -> None:
    sandbox = await bench.fresh()
    (bench.host / "empty").mkdir()
    await sandbox.stop()
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "run_command": lambda: sandbox.run_command("true"),
        "run_shell": lambda: sandbox.run_shell("true"),
        "write_files": lambda: sandbox.write_files({"a": "b"}),
        "read_file": lambda: sandbox.read_file("a"),
        "read_bytes": lambda: sandbox.read_bytes("a"),
        "file_exists": lambda: sandbox.file_exists("a"),
        "upload_directory": lambda: sandbox.upload_directory(bench.host / "empty"),
        "download_directory": lambda: sandbox.download_directory(".", bench.host / "out"),
    }
    for name, call in calls.items():
        await expect_error(call(), SandboxGoneError, f"{name} after stop")


@check(
    "stop-running",
    "stop ends commands that run, whose calls return or raise a SandboxError",
    "let none wait",
    alone=True,
)
async def stop_running(bench: Bench) -> None:
    sandbox = await bench.fresh()
    running = asyncio.create_task(sandbox.run_command("sh", ["-c", "touch heart; sleep 300"]))
    await _begun(Bench(sandbox=sandbox, folder=".", host=bench.host, fresh=bench.fresh), running)
    await sandbox.stop()
    done, _ = await asyncio.wait({running}, timeout=END_LIMIT)
    if not done:
        running.cancel()
        await asyncio.wait({running}, timeout=END_LIMIT)
    expect(bool(done), f"the call had not ended {END_LIMIT:.0f} s after stop")
    error = None if running.cancelled() else running.exception()
    expect(error is None or isinstance(error, SandboxError), f"the call raised {error!r}")


@check(
    "two-apart", "two sandboxes have nothing in common, and one outlives the other", "make each by itself", alone=True
)
async def two_apart(bench: Bench) -> None:
    one, two = await bench.fresh(), await bench.fresh()
    expect(one.sandbox_id != two.sandbox_id, f"both have the id {one.sandbox_id!r}")
    await one.write_files({"mine": "one"})
    await two.write_files({"mine": "two"})
    expect_same((await one.read_file("mine"), await two.read_file("mine")), ("one", "two"), "their files")
    await one.stop()
    expect_same((await two.run_command("cat", ["mine"])).stdout, "two", "what the other prints after one has stopped")


ENDING_CHECKS: tuple[SandboxCheck, ...] = tuple(
    value for value in globals().values() if isinstance(value, SandboxCheck)
)
