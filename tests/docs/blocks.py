"""Code blocks of a Markdown file, and what has to be done with each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^(?P<fence>`{3,})(?P<language>[\w-]*)\s*$")
COMMENT = re.compile(r"^<!--\s*(?P<text>.*?)\s*-->$")
FILE_LINE = re.compile(r"^(?:#|//)\s*file:\s*(?P<path>\S+)\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block: `note` is the HTML comment directly above it, `line` its first line of content, from 1."""

    language: str
    text: str
    line: int
    note: str

    @property
    def file(self) -> str | None:
        """The file that this block is the content of, said in its first line or in the comment above it."""
        if self.note.startswith("file:"):
            return self.note.removeprefix("file:").strip()
        match = FILE_LINE.match(self.text.partition("\n")[0])
        return match["path"] if match else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of a console block and the output that is shown below it (None where none is)."""

    command: str
    output: str | None


def blocks_of(document: Path) -> list[Block]:
    """Every fenced block. Raises ValueError for a fence that is never closed."""
    blocks: list[Block] = []
    opened: tuple[str, str, int] | None = None
    content: list[str] = []
    note = ""
    for number, line in enumerate(document.read_text("utf-8").splitlines(), 1):
        if opened is None:
            if match := FENCE.match(line):
                opened, content = (match["fence"], match["language"], number + 1), []
            elif line.strip():
                comment = COMMENT.match(line.strip())
                note = comment["text"] if comment else ""
        elif line.strip() == opened[0]:
            text = "".join(f"{one}\n" for one in content)
            blocks.append(Block(language=opened[1], text=text, line=opened[2], note=note))
            opened, note = None, ""
        else:
            content.append(line)
    if opened is not None:
        raise ValueError(f"{document.name}:{opened[2] - 1}: this fence is never closed")
    return blocks


def project_of(document: Path) -> str | None:
    """The folder that a document's commands run in a copy of, from `<!-- project: PATH -->`; None for an empty one."""
    match = re.search(r"^<!--\s*project:\s*(\S+)\s*-->$", document.read_text("utf-8"), re.M)
    return match[1] if match else None


def links_of(document: Path) -> list[str]:
    """Targets of links and pictures that are files of this repository."""
    targets = re.findall(r"\]\(([^)\s]+)\)", document.read_text("utf-8"))
    return [target.partition("#")[0] for target in targets if not re.match(r"^(https?:|mailto:|#)", target)]


def commands_of(block: Block) -> list[Command]:
    """`bash` blocks have a command a line; `console` blocks `$ command` lines with the output below."""
    if block.language == "bash":
        lines = [line for line in block.text.splitlines() if line.strip() and not line.startswith("#")]
        return [Command(command=line.strip(), output=None) for line in lines]
    commands: list[Command] = []
    for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        commands.append(Command(command=command.strip(), output=output if output.strip() else None))
    return commands


_VARYING = [
    (re.compile(r"@[a-z2-7]{4,}"), "@LOCATOR"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z"), "RUN"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"), "INSTANT"),
    (re.compile(r"\b(?:\d+h \d\dm|\d+m \d\ds|\d+(?:\.\d+)?m?s)(?![\w.])"), "TIME"),
    (re.compile(r"\b\d+[smhd] ago\b|\bnow\b|\bjust now\b"), "AGE"),
    (re.compile(r"[ \t]+"), " "),
]


def stable(text: str) -> list[str]:
    """Lines with what differs from run to run (locators, run names, times, padding) replaced; empty lines left out."""
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def shows(output: str, shown: str) -> bool:
    """Whether `output` is what a document shows; a shown line `...` stands for any lines."""
    parts: list[str] = []
    for line in stable(shown):
        parts.append(r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n")
    return re.fullmatch("".join(parts), "".join(f"{line}\n" for line in stable(output))) is not None
