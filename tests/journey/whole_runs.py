"""Whole runs as processes: a project made of text, `niceeval exp` on it, and what it left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.unit.project_files import write_files

ROOT = Path(__file__).parents[2]
SHORT_LIMITS = Path(__file__).with_name("short_limits.py")
PATIENCE = 60.0
"""Seconds after which a run is taken to hang for good; no test expects to come near."""


@dataclass(frozen=True)
class Done:
    """One run that has ended. `results` are those of `summary.json`, by (experiment id, eval id, attempt)."""

    root: Path
    code: int
    out: str
    err: str
    seconds: float
    summary: dict[str, Any]
    results: dict[tuple[str, str, int], dict[str, Any]]

    def result(self, eval_id: str, experiment: str | None = None, attempt: int = 0) -> dict[str, Any]:
        """The only result of an eval (under an experiment)."""
        (found,) = [
            result
            for (experiment_id, other, number), result in self.results.items()
            if other == eval_id and number == attempt and experiment in (None, experiment_id)
        ]
        return found

    def error(self, eval_id: str, experiment: str | None = None) -> tuple[str | None, str | None, str]:
        """Code, phase and message of what made the eval's attempt errored."""
        info = self.result(eval_id, experiment).get("errorInfo", {})
        return info.get("code"), info.get("phase"), info.get("message", "")

    def diagnostics(self, eval_id: str, experiment: str | None = None) -> dict[str, str]:
        """The attempt's diagnostics: code -> message."""
        return {one["code"]: one["message"] for one in self.result(eval_id, experiment).get("diagnostics", [])}


def environment(**more: str) -> dict[str, str]:
    """The process's own, without what would change how niceeval writes."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("NICEEVAL_", "FORCE_COLOR", "CI"))}
    return {**kept, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), **more}


def command(*arguments: str, short: bool = True) -> list[str]:
    """The command line; `short` runs it with the limits of `short_limits.py`."""
    return [sys.executable, *([str(SHORT_LIMITS)] if short else ["-m", "niceeval"]), *arguments]


def start(root: Path, *arguments: str, short: bool = True, **options: Any) -> subprocess.Popen[str]:
    """Begin a run without waiting for it."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **options}
    line = command("exp", *arguments, short=short)
    return subprocess.Popen(line, cwd=root, env=environment(), text=True, errors="replace", **options)


def finish(process: subprocess.Popen[str], root: Path, *, started: float | None = None) -> Done:
    """Wait for a run and read what it left."""
    began = time.monotonic() if started is None else started
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"the run did not end\n{out}\n{err}") from None
    seconds = time.monotonic() - began
    found = summary(root)
    results = {(one["experimentId"], one["id"], one["attempt"]): one for one in found.get("results", [])}
    return Done(root=root, code=process.returncode, out=out, err=err, seconds=seconds, summary=found, results=results)


def run(root: Path, *arguments: str, short: bool = True) -> Done:
    """A whole run."""
    started = time.monotonic()
    return finish(start(root, *arguments, short=short), root, started=started)


def run_folder(root: Path) -> Path:
    """The folder of the project's latest run."""
    return max((root / ".niceeval").glob("2*"))


def summary(root: Path) -> dict[str, Any]:
    """The latest run's `summary.json`; empty where there is none."""
    found: dict[str, Any] = {}
    for path in sorted((root / ".niceeval").glob("2*")):
        found = json.loads((path / "summary.json").read_text("utf-8")) if (path / "summary.json").exists() else {}
    return found


def project(root: Path, files: Mapping[str, str]) -> Path:
    """Write the project's files below `root`."""
    write_files(root, files)
    return root


def wait_for(condition: Any, seconds: float = 20.0) -> None:
    """Wait until `condition()` is true."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "what was waited for did not happen"
        time.sleep(0.01)
