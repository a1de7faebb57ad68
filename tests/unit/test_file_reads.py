"""Which opened files are noted as read by the project, for whom, and what is never noted."""

from __future__ import annotations

import contextvars
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from niceeval._base import file_reads
from niceeval._base.file_reads import MAX_READS, AttemptReads, Digests, FileReads, read_changes
from tests.unit.project_files import write_files

FILES = {
    "prompts/system.txt": "Be kind.",
    "other.txt": "",
    ".env": "KEY=1",
    ".git/HEAD": "main",
    ".niceeval/run/result.json": "{}",
    "venv/lib/some.txt": "",
    "lib/code.py": "",
    "a.txt": "a",
    "b.txt": "b",
    **{f"many/{number}.txt": "" for number in range(MAX_READS + 50)},
}
CODE = """
import os
from pathlib import Path

def read(path):
    with open(path) as file:
        return file.read()

def write(path, text):
    Path(path).write_text(text)
"""
Functions = dict[str, Callable[..., Any]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project's folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    write_files(folder, FILES)
    return folder


@pytest.fixture
def watching(root: Path, monkeypatch: pytest.MonkeyPatch) -> FileReads:
    """What is noted of it; its root is the current folder."""
    monkeypatch.chdir(root)
    return file_reads.watch(root)


def _run(root: Path, source: str, file: str = "bots.py") -> Functions:
    """Run source as a module of the project."""
    module: Functions = {}
    exec(compile(source, str(root / file), "exec"), module)
    return module


def _attempt(root: Path, function: Callable[[], object], pair: tuple[str, str] = ("local", "a")) -> AttemptReads:
    """Call it as one attempt."""

    def call() -> AttemptReads:
        reads = file_reads.begin_attempt(pair)
        function()
        return reads

    return contextvars.copy_context().run(call)


def _read_at_load(watching: FileReads, source: str) -> list[str]:
    _run(watching.root, source)
    return list(watching.loaded_by({"bots.py"}))


@pytest.mark.parametrize(
    ("source", "noted"),
    [
        ('open("prompts/system.txt")', ["prompts/system.txt"]),
        ('open("prompts/../prompts//./system.txt")', ["prompts/system.txt"]),
        ('open(b"prompts/system.txt", "rb")', ["prompts/system.txt"]),
        ('import pathlib; pathlib.Path("prompts/system.txt").read_bytes()', ["prompts/system.txt"]),
        ('import os; os.close(os.open(os.path.abspath("other.txt"), os.O_RDONLY))', ["other.txt"]),
        ('open(os.open("other.txt", 0)) if (os := __import__("os")) else 0', ["other.txt"]),
        ('open("lib/code.py")', ["lib/code.py"]),
        ('open("other.txt", "r+")', []),
        ('open("other.txt", "a"); open("other.txt")', []),
        ('import os; os.close(os.open(".", os.O_RDONLY))', []),
        ('open(".env"); open(".git/HEAD"); open(".niceeval/run/result.json"); open("venv/lib/some.txt")', []),
        ('open(__import__("sys").executable, "rb")', []),
        ("import lib.code", []),
        ("try:\n    open('none.txt')\nexcept OSError:\n    pass", []),
        ("try:\n    open('nul\\0l')\nexcept ValueError:\n    pass", []),
        ("try:\n    open('\\udcff')\nexcept OSError:\n    pass", []),
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_is_noted_of_a_module_that_is_loaded(
    watching: FileReads, monkeypatch: pytest.MonkeyPatch, source: str, noted: list[str]
) -> None:
    """Files of the project that exist and are opened to be read."""
    monkeypatch.syspath_prepend(watching.root)
    assert _read_at_load(watching, source) == noted


def test_what_others_open_is_not_the_projects(watching: FileReads) -> None:
    """niceeval's own files, and those of code outside the project."""
    Path("other.txt").read_text()
    assert _read_at_load(watching, "") == []


def test_what_is_loaded_belongs_to_those_the_module_is_part_of(watching: FileReads) -> None:
    """A helper's caller depends on what it read for it, and not on what it read for another."""
    read = _run(watching.root, CODE, "lib/texts.py")["read"]
    for name in ("a", "b"):
        exec(compile(f"read('{name}.txt')", str(watching.root / f"{name}.py"), "exec"), {"read": read})
    assert list(watching.loaded_by({"a.py", "lib/texts.py"})) == ["a.txt"]
    assert list(watching.loaded_by({"b.py", "lib/texts.py"})) == ["b.txt"]
    assert list(watching.loaded_by({"c.py", "lib/texts.py"})) == ["a.txt", "b.txt"]
    assert list(watching.loaded_by({"c.py"})) == []


def test_what_an_attempt_reads_is_its_own(watching: FileReads) -> None:
    """Also on threads that have its context, and although no frame of the project is there."""
    watching.end_loading()
    read = _run(watching.root, CODE)["read"]

    def work() -> None:
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(Path("other.txt").read_text,))
        thread.start()
        thread.join()

    first = _attempt(watching.root, lambda: read("prompts/system.txt"))
    second = _attempt(watching.root, work)
    assert list(watching.of(first, {"bots.py"})) == ["prompts/system.txt"]
    assert list(watching.of(second, frozenset())) == ["other.txt"]


def test_what_was_kept_in_memory_counts_for_those_who_may_use_it(watching: FileReads) -> None:
    """Not for those that are made of other code, or have read in that way themselves."""
    watching.end_loading()
    read = _run(watching.root, CODE)["read"]
    _attempt(watching.root, lambda: read("prompts/system.txt"))
    later = _attempt(watching.root, lambda: None, ("local", "b"))
    assert list(watching.of(later, {"bots.py"})) == ["prompts/system.txt"]
    assert list(watching.of(later, {"elsewhere.py"})) == []
    itself = _attempt(watching.root, lambda: read("other.txt"), ("local", "c"))
    assert list(watching.of(itself, {"bots.py"})) == ["other.txt"]


def test_what_a_thread_without_context_reads_counts_for_all(watching: FileReads) -> None:
    """It may have read it for any of them."""
    watching.end_loading()
    read = _run(watching.root, CODE)["read"]
    thread = threading.Thread(target=read, args=("other.txt",))
    thread.start()
    thread.join()
    attempt = _attempt(watching.root, lambda: None)
    assert list(watching.of(attempt, {"bots.py"})) == ["other.txt"]


def test_what_is_asked_apart_counts_for_nobody(watching: FileReads) -> None:
    """Not even where it is read once and kept."""
    watching.end_loading()
    read = _run(watching.root, CODE)["read"]
    with file_reads.unnoted():
        read("other.txt")
    assert watching.of(_attempt(watching.root, lambda: None), {"bots.py"}) == {}


def test_a_file_that_changes_while_it_is_read_never_stands(watching: FileReads) -> None:
    """Nobody knows which of the two it was; but one that the project writes itself is no input."""
    watching.end_loading()
    code = _run(watching.root, CODE)

    def work(change: Callable[[], object]) -> Callable[[], None]:
        def twice() -> None:
            code["read"]("other.txt")
            change()
            code["read"]("other.txt")

        return twice

    by_another = [sys.executable, "-c", "open('other.txt', 'w').write('changed')"]
    unsettled = watching.of(_attempt(watching.root, work(lambda: subprocess.run(by_another, check=True))), set())
    assert read_changes(unsettled, Digests(watching.root)) == ["file: other.txt"]
    own = _attempt(watching.root, work(lambda: code["write"]("other.txt", "own")))
    assert watching.of(own, set()) == {}


def test_a_file_that_is_not_there_is_noted_in_an_attempt(watching: FileReads) -> None:
    """It may be there the next time."""
    watching.end_loading()
    source = "def look():\n    try:\n        open('none.txt')\n    except OSError:\n        pass\n"
    attempt = _attempt(watching.root, _run(watching.root, source)["look"])
    assert watching.of(attempt, set()) == {"none.txt": file_reads.MISSING}


def test_no_more_files_are_noted_than_are_kept(watching: FileReads) -> None:
    """One more says that there were more."""
    watching.end_loading()
    read = _run(watching.root, CODE)["read"]

    def work() -> None:
        for number in range(MAX_READS + 50):
            read(f"many/{number}.txt")

    assert len(watching.of(_attempt(watching.root, work), set())) == MAX_READS + 1


def test_many_threads_may_read_while_attempts_are_sealed(watching: FileReads) -> None:
    """Nothing is lost, and nothing is raised, neither in them nor here."""
    watching.end_loading()
    read = _run(watching.root, CODE)["read"]
    names = [f"many/{number}.txt" for number in range(100)]
    failed: list[BaseException] = []

    def work() -> None:
        try:
            for name in names:
                read(name)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test says it
            failed.append(error)

    def all_at_once() -> None:
        threads = [threading.Thread(target=contextvars.copy_context().run, args=(work,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            watching.of(AttemptReads(("local", "b")), {"bots.py"})
        for thread in threads:
            thread.join()

    attempt = _attempt(watching.root, all_at_once)
    assert failed == []
    assert sorted(watching.of(attempt, {"bots.py"})) == sorted(names)


@pytest.mark.parametrize(
    ("old", "change", "said"),
    [
        ("as it is", lambda path: None, []),
        ("as it is", lambda path: os.utime(path, (1, 1)), []),
        ("as it is", lambda path: path.write_text("1"), ["file: other.txt"]),
        ("as it is", lambda path: path.unlink(), ["file: other.txt (removed)"]),
        ("as it is", lambda path: (path.unlink(), path.mkdir()), ["file: other.txt"]),
        (file_reads.MISSING, lambda path: None, ["file: other.txt (added)"]),
        (file_reads.UNSETTLED, lambda path: None, ["file: other.txt"]),
    ],
)
def test_what_has_changed_of_files_that_were_read(
    root: Path, old: str, change: Callable[[Path], object], said: list[str]
) -> None:
    """By content, and not by time."""
    digest = Digests(root).of("other.txt") if old == "as it is" else old
    assert digest is not None
    change(root / "other.txt")
    assert read_changes({"other.txt": digest}, Digests(root)) == said


@pytest.mark.parametrize("path", ["/etc/hostname", "../project/other.txt", "lib/../../x"])
def test_a_path_that_leads_out_is_never_as_it_was(root: Path, path: str) -> None:
    """What a result says of paths is somebody else's text: nothing outside is looked at."""
    assert read_changes({path: file_reads.MISSING}, Digests(root)) != []


HOOKS = """
import sys
seen = []
sys.addaudithook(lambda event, args: seen.append(event) if event == "sys.addaudithook" else None)
{code}
print(len(seen), file=sys.stderr)
"""
ENTRY = "from niceeval._cli.main import entry; entry({arguments!r})"


@pytest.mark.parametrize(
    ("code", "hooks"),
    [
        ("import niceeval, niceeval.adapter, niceeval.expect, niceeval.loaders, niceeval.results", 0),
        (ENTRY.format(arguments=["list"]), 0),
        (ENTRY.format(arguments=["exp", "--dry"]), 1),
    ],
)
def test_only_what_plans_a_run_listens_to_the_interpreter(root: Path, code: str, hooks: int) -> None:
    """A hook cannot be taken away again, and every event costs a little."""
    (root / "evals").mkdir()
    source = Path(__file__).parents[2] / "src"
    done = subprocess.run(
        [sys.executable, "-c", HOOKS.format(code=code)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.split()[-1] == str(hooks)
