"""The table of docs/coding-agents.md that says what is collected of each command-line agent, made from the code.

python scripts/evidence_table.py            prints it
python scripts/evidence_table.py --write    puts it into the document
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).parents[1] / "docs" / "coding-agents.md"
BEGIN = "<!-- evidence table: made by scripts/evidence_table.py -->"
END = "<!-- evidence table: end -->"
AGENTS = {
    "Claude Code": "claude_code",
    "Codex": "codex",
    "Bub": "bub",
    "opencode": "opencode",
    "Gemini CLI": "gemini_cli",
    "any agent over ACP": "acp",
}
"""How the agent is called -> its package in `niceeval.adapters`."""


def table() -> str:
    """The table: a row for each agent, a column for each channel; below it what the numbers stand for."""
    notes: list[str] = []
    rows = []
    for shown, package in AGENTS.items():
        module = importlib.import_module(f"niceeval.adapters.{package}.agent")
        channels = module.coverage.items()
        rows.append([shown, *(_cell(channel, said, module.LOWERED, notes) for channel, said in channels)])
    heads = ["", *(channel for channel, _ in channels)]
    lines = [_line(heads), "|" + "---|" * len(heads), *map(_line, rows), ""]
    return "\n".join([*lines, *(f"{number}. {note}" for number, note in enumerate(notes, 1))])


def _cell(channel: str, said: Any, lowered: Mapping[str, str], notes: list[str]) -> str:
    found = [said.reason] if said.reason else []
    if channel in lowered:
        found.append(f"less in {lowered[channel]}")
    for note in found:
        if note not in notes:
            notes.append(note)
    marks = ", ".join(str(notes.index(note) + 1) for note in found)
    return f"{said.level} ({marks})" if marks else said.level


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def document(text: str) -> str:
    """The document with the table in its place."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def main() -> None:
    """See the module."""
    if "--write" in sys.argv[1:]:
        DOCUMENT.write_text(document(DOCUMENT.read_text("utf-8")), "utf-8")
    else:
        print(table())


if __name__ == "__main__":
    main()
