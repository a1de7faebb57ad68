"""`niceeval init`: a project that runs green at once, and the managed block for coding agents. Overwrites nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import click

from niceeval._base.errors import ResultsError, SelectionError
from niceeval._base.places import current_folder
from niceeval._cli.exit_codes import PASSED
from niceeval._cli.scaffold import BEGIN, BLOCK, END, FILES, IGNORED
from niceeval._cli.streams import Streams
from niceeval._discover.project import find_root


@dataclass(slots=True)
class _Report:
    """What was done with each file."""

    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        groups = (("created", self.created), ("updated", self.updated), ("kept", self.kept))
        return [f"{word:<8} {' '.join(names)}" for word, names in groups if names]


@click.command("init", add_help_option=False)
def init_command() -> int:
    """Scaffold the project around the current folder, or a new one in it."""
    streams = Streams.standard()
    report = scaffold(_root())
    streams.say(*(streams.out_style.clean(line) for line in report.lines()), "next: niceeval exp")
    return PASSED


def _root() -> Path:
    try:
        return find_root(current_folder())
    except SelectionError:
        return current_folder()


def scaffold(root: Path) -> _Report:
    """Write what is missing. A project that has evals or experiments gets no example files.

    Raises ResultsError (`cannot-write`).
    """
    report = _Report()
    if not _has_content(root):
        for name, content in FILES.items():
            _create(root, name, content, report)
    _edit(root, ".gitignore", _with_ignored, report, create=True)
    _edit(root, "AGENTS.md", _with_block, report, create=True)
    _edit(root, "CLAUDE.md", _with_block, report, create=False)
    return report


def _has_content(root: Path) -> bool:
    return any((root / "evals").rglob("*_eval.py")) or any((root / "experiments").rglob("*.py"))


def _create(root: Path, name: str, content: str, report: _Report) -> None:
    path = root / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "x", encoding="utf-8", newline="\n") as file:
            file.write(content)
    except FileExistsError:
        report.kept.append(f"{name} (exists)")
    except OSError as error:
        raise _cannot_write(name, error) from error
    else:
        report.created.append(name)


def _edit(root: Path, name: str, change: Callable[[str], str | None], report: _Report, *, create: bool) -> None:
    """Change a text file that may be the user's; `change` gives None where it must be left alone."""
    path = root / name
    if not path.exists():
        if create:
            _create(root, name, change("") or "", report)
        return
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        report.kept.append(f"{name} (is not UTF-8 text)")
        return
    ending = "\r\n" if "\r\n" in text else "\n"
    changed = change(text.replace("\r\n", "\n"))
    if changed is None:
        report.kept.append(f"{name} (its niceeval marks do not pair)")
    elif changed.replace("\n", ending) == text:
        report.kept.append(f"{name} (is current)")
    else:
        _replace(path, name, changed.replace("\n", ending))
        report.updated.append(f"{name} (managed block)" if change is _with_block else name)


def _with_ignored(text: str) -> str:
    known = {line.strip().strip("/") for line in text.splitlines()}
    missing = [entry for entry in IGNORED if entry.strip("/") not in known]
    gap = "" if not text or text.endswith("\n") else "\n"
    return text + gap + "".join(f"{entry}\n" for entry in missing) if missing else text


def _with_block(text: str) -> str | None:
    """The text with the block as it is now: in the place of the old one, else at the end."""
    # Only how a mark begins is compared, so that its words may change from one version to the next.
    begin, end = text.find(BEGIN.partition(" (")[0]), text.find(END)
    if begin < 0 and end < 0:
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        return text + gap + BLOCK
    if begin < 0 or end < begin or text.count(END) > 1:
        return None
    return text[:begin] + BLOCK.rstrip("\n") + text[end + len(END) :]


def _replace(path: Path, name: str, text: str) -> None:
    """Write a file whole or not at all; a link stays a link, and permissions stay."""
    target = os.path.realpath(path)
    try:
        descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(target))
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            shutil.copymode(target, temporary)
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise _cannot_write(name, error) from error


def _cannot_write(name: str, error: OSError) -> ResultsError:
    return ResultsError("cannot-write", path=name, problem=error.strerror or str(error))
