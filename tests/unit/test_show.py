"""`niceeval show`: what it says of results, how it stays clean, and what its targets mean."""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from niceeval._base.errors import NiceevalError
from niceeval._base.places import shown_path
from niceeval._base.terminal import UNICODE, Style, cell_width
from niceeval._cli.main import entry
from niceeval._cli.show import find_target
from niceeval._model.assertion import AssertionResult, UnavailableReason
from niceeval._model.events import Loc, Message, encode_events
from niceeval._model.result import Diagnostic, ErrorInfo, LogLine, Points, Retry, SourceFile
from niceeval._model.usage import Usage
from niceeval._record.attempt import Attempt
from niceeval._view.attempt_page import attempt_page
from niceeval._view.documents import attempt_document, overview_document
from niceeval._view.not_reached import checks_not_reached
from niceeval._view.overview import overview
from niceeval.results import Results, open_results
from tests.unit.record_samples import SOURCE, SOURCE_PATH, assertions, result, write_run

LOG = Style(glyphs=UNICODE)
NOW = datetime(2026, 7, 2, 5, 10, 24, tzinfo=UTC)
SAMPLE = Path(__file__).parents[1] / "data" / "niceeval-0.4.6"


def page_of(tmp_path: Path, style: Style = LOG, **changes: Any) -> list[str]:
    artifacts = {name: changes.pop(name) for name in ("events", "sources", "o11y", "logs") if name in changes}
    return attempt_page(only(open_results(write_run(tmp_path, result(**changes), **artifacts))), style)


def only(results: Results) -> Attempt:
    (attempt,) = results.attempts
    return attempt


def seen(results: Results, style: Style = LOG) -> list[str]:
    return overview(results, style, NOW)


def entry_at(line: int, **changes: Any) -> AssertionResult:
    fields: dict[str, Any] = {"name": "check", "severity": "gate", "score": 1, "passed": True, "outcome": "passed"}
    return AssertionResult(**{**fields, "loc": Loc(file=SOURCE_PATH, line=line, column=5), **changes})


# One attempt -----------------------------------------------------------------------------------------------------


def test_the_page_shows_what_was_sent_again(tmp_path: Path) -> None:
    """Each send that was not accepted: the turn, how long it waited, and why; somebody else's words are cleaned."""
    retries = (Retry(turn=0, wait_ms=1_250, reason="429"), Retry(turn=1, wait_ms=20, reason="busy\x1b[2J"))
    page = page_of(tmp_path, retries=retries)
    at = page.index("retries    turn 1 after 1.2s: 429")
    assert page[at + 1] == "           turn 2 after 20ms: busy␛"


def test_the_page_of_a_failed_attempt(tmp_path: Path) -> None:
    """Verdict, figures, source with marks, what was expected and came, coverage, time."""
    page = page_of(tmp_path)
    stored = only(open_results(tmp_path))
    locator, events = stored.locator, shown_path(str(stored.run_folder / stored.artifacts_dir / "events.json"))
    assert page == [
        f"✗ failed  weather/brooklyn · compare/bub · attempt 1/2 · {locator}",
        "34s · 58k tok · $0.44 · bub, gpt-5.4 · 2026-07-02 03:10:24Z · not carried",
        "evals/weather/brooklyn_eval.py (as it was run)",
        '  turn 1   7 │     turn = await t.send("What\'s the weather in Brooklyn?")    12s · 21k tok · #0-#3',
        "  ✓        8 │     turn.succeeded()",
        '  ✗        9 │     turn.called_tool("get_weather", input={"city": "Brooklyn"})',
        '             │       expected 1 call of get_weather, input.city is "Brooklyn"',
        '             │       received 0 such calls; nearest #1: input.city = "Queens"',
        "             │       evidence #1 action.called (call_1)",
        '  -       11 │         t.check(turn.message, includes("rain"))    not reached',
        "coverage   complete: actions · events partial",
        "           events: compactions are not sent",
        "time       setup 2.0s · send 23.2s · turns 12.0s",
        f"said       {events}",
        "more       --json (result, turns, changes)",
    ]


