"""Recordings: what an adapter saw of a real run, gone through again without the run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from niceeval._base.errors import AdapterError
from niceeval.adapter import Agent
from niceeval.adapters import claude_code_agent
from niceeval.testing import check_recording, load_recording

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the scripted CLI is a shell script")

KEY = "sk-test-0123456789abcdef"
STREAM = Path(__file__).parents[1] / "data" / "cli" / "claude_code" / "stream_shell.jsonl"
CLI = """#!/bin/sh
[ "$1" = --version ] && {{ echo "2.1.332 (Claude Code)"; exit 0; }}
cat > /dev/null
echo "the key is $ANTHROPIC_API_KEY" >&2
sed "s|{key}|$ANTHROPIC_API_KEY|" {stream}
"""
EXPERIMENT = """
from niceeval import define_experiment
from niceeval.adapters import claude_code_agent
from niceeval.sandbox import local_sandbox

experiment = define_experiment(agent=claude_code_agent(command={command!r}), model="m", sandbox=local_sandbox())
"""


def stream(tmp_path: Path) -> Path:
    """A real stream of Claude Code, in which the key and this machine's home are said as well."""
    lines = STREAM.read_text("utf-8").splitlines()
    said = {"type": "assistant", "message": {"id": "msg_key", "role": "assistant", "content": []}}
    said["message"]["content"] = [{"type": "text", "text": f"the key is {KEY}, home is {Path.home()}/x"}]  # type: ignore[index]
    place = tmp_path / "stream.jsonl"
    place.write_text("\n".join([*lines[:-1], json.dumps(said), lines[-1], ""]), "utf-8")
    return place


def project(tmp_path: Path) -> Path:
    """A project whose experiment runs a scripted CLI."""
    cli = tmp_path / "claude"
    cli.write_text(CLI.format(stream=stream(tmp_path), key=KEY), "utf-8")
    cli.chmod(0o755)
    root = tmp_path / "project"
    (root / "experiments").mkdir(parents=True)
    (root / "experiments" / "claude.py").write_text(EXPERIMENT.format(command=str(cli)), "utf-8")
    return root


def record(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`niceeval adapter record` in the project."""
    return subprocess.run(
        [sys.executable, "-m", "niceeval", "adapter", "record", *words],
        cwd=root,
        env={**os.environ, "ANTHROPIC_API_KEY": KEY},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def agent(tmp_path: Path) -> Agent:
    return claude_code_agent(command=str(tmp_path / "claude"))


def recorded(tmp_path: Path) -> Path:
    """The folder of a fresh recording."""
    done = record(project(tmp_path), "claude", "--out", "rec", "--prompt", "first", "--prompt", "second")
    assert done.returncode == 0, done.stderr
    return tmp_path / "project" / "rec"


@pytest.mark.slow
def test_a_recording_is_made_by_one_command_and_tested_by_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was recorded is read the same way again: without the CLI, without a key, with the same turns."""
    folder = recorded(tmp_path)
    (tmp_path / "claude").unlink()
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    check_recording(folder, agent(tmp_path))
    found = load_recording(folder)
    assert (found.agent, found.prompts, found.model) == ("claude-code", ("first", "second"), "m")
    assert [turn["status"] for turn in found.turns] == ["completed", "completed"]
    assert found.about["versions"][0]["data"]["version"] == "2.1.332"
    assert any(event["type"] == "action.called" for event in found.turns[0]["events"])
    assert "ANTHROPIC_API_KEY" not in os.environ


@pytest.mark.slow
def test_no_key_and_no_name_of_this_machine_is_kept(tmp_path: Path) -> None:
    """Neither the key, in what the CLI printed, nor the home and the sandbox's folders are in any file."""
    folder = recorded(tmp_path)
    kept = "".join(path.read_text("utf-8") for path in folder.iterdir())
    assert KEY not in kept
    assert f"{Path.home()}/x" not in kept or str(Path.home()) == "/root"
    assert "niceeval-local-" not in "".join(call.about for call in load_recording(folder).calls)
    assert "[redacted]" in kept


@pytest.mark.slow
def test_a_parser_that_reads_it_otherwise_is_found(tmp_path: Path) -> None:
    """Where a turn comes to something else than it did, the difference is named by its place."""
    folder = recorded(tmp_path)
    document = json.loads((folder / "recording.json").read_text("utf-8"))
    document["turns"][1]["status"] = "failed"
    (folder / "recording.json").write_text(json.dumps(document), "utf-8")
    with pytest.raises(AssertionError, match=r'turns\[1\].status: "failed" -> "completed"'):
        check_recording(folder, agent(tmp_path))


@pytest.mark.slow
def test_an_agent_that_asks_for_other_things_has_to_be_recorded_again(tmp_path: Path) -> None:
    """A recording answers only what was asked when it was made."""
    folder = recorded(tmp_path)
    document = json.loads((folder / "recording.json").read_text("utf-8"))
    del document["calls"][1]
    (folder / "recording.json").write_text(json.dumps(document), "utf-8")
    with pytest.raises(AdapterError, match=r"where .* was recorded"):
        check_recording(folder, agent(tmp_path))


ACP = """
import sys

from niceeval import define_experiment
from niceeval.adapters import acp_agent
from niceeval.sandbox import local_sandbox

experiment = define_experiment(agent=acp_agent(command=[sys.executable, {script!r}]), sandbox=local_sandbox())
"""


@pytest.mark.slow
def test_an_agent_that_goes_on_across_turns_is_refused_in_words(tmp_path: Path) -> None:
    """A program that is talked to has no result to record: it is told, and no half recording is left."""
    (tmp_path / "experiments").mkdir()
    script = str(Path(__file__).with_name("acp_script.py"))
    (tmp_path / "experiments" / "acp.py").write_text(ACP.format(script=script), "utf-8")
    done = record(tmp_path, "acp", "--out", "rec", "--prompt", "hello")
    assert (done.returncode, (tmp_path / "rec").exists()) == (1, False)
    assert "goes on across calls cannot be recorded" in done.stderr
    assert "Traceback" not in done.stderr


def test_mistakes_are_answered_before_anything_runs(tmp_path: Path) -> None:
    """An unknown experiment, and a folder that holds something, are errors with what to do."""
    root = project(tmp_path)
    assert "no experiment or group" in record(root, "other", "--out", "rec").stderr
    (root / "rec").mkdir()
    (root / "rec" / "mine.txt").write_text("mine")
    done = record(root, "claude", "--out", "rec")
    assert (done.returncode, (root / "rec" / "mine.txt").read_text()) == (1, "mine")
    assert "is not empty" in done.stderr


@pytest.mark.parametrize("text", [None, "{", '{"format": "other", "schemaVersion": 1}'])
def test_what_is_no_recording_is_told_as_such(tmp_path: Path, text: str | None) -> None:
    """A folder without a recording, or with another's file, is an error that says how to make one."""
    if text is not None:
        (tmp_path / "recording.json").write_text(text)
    with pytest.raises(AdapterError) as caught:
        load_recording(tmp_path)
    assert "record" in caught.value.next_step()
