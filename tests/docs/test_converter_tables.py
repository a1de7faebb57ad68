"""The tables of what converters promise, and were tested with, are the ones that the code makes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from scripts.converter_tables import DOCUMENT, converters, document, problems


def test_every_converter_says_what_it_was_tested_with() -> None:
    """All of the ten situations, each tested or with the reason why the protocol has it not."""
    assert problems() == []


def test_the_tables_are_current() -> None:
    """`python scripts/converter_tables.py --write` renews them."""
    text = DOCUMENT.read_text("utf-8")
    assert document(text) == text


SDKS = (
    *("openai", "anthropic", "pydantic_ai", "agents", "langgraph", "langchain_core", "google.adk", "google.genai"),
    *("claude_agent_sdk", "smolagents", "ag_ui", "a2a", "httpx2", "pydantic"),
)


@pytest.mark.slow
def test_no_converter_imports_its_sdk() -> None:
    """Each works on what it is given: importing them all loads none of the SDKs."""
    imports = "\n".join(f"import niceeval.converters.{name}" for name in converters())
    code = f"import sys\n{imports}\nprint([name for name in {SDKS!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
