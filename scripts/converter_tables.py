"""The tables of docs/converters.md: what each converter promises, and what it was tested with. Made from the code.

python scripts/converter_tables.py            prints them
python scripts/converter_tables.py --write    puts them into the document

Every public module of `niceeval.converters` is a converter.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import niceeval.converters
from niceeval.adapter import EvidenceCoverage

DOCUMENT = Path(__file__).parents[1] / "docs" / "converters.md"
TESTED = "tested"
SITUATIONS = (
    "success",
    "tool failure",
    "refusal by a human",
    "parallel tools",
    "nested agent",
    "empty answer",
    "multi-part content",
    "structured output",
    "cached and reasoning tokens",
    "error mid-stream",
)
"""What every converter says of itself that it was tested with, or why its protocol has it not."""


def converters() -> dict[str, Any]:
    """The modules, by name."""
    names = [found.name for found in pkgutil.iter_modules(niceeval.converters.__path__)]
    public = sorted(name for name in names if not name.startswith("_"))
    return {name: importlib.import_module(f"niceeval.converters.{name}") for name in public}


def problems() -> list[str]:
    """What a converter lacks for the tables, one sentence each."""
    found = []
    for name, module in converters().items():
        situations = getattr(module, "situations", {})
        if tuple(situations) != SITUATIONS:
            found.append(f"{name}: situations are not these, in this order: {', '.join(SITUATIONS)}")
        if not all(isinstance(said, str) and said.strip() for said in situations.values()):
            found.append(f"{name}: a situation has neither {TESTED!r} nor a reason")
        if not isinstance(getattr(module, "coverage", None), EvidenceCoverage):
            found.append(f"{name}: no coverage")
        if not callable(getattr(module, "to_turn", None)):
            found.append(f"{name}: no to_turn")
    return found


def coverage_table() -> str:
    """A row for each converter, a column for each channel; below it the reasons."""
    modules = converters()
    rows = {name: module.coverage.items() for name, module in modules.items()}
    heads = [channel for channel, _ in next(iter(rows.values()))]
    cells = {name: [(said.level, said.reason) for _, said in row] for name, row in rows.items()}
    return _table(heads, cells)


def situations_table() -> str:
    """A row for each converter, a column for each situation; below it the reasons."""
    cells = {
        name: [(TESTED, None) if said == TESTED else ("no", said) for said in module.situations.values()]
        for name, module in converters().items()
    }
    return _table(SITUATIONS, cells)


def _table(heads: Sequence[str], rows: dict[str, list[tuple[str, str | None]]]) -> str:
    notes: list[str] = []
    lines = [_line(["", *heads]), "|" + "---|" * (len(heads) + 1)]
    for name, cells in rows.items():
        shown = []
        for word, note in cells:
            if note is not None and note not in notes:
                notes.append(note)
            shown.append(word if note is None else f"{word} ({notes.index(note) + 1})")
        lines.append(_line([f"`{name}`", *shown]))
    return "\n".join([*lines, "", *(f"{number}. {note}" for number, note in enumerate(notes, 1))])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


TABLES: dict[str, Callable[[], str]] = {"coverage": coverage_table, "situations": situations_table}
"""Each table, by the name that its place in the document has."""


def document(text: str) -> str:
    """The document with the tables in their places."""
    for name, table in TABLES.items():
        begin = f"<!-- {name} table: made by scripts/converter_tables.py -->"
        end = f"<!-- {name} table: end -->"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n\n{table()}\n\n{end}{after}"
    return text


def main() -> None:
    """See the module."""
    if wrong := problems():
        sys.exit("\n".join(wrong))
    if "--write" in sys.argv[1:]:
        DOCUMENT.write_text(document(DOCUMENT.read_text("utf-8")), "utf-8")
    else:
        print("\n\n".join(table() for table in TABLES.values()))


if __name__ == "__main__":
    main()
