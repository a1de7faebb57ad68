"""The reporter people see, from events to bytes."""

from __future__ import annotations

import io
import os
import pty
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from niceeval._base.errors import NiceevalError, Place
from niceeval._base.terminal import Stream, Style
from niceeval._model.result import AttemptResult
from niceeval._model.run_events import EarlyExit, ExperimentFailed, Interrupted, LiveEvent, Progress, RunNotice
from niceeval._reporters.console import Console, Wording
from niceeval._reporters.status import StatusLine
from tests.unit.fake_terminals import Emulator, a_pipe, text_of
from tests.unit.result_builders import (
    SOURCE,
    a_failed_gate,
    a_result,
    a_run,
    a_start,
    an_outline,
    an_unanswered_gate,
    completed,
    key_of,
    started,
    the_end,
)

HOSTILE = "\x1b[2J\x1b]0;t\x07\x1b]8;;x\x1b\\\x9b31m\r\x08\u202e::error::x ##[error]x s3cret"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def a_console(
    stdout: Any, stderr: Any, *, environ: Mapping[str, str] | None = None, now: Any = time.monotonic, **wording: Any
) -> Console:
    return Console(
        Stream(stdout),
        Stream(stderr),
        wording=Wording(version="0.1.0", rerun="niceeval exp compare", **wording),
        source_line=lambda file, line: SOURCE,
        redact=lambda text: text.replace("s3cret", "[redacted]"),
        environ=environ or {},
        now=now,
        threaded=False,
    )


def printed(events: Iterable[LiveEvent], *, encoding: str = "utf-8", **options: Any) -> tuple[str, str]:
    """What a run prints into two pipes."""
    out, err = a_pipe(encoding), a_pipe(encoding)
    console = a_console(out, err, **options)
    for event in events:
        console.handle(event)
    console.close()
    return text_of(out), text_of(err)


def failing(number: int = 1) -> list[AttemptResult]:
    return [
        a_result("failed", eval_id=f"sql/{index:04d}", locator=f"@x{index:07d}", assertions=[a_failed_gate()])
        for index in range(number)
    ]


def test_pipes_get_lines_without_control_characters() -> None:
    """Without a terminal: progress on stderr, blocks and the summary on stdout, no escape and no CR."""
    results = [a_result(eval_id="sql/0003"), *failing()]
    out, err = printed(a_run(a_start(an_outline(evals=2)), results))
    assert err.splitlines() == [
        "niceeval 0.1.0 · compare · 2 attempts · concurrency 4",
        "✓ passed  compare/bub-gpt-5.4  sql/0003  1/1 passed (100%)  mean 34s · 58k tok · $0.44",
        "✗ failed  compare/bub-gpt-5.4  sql/0000  0/1 passed (0%)  mean 34s · 58k tok · $0.44",
    ]
    assert out.startswith("✗ failed  sql/0000 · compare/bub-gpt-5.4 · attempt 1/1 · @x0000000\n")
    assert out.endswith("FAILED (exit 1)\n")
    assert not re.search("[\x1b\r]", out + err)


def test_forced_colour_moves_no_cursor() -> None:
    """FORCE_COLOR colours a pipe and does nothing else."""
    out, err = printed(a_run(a_start(), failing()), environ={"FORCE_COLOR": "1"})
    escapes = re.findall(r"\x1b\[[^m]*.", out + err)
    assert escapes
    assert all(re.fullmatch(r"\x1b\[\d+m", escape) for escape in escapes)
    plain, _ = printed(a_run(a_start(), failing()))
    assert re.sub(r"\x1b\[\d+m", "", out) == plain


@pytest.mark.parametrize("variable", [{}, {"NO_COLOR": "1"}])
def test_a_terminal_gets_a_board_with_or_without_colour(variable: dict[str, str]) -> None:
    """NO_COLOR takes the colour and leaves the board; afterwards only the permanent text is there."""
    emulator = Emulator(80, 24)
    console = a_console(emulator.stream(), emulator.stream(), environ={**emulator.environ, **variable})
    results = [a_result(eval_id="sql/0003"), *failing()]
    console.handle(a_start(an_outline(evals=2)))
    for result in results:
        console.handle(started(result))
        console.tick()
        assert any(row.startswith("experiment") for row in emulator.shown())
        assert emulator.screen.cursor.hidden
        console.handle(completed(result))
    console.handle(the_end(results))
    console.close()
    assert emulator.everything()[0].startswith("✗ failed  sql/0000")
    assert emulator.everything()[-1] == "FAILED (exit 1)"
    assert not emulator.screen.cursor.hidden
    coloured = re.search(r"\x1b\[3\dm", "".join(emulator.raw)) is not None
    assert coloured is not bool(variable)


