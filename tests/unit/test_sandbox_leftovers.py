"""Whose a sandbox is, and which ones nobody needs any more."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from niceeval._model.json_types import JsonValue
from niceeval._model.sandbox import Sandbox, SandboxRequest, StandingSandbox
from niceeval._sandbox.labels import MAX_LABEL, label_text, labels_of, read_labels
from niceeval._sandbox.leftovers import is_left, remove_leftovers
from niceeval._sandbox.owner import Owner, host_id, parse_owner, this_owner
from niceeval.sandbox import SandboxError

NOW = time.time()
LIVING = this_owner()
ELSEWHERE = Owner("f" * 16, 1, "1")


def gone_owner() -> Owner:
    """A process of this host that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return Owner(host_id(), process.pid, "1")


def standing(
    owner: Owner | None, *, expires_in: float | None = 3600.0, kept: bool = False, ours: bool = True
) -> StandingSandbox:
    """A sandbox with these labels."""
    labels = {"niceeval": "1"} if ours else {}
    labels |= {"niceeval.owner": str(owner)} if owner is not None else {}
    labels |= {"niceeval.expires": str(int(NOW + expires_in))} if expires_in is not None else {}
    labels |= {"niceeval.kept": "1"} if kept else {}
    return StandingSandbox(backend="fake", sandbox_id="one", labels=labels)


@pytest.mark.parametrize(
    ("one", "left"),
    [
        (standing(gone_owner()), True),
        (standing(gone_owner(), expires_in=None), True),
        (standing(gone_owner(), expires_in=-10), True),
        (standing(gone_owner(), kept=True), False),
        (standing(gone_owner(), kept=True, expires_in=-10), True),
        (standing(gone_owner(), ours=False, expires_in=-10), False),
        (standing(LIVING), False),
        (standing(LIVING, expires_in=-10), False),
        (standing(ELSEWHERE), False),
        (standing(ELSEWHERE, expires_in=-10), True),
        (standing(ELSEWHERE, expires_in=None), False),
        (standing(None), False),
        (standing(None, expires_in=-10), True),
        (standing(Owner(LIVING.host, LIVING.pid, "1")), True),
    ],
)
def test_what_nobody_needs_any_more(one: StandingSandbox, left: bool) -> None:
    """Expired, or of a process of this host that is gone; never a living one's, nor a kept or foreign one early."""
    assert is_left(one, NOW) is left


def test_an_owner_survives_its_label() -> None:
    """What is written is what is read, and this process lives."""
    assert parse_owner(str(LIVING)) == LIVING
    assert LIVING.is_living
    assert not LIVING.is_gone


@given(st.text(max_size=60))
def test_foreign_owners_are_none_of_ours(text: str) -> None:
    """Whatever stands in a label is read without an error, and condemns nothing that is not certainly gone."""
    owner = parse_owner(text)
    assert owner is None or owner.host != host_id() or owner.pid >= 0


@given(st.text(max_size=400))
def test_labels_are_bounded_and_plain(text: str) -> None:
    """Short ASCII without spaces and controls, of whatever an eval is called."""
    label = label_text(text)
    assert len(label) <= MAX_LABEL
    assert label.isascii()
    assert label.isprintable()
    assert " " not in label


def test_labels_say_what_they_are_read_as() -> None:
    """Run, owner, times and whether it is kept."""
    labels = labels_of(run="2026", lifetime=60, experiment="a/b", attempt="x y#1", kept=True)
    label = read_labels(StandingSandbox(backend="fake", sandbox_id="one", labels=labels))
    assert (label.ours, label.run, label.owner, label.kept) == (True, "2026", LIVING, True)
    assert label.created is not None
    assert label.expires is not None
    assert 60 <= label.expires - label.created <= 62
    assert labels["niceeval.attempt"] == "x_y#1"


class Shelf:
    """A backend with things on it, one of which cannot be removed."""

    def __init__(self, things: Sequence[StandingSandbox]) -> None:
        self.things = {thing.sandbox_id: thing for thing in things}

    @property
    def description(self) -> Mapping[str, JsonValue]:
        """Nothing."""
        return {}

    async def create(self, request: SandboxRequest) -> Sandbox:
        """Never asked for."""
        raise AssertionError

    async def standing(self) -> Sequence[StandingSandbox]:
        """All."""
        return list(self.things.values())

    async def remove(self, sandbox_id: str) -> None:
        """One."""
        if sandbox_id == "stuck":
            raise SandboxError("sandbox-failed", backend="fake", problem="it is stuck", fix="shake it")
        self.things.pop(sandbox_id, None)

    def enter_command(self, sandbox_id: str) -> Sequence[str] | None:
        """None."""
        return None

    async def close(self) -> None:
        """Nothing to close."""


def test_leftovers_are_removed_and_the_others_stay() -> None:
    """One that cannot be removed does not keep the others, and is said."""
    gone = str(gone_owner())
    labels = {"niceeval": "1", "niceeval.owner": gone}
    things = [StandingSandbox(backend="fake", sandbox_id=id, labels=labels) for id in ("a", "stuck", "b")]
    things.append(
        StandingSandbox(backend="fake", sandbox_id="mine", labels={"niceeval": "1", "niceeval.owner": str(LIVING)})
    )
    shelf = Shelf(things)
    removed = asyncio.run(remove_leftovers(shelf))
    assert {one.sandbox_id for one in removed.gone} == {"a", "b"}
    assert [(one.sandbox_id, why) for one, why in removed.failed] == [("stuck", "fake: it is stuck")]
    assert set(shelf.things) == {"stuck", "mine"}