def test_what_is_not_known_is_a_word(tmp_path: Path) -> None:
    """Never a zero, never an empty place."""
    page = page_of(tmp_path, usage=None, estimated_cost_usd=None, coverage=None, model=None)
    assert page[1].startswith("34s · tokens unknown · cost unknown · bub · ")
    assert "coverage   unknown" in page


def test_an_unavailable_entry_says_why_and_has_no_passed_mark(tmp_path: Path) -> None:
    """The reason stands under the line."""
    reason = UnavailableReason(code="coverage-partial", channel="events", message="events is partial: it says so")
    entry_ = entry_at(8, outcome="unavailable", passed=False, score=0, reason=reason)
    page = page_of(tmp_path, assertions=(entry_,), outcome="errored")
    row = page.index("  ?        8 │     turn.succeeded()")
    assert page[row + 1] == "             │       unavailable: events is partial: it says so"
    assert not any("✓" in line for line in page)


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({"severity": "soft", "score": 0.71}, "~ 0.71"),
        ({"score": 0.8, "threshold": 0.6}, "✓ 0.80"),
        ({"severity": "soft", "score": 0.4, "threshold": 0.6, "passed": False, "outcome": "failed"}, "✗ 0.40"),
    ],
)
def test_a_graded_entry_shows_its_score(tmp_path: Path, changes: dict[str, Any], label: str) -> None:
    """Beside its mark."""
    page = page_of(tmp_path, assertions=(entry_at(8, **changes),))
    assert f"  {label}   8 │     turn.succeeded()" in page


def test_several_entries_of_one_line_are_told_apart_by_name(tmp_path: Path) -> None:
    """The source is printed once, each entry under it."""
    page = page_of(tmp_path, assertions=(entry_at(8, name="first"), entry_at(8, name="second", group="weather")))
    at = page.index("           8 │     turn.succeeded()")
    assert page[at + 1 : at + 3] == ["  ✓          │   first", "  ✓          │   weather: second"]


def test_entries_without_a_stored_line_are_listed(tmp_path: Path) -> None:
    """With their place where they have one."""
    far = entry_at(3, loc=Loc(file="lib/checks.py", line=3), passed=False, score=0, outcome="failed", received="no")
    page = page_of(tmp_path, assertions=(far, entry_at(8, loc=None, name="points")))
    at = page.index("assertions")
    assert page[at + 1 : at + 4] == ["  ✗       lib/checks.py:3  check", "          received no", "  ✓       points"]


def test_an_error_has_code_phase_place_message_and_trace(tmp_path: Path) -> None:
    """And what to do about it."""
    error = ErrorInfo(
        code="adapter-error",
        phase="send",
        message="ConnectionError: refused",
        loc="evals/weather/brooklyn_eval.py:7:18",
        trace='  File "adapters/bot.py", line 3, in send\n    raise ConnectionError("refused")',
        next="fix the agent",
    )
    page = page_of(tmp_path, outcome="errored", assertions=(), error_info=error)
    assert page[2:7] == [
        "error      adapter-error in send  evals/weather/brooklyn_eval.py:7:18",
        "           ConnectionError: refused",
        '               File "adapters/bot.py", line 3, in send',
        '                 raise ConnectionError("refused")',
        "  next: fix the agent",
    ]


def test_a_skipped_attempt_says_why(tmp_path: Path) -> None:
    """The author's reason."""
    page = page_of(tmp_path, outcome="skipped", assertions=(), skip_reason="needs a key")
    assert page[0].startswith("- skipped  ")
    assert "skipped    needs a key" in page


