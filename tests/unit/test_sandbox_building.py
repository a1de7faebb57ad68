"""What backends share: paths, arguments, output, archives. Nothing that a sandbox says gets out of its place."""

from __future__ import annotations

import contextlib
import io
import os
import posixpath
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from niceeval.sandbox import SandboxCommandError, SandboxFileError
from niceeval.sandbox.archives import tar_of_files, tar_of_folder, unpack
from niceeval.sandbox.building import (
    OutputKeeper,
    checked_command,
    command_result,
    contents_of,
    exit_code_of,
    resolve_path,
)
from niceeval.sandbox.ignoring import Ignored

NAMES = st.text(st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1, max_size=12).filter(
    lambda name: name not in (".", "..")
)
STEPS = st.lists(st.sampled_from(["a", "b", "..", ".", "", "link"]), max_size=6).map("/".join)


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("a", "/w/a"),
        (".", "/w"),
        ("./a//b/", "/w/a/b"),
        ("../x", "/x"),
        ("/abs/./y", "/abs/y"),
        ("a/../b", "/w/b"),
        ("-dash", "/w/-dash"),
        ("$HOME ü", "/w/$HOME ü"),
    ],
)
def test_paths_are_below_the_workdir_or_absolute(path: str, wanted: str) -> None:
    """One meaning of a path for every backend."""
    assert resolve_path("/w", path) == wanted


@given(STEPS.filter(bool))
def test_a_resolved_path_is_absolute_and_plain(path: str) -> None:
    """Whatever steps it had; resolving it again changes nothing."""
    found = resolve_path("/work/dir", path)
    assert found.startswith("/")
    assert posixpath.normpath(found) == found
    assert resolve_path("/elsewhere", found) == found


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_what_is_no_path_is_refused(path: str) -> None:
    """Before any system sees it."""
    with pytest.raises(SandboxFileError):
        resolve_path("/w", path)


GOOD: dict[str, Any] = {"cwd": None, "env": None, "root": False, "stdin": None, "timeout": None}


@pytest.mark.parametrize(
    ("cmd", "args", "changed"),
    [
        ("", (), {}),
        ("a\0", (), {}),
        ("a", ("b\0",), {}),
        ("a", (3,), {}),
        ("a", (), {"env": {"": "x"}}),
        ("a", (), {"env": {"A=B": "x"}}),
        ("a", (), {"env": {"A": "x\0"}}),
        ("a", (), {"env": {"A": 1}}),
        ("a", (), {"timeout": 0}),
        ("a", (), {"timeout": float("nan")}),
    ],
)
def test_commands_that_no_system_can_start_are_refused(cmd: str, args: Any, changed: dict[str, Any]) -> None:
    """With an error of commands, whatever the backend."""
    with pytest.raises(SandboxCommandError):
        checked_command("/w", cmd, args, **{**GOOD, **changed})


def test_a_checked_command_is_complete() -> None:
    """The folder is absolute, stdin bytes; the vector is as it was given."""
    command = checked_command("/w", "a", ["b c", ""], **{**GOOD, "cwd": "sub", "stdin": "ü", "env": {"A": ""}})
    assert (command.argv, command.cwd, command.stdin) == (("a", "b c", ""), "/w/sub", "ü".encode())
    assert dict(command.env) == {"A": ""}


@given(st.text(max_size=200), st.lists(st.integers(1, 9), max_size=40))
def test_output_is_told_and_kept_whole_however_it_is_cut(text: str, cuts: list[int]) -> None:
    """Characters that come in pieces are told as one, and nothing is told twice."""
    data, told = text.encode("utf-8", "replace"), list[str]()
    keeper = OutputKeeper(told.append, limit=10_000)
    start = 0
    for size in (*cuts, len(data)):
        keeper.feed(data[start : start + size])
        start += size
    kept = keeper.close()
    assert kept == "".join(told) == data.decode("utf-8", "replace")
    assert not keeper.truncated
    assert all(told)


