"""Where sandboxes are looked for, and what one place that cannot be asked does to the others."""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from niceeval._sandbox.standing import HERE, Place, look, places_of, remove
from niceeval.sandbox import (
    StandingSandbox,
    daytona_sandbox,
    define_sandbox,
    docker_sandbox,
    local_sandbox,
    modal_sandbox,
)


class Shelf:
    """A backend that only holds what stands there."""

    def __init__(self, shelves: dict[str, list[str]], host: str) -> None:
        self._things = shelves.setdefault(host, [])
        self._host = host

    async def standing(self) -> Sequence[StandingSandbox]:
        if self._host == "broken":
            raise ConnectionResetError("reset by peer")
        return [StandingSandbox(backend="shelf", sandbox_id=id, labels={"niceeval": "1"}) for id in self._things]

    async def remove(self, sandbox_id: str) -> None:
        self._things.remove(sandbox_id)

    async def close(self) -> None:
        return None


@pytest.fixture
def shelves(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """A backend's module; what stands there, by host."""
    held: dict[str, list[str]] = {}
    module = types.ModuleType("shelf_backend")

    async def open_standing(options: Mapping[str, Any]) -> Shelf:
        return Shelf(held, str(options["host"]))

    module.open_standing = open_standing  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shelf_backend", module)
    return held


def shelf(host: str) -> Place:
    return Place("shelf", "shelf_backend", {"host": host})


def test_where_a_project_makes_its_sandboxes_is_looked_at_once() -> None:
    """Specs that differ in what they make share a place; an engine elsewhere is a place of its own."""
    far = "tcp://far.test:2375"
    specs = [
        docker_sandbox(image="a"),
        docker_sandbox(image="b"),
        docker_sandbox(image="c", host=far),
        local_sandbox(),
        daytona_sandbox(snapshot="one"),
        daytona_sandbox(image="two"),
        modal_sandbox(),
        modal_sandbox(image="three"),
        modal_sandbox(app="other"),
    ]
    places = places_of(specs)
    assert [(place.name, place.key[1]) for place in places] == [
        ("docker", ""),
        ("local", ""),
        ("docker", far),
        ("daytona", ""),
        ("modal", "niceeval"),
        ("modal", "other"),
    ]
    assert places_of([]) == list(HERE)


def test_a_place_that_cannot_be_asked_is_named_and_the_others_are_shown(shelves: dict[str, list[str]]) -> None:
    """What a backend raises is no traceback: it is what is said of it."""
    shelves["good"] = ["one", "two"]
    found = asyncio.run(look([shelf("broken"), shelf("good")]))
    assert [sandbox.sandbox_id for _, sandbox in found.standing] == ["one", "two"]
    assert [error.message() for error in found.unreachable] == ["shelf: ConnectionResetError: reset by peer"]


def test_a_sandbox_is_removed_where_it_stands(shelves: dict[str, list[str]]) -> None:
    """Two engines that both have a sandbox of one name are told apart."""
    shelves.update({"first": ["same", "other"], "second": ["same"]})
    found = asyncio.run(look([shelf("first"), shelf("second")]))
    wanted = [(place, one) for place, one in found.standing if place.options["host"] == "second"]
    removed = asyncio.run(remove(wanted))
    assert (len(removed.gone), removed.failed) == (1, [])
    assert shelves == {"first": ["same", "other"], "second": []}


def test_a_users_own_sandbox_has_nothing_that_could_be_looked_at() -> None:
    """Nothing is known of where a function makes them: nothing stands, and nothing is complained of."""

    async def create(*, timeout: float, runtime: Any) -> Any:
        raise AssertionError

    own = places_of([define_sandbox(name="own", create=create)])[-1]
    found = asyncio.run(look([own]))
    assert (own.name, found.standing, found.unreachable) == ("own", [], [])
