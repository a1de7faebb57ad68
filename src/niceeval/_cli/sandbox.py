"""`niceeval sandbox list | prune | enter`: the sandboxes that stand on this machine, whoever made them."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

from niceeval._base.errors import NiceevalError, ResultsError, SandboxError
from niceeval._base.places import current_folder
from niceeval._base.terminal import Style, cell_width, pad_end
from niceeval._cli.exit_codes import NOT_PASSED, PASSED
from niceeval._cli.show import find_target
from niceeval._cli.streams import Streams
from niceeval._discover.project import load_project
from niceeval._drive.faults import error_text
from niceeval._model.result import SandboxInfo
from niceeval._model.sandbox import SandboxBackend, SandboxSpec, StandingSandbox
from niceeval._record.attempt import Attempt
from niceeval._sandbox.labels import ATTEMPT, EXPERIMENT, read_labels
from niceeval._sandbox.leftovers import Removed, is_left, remove_each
from niceeval._sandbox.opening import STANDING_BACKENDS, open_spec, open_standing

PATIENCE = 60.0
"""Seconds that a backend may take to answer."""
REMOVAL = 600.0
"""Seconds that removing what was found may take, on one backend."""

T = TypeVar("T")


@dataclass(slots=True)
class _Found:
    """What stands, by backend, and the backends that could not be asked."""

    standing: list[StandingSandbox] = field(default_factory=list)
    unreachable: list[NiceevalError] = field(default_factory=list)


@click.command("list", add_help_option=False)
@click.option("--json", "as_json", is_flag=True)
def sandbox_list_command(as_json: bool) -> int:
    """What stands on the backends of this machine that can be reached."""
    streams = Streams.standard()
    found = asyncio.run(_look())
    if as_json:
        streams.say_json([_json(one) for one in found.standing])
        return PASSED
    _say_unreachable(found, streams)
    if not found.standing:
        streams.say("no sandbox stands")
        return PASSED
    streams.say_list(_rows(found.standing, streams.out_style), "niceeval sandbox list --json")
    left = sum(is_left(one) for one in found.standing)
    if left:
        streams.say(f"{left} left over", "next: niceeval sandbox prune")
    return PASSED


@click.command("prune", add_help_option=False)
@click.option("--yes", "-y", is_flag=True)
@click.option("--all", "everything", is_flag=True)
def sandbox_prune_command(yes: bool, everything: bool) -> int:
    """Remove what ended runs have left; with `--all` also what was kept, and what belongs to other hosts.

    Never one whose run is alive on this host.
    """
    streams = Streams.standard()
    found = asyncio.run(_look())
    _say_unreachable(found, streams)
    wanted = [one for one in found.standing if (is_left(one) or everything) and not _is_in_use(one)]
    kept = len(found.standing) - len(wanted)
    if not wanted:
        streams.say("no sandbox is left over" + (f"; {kept} in use or kept" if kept else ""))
        return PASSED
    many = f"{len(wanted)} sandbox{'' if len(wanted) == 1 else 'es'}"
    if not yes and not _agreed(many, streams):
        streams.say("nothing was removed")
        return NOT_PASSED
    removed = asyncio.run(_remove(wanted))
    streams.say(f"removed {len(removed.gone)} of {many}" if removed.failed else f"removed {many}")
    for standing, why in removed.failed:
        streams.say(streams.out_style.clean(f"kept    {standing.backend} {standing.sandbox_id}  {why}"))
    return NOT_PASSED if removed.failed else PASSED


@click.command("enter", add_help_option=False)
@click.argument("locator")
def sandbox_enter_command(locator: str) -> int:
    """A shell in the sandbox that an attempt has left standing; this process becomes it."""
    target = find_target(locator)
    if not isinstance(target, Attempt):
        raise ResultsError("not-a-target", word=locator, kind="run", command=f"niceeval show {locator}")
    info = target.sandbox
    if info is None or not info.kept:
        raise _not_kept(target, info)
    command = asyncio.run(_enter_command(target, info))
    if command is None:
        raise SandboxError(
            "sandbox-gone",
            backend=info.backend,
            problem=f"{info.id} does not stand any more, or cannot be entered from a terminal",
            fix="run it again with --keep-sandbox all",
        )
    sys.stdout.flush()
    os.execvp(command[0], list(command))


def _not_kept(attempt: Attempt, info: SandboxInfo | None) -> SandboxError:
    had = "had no sandbox" if info is None else "ran in a sandbox that was not kept"
    return SandboxError(
        "sandbox-failed",
        backend="niceeval sandbox enter",
        problem=f"{attempt.locator} {had}",
        fix=f"niceeval exp {attempt.experiment_id or ''} {attempt.eval_id} --force --keep-sandbox all",
    )


async def _enter_command(attempt: Attempt, info: SandboxInfo) -> Sequence[str] | None:
    if info.backend in STANDING_BACKENDS:
        backend = await _asked(open_standing(info.backend))
    else:
        backend = await _asked(open_spec(_spec_of(attempt, info)))
    command = getattr(backend, "enter_command", None)
    try:
        return None if command is None else command(info.id)
    finally:
        await backend.close()


def _spec_of(attempt: Attempt, info: SandboxInfo) -> SandboxSpec:
    """The spec that the attempt's experiment has now: it knows how its backend is reached."""
    project = load_project(current_folder())
    for experiment in project.experiments:
        spec = experiment.sandbox or project.config.sandbox
        if experiment.id == attempt.experiment_id and spec is not None and spec.name == info.backend:
            return spec
    raise SandboxError(
        "sandbox-failed",
        backend=info.backend,
        problem=f"no experiment {attempt.experiment_id} of this project has this sandbox any more",
        fix="enter it with the backend's own tools",
    )


