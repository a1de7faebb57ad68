"""Reading results back: ours, the TypeScript tool's, unfinished ones, foreign ones, and hostile ones."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from niceeval._base.errors import ResultsError
from niceeval._base.ids import identity_hash
from niceeval._model.assertion import AssertionResult
from niceeval._model.events import ActionCalled, Message, UnknownEvent
from niceeval._model.result import AttemptResult, RunSummary
from niceeval._model.usage import Usage
from niceeval._record import runs
from niceeval.results import Attempt, Results, latest_per_experiment, open_results
from tests.unit.record_samples import assertions, result, write_run

SAMPLE = Path(__file__).parents[1] / "data" / "niceeval-0.4.6"
SAMPLE_RUN = SAMPLE / "2026-11-30T12-42-09-365Z"


def code_of(path: Path) -> str:
    with pytest.raises(ResultsError) as caught:
        open_results(path)
    return caught.value.code


def only(results: Results) -> Attempt:
    (attempt,) = results.attempts
    return attempt


def edit_summary(run: Path, **changes: Any) -> None:
    data = json.loads((run / "summary.json").read_text("utf-8"))
    for name, value in changes.items():
        data.pop(name) if value is None else data.update({name: value})
    (run / "summary.json").write_text(json.dumps(data), "utf-8")


def edit_result(run: Path, **changes: Any) -> None:
    rows = json.loads((run / "summary.json").read_text("utf-8"))["results"]
    rows[0].update(changes)
    edit_summary(run, results=rows)


# What we write ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["", "run", "summary.json"])
def test_a_folder_a_run_and_a_summary_open_the_same(tmp_path: Path, part: str) -> None:
    """Whichever of them is named."""
    run = write_run(tmp_path, result())
    path = {"": run.parent, "run": run, "summary.json": run / "summary.json"}[part]
    assert only(open_results(path)).eval_id == "weather/brooklyn"


def test_a_project_folder_opens_its_results(tmp_path: Path) -> None:
    """A project that has a `.niceeval` folder."""
    write_run(tmp_path, result())
    assert len(open_results(tmp_path).attempts) == 1


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    """The slim row and every artifact."""
    attempt = only(open_results(write_run(tmp_path, result())))
    written = result()
    assert attempt.assertions == assertions()
    assert attempt.usage == written.usage
    assert attempt.estimated_cost_usd == 0.44
    assert attempt.coverage == written.coverage
    assert attempt.phases == written.phases
    events, o11y, sources, logs = attempt.events(), attempt.o11y(), attempt.sources(), attempt.logs()
    assert events is not None
    assert isinstance(events[1], ActionCalled)
    assert o11y is not None
    assert o11y.turns[0].last_event == 3
    assert sources is not None
    assert sources[0].path == "evals/weather/brooklyn_eval.py"
    assert logs is not None
    assert logs[0].text == "hello"


def test_an_artifact_that_was_not_written_is_none(tmp_path: Path) -> None:
    """None, not an empty value."""
    attempt = only(open_results(write_run(tmp_path, result(), events=None, sources=(), o11y=None, logs=())))
    assert (attempt.events(), attempt.sources(), attempt.o11y(), attempt.logs()) == (None, None, None, None)


def test_a_run_without_a_summary_is_read_from_its_results(tmp_path: Path) -> None:
    """And is marked incomplete; hidden leftovers are not read."""
    run = write_run(tmp_path, result(), result(attempt=1), finish=False)
    parent = run / "weather/brooklyn/bub/gpt-5.4/compare_bub"
    shutil.copytree(parent / "a1", parent / ".tmp-a2")
    (read,) = open_results(run.parent).runs
    assert (read.complete, [attempt.attempt for attempt in read.attempts]) == (False, [0, 1])
    assert read.attempts[1].events() is not None


def test_a_run_killed_before_its_first_attempt_is_there(tmp_path: Path) -> None:
    """With no attempts."""
    run = write_run(tmp_path, finish=False)
    (read,) = open_results(run.parent).runs
    assert (read.complete, read.attempts) == (False, ())


def test_a_broken_summary_is_named_and_the_results_are_read(tmp_path: Path) -> None:
    """Nothing that was stored is lost with it."""
    run = write_run(tmp_path, result())
    (run / "summary.json").write_text('{"format": "nice', "utf-8")
    results = open_results(run.parent)
    assert [item.kind for item in results.skipped] == ["unreadable"]
    assert len(results.attempts) == 1


def test_a_broken_row_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    """One row of another shape does not hide a run."""
    run = write_run(tmp_path, result(), result(attempt=1))
    edit_result(run, outcome="vanished")
    results = open_results(run.parent)
    assert [attempt.attempt for attempt in results.attempts] == [1]
    assert "results[0]" in results.skipped[0].problem


def test_an_attempt_carried_into_a_later_run_counts_once(tmp_path: Path) -> None:
    """The same experiment, eval, attempt and start are the same attempt."""
    first = write_run(tmp_path, result())
    shutil.copytree(first, first.parent / "2099-01-01T00-00-00-000Z")
    results = open_results(first.parent)
    assert (len(results.runs), len(results.attempts)) == (2, 1)


# What others write -----------------------------------------------------------------------------------------------


def test_a_run_of_the_typescript_tool_opens() -> None:
    """24 results, counted as the tool counted them."""
    results = open_results(SAMPLE)
    assert Counter(attempt.outcome for attempt in results.attempts) == {
        "passed": 12,
        "failed": 4,
        "skipped": 4,
        "errored": 4,
    }
    assert (results.skipped, results.runs[0].title, results.runs[0].complete) == ((), "Weather desk", True)


def test_everything_of_a_foreign_run_can_be_read() -> None:
    """Each lazy part of each attempt; what the tool does not write is derived or absent."""
    for attempt in open_results(SAMPLE_RUN).attempts:
        stored = attempt.assertions
        assert all(entry.outcome == ("passed" if entry.passed else "failed") for entry in stored)
        assert attempt.coverage is None
        assert attempt.error_info is None
        assert attempt.experiment is not None
        events, o11y = attempt.events(), attempt.o11y()
        assert not any(isinstance(event, UnknownEvent) for event in events or ())
        assert o11y is not None
        assert o11y.turns == ()
        assert (attempt.sources() is None) == (attempt.outcome == "skipped")


def test_a_name_may_be_a_map_of_locales(tmp_path: Path) -> None:
    """English where there is one, else the first."""
    run = write_run(tmp_path, result())
    edit_summary(run, name={"zh": "天气", "en": "Weather"})
    assert open_results(run).runs[0].title == "Weather"
    edit_summary(run, name={"zh": "天气"})
    assert open_results(run).runs[0].title == "天气"


def field_names(value: Any, path: str = "") -> set[str]:
    if isinstance(value, dict):
        inner = {"flags", "toolCalls"}
        nested = (field_names(item, f"{path}.{key}") for key, item in value.items() if key not in inner)
        return {f"{path}.{key}" for key in value}.union(*nested)
    if isinstance(value, list):
        return set().union(*(field_names(item, f"{path}[]") for item in value))
    return set()


def spelled_alike(name: str) -> str:
    return name.replace("_", "").lower()


@pytest.mark.parametrize("file", ["summary.json", "events.json", "o11y.json", "sources.json"])
def test_shared_fields_are_spelled_as_the_typescript_tool_spells_them(tmp_path: Path, file: str) -> None:
    """A field of ours that means one of theirs has its exact name, at every depth."""
    run = write_run(tmp_path, result(error="x", description="d", skip_reason="s", fingerprint="f"))
    theirs: set[str] = set()
    for path in SAMPLE.rglob(file):
        theirs |= field_names(json.loads(path.read_text("utf-8")))
    ours: set[str] = set()
    for path in run.rglob(file):
        ours |= field_names(json.loads(path.read_text("utf-8")))
    spelled = {spelled_alike(name): name for name in theirs}
    assert {name for name in ours if spelled.get(spelled_alike(name), name) != name} == set()
    absent = {
        "summary.json": {".name", ".usage", ".usage.inputTokens", ".usage.outputTokens", ".estimatedCostUSD"}
        | {f".results[].usage.{name}" for name in ("cacheReadTokens", "cacheWriteTokens", "requests")}
        | {".results[].assertions[].evidence", ".results[].assertions[].group", ".results[].assertions[].threshold"},
        "o11y.json": {f".usage.{name}" for name in ("cacheReadTokens", "cacheWriteTokens", "requests")}
        | {".estimatedCostUSD"},
    }
    if file in absent:
        # What the sample attempt has no value for; its spelling is held by the test below.
        assert theirs - ours <= absent[file]


def test_optional_fields_are_spelled_as_the_typescript_tool_spells_them() -> None:
    """The names that only some results have."""
    sample = json.loads((SAMPLE_RUN / "summary.json").read_text("utf-8"))
    rows = sample.pop("results")
    stored: list[tuple[type[msgspec.Struct], set[str]]] = [
        (RunSummary, set(sample)),
        (AttemptResult, {name for row in rows for name in row}),
        (AssertionResult, {name for row in rows for entry in row["assertions"] for name in entry}),
        (Usage, {name for row in rows for name in row.get("usage", {})}),
    ]
    for struct, names in stored:
        assert names <= {field.encode_name for field in msgspec.structs.fields(struct)}


# Versions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("producer", "command"),
    [
        ({"name": "niceeval", "version": "0.9.0", "runtime": "python"}, "uvx niceeval@0.9.0 view "),
        ({"name": "niceeval", "version": "0.9.0"}, "npx niceeval@0.9.0 view "),
        ({"name": "niceeval", "version": "0.9; rm -rf ~", "runtime": "python"}, "uvx niceeval view "),
        (7, "npx niceeval view "),
    ],
)
def test_another_version_is_a_placeholder_with_a_command(tmp_path: Path, producer: Any, command: str) -> None:
    """In a folder the rest is read; what the file says never becomes part of a command unless it is a version."""
    run = write_run(tmp_path, result())
    shutil.copytree(run, run.parent / "2020-01-01T00-00-00-000Z")
    edit_summary(run, schemaVersion=2, producer=producer)
    results = open_results(run.parent)
    assert len(results.runs) == 1
    (skipped,) = results.skipped
    assert (skipped.kind, skipped.path, skipped.schema) == ("incompatible", run.name, "2")
    assert skipped.command is not None
    assert skipped.command.startswith(command + str(run))


def test_a_single_run_of_another_version_is_an_error_with_that_command(tmp_path: Path) -> None:
    """There is nothing else to show."""
    run = write_run(tmp_path, result())
    edit_summary(run, schemaVersion=2)
    with pytest.raises(ResultsError) as caught:
        open_results(run / "summary.json")
    assert caught.value.code == "incompatible"
    assert caught.value.next_step().startswith("uvx niceeval@0.1.0 view ")


def test_a_missing_version_is_version_one(tmp_path: Path) -> None:
    """Also where `format` is missing, as long as results and a start are there."""
    run = write_run(tmp_path, result())
    edit_summary(run, schemaVersion=None)
    assert len(open_results(run).attempts) == 1
    edit_summary(run, format=None)
    assert len(open_results(run).attempts) == 1


@pytest.mark.parametrize("changes", [{"format": "other.results"}, {"format": None, "startedAt": None}])
def test_what_is_not_ours_is_ignored(tmp_path: Path, changes: dict[str, Any]) -> None:
    """In a folder it is listed as such; alone it is an error."""
    run = write_run(tmp_path, result())
    other = run.parent / "2020-01-01T00-00-00-000Z"
    shutil.copytree(run, other)
    edit_summary(other, **changes)
    results = open_results(run.parent)
    assert [item.kind for item in results.skipped] == ["not-ours"]
    assert code_of(other) == "not-results"


def test_no_results_is_said(tmp_path: Path) -> None:
    """For a path that does not exist and for an empty folder."""
    assert code_of(tmp_path / "nowhere") == "no-results"
    assert code_of(tmp_path) == "no-results"


# Locators and snapshots ------------------------------------------------------------------------------------------


def test_a_locator_finds_its_attempt_in_any_case_and_by_its_start(tmp_path: Path) -> None:
    """With or without `@`, from four characters."""
    results = open_results(write_run(tmp_path, *(result(attempt=number) for number in range(5))))
    wanted = results.attempts[3]
    for typed in (wanted.locator, wanted.locator.upper(), wanted.locator[1:], wanted.locator[:6]):
        assert results.find(typed).identity == wanted.identity


@pytest.mark.parametrize("typed", ["@zzzzzzzz", "@abc", "nonsense!"])
def test_an_unknown_locator_is_said(tmp_path: Path, typed: str) -> None:
    """Whether it could be one or not."""
    results = open_results(write_run(tmp_path, result()))
    with pytest.raises(ResultsError) as caught:
        results.find(typed)
    assert caught.value.code == "unknown-locator"


def test_locators_that_would_collide_are_longer_and_an_ambiguous_one_lists_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three candidates at most, then a count."""

    def alike(experiment: str | None, eval_id: str, attempt: int, started: str) -> str:
        return "abcdefgh" + "abcde"[attempt] + identity_hash(experiment, eval_id, attempt, started)[9:]

    monkeypatch.setattr("niceeval._record.attempt.identity_hash", alike)
    results = open_results(write_run(tmp_path, *(result(attempt=number) for number in range(5))))
    assert {attempt.locator for attempt in results.attempts} == {"@abcdefgh" + end for end in "abcde"}
    assert results.find("@abcdefghc").attempt == 2
    with pytest.raises(ResultsError) as caught:
        results.find("@abcd")
    assert caught.value.code == "ambiguous-locator"
    assert "@abcdefgha (weather/brooklyn) or @abcdefghb" in str(caught.value)
    assert str(caught.value).endswith("or 2 more")