def test_diagnostics_and_points_are_shown(tmp_path: Path) -> None:
    """Each with its level; after ten the rest is counted."""
    found = tuple(Diagnostic(code="cut", level="warning", message=f"m{number}", turn=0) for number in range(12))
    page = page_of(tmp_path, diagnostics=found, points=Points(earned=3, possible=5))
    assert "3/5 points" in page[1]
    assert "warning    cut: turn 1: m0" in page
    assert "           + 2 more diagnostics: --json" in page


def test_a_broken_artifact_is_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    """The page never fails because one file does."""
    run = write_run(tmp_path, result())
    (run / "weather/brooklyn/bub/gpt-5.4/compare_bub/a0/events.json").write_text("[", "utf-8")
    page = attempt_page(only(open_results(run)), LOG)
    assert any(line.startswith("unreadable ") and "events.json" in line for line in page)
    assert "  ✓        8 │     turn.succeeded()" in page


def test_a_page_of_the_typescript_tool_is_shown() -> None:
    """Its turns are told by its user messages, its failed entries by their evidence."""
    attempt = next(attempt for attempt in open_results(SAMPLE).attempts if attempt.outcome == "failed")
    page = attempt_page(attempt, LOG)
    assert page[0].startswith("✗ failed  weather/cities/0001 · compare/concise · attempt 1/2 · @")
    assert "evals/weather/cities.eval.ts (as it was run)" in page
    assert any("turn 1" in line and "#0-#" in line for line in page)
    assert any("evidence get_weather [failed]" in line for line in page)


def test_no_row_is_wider_than_the_terminal(tmp_path: Path) -> None:
    """But for what is never cut: locators, places, commands, numbers."""
    style = Style(glyphs=UNICODE, width=60)
    entries = (*assertions(), entry_at(8, passed=False, score=0, outcome="failed", received="界" * 500))
    for line in page_of(tmp_path, style, assertions=entries)[3:-1]:
        assert cell_width(line) <= 60, line


# Not reached -----------------------------------------------------------------------------------------------------


def lines_missed(source: str, reached: set[int], name: str = "one") -> list[int]:
    return [check.line for check in checks_not_reached(source, reached, name)]


EVAL = """@define_eval()
async def one(t):
    session = t.new_session()
    turn = await session.send("x")
    turn.succeeded()
    (await t.send("y")).max_tokens(5)
    other.succeeded()
    assert turn.message
    value = t.require(turn.data, is_defined()).field
    turn.called_tool("a").optional()
    def inner():
        t.parked()
    for _ in range(2):
        session.event("error")
"""


def test_checks_on_t_sessions_and_turns_are_found() -> None:
    """Also chained, assigned or asserted; not on other objects, nor inside other functions."""
    assert lines_missed(EVAL, set()) == [5, 6, 8, 9, 10, 14]


def test_a_line_with_a_result_was_reached() -> None:
    """Whatever was recorded there."""
    assert lines_missed(EVAL, {5, 10}) == [6, 8, 9, 14]


def test_the_function_is_the_one_with_results_or_of_the_evals_name() -> None:
    """Where a file has several."""
    two = EVAL + EVAL.replace("one", "two")
    assert min(lines_missed(two, {19})) > 14
    assert max(lines_missed(two, set(), "one")) <= 14
    assert lines_missed(two, set(), "three") == []


@pytest.mark.parametrize("source", ["", "const a = () => {", "x = \x00", "(" * 5000, "def one(t): t.parked()"])
def test_what_is_no_eval_has_no_checks(source: str) -> None:
    """Other languages, broken files, and plain functions."""
    assert lines_missed(source, set()) == []


# The overview ----------------------------------------------------------------------------------------------------


