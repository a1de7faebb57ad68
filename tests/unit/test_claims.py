"""Claims on attempts: each is one invocation's, until it has stored it, has given it up, or is dead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from niceeval._base.file_lock import locked
from niceeval._record.claims import FOLDER, Claims, Held, Stored, live_runs

RUN, OTHER = "2026-07-01T09-00-00-000Z", "2026-07-01T09-00-00-001Z"


@pytest.fixture
def two(tmp_path: Path) -> tuple[Claims, Claims]:
    """Two invocations that are alive."""
    both = Claims(tmp_path, RUN), Claims(tmp_path, OTHER)
    for claims in both:
        claims.open()
    return both


def _folder(key: str) -> str:
    return f"{key}/bot/default/local/a0"


def _take(claims: Claims, key: str, *, forced: bool = False) -> Held | Stored | None:
    return claims.take(key, _folder(key), forced=forced)


def test_an_attempt_is_the_first_ones(two: tuple[Claims, Claims]) -> None:
    """The other is told who has it; another attempt is still free."""
    one, other = two
    assert _take(one, "a") is None
    assert _take(other, "a") == Held(RUN)
    assert _take(other, "b") is None
    assert _take(one, "b") == Held(OTHER)


def test_what_was_stored_is_told_with_its_place(two: tuple[Claims, Claims]) -> None:
    """To whoever asks for it, and to whoever looks what has happened to what was held."""
    one, other = two
    _take(one, "a")
    other.refresh()
    assert (other.held("a"), other.is_stored("a")) == (True, False)
    one.stored("a", "folder with spaces/a0")
    other.refresh()
    assert (other.held("a"), other.is_stored("a")) == (False, True)
    assert _take(other, "a") == Stored(RUN, "folder with spaces/a0")


def test_what_was_given_up_is_free(two: tuple[Claims, Claims]) -> None:
    """An interrupted attempt is run by whoever comes next."""
    one, other = two
    _take(one, "a")
    one.give_up("a")
    other.refresh()
    assert not other.held("a")
    assert _take(other, "a") is None
    assert _take(one, "a") == Held(OTHER)


def test_force_takes_what_others_have(two: tuple[Claims, Claims]) -> None:
    """And nothing is taken from them."""
    one, other = two
    _take(one, "a")
    assert _take(other, "a", forced=True) is None
    one.stored("a", "f")
    assert _take(other, "a", forced=True) is None


def test_what_one_had_that_has_ended_is_free(two: tuple[Claims, Claims]) -> None:
    """It let go of its file; what it stored still counts for those that were alive with it."""
    one, other = two
    _take(one, "a")
    _take(one, "b")
    one.stored("b", "f")
    one.close()
    other.refresh()
    assert not other.held("a")
    assert _take(other, "a") is None
    assert _take(other, "b") == Stored(RUN, "f")


def test_what_was_stored_and_not_said_before_the_end_is_found(tmp_path: Path, two: tuple[Claims, Claims]) -> None:
    """One that was killed between the two."""
    one, other = two
    _take(one, "a")
    _take(one, "b")
    stored = tmp_path / RUN / _folder("a")
    stored.mkdir(parents=True)
    (stored / "result.json").write_text("{}", "utf-8")
    one.close()
    assert _take(other, "a") == Stored(RUN, _folder("a"))
    assert _take(other, "b") is None


def test_what_had_ended_before_does_not_count(tmp_path: Path, two: tuple[Claims, Claims]) -> None:
    """It is history, by whose rules a failure is run again, also while a third invocation lives on."""
    one, other = two
    _take(one, "a")
    one.stored("a", "f")
    one.close()
    newest = Claims(tmp_path, "2026-07-01T09-00-00-002Z")
    newest.open()
    assert _take(newest, "a") is None
    assert _take(other, "a") == Stored(RUN, "f")


def test_a_file_whose_process_has_another_name_now_is_a_dead_ones(tmp_path: Path) -> None:
    """The number of a process is given out again: what counts is the lock, which nobody holds."""
    alive = Claims(tmp_path, RUN)
    alive.open()
    (tmp_path / FOLDER / f"{OTHER}.{os.getpid()}.claims").write_text("+ a f\n", "utf-8")
    assert live_runs(tmp_path) == {RUN}
    assert _take(alive, "a") is None


def test_a_process_that_is_gone_is_dead_although_its_file_is_locked(tmp_path: Path) -> None:
    """A process that it forked may have the file still, and live as long as it likes."""
    alive = Claims(tmp_path, RUN)
    alive.open()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    path = tmp_path / FOLDER / f"{OTHER}.{gone.pid}.claims"
    path.write_text("+ a f\n", "utf-8")
    descriptor = os.open(path, os.O_RDWR)
    with locked(descriptor):
        assert live_runs(tmp_path) == {RUN}
        assert _take(alive, "a") is None
    os.close(descriptor)


def test_a_line_that_was_cut_off_counts_for_nothing(tmp_path: Path, two: tuple[Claims, Claims]) -> None:
    """The disk was full; and other files in the folder are nobody's."""
    one, other = two
    (tmp_path / FOLDER / "notes.claims").write_text("+ a f\n", "utf-8")
    path = next((tmp_path / FOLDER).glob(f"{RUN}.*"))
    with open(path, "a", encoding="utf-8") as file:
        file.write("+ b")
    assert _take(other, "b") is None
    assert _take(one, "a") is None


def test_nothing_is_left_when_the_last_one_has_ended(tmp_path: Path, two: tuple[Claims, Claims]) -> None:
    """And closing twice is no harm."""
    one, other = two
    _take(one, "a")
    one.close()
    other.close()
    one.close()
    assert list((tmp_path / FOLDER).glob("*.claims")) == []
    assert live_runs(tmp_path) == frozenset()


def test_a_lock_that_somebody_holds_for_good_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    """Its holder was stopped, say; whoever wants it goes on without."""
    path = tmp_path / "lock"
    path.touch()
    mine, theirs = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    with locked(theirs), pytest.raises(TimeoutError), locked(mine, patience=0.01):
        raise AssertionError("it was not free")
    with locked(mine):
        pass
    os.close(mine)
    os.close(theirs)
