"""The documents do what they say: every code block in them is run, and what they show is what comes out.

A document's blocks share one project, in order. How a block is treated:

* first line `# file: PATH`, or the comment `<!-- file: PATH -->` above it: written into the project
* `<!-- eval body -->` above a `python` block: the inside of an eval; all of a document run at its end and must pass
* any other `python` block: run as a script in the project; a `text` block with `<!-- output -->` is what it printed
* `bash` and `console`: `niceeval` and `pytest` commands run in the project, `make` targets and extras must exist; what
  a `console` block shows is compared with stdout. `<!-- exit: N -->` above the block is the exit code of its last
  command
* `text`: for people only

`<!-- project: PATH -->` anywhere starts from a copy of that folder instead of an empty project.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import tomllib
from pathlib import Path

import pytest

from tests.docs.blocks import Block, blocks_of, commands_of, links_of, project_of, shows

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/*.md")])
SCRIPTS = Path(sysconfig.get_path("scripts"))
DATA_LANGUAGES = {"yaml", "json", "toml"}
LANGUAGES = DATA_LANGUAGES | {"python", "bash", "console", "text"}
EVAL_BODY = """\
import re

from niceeval import EvalContext, define_eval
from niceeval.expect import *


@define_eval()
async def body(t: EvalContext) -> None:
"""


class Runner:
    """Runs one document's blocks in one project."""

    def __init__(self, document: Path, project: Path) -> None:
        self.document = document
        self.project = project
        self.bodies = 0
        self.printed = ""
        self.environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
        for name in ("CI", "NICEEVAL_LANG", "FORCE_COLOR"):
            self.environment.pop(name, None)

    def at(self, block: Block) -> str:
        return f"{self.document.relative_to(ROOT)}:{block.line}"

    def treat(self, block: Block) -> None:
        assert block.language in LANGUAGES, f"{self.at(block)}: a block in {block.language or 'no'} language"
        if block.file is not None:
            self.write(block.file, block.text)
        elif block.note == "eval body":
            self.bodies += 1
            self.write(f"evals/docs/line_{block.line}_eval.py", EVAL_BODY + textwrap.indent(block.text, "    "))
        elif block.language == "python":
            self.printed = self.run([sys.executable, "-c", block.text], 0, self.at(block))
        elif block.language in ("bash", "console"):
            self.run_commands(block)
        elif block.note == "output":
            assert shows(self.printed, block.text), f"{self.at(block)} shows other output than:\n{self.printed}"
        else:
            assert block.language == "text", f"{self.at(block)}: data that is no file"

    def write(self, path: str, text: str) -> None:
        target = self.project / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")

    def run_commands(self, block: Block) -> None:
        commands = commands_of(block)
        assert commands, f"{self.at(block)}: no command"
        for number, command in enumerate(commands, 1):
            words = shlex.split(command.command, comments=True)
            if words[0] not in ("niceeval", "pytest"):
                check_command(words, self.at(block))
                continue
            wanted = re.fullmatch(r"exit: (\d+)", block.note) if number == len(commands) else None
            program = [str(SCRIPTS / words[0]), *(self.resolve(word) for word in words[1:])]
            output = self.run(program, int(wanted[1]) if wanted else 0, self.at(block))
            if command.output is not None:
                assert shows(output, command.output), f"{self.at(block)} shows other output than:\n{output}"

    def resolve(self, word: str) -> str:
        """A document's locator is of another run; the first one printed before stands in for it."""
        if re.fullmatch(r"@[a-z2-7]{8}", word):
            found = re.search(r"@[a-z2-7]{8,}", self.printed)
            assert found, f"no locator was printed before {word}"
            return found[0]
        return word

    def run(self, program: list[str], exit_code: int, at: str) -> str:
        done = subprocess.run(
            program,
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
        )
        everything = done.stdout + done.stderr
        assert done.returncode == exit_code, f"{at}: exit code {done.returncode}, not {exit_code}\n{everything}"
        self.printed = done.stdout or done.stderr
        return self.printed

    def run_bodies(self) -> None:
        if self.bodies:
            program = [str(SCRIPTS / "niceeval"), "exp", "compare/concise", "docs"]
            self.run(program, 0, str(self.document.relative_to(ROOT)))


def check_command(words: list[str], at: str) -> None:
    """A command that is not niceeval's is not run; what it relies on has to exist."""
    if words[0] == "make":
        subprocess.run(["make", "--dry-run", "--silent", *words[1:]], cwd=ROOT, check=True, capture_output=True)
    elif words[:2] == ["pip", "install"]:
        declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
        named = {extra for word in words for group in re.findall(r"\[([\w,-]+)\]", word) for extra in group.split(",")}
        assert named <= set(declared), f"{at}: no such extra: {named - set(declared)}"
    elif words[0] in (".venv/bin/python", ".venv/bin/ruff"):
        missing = [word for word in words[1:] if word.endswith(".py") and not (ROOT / word.partition("::")[0]).exists()]
        assert not missing, f"{at}: no such file: {missing}"
    else:
        assert words[0] in ("cd", "git", "python3"), f"{at}: nobody checks `{words[0]}`"


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_code_blocks_do_what_they_say(document: Path, tmp_path: Path) -> None:
    """Each block of the document is run in order, in one project."""
    start = project_of(document)
    project = tmp_path / "project"
    if start is None:
        project.mkdir()
    else:
        shutil.copytree(ROOT / start, project, ignore=shutil.ignore_patterns(".niceeval", "__pycache__"))
    runner = Runner(document, project)
    for block in blocks_of(document):
        runner.treat(block)
    runner.run_bodies()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    """A link to a file of the repository names one that exists."""
    missing = [link for link in links_of(document) if not (document.parent / link).exists()]
    assert missing == []


def test_shown_output_is_compared() -> None:
    """What varies from run to run may differ; anything else may not."""
    shown = "✓ passed  a  @k3f7qm2x\n...\n12s · PASSED\n"
    assert shows("✓ passed   a @aaaabbbb\nx\ny\n340ms · PASSED\n", shown)
    assert not shows("✗ failed   a @aaaabbbb\nx\n340ms · PASSED\n", shown)
    assert not shows("✓ passed   a @aaaabbbb\nx\n340ms · FAILED\n", shown)
    assert not shows("✓ passed   a @aaaabbbb\n340ms · PASSED\nmore\n", shown)