def test_the_overview_has_a_row_per_experiment_and_a_line_per_failure(tmp_path: Path) -> None:
    """Groups with their columns, then what did not pass, then what to type."""
    attempts = [
        result(outcome="passed", assertions=()),
        result(attempt=1),
        result(id="sql/0001", outcome="passed", assertions=(), usage=None, estimated_cost_usd=None),
        result(id="x", experiment_id="local", outcome="errored", assertions=(), error="boom", estimated_cost_usd=None),
    ]
    results = open_results(write_run(tmp_path, *attempts).parent)
    failed, errored = results.attempts[1].locator, results.attempts[3].locator
    started = results.runs[0].started_at[:19].replace("T", " ") + "Z"
    assert seen(results)[1:] == [
        "experiment  evals passed  attempts  errored  mean  tok  cost               when",
        f"  local     0/1 (0%)      0/1       1        34s   58k  unknown            {started}",
        "compare     evals passed  attempts  errored  mean  tok  cost               when",
        f"  bub       2/2 (100%)    2/3       0        34s   58k  $0.44 (1 unknown)  {started}",
        "not passed",
        f'  ✗ weather/brooklyn  bub    :9 called_tool("get_weather")  {failed}',
        f"  ! x                 local  boom                           {errored}",
        f"next: niceeval show {failed}",
    ]


def test_ages_are_for_terminals(tmp_path: Path) -> None:
    """A log has the instant."""
    results = open_results(write_run(tmp_path, result()))
    now = datetime.fromisoformat(results.runs[0].started_at) + timedelta(hours=2)
    assert any(line.endswith("2h ago") for line in overview(results, Style(width=100), now))


def test_nothing_but_skipped_is_no_percentage(tmp_path: Path) -> None:
    """There is nothing to take a share of, and nothing is known of cost and time."""
    results = open_results(write_run(tmp_path, result(outcome="skipped", assertions=(), usage=None)))
    row = next(line for line in seen(results) if line.startswith("  bub"))
    assert row.split()[1:7] == ["skipped", "-", "-", "-", "unknown", "unknown"]


def test_an_unfinished_run_says_so_and_how_to_go_on(tmp_path: Path) -> None:
    """By experiment, group, or everything."""
    run = write_run(tmp_path, result(), result(experiment_id="compare/codex"), finish=False)
    lines = seen(open_results(run.parent))
    assert lines[0].endswith(": 2 attempts · 2026-07-02 03:10:24Z · incomplete")
    assert f"incomplete    {run.name}  2 attempts, no summary.json (killed)" in lines
    assert "  next: niceeval exp compare" in lines


def test_a_run_of_another_version_has_the_command_that_opens_it(tmp_path: Path) -> None:
    """Beside those that were read."""
    run = write_run(tmp_path, result())
    other = run.parent / "2020-01-01T00-00-00-000Z"
    shutil.copytree(run, other)
    data = json.loads((other / "summary.json").read_text("utf-8"))
    (other / "summary.json").write_text(json.dumps({**data, "schemaVersion": 2}), "utf-8")
    lines = seen(open_results(run.parent))
    assert "incompatible  2020-01-01T00-00-00-000Z  schemaVersion 2 by niceeval 0.1.0" in lines
    assert f"  next: uvx niceeval@0.1.0 view {other}" in lines


def test_a_snapshot_that_covers_less_says_so(tmp_path: Path) -> None:
    """A run of a few evals does not pass for the whole."""
    old = write_run(tmp_path, result(), result(id="sql/0001"), finish=False)
    old.rename(old.parent / "2020-01-01T00-00-00-000Z")
    write_run(tmp_path, result(started_at="2099-01-01T00:00:00.000Z"), finish=False)
    assert "    covers 1 of the 2 evals that its runs have had" in seen(open_results(old.parent))


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    """Fifty lines of what did not pass, then a number and the command for the rest."""
    run = write_run(tmp_path, *(result(id=f"e/{number:03d}") for number in range(60)))
    assert "  + 10 more: niceeval show --json" in seen(open_results(run))


# Hostile results -------------------------------------------------------------------------------------------------

HOSTILE = "::error::x \x1b[2J\x1b]0;t\x07\x9b31m\u202e##[error]y\r\x08\nback"


def assert_clean(lines: list[str]) -> None:
    for line in lines:
        assert not any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 or char == "\u202e" for char in line), line
        assert not line.lstrip().startswith(("::error", "##[")), line
        assert "##[" not in line


