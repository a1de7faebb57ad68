"""One eval file, unchanged, against all of the command-line agents in one group of experiments."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from niceeval.testing import model_server
from tests.contract.cli_installs import INSTALLS, installed
from tests.contract.cli_rows import CREATE, KEY, KEY_VARIABLE, RECALL
from tests.journey.whole_runs import command, environment, project, summary

pytestmark = pytest.mark.slow

MOST_SECONDS = 1_500
"""The most that the whole run may take; it takes about half a minute on a machine that does nothing else."""

EXPERIMENTS = f"""
import os

from niceeval import define_experiment
from niceeval.adapters import bub_agent, claude_code_agent, codex_agent, gemini_cli_agent, opencode_agent
from niceeval.sandbox import local_sandbox

MODEL = os.environ["MODEL_URL"]
FACTORIES = {{
    "bub": (bub_agent, MODEL + "/v1"),
    "claude-code": (claude_code_agent, MODEL),
    "codex": (codex_agent, MODEL + "/v1"),
    "gemini-cli": (gemini_cli_agent, MODEL),
    "opencode": (opencode_agent, MODEL + "/v1"),
}}
experiments = {{
    name: define_experiment(
        agent=factory(command=os.environ["CLI_" + name], base_url=url, api_key_env="{KEY_VARIABLE}"),
        model="gemini-2.5-flash",
        sandbox=local_sandbox(),
        timeout={MOST_SECONDS},
    )
    for name, (factory, url) in FACTORIES.items()
}}
"""
EVAL = """
from niceeval import define_eval

@define_eval()
async def writes_a_note(t):
    turn = await t.send("SCENARIO:create please")
    turn.succeeded()
    turn.message_includes("Done.")
    t.sandbox.file_changed("note.txt")
    assert await t.sandbox.read_file("note.txt") == "hello\\n"
    again = await t.send("SCENARIO:recall What did I say?")
    again.message_includes("please")
"""


def test_one_eval_file_compares_them_all(tmp_path: Path) -> None:
    """Each passes, with its own version in the results, its tokens, its diff; the summary has a line for each."""
    commands = {f"CLI_{name}": installed(name) for name in INSTALLS}
    project(tmp_path, {"experiments/compare.py": EXPERIMENTS, "evals/note_eval.py": EVAL})
    with model_server(CREATE, RECALL) as server:
        done = subprocess.run(
            command("exp", "compare", short=False),
            cwd=tmp_path,
            env=environment(MODEL_URL=server.url, **{KEY_VARIABLE: KEY}, **commands),
            text=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=MOST_SECONDS,
        )
        assert not server.unscripted, [request.problem for request in server.unscripted]
    assert done.returncode == 0, done.stdout + done.stderr
    results = {one["experimentId"]: one for one in summary(tmp_path)["results"]}
    assert set(results) == {f"compare/{name}" for name in INSTALLS}
    for name, install in INSTALLS.items():
        result = results[f"compare/{name}"]
        assert result["outcome"] == "passed", result
        assert (result["usage"]["inputTokens"], result["usage"]["outputTokens"]) == (300, 60)
        versions = [one for one in result["diagnostics"] if one["code"] == "cli-version"]
        assert [one["data"]["version"] for one in versions] == [install.version]
    stored = [path for path in (tmp_path / ".niceeval").rglob("*") if path.is_file()]
    assert stored
    assert not [path for path in stored if KEY.encode() in path.read_bytes()]
    shown = subprocess.run(
        command("show", short=False), cwd=tmp_path, env=environment(), text=True, capture_output=True, timeout=120
    )
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert [(line[0], line[1], line[3]) for line in lines if line and line[0] in INSTALLS] == [
        (name, "1/1", "1/1") for name in sorted(INSTALLS)
    ]
