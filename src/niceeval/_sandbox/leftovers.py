"""What killed runs have left standing: which sandboxes those are, and removing them.

A sandbox is left over when its time is up, or when its owner was on this host and is gone. Never one whose owner lives,
nor, before its time is up, one of another host or one that was kept to be looked at.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from niceeval._base.errors import SandboxError
from niceeval._model.sandbox import SandboxBackend, StandingSandbox
from niceeval._sandbox.labels import read_labels

AT_ONCE = 4
"""Sandboxes that are removed at the same time."""


def is_left(standing: StandingSandbox, now: float | None = None) -> bool:
    """Whether nobody needs it any more."""
    label = read_labels(standing)
    if not label.ours or (label.owner is not None and label.owner.is_living):
        return False
    if label.expires is not None and (time.time() if now is None else now) >= label.expires:
        return True
    return not label.kept and label.owner is not None and label.owner.is_gone


@dataclass(slots=True)
class Removed:
    """What became of sandboxes that were to be removed; `failed` with why."""

    gone: list[StandingSandbox] = field(default_factory=list)
    failed: list[tuple[StandingSandbox, str]] = field(default_factory=list)


async def remove_each(backend: SandboxBackend, sandboxes: Sequence[StandingSandbox]) -> Removed:
    """Remove them, a few at a time; one that cannot be removed does not keep the others."""
    removed = Removed()
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(standing: StandingSandbox) -> None:
        async with limit:
            try:
                await backend.remove(standing.sandbox_id)
                removed.gone.append(standing)
            except SandboxError as error:
                removed.failed.append((standing, error.message()))

    await asyncio.gather(*(one(standing) for standing in sandboxes))
    return removed


async def remove_leftovers(backend: SandboxBackend, wanted: Callable[[StandingSandbox], bool] = is_left) -> Removed:
    """Look for leftovers on a backend, and remove them. Raises what its `standing` raises."""
    return await remove_each(backend, [standing for standing in await backend.standing() if wanted(standing)])