def hostile_result() -> Any:
    entry_ = entry_at(
        8,
        name=HOSTILE,
        label=HOSTILE,
        group=HOSTILE,
        outcome="failed",
        passed=False,
        score=0,
        expected=HOSTILE,
        received=HOSTILE,
        detail=HOSTILE,
        evidence=HOSTILE,
    )
    error = ErrorInfo(code=HOSTILE, phase="send", message=HOSTILE, loc=HOSTILE, trace=HOSTILE, next=HOSTILE)
    return result(
        id=f"e/{HOSTILE}",
        experiment_id=f"g{HOSTILE}/x{HOSTILE}",
        agent=HOSTILE,
        model=HOSTILE,
        outcome="errored",
        assertions=(entry_, entry_at(8, loc=Loc(file=HOSTILE, line=1), name=HOSTILE)),
        error=HOSTILE,
        error_info=error,
        diagnostics=(Diagnostic(code=HOSTILE, level="error", message=HOSTILE),),
        phases={HOSTILE: 1},
    )


@pytest.mark.parametrize("style", [LOG, Style(glyphs=UNICODE, width=80)])
def test_nothing_of_a_result_steers_the_terminal_or_the_ci_system(tmp_path: Path, style: Style) -> None:
    """Wherever a text of somebody else is shown."""
    source = SourceFile(path=SOURCE_PATH, content=SOURCE.replace("turn.succeeded()", f"turn.succeeded()  # {HOSTILE}"))
    run = write_run(
        tmp_path,
        hostile_result(),
        events=encode_events([Message(role="user", text=HOSTILE, loc=Loc(file=HOSTILE, line=1))]),
        sources=(source, SourceFile(path=HOSTILE, content=HOSTILE)),
        logs=(LogLine(at="", source=HOSTILE, text=HOSTILE),),
    )
    results = open_results(run)
    assert_clean(attempt_page(only(results), style))
    assert_clean(seen(results, style))


def test_json_keeps_the_value_escaped(tmp_path: Path) -> None:
    """A program gets what was stored."""
    document = attempt_document(only(open_results(write_run(tmp_path, hostile_result()))))
    assert document["result"]["error"] == HOSTILE
    assert "\x1b" not in json.dumps(document)


# Documents -------------------------------------------------------------------------------------------------------


def test_the_attempts_document_says_what_the_page_says(tmp_path: Path) -> None:
    """Result, turns, and what was not reached."""
    document = attempt_document(only(open_results(write_run(tmp_path, result()))))
    assert document["format"] == "niceeval.show"
    assert document["result"]["outcome"] == "failed"
    assert document["turns"][0]["lastEvent"] == 3
    assert [item["line"] for item in document["notReached"]] == [11]


def test_the_overviews_document_leaves_out_what_is_not_known(tmp_path: Path) -> None:
    """An absent field, never a null or a zero."""
    run = write_run(tmp_path, result(usage=Usage(), estimated_cost_usd=None))
    (experiment,) = overview_document(open_results(run))["experiments"]
    assert {"meanTokens", "meanCostUSD"} & set(experiment) == set()
    assert experiment["costUnknown"] == 1


# The command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "evals").mkdir()
    monkeypatch.chdir(tmp_path)
    return write_run(tmp_path, result())


