"""The writer: attempts appear whole, nothing finished is lost, what cannot be written is said."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from niceeval._base.errors import ResultsError
from niceeval._base.redaction import Redactor
from niceeval._model.events import Message, encode_events
from niceeval._record import disk
from niceeval._record.writer import RunWriter
from tests.unit.record_samples import name_of, placed_in, result, sealed, summary, write_run

FOLDER = "weather/brooklyn/bub/gpt-5.4/compare_bub/a0"


def writer_at(root: Path, **options: bool) -> RunWriter:
    writer = RunWriter(root / ".niceeval", root=root, redact=str, **options)
    writer.begin()
    return writer


def test_an_attempt_is_a_folder_of_files(tmp_path: Path) -> None:
    """Each artifact beside the slim result."""
    run = write_run(tmp_path, result())
    assert {path.name for path in (run / FOLDER).iterdir()} == {
        "result.json",
        "events.json",
        "sources.json",
        "o11y.json",
        "logs.json",
    }


def test_a_file_without_data_is_not_written_and_the_flags_say_so(tmp_path: Path) -> None:
    """An attempt that never sent anything has no empty files beside it."""
    run = write_run(tmp_path, result(), events=b"[]", sources=(), o11y=None, logs=())
    assert [path.name for path in (run / FOLDER).iterdir()] == ["result.json"]
    stored = json.loads((run / FOLDER / "result.json").read_text("utf-8"))
    assert (stored["hasEvents"], stored["hasSources"], stored["hasTrace"]) == (False, False, False)
    assert "hasLogs" not in stored


def test_the_summary_holds_the_results_in_discovery_order(tmp_path: Path) -> None:
    """Whatever the order in which attempts finished."""
    writer = writer_at(tmp_path)
    attempts = [result(attempt=number) for number in range(3)]
    writer.reserve([name_of(attempt) for attempt in attempts])
    for index in (2, 0, 1):
        writer.submit(sealed(placed_in(writer, attempts[index]), index))
    writer.finish(summary(writer.output_dir))
    stored = json.loads((tmp_path / writer.output_dir / "summary.json").read_text("utf-8"))
    assert [row["attempt"] for row in stored["results"]] == [0, 1, 2]
    assert stored["format"] == "niceeval.results"
    assert stored["outputDir"] == writer.output_dir


def test_a_run_without_attempts_has_a_summary(tmp_path: Path) -> None:
    """With an empty list of results."""
    run = write_run(tmp_path)
    assert json.loads((run / "summary.json").read_text("utf-8"))["results"] == []


def test_nothing_hidden_remains(tmp_path: Path) -> None:
    """Temporary names are gone when the run is finished."""
    run = write_run(tmp_path, result(), result(attempt=1))
    assert not list(run.rglob(".tmp-*"))


def test_two_runs_of_one_millisecond_have_two_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second gets a suffix."""
    monkeypatch.setattr("niceeval._record.layout.run_name", lambda started: "2026-07-02T03-10-24-123Z")
    first, second = writer_at(tmp_path), writer_at(tmp_path)
    first.close()
    second.close()
    assert (first.name, second.name) == ("2026-07-02T03-10-24-123Z", "2026-07-02T03-10-24-123Z-2")


def test_secrets_do_not_reach_the_disk(tmp_path: Path) -> None:
    """In no file, in whatever form; what identifies the attempt stays."""
    secret = 'sk-"quoted"-\u00e9-123'
    stream = encode_events(
        [Message(role="user", text=f"use {secret}"), Message(role="assistant", text=json.dumps(secret))]
    )
    run = write_run(
        tmp_path,
        result(error=f"401 for {secret}", model="gpt-5.4"),
        events=stream,
        redact=Redactor([secret, "gpt-5.4"]),
    )
    for path in run.rglob("*.json"):
        text = path.read_text("utf-8")
        json.loads(text)
        assert "sk-" not in text
    stored = json.loads((run / FOLDER / "result.json").read_text("utf-8"))
    assert stored["error"] == "401 for [redacted]"
    assert stored["model"] == "gpt-5.4"


def test_numbers_that_look_like_a_secret_stay_numbers(tmp_path: Path) -> None:
    """Only texts are changed, so that what is written stays JSON of the same shape."""
    run = write_run(tmp_path, result(duration_ms=1234567890, error="pin 1234567890"), redact=Redactor(["1234567890"]))
    stored = json.loads((run / FOLDER / "result.json").read_text("utf-8"))
    assert (stored["durationMs"], stored["error"]) == (1234567890, "pin [redacted]")


def test_a_lone_surrogate_does_not_stop_the_writer(tmp_path: Path) -> None:
    """It becomes the replacement character."""
    run = write_run(tmp_path, result(error="bad \ud800 text"))
    assert json.loads((run / FOLDER / "result.json").read_text("utf-8"))["error"] == "bad \ufffd text"