# Looking ---------------------------------------------------------------------------------------------------------


async def _look() -> _Found:
    found = _Found()
    for name in STANDING_BACKENDS:
        try:
            found.standing += await _on(name, lambda backend: backend.standing())
        except SandboxError as error:
            found.unreachable.append(error)
    found.standing.sort(key=lambda one: (one.backend, read_labels(one).created or 0.0, one.sandbox_id))
    return found


async def _remove(wanted: Sequence[StandingSandbox]) -> Removed:
    removed = Removed()
    for name in STANDING_BACKENDS:
        own = [one for one in wanted if one.backend == name]
        if not own:
            continue
        try:
            done = await _on(name, lambda backend, own=own: remove_each(backend, own), REMOVAL)  # type: ignore[misc]
        except SandboxError as error:
            removed.failed += [(one, error.message()) for one in own]
            continue
        removed.gone += done.gone
        removed.failed += done.failed
    return removed


async def _on(name: str, act: Callable[[SandboxBackend], Awaitable[T]], patience: float = PATIENCE) -> T:
    """Act on an opened backend of this machine. Raises SandboxError, whatever is wrong with it."""
    try:
        backend = await _asked(open_standing(name))
        try:
            return await _asked(act(backend), patience)
        finally:
            await backend.close()
    except SandboxError:
        raise
    except Exception as error:
        fix = "see whether it runs"
        raise SandboxError("sandbox-failed", backend=name, problem=error_text(error), fix=fix) from error


async def _asked(answer: Awaitable[T], patience: float = PATIENCE) -> T:
    try:
        return await asyncio.wait_for(answer, patience)
    except TimeoutError:
        raise SandboxError(
            "sandbox-failed", backend="the sandbox backend", problem="it does not answer", fix="see whether it runs"
        ) from None


def _is_in_use(standing: StandingSandbox) -> bool:
    owner = read_labels(standing).owner
    return owner is not None and owner.is_living


def _say_unreachable(found: _Found, streams: Streams) -> None:
    """A backend that is not there is no fault of a machine that has none; it is said, since it was not looked at."""
    for error in found.unreachable:
        streams.note(streams.err_style.clean(f"not looked at: {error.message()}"))


def _agreed(what: str, streams: Streams) -> bool:
    if not sys.stdin.isatty():
        raise ResultsError("sandbox-needs-yes", what=what)
    streams.err.write(f"remove {what}? [y/N] ")
    streams.err.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


# Saying ----------------------------------------------------------------------------------------------------------


def _state(standing: StandingSandbox) -> str:
    label = read_labels(standing)
    if _is_in_use(standing):
        return "in use"
    if is_left(standing):
        return "left over"
    return "kept" if label.kept else "of another host" if label.owner is not None else "unknown owner"


def _rows(found: Sequence[StandingSandbox], style: Style) -> list[str]:
    cells = [
        [
            style.clean(one.backend),
            style.clean(one.sandbox_id),
            _state(one),
            _left_time(one),
            style.clean(one.labels.get(EXPERIMENT, "")),
            style.clean(one.labels.get(ATTEMPT, "")),
            style.clean(one.detail),
        ]
        for one in found
    ]
    widths = [max(map(cell_width, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(pad_end(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _left_time(standing: StandingSandbox) -> str:
    expires = read_labels(standing).expires
    if expires is None:
        return "no end"
    minutes = int((expires - time.time()) // 60)
    return "its time is up" if minutes < 0 else f"{minutes} min left"


def _json(standing: StandingSandbox) -> dict[str, Any]:
    label = read_labels(standing)
    value = {
        "backend": standing.backend,
        "id": standing.sandbox_id,
        "state": _state(standing),
        "run": label.run or None,
        "experimentId": standing.labels.get(EXPERIMENT),
        "attempt": standing.labels.get(ATTEMPT),
        "createdAt": label.created,
        "expiresAt": label.expires,
        "detail": standing.detail or None,
    }
    return {name: item for name, item in value.items() if item is not None}
