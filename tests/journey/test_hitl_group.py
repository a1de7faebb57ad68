"""A human in the loop, over many adapters: one file of evals, one group of experiments, one way to answer."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

from tests.journey.hitl_desk import DESKS
from tests.journey.whole_runs import command, environment, project, summary

pytestmark = pytest.mark.slow

NEEDS = {
    "google_adk": "google.adk",
    "langgraph": "langchain",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "ag_ui": "ag_ui",
    "ui_message_stream": "pydantic_ai",
}
"""The package that a desk is made with; the others need none."""
EVALS = """
import re

from niceeval import define_eval


async def asked(t, *paths):
    turn = await t.send("delete " + " ".join(paths))
    turn.parked()
    turn.not_called_tool("delete", status="completed").optional()
    return [t.require_input_request(action="delete", input={"path": path}) for path in paths]


@define_eval()
async def approve(t):
    (request,) = await asked(t, "a")
    assert sorted(option.id for option in request.options) == ["approve", "reject"]
    turn = await t.respond("approve")
    turn.succeeded()
    turn.message_includes("a is gone")
    t.called_tool("delete", input={"path": "a"}, output=re.compile("a is gone"), count=1).optional()


@define_eval()
async def reject(t):
    await asked(t, "a")
    turn = await t.respond("reject")
    turn.succeeded()
    turn.message_includes("So: ")
    assert "is gone" not in turn.message
    t.called_tool("delete", input={"path": "a"}, status="rejected").optional()


@define_eval()
async def say_why(t):
    await asked(t, "a")
    turn = await t.respond(text="not before Friday")
    turn.succeeded()
    assert "is gone" not in turn.message
    t.called_tool("delete", input={"path": "a"}, status="rejected").optional()


@define_eval()
async def two_at_once(t):
    first, second = await asked(t, "a", "b")
    turn = await t.respond(first.choose("approve"), second.choose("reject"))
    turn.succeeded()
    turn.message_includes("a is gone")
    assert "b is gone" not in turn.message


@define_eval()
async def goes_on(t):
    await asked(t, "a")
    await t.respond("approve")
    await asked(t, "b")
    turn = await t.respond("approve")
    turn.message_includes("b is gone")
"""
EXPERIMENT = """
from niceeval import define_experiment
from tests.journey.hitl_desk import DESKS

experiment = define_experiment(agent=DESKS["{name}"]())
"""
LIMIT = 600
"""Seconds that the whole group may take: a busy machine needs a minute to load eight SDKs."""


def test_one_file_of_evals_asks_and_answers_over_every_adapter(tmp_path: Path) -> None:
    """Approve, reject, say why, two at once, and again in the same conversation: the same evals, unchanged, for all."""
    there = [name for name in DESKS if name not in NEEDS or importlib.util.find_spec(NEEDS[name].split(".")[0])]
    assert len(there) >= 5 or pytest.skip("SDKs of frameworks are not installed: make install")
    files = {f"experiments/hitl/{name}.py": EXPERIMENT.format(name=name) for name in there}
    project(tmp_path, {**files, "evals/hitl_eval.py": EVALS})
    line = command("exp", "hitl", "--max-concurrency", "2", short=False)
    ran = subprocess.run(line, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=LIMIT)
    results = summary(tmp_path).get("results", [])
    outcomes = {(one["experimentId"], one["id"]): one["outcome"] for one in results}
    names = ("approve", "reject", "say_why", "two_at_once", "goes_on")
    assert outcomes == {(f"hitl/{name}", f"hitl/{one}"): "passed" for name in there for one in names}, (
        ran.stdout + ran.stderr
    )
    assert ran.returncode == 0
