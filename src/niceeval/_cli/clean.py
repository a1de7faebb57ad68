"""`niceeval clean`: deletes runs, and nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import click

from niceeval._base.errors import ResultsError
from niceeval._base.places import current_folder
from niceeval._base.terminal import count, size
from niceeval._cli.exit_codes import NOT_PASSED, PASSED
from niceeval._cli.streams import Streams
from niceeval._discover.project import find_root
from niceeval._record import disk
from niceeval._record.claims import forget_ended
from niceeval._record.layout import HIDDEN, is_run_name
from niceeval._record.liveness import being_written

RESULTS = ".niceeval"


@click.command("clean", add_help_option=False)
@click.option("--yes", "-y", is_flag=True)
def clean_command(yes: bool) -> int:
    """Delete the project's runs, after asking; those that are being written stay."""
    streams = Streams.standard()
    results = find_root(current_folder()) / RESULTS
    runs = run_folders(results)
    kept = [run for run in runs if being_written(run)]
    gone = [run for run in runs if run not in kept]
    if not gone:
        _clear_leftovers(results)
        streams.say(f"{RESULTS}/ has no runs to delete" if kept else f"{RESULTS}/ has no runs; nothing was deleted")
        _say_kept(kept, streams)
        return PASSED
    what = f"{count(len(gone))} run{'' if len(gone) == 1 else 's'} ({size(sum(map(_bytes_in, gone)))})"
    if not yes and not _agreed(what, streams):
        streams.say("nothing was deleted")
        return NOT_PASSED
    # Once more: whoever was asked may have taken long to answer.
    late = [run for run in gone if not _delete(run)]
    _clear_leftovers(results)
    if late:
        what = f"{count(len(gone) - len(late))} of {what}"
    streams.say(f"deleted {what} in {RESULTS}/")
    _say_kept([*kept, *late], streams)
    return PASSED


def _say_kept(runs: list[Path], streams: Streams) -> None:
    for run in runs:
        streams.say(f"kept    {run.name}  it is being written")


def run_folders(results: Path) -> list[Path]:
    """The run folders in a results folder: real folders with a run's name. Links are never followed.

    Raises ResultsError (`cannot-write`) where the results folder itself is a link.
    """
    return _folders(results, is_run_name)


def _folders(results: Path, is_wanted: Callable[[str], bool]) -> list[Path]:
    if results.is_symlink():
        raise ResultsError("cannot-write", path=f"{RESULTS}/", problem="it is a link, and clean follows none")
    if not results.is_dir():
        return []
    with os.scandir(results) as entries:
        found = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False) and is_wanted(entry.name)]
    return [results / name for name in sorted(found)]


def _agreed(what: str, streams: Streams) -> bool:
    if not sys.stdin.isatty():
        raise ResultsError("needs-yes", what=what)
    streams.err.write(f"delete {what} in {RESULTS}/? [y/N] ")
    streams.err.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _bytes_in(folder: Path) -> int:
    return sum(_sizes(str(folder)))


def _sizes(folder: str) -> Iterator[int]:
    try:
        with os.scandir(folder) as entries:
            found = list(entries)
    except FileNotFoundError:  # somebody else deletes it, too
        return
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            yield from _sizes(entry.path)
        else:
            with suppress(FileNotFoundError):
                yield entry.stat(follow_symlinks=False).st_size


def _delete(run: Path) -> bool:
    """Delete a run, unless somebody writes it. It is hidden first: what is left of it is no run any more."""
    if being_written(run):
        return False
    hidden = run.with_name(f"{HIDDEN}{run.name}")
    try:
        with suppress(FileNotFoundError):
            disk.rename(str(run), str(hidden))
            disk.remove_tree(str(hidden))
    except OSError as error:
        problem = error.strerror or str(error)
        raise ResultsError("cannot-write", path=f"{RESULTS}/{run.name}", problem=problem) from error
    return True


def _clear_leftovers(results: Path) -> None:
    """What commands that were killed have left: runs that were half deleted, claims of invocations that have ended."""
    for folder in _folders(results, _is_left):
        disk.remove_tree(str(folder), ignore_errors=True)
    with suppress(OSError):
        forget_ended(results)


def _is_left(name: str) -> bool:
    return name.startswith(HIDDEN) and is_run_name(name.removeprefix(HIDDEN))
