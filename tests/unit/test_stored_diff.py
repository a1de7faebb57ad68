"""`diff.json`: its field names, what it never holds, and who reads it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from niceeval._base.redaction import Redactor
from niceeval._base.terminal import Style
from niceeval._model.diff import OtherFile, StoredDiff
from niceeval._view.attempt_page import attempt_page
from niceeval._view.changed_files import change_rows
from niceeval._view.documents import attempt_document
from niceeval.results import open_results
from tests.unit.record_samples import result, write_run

SECRET = "sk-very-secret-value"
DIFF = StoredDiff(
    generated_files={"app.py": f"one\ntwo {SECRET}\n", "new.txt": "new\n", "now.txt": "x\n"},
    deleted_files=("gone.txt", "was.txt"),
    patches={"app.py": f"--- a/app.py\n+++ b/app.py\n@@ -1,2 +1,2 @@\n one\n-two\n+two {SECRET}\n"},
    other_files={
        "big": OtherFile(kind="oversized", size=2_000_000, sha256="ab" * 32),
        "now.txt": OtherFile(kind="renamed", size=2, sha256="cd" * 32, origin="was.txt"),
        "run.sh": OtherFile(kind="mode", size=3, sha256="ef" * 32, mode="100755"),
    },
    incomplete="the list of changed paths was cut",
)
GOLDEN = {
    "generatedFiles": {"app.py": "one\ntwo [redacted]\n", "new.txt": "new\n", "now.txt": "x\n"},
    "deletedFiles": ["gone.txt", "was.txt"],
    "patches": {"app.py": "--- a/app.py\n+++ b/app.py\n@@ -1,2 +1,2 @@\n one\n-two\n+two [redacted]\n"},
    "otherFiles": {
        "big": {"kind": "oversized", "size": 2_000_000, "sha256": "ab" * 32},
        "now.txt": {"kind": "renamed", "size": 2, "sha256": "cd" * 32, "from": "was.txt"},
        "run.sh": {"kind": "mode", "size": 3, "sha256": "ef" * 32, "mode": "100755"},
    },
    "incomplete": "the list of changed paths was cut",
}


def stored_run(tmp_path: Path, diff: StoredDiff | None) -> Path:
    """A run of one attempt; its folder."""
    return write_run(tmp_path, result(), diff=diff, redact=Redactor([SECRET]))


def test_its_fields_are_those_of_the_contract(tmp_path: Path) -> None:
    """The result says that it is there, and no secret is in it."""
    run = stored_run(tmp_path, DIFF)
    (found,) = run.rglob("diff.json")
    assert json.loads(found.read_text("utf-8")) == GOLDEN
    assert json.loads((found.parent / "result.json").read_text("utf-8"))["hasDiff"] is True


def test_without_changes_to_tell_there_is_no_file(tmp_path: Path) -> None:
    """And readers say that there is none."""
    run = stored_run(tmp_path, None)
    assert list(run.rglob("diff.json")) == []
    (attempt,) = open_results(run).runs[0].attempts
    assert attempt.diff() is None
    assert not any("changed files" in row for row in attempt_page(attempt, Style()))


def test_readers_and_people_see_it(tmp_path: Path) -> None:
    """Whole through the library and as JSON, a line for each file in the terminal."""
    (attempt,) = open_results(stored_run(tmp_path, DIFF)).runs[0].attempts
    diff = attempt.diff()
    assert msgspec.to_builtins(diff) == {**GOLDEN, "deletedFiles": ("gone.txt", "was.txt")}
    assert attempt.result().has_diff
    assert attempt_document(attempt)["diff"]["generatedFiles"] == GOLDEN["generatedFiles"]
    page = attempt_page(attempt, Style())
    start = page.index("changed files")
    assert page[start + 1 : start + 7] == [
        "  ~ app.py  +1 -1",
        "  ~ big  oversized, 2,000,000 bytes",
        "  - gone.txt",
        "  + new.txt",
        "  ~ now.txt  renamed from was.txt",
        "  ~ run.sh  mode 100755",
    ]
    assert "the list of changed paths was cut" in page[start + 7]


def test_hostile_paths_cannot_speak_to_the_terminal() -> None:
    """They are somebody else's text."""
    diff = StoredDiff(generated_files={"a\x1b[31m\nb": "x"}, deleted_files=("\x07",))
    assert not any(set("\x1b\x07\n") & set(row) for row in change_rows(diff, Style()))