def test_a_large_event_stream_has_an_index(tmp_path: Path) -> None:
    """The byte offset of every 200th event."""
    stream = encode_events([Message(role="assistant", text=f"{number:05d}" + "x" * 3000) for number in range(450)])
    run = write_run(tmp_path, result(), events=stream)
    offsets = json.loads((run / FOLDER / "events.idx.json").read_text("utf-8"))
    data = (run / FOLDER / "events.json").read_bytes()
    decoder = json.JSONDecoder()
    starts = [decoder.raw_decode(data[offset : offset + 4000].decode())[0]["text"][:5] for offset in offsets]
    assert starts == ["00000", "00200", "00400"]


def test_a_small_event_stream_has_none(tmp_path: Path) -> None:
    """Nothing is gained by it."""
    assert not list(write_run(tmp_path, result()).rglob("events.idx.json"))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_refused_write_belongs_to_its_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The future fails with `cannot-write`, nothing half-written is visible, and the next attempt is stored."""
    writer = writer_at(tmp_path)
    attempts = [result(), result(attempt=1)]
    writer.reserve([name_of(attempt) for attempt in attempts])
    real = disk.write_file

    def refuse(path: str, data: bytes, *, durable: bool) -> None:
        if "/.tmp-a0/" in path and path.endswith("o11y.json"):
            raise OSError(number, os.strerror(number))
        real(path, data, durable=durable)

    monkeypatch.setattr(disk, "write_file", refuse)
    first = writer.submit(sealed(placed_in(writer, attempts[0]), 0))
    second = writer.submit(sealed(placed_in(writer, attempts[1]), 1))
    with pytest.raises(ResultsError) as caught:
        first.result()
    assert caught.value.code == "cannot-write"
    assert os.strerror(number) in str(caught.value)
    second.result()
    writer.finish(summary(writer.output_dir))
    run = tmp_path / writer.output_dir
    assert [path.name for path in (run / FOLDER).parent.iterdir()] == ["a1"]
    assert len(json.loads((run / "summary.json").read_text("utf-8"))["results"]) == 1


def test_an_unwritable_results_folder_is_said_at_once(tmp_path: Path) -> None:
    """Before anything is run."""
    (tmp_path / ".niceeval").write_text("a file", "utf-8")
    with pytest.raises(ResultsError) as caught:
        writer_at(tmp_path)
    assert caught.value.code == "cannot-write"


def test_folders_removed_while_running_are_made_again(tmp_path: Path) -> None:
    """Somebody may clean up in the middle of a run."""
    writer = writer_at(tmp_path)
    attempts = [result(), result(attempt=1)]
    writer.reserve([name_of(attempt) for attempt in attempts])
    writer.submit(sealed(placed_in(writer, attempts[0]), 0)).result()
    run = tmp_path / writer.output_dir
    (run / "weather").rename(tmp_path / "elsewhere")
    writer.submit(sealed(placed_in(writer, attempts[1]), 1)).result()
    writer.close()
    assert (run / FOLDER).parent.joinpath("a1", "result.json").is_file()


def test_durable_writes_are_synced_before_they_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file of the attempt, before its future is done."""
    synced: list[int] = []
    real = disk.sync
    monkeypatch.setattr(disk, "sync", lambda descriptor: (synced.append(descriptor), real(descriptor))[1])
    writer = writer_at(tmp_path, durable=True)
    writer.reserve([name_of(result())])
    writer.submit(sealed(placed_in(writer, result()))).result()
    assert len(synced) >= 5
    writer.close()


CHILD = """
import sys
from pathlib import Path
from niceeval._record.writer import RunWriter
from tests.unit.record_samples import name_of, placed_in, result, sealed
root = Path(sys.argv[1])
writer = RunWriter(root / ".niceeval", root=root, redact=str)
writer.begin()
attempts = [result(id=f"eval/{number:04d}") for number in range(200)]
writer.reserve([name_of(attempt) for attempt in attempts])
for index, attempt in enumerate(attempts):
    future = writer.submit(sealed(placed_in(writer, attempt), index))
    if index == 20:
        future.result()
        print("started", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_a_killed_run_loses_no_finished_attempt(tmp_path: Path) -> None:
    """Every folder that is visible after kill -9 is complete."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"started\n"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    visible = [path for path in (tmp_path / ".niceeval").rglob("a0") if path.is_dir()]
    assert len(visible) >= 21
    for folder in visible:
        assert {path.name for path in folder.iterdir()} >= {"result.json", "events.json", "sources.json"}
        for path in folder.iterdir():
            json.loads(path.read_text("utf-8"))
