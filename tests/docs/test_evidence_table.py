"""The table of what is collected of command-line agents is the one that the code makes."""

from __future__ import annotations

from scripts.evidence_table import DOCUMENT, document


def test_the_table_is_current() -> None:
    """`python scripts/evidence_table.py --write` renews it."""
    text = DOCUMENT.read_text("utf-8")
    assert document(text) == text
