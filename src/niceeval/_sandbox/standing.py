"""Where sandboxes may stand, what stands there, and removing it: on this machine, and where a project makes its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from niceeval._base.errors import NiceevalError, SandboxError, error_text
from niceeval._model.json_types import JsonValue
from niceeval._model.sandbox import SandboxBackend, SandboxSpec, StandingSandbox
from niceeval._sandbox.labels import read_labels
from niceeval._sandbox.leftovers import Removed, remove_each
from niceeval._sandbox.opening import open_standing

PATIENCE: Final = 60.0
"""Seconds that a backend may take to answer."""
REMOVAL: Final = 600.0
"""Seconds that removing what was found may take, in one place."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """A backend, and the options that say how it is reached. Specs that differ in what they make share one."""

    name: str
    module: str
    options: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """A service that is asked with one key is one place, or each `app=` of it; an engine is one by its `host=`."""
        return self.module, str(self.options.get("host") or self.options.get("app") or "")


HERE: Final = (Place("docker", "niceeval.backends.docker"), Place("local", "niceeval.backends.local"))
"""This machine's own backends that can leave something behind."""


@dataclass(slots=True)
class Found:
    """What stands, each with its place, and the places that could not be asked."""

    standing: list[tuple[Place, StandingSandbox]] = field(default_factory=list)
    unreachable: list[NiceevalError] = field(default_factory=list)


def place_of(spec: SandboxSpec) -> Place:
    """Where the sandboxes of a spec stand."""
    return Place(spec.name, spec.backend, spec.options)


def places_of(specs: Iterable[SandboxSpec]) -> list[Place]:
    """This machine's, and where these specs make theirs; each once."""
    places = {place.key: place for place in HERE}
    for spec in specs:
        place = place_of(spec)
        places.setdefault(place.key, place)
    return list(places.values())


async def look(places: Sequence[Place]) -> Found:
    """What stands in these places, sorted. One that cannot be asked does not keep the others from it."""
    found = Found()

    async def one(place: Place) -> None:
        try:
            standing = await acting(place, lambda backend: backend.standing())
        except SandboxError as error:
            found.unreachable.append(error)
            return
        found.standing += [(place, sandbox) for sandbox in standing or ()]

    await asyncio.gather(*(one(place) for place in places))
    found.unreachable.sort(key=str)
    found.standing.sort(key=lambda one: (one[1].backend, read_labels(one[1]).created or 0.0, one[1].sandbox_id))
    return found


async def remove(wanted: Sequence[tuple[Place, StandingSandbox]]) -> Removed:
    """Remove them, place by place; what cannot be removed is told with why."""
    removed = Removed()
    for place in {place.key: place for place, _ in wanted}.values():
        own = [sandbox for there, sandbox in wanted if there.key == place.key]
        try:
            done = await acting(place, _remover(own), REMOVAL)
        except SandboxError as error:
            removed.failed += [(sandbox, error.message()) for sandbox in own]
            continue
        if done is not None:
            removed.gone += done.gone
            removed.failed += done.failed
    return removed


def _remover(sandboxes: Sequence[StandingSandbox]) -> Callable[[SandboxBackend], Awaitable[Removed]]:
    return lambda backend: remove_each(backend, sandboxes)


async def acting(place: Place, act: Callable[[SandboxBackend], Awaitable[T]], patience: float = PATIENCE) -> T | None:
    """Act on a place's backend; None where nothing of it can be left.

    Raises SandboxError, whatever is wrong with it.
    """
    try:
        backend = await _asked(place, open_standing(place.name, place.module, place.options))
        if backend is None:
            return None
        try:
            return await _asked(place, act(backend), patience)
        finally:
            await backend.close()
    except SandboxError:
        raise
    except Exception as error:
        fix = "see whether it runs"
        raise SandboxError("sandbox-failed", backend=place.name, problem=error_text(error), fix=fix) from error


async def _asked(place: Place, answer: Awaitable[T], patience: float = PATIENCE) -> T:
    try:
        return await asyncio.wait_for(answer, patience)
    except TimeoutError:
        raise SandboxError(
            "sandbox-failed", backend=place.name, problem="it does not answer", fix="see whether it runs"
        ) from None
