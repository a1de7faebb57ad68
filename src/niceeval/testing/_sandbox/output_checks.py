"""Checks of what a command prints: kept to a bound, told as it comes."""

from __future__ import annotations

import asyncio
import resource
import sys

from niceeval.testing._sandbox.check import Bench, SandboxCheck, check, expect, expect_same

FLOOD = 100_000_000
"""Bytes of the largest output that is tried."""
MOST_KEPT = 8 * 1024 * 1024
"""Characters of a stream that a result may hold at most, whatever bound the backend has."""
MOST_MEMORY = 128 * 1024 * 1024
"""Bytes by which this process may grow while it takes the flood."""
LIVE_LIMIT = 30.0
"""Seconds after which what a command has printed must have been told."""


@check("output-apart", "stdout and stderr are two texts", "never run a command on a terminal")
async def output_apart(bench: Bench) -> None:
    result = await bench.sh("echo out; echo err >&2; echo out2")
    expect_same((result.stdout, result.stderr), ("out\nout2\n", "err\n"), "stdout and stderr")


@check("output-exact", "output is what was printed: line ends, controls, no line end at the end", "do not tidy it")
async def output_exact(bench: Bench) -> None:
    result = await bench.sh(r"printf 'a\r\nb\n\n\033[31mc\tü\000d'")
    expect_same(result.stdout, "a\r\nb\n\n\x1b[31mc\tü\0d", "stdout")
    expect_same((await bench.sh(r"printf ' a \n\n'")).stdout, " a \n\n", "stdout that ends in line ends")


@check("output-invalid", "bytes that are no UTF-8 become signs, and hurt nothing", "decode with errors='replace'")
async def output_invalid(bench: Bench) -> None:
    result = await bench.sh(r"printf 'a\377b'; printf 'c\303' >&2")
    expect_same((result.stdout, result.stderr), ("a\ufffdb", "c\ufffd"), "stdout and stderr")


@check("output-whole", "half a MB is kept as a whole", "keep 1 MiB of each stream")
async def output_whole(bench: Bench) -> None:
    result = await bench.sh("head -c 500000 /dev/zero | tr '\\0' x; echo end; echo e >&2")
    expect_same((len(result.stdout), result.stdout[-4:], result.truncated), (500_004, "end\n", False), "what was kept")


@check("output-flood", "of a hundred MB a bounded part is kept, and truncated says so", "use OutputKeeper", alone=True)
async def output_flood(bench: Bench) -> None:
    before = _peak()
    result = await bench.sh(f"echo first; head -c {FLOOD} /dev/zero | tr '\\0' x; exit 3", limit=120)
    grown = _peak() - before
    expect_same((result.truncated, result.exit_code, result.timed_out), (True, 3, False), "truncated and the end")
    expect(len(result.stdout) <= MOST_KEPT, f"{len(result.stdout):,} characters were kept")
    expect(result.stdout.startswith("first\n"), f"it begins with {result.stdout[:20]!r}")
    expect(grown < MOST_MEMORY, f"the memory of this process grew by {grown // 1_000_000} MB")


@check("output-flood-told", "a callback is told also what is not kept", "tell it before you cut", alone=True)
async def output_flood_told(bench: Bench) -> None:
    told = 0

    def count(text: str) -> None:
        nonlocal told
        told += len(text)

    script = "head -c 20000000 /dev/zero | tr '\\0' x >&2"
    await bench.sandbox.run_command("sh", ["-c", script], on_stderr=count, timeout=120)
    expect_same(told, 20_000_000, "the number of characters that it was told")


def _peak() -> int:
    """The most memory that this process has had, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@check("callback-text", "the callbacks' texts, joined, are the output, each stream's by itself", "tell each chunk once")
async def callback_text(bench: Bench) -> None:
    out: list[str] = []
    err: list[str] = []
    script = "for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; sleep 0.02; done"
    result = await bench.sandbox.run_command("sh", ["-c", script], on_stdout=out.append, on_stderr=err.append)
    expect_same(("".join(out), "".join(err)), (result.stdout, result.stderr), "what the callbacks were told")
    expect_same(result.stdout, "o1\no2\no3\no4\no5\n", "stdout")
    expect(all(out + err), "a callback was given an empty text")


@check("callback-live", "a callback is told while the command runs", "hand chunks on as they come")
async def callback_live(bench: Bench) -> None:
    # The command ends only when what it printed has been told: a backend that tells at the end runs into the limit.
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    script = "echo ready; while [ ! -e go ]; do sleep 0.05; done; echo went"
    running = asyncio.create_task(
        bench.sandbox.run_command(
            "sh",
            ["-c", script],
            cwd=bench.folder,
            timeout=LIVE_LIMIT,
            on_stdout=lambda _: _set(loop, told),
        )
    )
    waiting = asyncio.create_task(told.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    early = not running.done()
    await bench.sandbox.write_files({bench.path("go"): ""})
    result = await running
    expect(early and not result.timed_out, "nothing was told before the command had ended")
    expect_same(result.stdout, "ready\nwent\n", "stdout")


def _set(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    loop.call_soon_threadsafe(event.set)


@check("callback-split", "a character that comes in two pieces is told as one", "decode incrementally")
async def callback_split(bench: Bench) -> None:
    told: list[str] = []
    script = r"printf 'a\360\237'; sleep 0.3; printf '\231\202z'"
    result = await bench.sandbox.run_command("sh", ["-c", script], on_stdout=told.append)
    expect_same(("".join(told), result.stdout), ("a🙂z", "a🙂z"), "what was told, and kept,")


@check(
    "callback-raises", "what a callback raises is raised when the command is over, which it does not hurt", "keep it"
)
async def callback_raises(bench: Bench) -> None:
    def refuse(text: str) -> None:
        raise LookupError("of the callback")

    script = "echo out; sleep 0.2; echo more; echo done > done"
    try:
        await bench.sandbox.run_command("sh", ["-c", script], cwd=bench.folder, on_stdout=refuse)
    except LookupError:
        pass
    except Exception as error:  # noqa: BLE001 - whatever a backend raises instead is the finding
        expect(False, f"it raised {type(error).__name__}, not what the callback raised")
    else:
        expect(False, "it raised nothing")
    running = await bench.said("sleep 0.3; ls")
    expect_same(running, "done\n", "what the command left")


@check(
    "output-held",
    "a command is over when it ends, though what it left running holds its output open",
    "wait for the command, then a moment for output, never for its end",
    needs=("background",),
)
async def output_held(bench: Bench) -> None:
    result = await bench.sh("sleep 90 & echo started", limit=45)
    expect_same((result.stdout, result.exit_code, result.timed_out), ("started\n", 0, False), "its end")
    expect(result.duration < 30, f"it took {result.duration:.1f} s, waiting for what was left running")


OUTPUT_CHECKS: tuple[SandboxCheck, ...] = tuple(
    value for value in globals().values() if isinstance(value, SandboxCheck)
)