def test_a_resized_terminal_is_repainted_at_its_new_width() -> None:
    """The next frame has the new width, and the permanent lines stay."""
    emulator = Emulator(120, 24)
    console = a_console(emulator.stream(), emulator.stream(), environ=emulator.environ)
    results = failing(3)
    console.handle(a_start(an_outline(evals=3)))
    for number, result in enumerate(results):
        console.handle(started(result))
        console.handle(completed(result))
        console.tick()
        if number == 1:
            emulator.resize(50, 24)
            console.tick()
            assert len([row for row in emulator.shown() if row.startswith("compare")]) == 1
    console.handle(the_end(results))
    console.close()
    heads = [row.split(" · ")[0] for row in emulator.everything() if row.startswith("✗ failed")]
    assert heads == [f"✗ failed  sql/{number:04d}" for number in range(3)]


def test_hostile_text_reaches_no_stream() -> None:
    """Whatever ids, texts and reasons hold, no sequence, no CI command and no secret is printed."""
    gate = a_failed_gate(name=HOSTILE, received=HOSTILE, expected=HOSTILE, label=HOSTILE)
    results = [
        a_result("failed", eval_id=HOSTILE, experiment_id=HOSTILE, assertions=[gate]),
        a_result("skipped", eval_id="::error::y", experiment_id=HOSTILE, skip_reason=HOSTILE),
    ]
    events = [
        a_start(an_outline(HOSTILE, evals=2), title=HOSTILE),
        RunNotice(code="loop-blocked", level="warning", message=HOSTILE),
        *[event for result in results for event in (started(result), completed(result))],
        the_end(results),
    ]
    for language in ("en", "zh"):
        out, err = printed(events, language=language)
        for line in (out + err).splitlines():
            assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", line)
            assert not line.lstrip().startswith("::")
            assert "##[" not in line
            assert "s3cret" not in line
        assert "[redacted]" in out


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "cp936"])
def test_any_encoding_gets_ascii_marks(encoding: str) -> None:
    """A stream that lacks our glyphs gets the ASCII set, and other text by number."""
    out, err = printed(
        a_run(a_start(), [a_result("failed", eval_id="天气👍", assertions=[a_failed_gate()])]), encoding=encoding
    )
    assert out.startswith("x failed  ")
    assert "\\u{1f44d}" in out
    assert "+ passed" not in err


def test_a_finished_pair_has_one_line() -> None:
    """An eval's line comes once, when its last attempt is done or cancelled."""
    early = EarlyExit(experiment_id="compare/bub-gpt-5.4", eval_id="weather/brooklyn", after="passed", cancelled=(2, 3))
    results = [a_result("failed", assertions=[a_failed_gate()]), a_result(attempt=1)]
    events = [
        a_start(an_outline(runs=4, early_exit=True)),
        *[event for result in results for event in (started(result), completed(result))],
        early,
        the_end(results, cancelled=2),
    ]
    _, err = printed(events)
    assert err.splitlines()[1:] == [
        "✓ passed  compare/bub-gpt-5.4  weather/brooklyn  1/2 passed (early exit)  mean 34s · 58k tok · $0.44"
    ]


def test_a_large_run_lists_only_what_did_not_pass() -> None:
    """Beyond 200 (experiment, eval) pairs those that passed have no line."""
    results = [a_result(eval_id=f"ok/{number}") for number in range(200)] + failing()
    _, err = printed(a_run(a_start(an_outline(evals=201)), results))
    assert len(err.splitlines()) == 2


def test_a_silent_log_gets_a_heartbeat() -> None:
    """After 30 s without a line, and after 2 min once 10 min have passed, the longest attempt is named."""
    clock = Clock()
    out, err = a_pipe(), a_pipe()
    console = a_console(out, err, now=clock)
    console.handle(a_start(an_outline(evals=2)))
    result = a_result(eval_id="sql/0007")
    console.handle(started(result))
    console.handle(Progress(key=key_of(result), phase="send", turn=1, text="x"))
    for second in range(901):
        clock.now = float(second)
        console.tick()
    beats = text_of(err).splitlines()[1:]
    assert beats[0] == "[00:30] 0/2 · 0 passed · 0 failed · 1 running, longest sql/0007 0:30"
    assert [beat[:7] for beat in beats[-3:]] == ["[09:30]", "[11:30]", "[13:30]"]
    assert len(beats) == 21


def test_ten_blocks_then_lines_and_never_more_bytes_than_allowed() -> None:
    """10,000 attempts, 2,000 failed, into a pipe: 24 KiB at most, counts exact, the last lines whole."""
    results = [a_result(eval_id=f"ok/{number}") for number in range(8000)] + failing(2000)
    out, err = printed(a_run(a_start(an_outline(evals=10_000)), results))
    assert len((out + err).encode()) <= 24 * 1024
    assert out.count("  expected  ") == 10
    last = out.splitlines()[-20:]
    assert "evals     8000 passed · 2000 failed" in last
    assert "attempts  8000 passed · 2000 failed" in last
    assert last[-1] == "FAILED (exit 1)"


def test_equal_ends_refer_to_the_first() -> None:
    """A second attempt that failed alike takes one line."""
    results = [
        a_result("failed", attempt=number, locator=locator, assertions=[a_failed_gate()])
        for number, locator in enumerate(("@k3f7qm2x", "@t5wq2czm"))
    ]
    out, _ = printed(a_run(a_start(an_outline(runs=2)), results))
    same = "✗ failed  weather/brooklyn · compare/bub-gpt-5.4 · attempt 2/2 · @t5wq2czm  same as @k3f7qm2x"
    assert same in out.splitlines()


