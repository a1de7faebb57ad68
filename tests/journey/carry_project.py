"""A project that is run again and again in this process, and what each run came to."""

from __future__ import annotations

import importlib
import re
import shutil
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from niceeval._cli.main import entry
from tests.journey.whole_runs import summary
from tests.unit.project_files import write_files

BOT = """
import time

from adapters import prices
from niceeval.adapter import Message, Turn, Usage, complete_evidence_coverage, define_agent

def bot(manner="calm", **more):
    def send(input, ctx):
        with open("calls.txt", "a") as calls:
            calls.write(f"{ctx.experiment_id} {ctx.eval_id} {ctx.attempt}\\n")
        if input.text == "fail":
            return Turn(status="failed")
        if input.text == "slow":
            time.sleep(0.05)
        if input.text == "raise":
            raise ValueError("down")
        return Turn(events=[Message(role="assistant", text="hello")], usage=Usage(cost_usd=prices.OF_A_TURN))
    return define_agent(name="bot", evidence_coverage=complete_evidence_coverage, send=send, **more)
"""

PRICES = "OF_A_TURN = 0.001\n"


@dataclass(frozen=True)
class Ran:
    """One run: what the agent was called for, its stored results, and what was printed.

    `results` is (experiment, eval, attempt) -> result.
    """

    code: int
    calls: tuple[tuple[str, str, int], ...]
    summary: Mapping[str, Any]
    out: str
    err: str

    @property
    def results(self) -> dict[tuple[str, str, int], dict[str, Any]]:
        return {(one["experimentId"], one["id"], one["attempt"]): one for one in self.summary["results"]}

    @property
    def carried(self) -> int:
        return sum("carriedFrom" in one for one in self.summary["results"])

    @property
    def attempts(self) -> Counter[str]:
        """How many attempts of each eval the agent was called for."""
        return Counter(eval_id for _, eval_id, _ in self.calls)


class CarryProject:
    """Commands in one project folder; a change to a file counts at once."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self._capsys = capsys

    def write(self, files: Mapping[str, str]) -> None:
        """Write files."""
        write_files(self.root, files)

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace a text, which must be there once."""
        file = self.root / path
        text = file.read_text("utf-8")
        assert text.count(old) == 1, f"{old!r} in {path}"
        file.write_text(text.replace(old, new), "utf-8")

    def say(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command line; exit code, stdout, stderr."""
        forget_project_modules()
        code = entry(list(arguments))
        captured = self._capsys.readouterr()
        assert "Traceback" not in captured.out + captured.err, captured.err
        return code, captured.out, captured.err

    def run(self, *arguments: str) -> Ran:
        """`niceeval exp`."""
        before = len(self._calls())
        code, out, err = self.say("exp", *arguments)
        calls = tuple(self._calls()[before:])
        return Ran(code, calls, summary(self.root), out, err)

    def plan(self, *arguments: str) -> list[tuple[str, str, str, str]]:
        """`niceeval exp --dry`: action, eval, attempts and reason of each line, without locators."""
        _, out, _ = self.say("exp", *arguments, "--dry")
        return [line for line in map(_plan_line, out.splitlines()) if line is not None]

    def reasons(self, *arguments: str) -> Counter[tuple[str, str]]:
        """How many lines of the plan have each action and reason."""
        return Counter((action, reason) for action, _, _, reason in self.plan(*arguments))

    def runs(self) -> Sequence[Path]:
        """The run folders, oldest first."""
        return sorted(path for path in (self.root / ".niceeval").iterdir() if not path.name.startswith("."))

    def _calls(self) -> list[tuple[str, str, int]]:
        path = self.root / "calls.txt"
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        return [(words[0], words[1], int(words[2])) for words in map(str.split, lines)]


def _plan_line(line: str) -> tuple[str, str, str, str] | None:
    found = re.fullmatch(
        r"  (?:↺ )?(run|carry|skip) +(\S+) +([\d-]+)  (.*?)(?:, (?:@[a-z2-7]+ ?)+(?:\+ \d+ more)?)?", line
    )
    return None if found is None else (found[1], found[2], found[3], found[4])


def forget_project_modules() -> None:
    """Let imports look again: files have changed, or belong to another project."""
    for name in list(sys.modules):
        if name.partition(".")[0] in ("adapters", "evals", "experiments", "library"):
            del sys.modules[name]
    importlib.invalidate_caches()


def enter(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CarryProject:
    """Work in a project folder from now on."""
    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, "path", list(sys.path))
    # A file that changes twice within a second, and keeps its size, would be taken for the same.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return CarryProject(root, capsys)


def copied(source: Path, target: Path) -> None:
    """The project with its results."""
    shutil.copytree(source, target, dirs_exist_ok=True)
