"""Folder names and locators: what a true name becomes on disk, and what stays apart."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from niceeval._base.ids import (
    MAX_PATH,
    MAX_SEGMENT,
    clean_segment,
    folder_names,
    identity_hash,
    locator_of,
    parse_locator,
)
from niceeval._record.layout import FolderKey, attempt_folders, is_inside, is_run_name, run_name

ALLOWED = re.compile(r"[A-Za-z0-9_.@-]+")
names = st.one_of(st.text(max_size=12), st.text(alphabet="aA_ ./", min_size=1, max_size=6))


def key(
    eval_id: str, *, experiment: str = "e", agent: str = "ag", model: str | None = "m", attempt: int = 0
) -> FolderKey:
    return FolderKey(experiment, eval_id, agent, model, attempt)


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("button", "button"),
        ("gpt-5.4@high", "gpt-5.4@high"),
        ("a b/c", "a_b_c"),
        ("日本", "__"),
        (".", "_"),
        ("..", "__"),
        ("", "_"),
        ("end.", "end_"),
        (".tmp-x", "_tmp-x"),
        ("CON", "_CON"),
        ("nul.txt", "_nul.txt"),
        ("console", "console"),
    ],
)
def test_a_name_becomes_a_safe_segment(name: str, folder: str) -> None:
    """Characters outside the set, and what a file system reads otherwise, are replaced."""
    assert clean_segment(name) == folder


def test_an_attempt_lies_where_the_format_says() -> None:
    """Eval id as folders, agent, model, experiment with its slash replaced, and the attempt from 0."""
    wanted = key("weather/brooklyn", experiment="compare/concise", agent="weather-desk", model="demo-model")
    assert attempt_folders([wanted]) == {wanted: "weather/brooklyn/weather-desk/demo-model/compare_concise/a0"}


def test_an_attempt_without_a_model_lies_under_default() -> None:
    """No model is the folder `default`."""
    wanted = key("a", model=None)
    assert attempt_folders([wanted])[wanted] == "a/ag/default/e/a0"


@pytest.mark.parametrize(("first", "second"), [("a b", "a_b"), ("Foo", "foo"), ("a/./b", "a/_/b"), ("..", "__")])
def test_two_names_of_one_folder_carry_a_hash(first: str, second: str) -> None:
    """Also on a file system that ignores case."""
    folders = folder_names([first, second, "other"], paths=True)
    assert folders["other"] == "other"
    assert folders[first].lower() != folders[second].lower()
    assert re.fullmatch(r".*-[a-z2-7]{8}", folders[first])


def test_an_eval_cannot_lie_inside_another_attempts_folder() -> None:
    """An id that spells another attempt's path becomes one hashed folder."""
    outer, inner = key("x"), key("x/ag/m/e/a0/y")
    folders = attempt_folders([outer, inner])
    assert folders[outer] == "x/ag/m/e/a0"
    assert not folders[inner].startswith("x/")


def test_an_eval_cannot_take_the_place_of_the_summary() -> None:
    """`summary.json` at the top of a run folder is a file."""
    wanted = key("Summary.json/x")
    assert not attempt_folders([wanted])[wanted].lower().startswith("summary.json/")


@given(st.lists(names, min_size=1, max_size=8, unique=True), st.booleans())
def test_no_two_true_names_share_a_folder(true_names: list[str], paths: bool) -> None:
    """For any names at all: apart, allowed characters, no dot segments, bounded."""
    folders = folder_names(true_names, paths=paths)
    assert len({folder.lower() for folder in folders.values()}) == len(true_names)
    for folder in folders.values():
        assert len(folder) <= MAX_PATH + 60
        for part in folder.split("/"):
            assert ALLOWED.fullmatch(part)
            assert part not in {".", ".."}
            assert len(part) <= MAX_SEGMENT + 60


@given(st.lists(st.tuples(names, names, names, names, st.integers(0, 3)), min_size=1, max_size=8, unique=True))
def test_no_attempt_lies_in_another(parts: list[tuple[str, str, str, str, int]]) -> None:
    """For any attempts of a run: folders differ, and none leads into another."""
    keys = [
        FolderKey(experiment, eval_id, agent, model or None, number)
        for experiment, eval_id, agent, model, number in parts
    ]
    folders = [folder.lower() for folder in attempt_folders(keys).values()]
    assert len(set(folders)) == len(set(keys))
    assert not any(one != two and two.startswith(one + "/") for one in folders for two in folders)


def test_a_long_name_is_cut_and_hashed() -> None:
    """So that two long names with one beginning stay apart, and no path grows beyond the system's limit."""
    folders = folder_names(["x" * 500, "x" * 501, "a/" * 400 + "b"], paths=True)
    assert len(set(folders.values())) == 3
    assert all(len(folder) < 130 for folder in folders.values())


def test_a_run_is_named_after_its_start_in_utc() -> None:
    """Milliseconds are cut, colons and dots are dashes."""
    started = datetime(2026, 7, 2, 5, 10, 24, 123999, tzinfo=timezone(timedelta(hours=2)))
    assert run_name(started) == "2026-07-02T03-10-24-123Z"


@pytest.mark.parametrize(
    ("name", "expected"), [("2026-07-02T03-10-24-123Z", True), ("2026-07-02T03-10-24-123Z-2", True), ("weather", False)]
)
def test_a_run_folder_is_known_by_its_name(name: str, expected: bool) -> None:
    """A suffix is allowed, anything else is not a run."""
    assert is_run_name(name) is expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/b", True),
        ("", False),
        ("/etc", False),
        ("../x", False),
        ("a/../../x", False),
        ("C:/x", False),
        ("a\\b", False),
    ],
)
def test_a_stored_path_that_leaves_its_folder_is_seen(path: str, expected: bool) -> None:
    """Paths inside results are somebody else's text."""
    assert is_inside(path) is expected


def test_a_locator_is_short_and_stable() -> None:
    """`@` and eight characters, the same on every machine."""
    locator = locator_of("compare/bub", "weather/brooklyn", 1, "2026-07-02T03:10:24.123Z")
    assert re.fullmatch(r"@[a-z2-7]{8}", locator)
    assert locator == locator_of("compare/bub", "weather/brooklyn", 1, "2026-07-02T03:10:24.123Z")


@given(
    st.lists(st.tuples(st.none() | names, names, st.integers(0, 20), names), min_size=2, max_size=6, unique=True),
)
def test_different_attempts_have_different_hashes(identities: list[tuple[str | None, str, int, str]]) -> None:
    """The parts of an identity are joined so that no two can read the same."""
    assert len({identity_hash(*identity) for identity in identities}) == len(identities)


@pytest.mark.parametrize(
    ("typed", "prefix"),
    [
        ("@K3F7qm2x", "k3f7qm2x"),
        ("k3f7", "k3f7"),
        (" @k3f7 ", "k3f7"),
        ("@k3f", None),
        ("@k3f1", None),
        ("a/b/c/d", None),
    ],
)
def test_a_typed_locator_is_a_prefix(typed: str, prefix: str | None) -> None:
    """In any case, with or without `@`, of four characters or more."""
    assert parse_locator(typed) == prefix