def test_an_unanswered_gate_never_reads_as_passed() -> None:
    """Missing evidence is errored, with channel and reason, and the run is not passed."""
    out, err = printed(a_run(a_start(), [a_result("errored", assertions=[an_unanswered_gate()])]))
    assert "! errored  weather/brooklyn" in out
    assert "actions is partial: call_3 (turn 2) has no result" in out
    assert "✓" not in out + err
    assert out.endswith("ERRORED (exit 1)\n")


def test_quiet_and_verbose_drop_and_add_lines() -> None:
    """--quiet has no blocks and no progress; --verbose has a line per attempt."""
    events = list(a_run(a_start(an_outline(evals=2)), [a_result(), *failing()]))
    out, err = printed(events, quiet=True)
    assert err == ""
    assert out.startswith("not passed\n")
    normal = printed(events)[0]
    assert set(out.splitlines()) < set(normal.splitlines())
    _, verbose = printed(events, verbose=True)
    assert "✓ passed  compare/bub-gpt-5.4  weather/brooklyn  attempt 1/1  34s · 58k tok · $0.44" in verbose.splitlines()


def test_warnings_are_bounded_and_counted() -> None:
    """A run that warns without end prints the first twenty."""
    notice = RunNotice(code="loop-blocked", level="warning", message="an adapter blocked the loop for 3 s")
    events: list[LiveEvent] = [a_start(), *[notice] * 50, the_end([a_result()])]
    _, err = printed(events)
    assert err.count("warning[loop-blocked]: an adapter blocked the loop for 3 s") == 20
    assert "+ 30 more warnings" in err


def test_a_failed_experiment_setup_is_an_error_with_its_place() -> None:
    """It is reported when it happens, and its attempts leave the queue."""
    error = NiceevalError(
        "experiment-setup-failed", place=Place("experiments/a.py", 3, 1), experiment="a", error="no database"
    )
    event = ExperimentFailed(experiment_id="compare/bub-gpt-5.4", error=error, not_started=2)
    _, err = printed([a_start(an_outline(evals=2)), event, the_end([], not_started=2, status="incomplete")])
    assert err.splitlines()[1:] == [
        "error[experiment-setup-failed]: setup of experiment a: no database",
        "  experiments/a.py:3:1",
        "  next: fix its setup; nothing of it was run",
    ]


def test_an_interrupt_is_answered_by_its_line() -> None:
    """Ctrl-C is acknowledged at the next frame."""
    out, err = a_pipe(), a_pipe()
    console = a_console(out, err)
    console.handle(a_start())
    console.handle(Interrupted(cancelled=11))
    console.tick()
    said = "interrupted: 11 attempts cancelled, tearing down; Ctrl-C again leaves at once"
    assert said in text_of(err).splitlines()


def test_leaving_without_close_gives_the_cursor_back() -> None:
    """The way out of a second Ctrl-C writes past every buffer and lock."""
    primary, secondary = pty.openpty()
    with os.fdopen(secondary, "w") as terminal:
        console = a_console(terminal, terminal, environ={"TERM": "xterm"})
        console.handle(a_start())
        console.handle(started(a_result()))
        console.tick()
        console.restore()
        # A terminal hands on what was written in pieces of its own.
        shown = b""
        while b"\x1b[?25h" not in shown:
            shown += os.read(primary, 65536)
        assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l")
        console.close()
    os.close(primary)


def test_a_closed_pipe_does_not_stop_the_run() -> None:
    """Events go on being folded in when nobody reads."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as out:
        console = a_console(out, a_pipe())
        for event in a_run(a_start(an_outline(evals=5)), failing(5)):
            console.handle(event)
            console.tick()
        console.close()
        assert console.tick() == 0, "nothing is left that would be written"


def test_the_thread_paints_without_being_asked() -> None:
    """What was handled appears on its own, and closing leaves no thread."""
    out, err = a_pipe(), a_pipe()
    console = Console(
        Stream(out),
        Stream(err),
        wording=Wording(version="0.1.0", rerun="niceeval exp"),
        source_line=lambda file, line: None,
        redact=lambda text: text,
        environ={},
    )
    console.handle(a_start())
    deadline = time.monotonic() + 5
    while not text_of(err) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert text_of(err).startswith("niceeval 0.1.0")
    console.handle(the_end([a_result()]))
    console.close()
    assert text_of(out).endswith("PASSED (exit 0)\n")


def test_short_work_prints_no_status() -> None:
    """Work that is done within its first second leaves nothing."""
    out = io.StringIO()
    with StatusLine(Stream(out), Style(), live=True, doing="reading", noun="attempts") as status:
        status.update(41_200, 100_000)
        assert status.text(2.0) == "reading 41,200 of 100,000 attempts"
    assert out.getvalue() == ""
