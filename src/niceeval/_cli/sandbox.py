"""`niceeval sandbox list | prune | enter`: the sandboxes that stand, here and where the project makes its own."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from niceeval._base.errors import ResultsError, SandboxError, SelectionError
from niceeval._base.places import current_folder
from niceeval._base.terminal import Style, cell_width, pad_end
from niceeval._cli.exit_codes import NOT_PASSED, PASSED
from niceeval._cli.show import find_target
from niceeval._cli.streams import Streams
from niceeval._discover.project import load_project
from niceeval._model.result import SandboxInfo
from niceeval._model.sandbox import SandboxBackend, SandboxSpec, StandingSandbox
from niceeval._record.attempt import Attempt
from niceeval._sandbox.labels import ATTEMPT, EXPERIMENT, read_labels
from niceeval._sandbox.leftovers import is_left
from niceeval._sandbox.standing import HERE, Found, Place, acting, look, place_of, places_of, remove


@click.command("list", add_help_option=False)
@click.option("--json", "as_json", is_flag=True)
def sandbox_list_command(as_json: bool) -> int:
    """What stands on this machine, and where this project's experiments make their sandboxes."""
    streams = Streams.standard()
    found = _look(streams)
    standing = [sandbox for _, sandbox in found.standing]
    if as_json:
        streams.say_json([_json(one) for one in standing])
        return PASSED
    _say_unreachable(found, streams)
    if not standing:
        streams.say("no sandbox stands")
        return PASSED
    streams.say_list(_rows(standing, streams.out_style), "niceeval sandbox list --json")
    left = sum(is_left(one) for one in standing)
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
    found = _look(streams)
    _say_unreachable(found, streams)
    wanted = [(place, one) for place, one in found.standing if (is_left(one) or everything) and not _is_in_use(one)]
    kept = len(found.standing) - len(wanted)
    if not wanted:
        streams.say("no sandbox is left over" + (f"; {kept} in use or kept" if kept else ""))
        return PASSED
    many = f"{len(wanted)} sandbox{'' if len(wanted) == 1 else 'es'}"
    if not yes and not _agreed(many, streams):
        streams.say("nothing was removed")
        return NOT_PASSED
    removed = asyncio.run(remove(wanted))
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
    command = asyncio.run(_enter_command(_place_of(target, info), info))
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


async def _enter_command(place: Place, info: SandboxInfo) -> Sequence[str] | None:
    async def command(backend: SandboxBackend) -> Sequence[str] | None:
        known: Callable[[str], Sequence[str] | None] | None = getattr(backend, "enter_command", None)
        return None if known is None else known(info.id)

    return await acting(place, command)


def _place_of(attempt: Attempt, info: SandboxInfo) -> Place:
    """Where it stands: the spec that the attempt's experiment has now says it, or this machine has such a backend."""
    try:
        project = load_project(current_folder())
    except SelectionError:
        project = None
    if project is not None:
        for experiment in project.experiments:
            spec = experiment.sandbox or project.config.sandbox
            if experiment.id == attempt.experiment_id and spec is not None and spec.name == info.backend:
                return place_of(spec)
    for place in HERE:
        if place.name == info.backend:
            return place
    raise SandboxError(
        "sandbox-failed",
        backend=info.backend,
        problem=f"no experiment {attempt.experiment_id} of this project has this sandbox any more",
        fix="enter it with the backend's own tools",
    )


# Looking ---------------------------------------------------------------------------------------------------------


def _specs(streams: Streams) -> list[SandboxSpec]:
    """The sandboxes of the project around here, if there is one: its services and engines are looked at, too."""
    try:
        project = load_project(current_folder())
    except SelectionError:
        return []
    for problem in project.problems:
        streams.note(
            streams.err_style.clean(f"not looked at: what {problem.place or 'a file'} uses: {problem.message()}")
        )
    specs = [project.config.sandbox, *(experiment.sandbox for experiment in project.experiments)]
    return [spec for spec in specs if spec is not None]


def _look(streams: Streams) -> Found:
    return asyncio.run(look(places_of(_specs(streams))))


def _is_in_use(standing: StandingSandbox) -> bool:
    owner = read_labels(standing).owner
    return owner is not None and owner.is_living


def _say_unreachable(found: Found, streams: Streams) -> None:
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
