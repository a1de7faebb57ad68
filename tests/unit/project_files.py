"""Projects made of text, for tests of discovery, planning and the command line."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from niceeval._discover.project import load_project
from niceeval._discover.specs import Project

AGENT = """
from niceeval.adapter import Turn, complete_evidence_coverage, define_agent, define_sandbox_agent

def send(input, ctx):
    return Turn()

def bot(name="bot"):
    return define_agent(name=name, evidence_coverage=complete_evidence_coverage, send=send)

def boxed():
    return define_sandbox_agent(name="boxed", evidence_coverage=complete_evidence_coverage, send=send)
"""

EXPERIMENT = """
from adapters.bots import bot
from niceeval import define_experiment

experiment = define_experiment(agent=bot())
"""

EVAL = """
from niceeval import define_eval

@define_eval()
async def one(t):
    pass
"""


def write_files(root: Path, files: Mapping[str, str]) -> None:
    """Write each text, without its common indentation, below `root`."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"), "utf-8")


def forget_adapters() -> None:
    """Let `import adapters...` look again: the project before had modules of the same names."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "adapters"]:
        del sys.modules[name]
    importlib.invalidate_caches()


def load_files(root: Path, monkeypatch: pytest.MonkeyPatch, files: Mapping[str, str]) -> Project:
    """The project of these files (with `adapters/bots.py`), loaded from its root."""
    write_files(root, {"adapters/bots.py": AGENT, **files})
    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, "path", list(sys.path))
    forget_adapters()
    return load_project(root)
