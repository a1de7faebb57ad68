"""Whatever agent and eval do to the workdir in turn, the diff is what the sends changed: held against plain Python."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from niceeval._model.changes import Changes
from tests.unit.ledger_world import World, in_world, is_executable, needs_git

pytestmark = [needs_git, pytest.mark.slow]

PATHS = ["a", "a/b", "a/b/c", "d", "e/f", ".git/x", "e/.git/HEAD", "dist/g", "e/dist/h", "-n", "l\nm", "ü ' \" \\ *"]
CONTENTS = [b"", b"one\n", b"two\n", b"one\ntwo\n", b"a\r\n", b"\xff\n", b"a\0b", b"x" * 5000]
IGNORED = ("dist/", ".git/")

edits = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(PATHS), st.sampled_from(CONTENTS)),
    st.tuples(st.just("remove"), st.sampled_from(PATHS), st.none()),
    st.tuples(st.just("mode"), st.sampled_from(PATHS), st.booleans()),
    st.tuples(st.just("link"), st.sampled_from(PATHS), st.sampled_from(["a", "nowhere"])),
)
turns = st.lists(st.tuples(st.sampled_from(["agent", "eval"]), st.lists(edits, max_size=5)), min_size=1, max_size=4)

Entry = tuple[str, bytes, bool] | None
"""What stands at a path: kind, content, executable; None for nothing."""


def apply(root: Path, what: str, name: str, value: Any) -> None:
    """One edit, making way for it as needed."""
    path = root / name
    if what == "mode":
        if path.is_file() and not path.is_symlink():
            path.chmod(0o755 if value else 0o644)
        return
    clear(path)
    if what == "remove":
        return
    for parent in reversed(path.relative_to(root).parents[:-1]):
        if not (root / parent).is_dir() or (root / parent).is_symlink():
            clear(root / parent)
    path.parent.mkdir(parents=True, exist_ok=True)
    if what == "link":
        path.symlink_to(value)
    else:
        path.write_bytes(value)


def clear(path: Path) -> None:
    """Nothing stands at the path any more."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)


def seen(root: Path) -> dict[str, Entry]:
    """Every file and link that the ledger is to look at."""
    found: dict[str, Entry] = {}
    for folder, folders, names in os.walk(root):
        for name in [*names, *(inner for inner in folders if (Path(folder) / inner).is_symlink())]:
            path = Path(folder) / name
            relative = path.relative_to(root).as_posix()
            if any(f"{part}/" in IGNORED for part in relative.split("/")[:-1]):
                continue
            if path.is_symlink():
                found[relative] = ("link", os.readlink(path).encode(), False)
            else:
                found[relative] = ("file", path.read_bytes(), is_executable(path))
    return found


def placed(entries: Iterable[tuple[str, Entry]]) -> dict[str, Entry]:
    """What can be at once of these: a later one takes the place of a folder or file in its way."""
    found: dict[str, Entry] = {}
    for path, entry in entries:
        if entry is not None:
            for other in list(found):
                if other.startswith(f"{path}/") or path.startswith(f"{other}/"):
                    del found[other]
            found[path] = entry
    return found


def expected(windows: list[tuple[dict[str, Entry], dict[str, Entry]]]) -> tuple[dict[str, Entry], set[str]]:
    """What is there at the end of the last send that changed it, and what is gone."""
    first: dict[str, Entry] = {}
    last: dict[str, Entry] = {}
    for before, after in windows:
        for path in sorted(before.keys() | after.keys()):
            if before.get(path) != after.get(path):
                first.setdefault(path, before.get(path))
                last.pop(path, None)
                last[path] = after.get(path)
    start, end = placed(reversed(first.items())), placed(last.items())
    changed = {path: entry for path, entry in end.items() if start.get(path) != entry}
    return changed, {path for path in start if path not in end}


def matches(changes: Changes, path: str, entry: Entry) -> bool:
    """Whether the diff says of a path what stands there."""
    assert entry is not None
    kind, content, _ = entry
    other = changes.stored.other_files.get(path)
    if kind == "link":
        return other is not None and other.kind in ("symlink", "renamed") and other.size == len(content)
    text = changes.stored.generated_files.get(path)
    if text is not None:
        return text.encode() == content
    return other is not None and other.size == len(content)


@given(turns)
@settings(max_examples=15, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_diff_is_what_the_sends_changed(turns: list[tuple[str, list[tuple[str, str, Any]]]]) -> None:
    """For every path: changed and how, deleted, or not in it."""

    async def test(world: World) -> Changes:
        apply(world.root, "write", "d", b"first\n")
        await world.workspace.prepare()
        for who, made in turns:
            if who == "agent":
                await world.workspace.before_send()
                before = seen(world.root)
            for edit in made:
                apply(world.root, *edit)
            if who == "agent":
                await world.workspace.after_send()
                windows.append((before, seen(world.root)))
        return await world.workspace.changes()

    windows: list[tuple[dict[str, Entry], dict[str, Entry]]] = []
    changes = in_world(test)
    assert (changes.problem, changes.gap) == (None, None)
    changed, deleted = expected(windows)
    assert set(changes.stored.deleted_files) == deleted
    assert set(changes.present()) == changed.keys()
    wrong = [path for path, entry in changed.items() if not matches(changes, path, entry)]
    assert wrong == []