@given(st.lists(st.binary(max_size=60), max_size=60), st.integers(2, 64))
def test_output_is_kept_to_its_bound(chunks: list[bytes], limit: int) -> None:
    """The first half and the last are kept, and what lies between is counted."""
    data = b"".join(chunks)
    keeper = OutputKeeper(limit=limit)
    for chunk in chunks:
        keeper.feed(chunk)
    kept, half = keeper.close(), max(1, limit // 2)
    assert keeper.truncated == (len(data) > 2 * half)
    if keeper.truncated:
        assert kept.startswith(data[:half].decode("utf-8", "replace"))
        assert kept.endswith(data[-half:].decode("utf-8", "replace"))
        assert f"{len(data) - 2 * half:,} bytes left out" in kept
    else:
        assert kept == data.decode("utf-8", "replace")


def test_a_callback_that_raises_is_called_once_and_its_error_comes_at_the_end() -> None:
    """The output is kept all the same."""
    calls: list[str] = []

    def refuse(text: str) -> None:
        calls.append(text)
        raise LookupError(text)

    keeper = OutputKeeper(refuse)
    keeper.feed(b"one")
    keeper.feed(b"two")
    with pytest.raises(LookupError, match="one"):
        command_result(keeper, OutputKeeper(), exit_code=0, duration=0.1)
    assert calls == ["one"]


def test_exit_codes_are_those_of_a_shell() -> None:
    """Death by a signal is 128 and its number; a limit is 124."""
    assert [exit_code_of(status) for status in (0, 3, -9, -15)] == [0, 3, 137, 143]
    assert command_result(OutputKeeper(), OutputKeeper(), exit_code=137, duration=1, timed_out=True).exit_code == 124


def test_contents_are_bytes_at_absolute_paths() -> None:
    """Text is UTF-8; also text that is no Unicode has bytes."""
    found = contents_of({"a": "ü", "/b": b"\0", "c": "\ud800"}, "/w", "t")
    assert found == {"/w/t/a": "ü".encode(), "/b": b"\0", "/w/t/c": b"\xed\xa0\x80"}
    for wrong in ({"a/": "x"}, {"/": "x"}, {"": "x"}, {"a": 3}):
        with pytest.raises(SandboxFileError):
            contents_of(wrong, "/w", None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pattern", "path", "folder", "wanted"),
    [
        ("build/", "build", True, True),
        ("build/", "a/build", True, True),
        ("build/", "build", False, False),
        ("build/", "rebuild", True, False),
        ("*.pyc", "a/b.pyc", False, True),
        ("*.pyc", "b.pyc.txt", False, False),
        ("a/b", "a/b", False, True),
        ("a/b", "x/a/b", False, False),
    ],
)
def test_patterns_are_names_at_any_depth_or_paths(pattern: str, path: str, folder: bool, wanted: bool) -> None:
    """As the rules of the diff read them."""
    assert Ignored([pattern]).ignores(path, folder=folder) is wanted


def seen(top: Path) -> dict[str, tuple[str, Any]]:
    found: dict[str, tuple[str, Any]] = {}
    for path in sorted(top.rglob("*")):
        key = path.relative_to(top).as_posix()
        if path.is_symlink():
            found[key] = ("link", os.readlink(path))
        elif path.is_dir():
            found[key] = ("folder", None)
        else:
            found[key] = ("file", (path.read_bytes(), bool(path.stat().st_mode & stat.S_IXUSR)))
    return found


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(NAMES, st.binary(max_size=2000), max_size=6), st.lists(NAMES, max_size=3, unique=True))
def test_a_folder_goes_through_an_archive_and_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], folders: list[str]
) -> None:
    """Names, bytes, modes, links and empty folders; and the same folder gives the same archive."""
    top = tmp_path_factory.mktemp("top")
    for number, folder in enumerate(folders):
        (top / "sub" / f"{number}{folder}").mkdir(parents=True)
    for name, content in files.items():
        (top / f"f{name}").write_bytes(content)
        (top / f"f{name}").chmod(0o755 if len(content) % 2 else 0o644)
        (top / f"l{name}").symlink_to(f"f{name}")
    target = tmp_path_factory.mktemp("target")
    archive = list(tar_of_folder(top, uid=7, gid=8))
    unpack(archive, target)
    assert seen(target) == seen(top)
    assert b"".join(tar_of_folder(top, uid=7, gid=8)) == b"".join(archive)
    with tarfile.open(fileobj=io.BytesIO(b"".join(archive))) as tar:
        assert {(entry.uid, entry.gid) for entry in tar} <= {(7, 8)}


def test_a_large_file_is_handed_on_in_pieces(tmp_path: Path) -> None:
    """It never lies in memory as a whole."""
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(40_000_000)
    sizes = [len(chunk) for chunk in tar_of_folder(tmp_path, uid=0, gid=0)]
    assert sum(sizes) > 40_000_000
    assert max(sizes) < 2_000_000


ENTRIES = st.lists(
    st.tuples(st.sampled_from(["file", "folder", "symlink", "hard", "pipe", "device"]), STEPS, STEPS), max_size=12
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(ENTRIES)
def test_no_archive_writes_outside_or_makes_a_link_that_leads_there(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[str, str, str]]
) -> None:
    """Whatever names, links and kinds are in it, in whatever order."""
    room = tmp_path_factory.mktemp("room")
    (room / "secret").write_text("outside")
    top = room / "in" / "top"
    kinds = {
        "file": tarfile.REGTYPE,
        "folder": tarfile.DIRTYPE,
        "symlink": tarfile.SYMTYPE,
        "hard": tarfile.LNKTYPE,
        "pipe": tarfile.FIFOTYPE,
        "device": tarfile.CHRTYPE,
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for kind, name, target in entries:
            entry = tarfile.TarInfo(name or "x")
            entry.type, entry.linkname = kinds[kind], target or "y"
            entry.size = 4 if kind == "file" else 0
            tar.addfile(entry, io.BytesIO(b"evil") if kind == "file" else None)
    with contextlib.suppress(SandboxFileError):
        unpack([packed.getvalue()], top)
    assert (room / "secret").read_text() == "outside"
    assert sorted(os.listdir(room)) == ["in", "secret"]
    assert os.listdir(room / "in") == ["top"]
    real = os.path.realpath(top)
    for path in top.rglob("*"):
        assert path.is_symlink() or path.is_dir() or path.is_file()
        where = os.path.realpath(path)
        assert where == real or where.startswith(f"{real}/")


def test_a_file_with_two_names_comes_under_both(tmp_path: Path) -> None:
    """Archives call the second one a link."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        first = tarfile.TarInfo("out/one")
        first.size = 1
        tar.addfile(first, io.BytesIO(b"x"))
        second = tarfile.TarInfo("out/two")
        second.type, second.linkname = tarfile.LNKTYPE, "out/one"
        tar.addfile(second)
    unpack([packed.getvalue()], tmp_path, renamed=lambda name: name.removeprefix("out/"))
    assert (tmp_path / "two").read_text() == "x"


@pytest.mark.parametrize("data", [b"no archive" * 100, b"".join(tar_of_files({"a": b"x" * 5000}, uid=0, gid=0))[:2000]])
def test_what_is_no_whole_archive_is_said(data: bytes, tmp_path: Path) -> None:
    """A connection that broke must not look like a smaller folder."""
    with pytest.raises(SandboxFileError):
        unpack([data], tmp_path)