def test_the_latest_snapshot_of_each_experiment_says_what_it_covers_less(tmp_path: Path) -> None:
    """Compared with every run of the folder."""
    old = write_run(tmp_path, result(), result(id="sql/0001"), result(experiment_id="local"))
    old.rename(old.parent / "2020-01-01T00-00-00-000Z")
    edit_summary(old.parent / "2020-01-01T00-00-00-000Z", startedAt="2020-01-01T00:00:00.000Z")
    new = write_run(tmp_path, result(started_at="2026-08-01T00:00:00.000Z"))
    latest = {snapshot.experiment_id: snapshot for snapshot in latest_per_experiment(open_results(old.parent))}
    assert latest["compare/bub"].run.name == new.name
    assert latest["compare/bub"].missing_evals == ("sql/0001",)
    assert (latest["local"].run.name, latest["local"].missing_evals) == ("2020-01-01T00-00-00-000Z", ())


# Hostile results -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["../outside", "/etc", "a/../../outside", "weather\\..\\..\\outside"])
def test_a_path_in_a_result_cannot_lead_out_of_its_run(tmp_path: Path, path: str) -> None:
    """It is named when the run is read, and reading a file there is refused."""
    run = write_run(tmp_path, result())
    (run.parent / "outside").mkdir()
    (run.parent / "outside" / "events.json").write_text("[]", "utf-8")
    edit_result(run, artifactsDir=path)
    results = open_results(run)
    assert "leads out of the run folder" in results.skipped[0].problem
    with pytest.raises(ResultsError) as caught:
        only(results).events()
    assert caught.value.code == "unreadable"


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
def test_a_link_in_a_run_cannot_lead_out_of_it(tmp_path: Path) -> None:
    """A linked artifact, or a linked folder on the way to one."""
    run = write_run(tmp_path, result())
    secret = tmp_path / "secret.json"
    secret.write_text("[]", "utf-8")
    events = run / "weather/brooklyn/bub/gpt-5.4/compare_bub/a0/events.json"
    events.unlink()
    events.symlink_to(secret)
    with pytest.raises(ResultsError) as caught:
        only(open_results(run)).events()
    assert caught.value.code == "unreadable"