def test_show_finds_an_attempt_a_run_and_a_folder(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From anywhere in the project; each exits with 0."""
    locator = only(open_results(project)).locator
    for target, first in [
        ([], ".niceeval: "),
        ([locator], "✗ failed  weather/brooklyn"),
        ([locator[1:6].upper()], "✗ failed  weather/brooklyn"),
        ([project.name], f".niceeval/{project.name}: "),
        ([".niceeval"], ".niceeval: "),
        ([f".niceeval/{project.name}/summary.json"], ".niceeval/"),
        ([f"{project.name}/{locator}"], "✗ failed  weather/brooklyn"),
    ]:
        assert entry(["show", *target]) == 0
        assert capsys.readouterr().out.startswith(first)


def test_each_command_that_show_prints_runs(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also for results that are not the project's."""
    shutil.copytree(SAMPLE, project.parents[1] / "other place")
    for arguments in (["show"], ["show", "other place"], ["show", project.name]):
        assert entry(arguments) == 0
        command = capsys.readouterr().out.splitlines()[-1].removeprefix("next: niceeval ")
        assert command.startswith("show ")
        name = command.removeprefix("show ").strip("'")
        assert entry(["show", name]) == 0
        assert capsys.readouterr().out.startswith("✗ failed")


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("@zzzzzzzz", "unknown-locator"),
        ("nowhere/at/all", "no-results"),
        ("no.such", "no-results"),
        ("x", "no-results"),
    ],
)
def test_a_target_that_names_nothing_is_an_error(project: Path, target: str, code: str) -> None:
    """Said with what was asked for."""
    with pytest.raises(NiceevalError) as caught:
        find_target(target)
    assert caught.value.code == code


def test_outside_a_project_a_target_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no folder to look in."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NiceevalError) as caught:
        find_target(None)
    assert caught.value.code == "no-project"
    with pytest.raises(NiceevalError) as caught:
        find_target("abcd")
    assert caught.value.code in {"no-project", "no-results"}


def test_json_is_one_document(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout, alone."""
    assert entry(["show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "niceeval.show"


def test_a_value_of_dotenv_is_not_shown(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where somebody else's results hold it."""
    summary = project / "summary.json"
    summary.write_text(summary.read_text("utf-8").replace("Queens", "hunter2-hunter2"), "utf-8")
    (project.parents[1] / ".env").write_text("BOT_PASS=hunter2-hunter2\n", "utf-8")
    locator = only(open_results(project)).locator
    for arguments in (["show", locator], ["show", locator, "--json"]):
        assert entry(arguments) == 0
        said = capsys.readouterr().out
        assert "hunter2" not in said
        assert "[redacted]" in said


def test_off_a_terminal_the_answer_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """16 KiB however much there is; what is left out is counted, with the command for it."""
    (tmp_path / "evals").mkdir()
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path, result(assertions=tuple(entry_at(8, name=f"{number} " + "n" * 100) for number in range(900))))
    assert entry(["show", only(open_results(tmp_path)).locator]) == 0
    said = capsys.readouterr().out
    assert len(said.encode()) <= 16 * 1024
    (left_out,) = (line for line in said.splitlines() if line.startswith("+ "))
    assert re.fullmatch(r"\+ \d+ more lines: niceeval show @\w{8} --json", left_out)
    assert said.splitlines()[-1].startswith("more ")


@pytest.mark.slow
def test_ten_thousand_attempts_are_shown_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """2,000 of them failed: counts are exact, output bounded."""
    (tmp_path / "evals").mkdir()
    monkeypatch.chdir(tmp_path)
    run = write_run(tmp_path, result())
    text = (run / "summary.json").read_text("utf-8")
    head, rest = text.split('"results":[\n')
    row = rest.rsplit("\n]", 1)[0]
    passed = row.replace('"outcome":"failed"', '"outcome":"passed"', 1)
    kinds = [row, passed, passed, passed, passed]
    rows = [kinds[number % 5].replace("weather/brooklyn", f"e/{number}", 1) for number in range(10_000)]
    (run / "summary.json").write_text(head + '"results":[\n' + ",\n".join(rows) + "\n]}", "utf-8")
    assert entry(["show"]) == 0
    said = capsys.readouterr().out
    assert len(said.encode()) <= 16 * 1024
    assert "8000/10000 (80%)" in said
    assert "+ 1,950 more: niceeval show --json" in said
    assert re.fullmatch(r"next: niceeval show @\w{8}", said.splitlines()[-1])
