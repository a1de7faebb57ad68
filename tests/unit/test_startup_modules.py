"""What starting loads: counted, since a module is what startup time is made of and a count is the same everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
NOT_FOR_HELP = (
    "httpx",
    "httpx2",
    "requests",
    "starlette",
    "uvicorn",
    "jinja2",
    "rich",
    "yaml",
    "jsonschema",
    "pydantic",
    "asyncio",
)

REPORT = """
import sys
before = set(sys.modules)
{code}
print(*sorted(set(sys.modules) - before), file=sys.stderr)
"""
HELP = """
from niceeval._cli.main import entry
entry(["--help"])
"""


def modules_loaded_by(code: str) -> set[str]:
    """The names of the modules that a fresh interpreter loads for it."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT.format(code=code)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.split())


@pytest.mark.parametrize(
    ("code", "most"),
    [
        ("import niceeval", 20),
        ("from niceeval import define_eval", 80),
        ("from niceeval import define_eval, define_experiment", 120),
    ],
)
def test_importing_what_authors_use_loads_few_modules(code: str, most: int) -> None:
    """An import that grows is noticed here, not by those who wait for it."""
    loaded = modules_loaded_by(code)
    assert "niceeval" in loaded
    assert len(loaded) <= most, sorted(loaded)


def test_help_loads_nothing_that_only_a_run_needs() -> None:
    """`niceeval --help` answers without an HTTP client, a web server, a renderer, a parser or an event loop."""
    loaded = modules_loaded_by(HELP)
    assert "niceeval._cli.main" in loaded
    assert loaded.isdisjoint(NOT_FOR_HELP)