@pytest.mark.skipif(os.name == "nt", reason="needs named pipes")
def test_a_pipe_in_the_place_of_a_file_does_not_hang_the_reader(tmp_path: Path) -> None:
    """It is not an ordinary file."""
    run = write_run(tmp_path, result())
    events = run / "weather/brooklyn/bub/gpt-5.4/compare_bub/a0/events.json"
    events.unlink()
    os.mkfifo(events)
    with pytest.raises(ResultsError):
        only(open_results(run)).events()


def stored_events(tmp_path: Path, text: str) -> Any:
    run = write_run(tmp_path, result())
    (run / "weather/brooklyn/bub/gpt-5.4/compare_bub/a0/events.json").write_text(text, "utf-8")
    return only(open_results(run)).events()


def test_an_unknown_event_is_kept_in_its_place(tmp_path: Path) -> None:
    """So that `#n` stays true."""
    events = stored_events(
        tmp_path, '[{"type":"later.kind","x":1},{"type":"message","role":"user","text":"hi","new":2}]'
    )
    assert events == [UnknownEvent("later.kind", {"type": "later.kind", "x": 1}), Message(role="user", text="hi")]


@pytest.mark.parametrize("item", ["7", "null", '{"no":"type"}', '{"type":"message"}', '{"type":"message","role":5}'])
def test_a_malformed_event_does_not_hide_the_others(tmp_path: Path, item: str) -> None:
    """It is kept as it came."""
    events = stored_events(tmp_path, f'[{item},{{"type":"message","role":"user","text":"hi"}}]')
    assert isinstance(events[0], UnknownEvent)
    assert events[1] == Message(role="user", text="hi")


def test_a_lone_surrogate_is_tolerated(tmp_path: Path) -> None:
    """It reads as the replacement character."""
    events = stored_events(tmp_path, '[{"type":"message","role":"user","text":"a\\ud800b"}]')
    assert events == [Message(role="user", text="a\ufffdb")]


@pytest.mark.parametrize("text", ["{", "{}", "[" * 100_000, "\x00"])
def test_a_broken_artifact_is_an_error_with_its_path(tmp_path: Path, text: str) -> None:
    """Not None: something is there."""
    with pytest.raises(ResultsError) as caught:
        stored_events(tmp_path, text)
    assert caught.value.code == "unreadable"
    assert "events.json" in str(caught.value)


@pytest.mark.slow
def test_a_hundred_thousand_attempts_are_read_as_slim_rows(tmp_path: Path) -> None:
    """Nested values stay undecoded until somebody asks."""
    run = write_run(tmp_path, result())
    row = (run / "summary.json").read_text("utf-8").split('"results":[\n')[1].rsplit("\n]", 1)[0]
    head = (run / "summary.json").read_text("utf-8").split('"results":[\n')[0]
    rows = ",\n".join(row.replace('"attempt":0', f'"attempt":{number}') for number in range(100_000))
    (run / "summary.json").write_text(f'{head}"results":[\n{rows}\n]}}', "utf-8")
    results = open_results(run)
    assert len(results.attempts) == 100_000
    assert results.find(results.attempts[99_999].locator).attempt == 99_999


@pytest.mark.parametrize("complete", [True, False])
def test_a_run_that_is_deleted_while_it_is_read_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complete: bool
) -> None:
    """The others are read, and nothing is said of it: somebody has cleaned up."""
    kept = write_run(tmp_path, result())
    gone = write_run(tmp_path, result(attempt=1), result(attempt=2))
    if not complete:
        (gone / "summary.json").unlink()
    real = runs.read_file

    def read_file(path: Path, shown: str) -> bytes:
        if path.is_relative_to(gone):
            shutil.rmtree(gone, ignore_errors=True)
        return real(path, shown)

    monkeypatch.setattr(runs, "read_file", read_file)
    results = open_results(tmp_path / ".niceeval")
    assert ([run.name for run in results.runs], results.skipped) == ([kept.name], ())


def test_a_folder_that_cannot_be_listed_is_named_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One folder of another user's does not hide the rest."""
    run = write_run(tmp_path, result(), result(id="other/one"))
    (run / "summary.json").unlink()
    real = os.scandir

    def scandir(path: Path) -> Any:
        if str(path).endswith("/other"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    results = open_results(tmp_path / ".niceeval")
    assert [attempt.eval_id for attempt in results.attempts] == ["weather/brooklyn"]
    assert [(item.kind, item.path, item.problem) for item in results.skipped] == [
        ("unreadable", f"{run.name}/other", "Permission denied")
    ]
