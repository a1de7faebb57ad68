"""`niceeval clean`: deletes runs, and nothing else."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from niceeval._base.errors import ResultsError
from niceeval._base.terminal import count, size
from niceeval._cli.exit_codes import NOT_PASSED, PASSED
from niceeval._cli.streams import Streams
from niceeval._discover.project import find_root
from niceeval._record.layout import is_run_name

RESULTS = ".niceeval"


@click.command("clean", add_help_option=False)
@click.option("--yes", "-y", is_flag=True)
def clean_command(yes: bool) -> int:
    """Delete the project's runs, after asking."""
    streams = Streams.standard()
    runs = run_folders(find_root(Path.cwd()) / RESULTS)
    if not runs:
        streams.say(f"{RESULTS}/ has no runs; nothing was deleted")
        return PASSED
    what = f"{count(len(runs))} run{'' if len(runs) == 1 else 's'} ({size(sum(map(_bytes_in, runs)))})"
    if not yes and not _agreed(what, streams):
        streams.say("nothing was deleted")
        return NOT_PASSED
    for run in runs:
        _delete(run)
    streams.say(f"deleted {what} in {RESULTS}/")
    return PASSED


def run_folders(results: Path) -> list[Path]:
    """The run folders in a results folder: real folders with a run's name. Links are never followed.

    Raises ResultsError (`cannot-write`) where the results folder itself is a link.
    """
    if results.is_symlink():
        raise ResultsError("cannot-write", path=f"{RESULTS}/", problem="it is a link, and clean follows none")
    if not results.is_dir():
        return []
    with os.scandir(results) as entries:
        found = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False) and is_run_name(entry.name)]
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
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _sizes(entry.path)
            else:
                yield entry.stat(follow_symlinks=False).st_size


def _delete(run: Path) -> None:
    try:
        shutil.rmtree(run)
    except OSError as error:
        problem = error.strerror or str(error)
        raise ResultsError("cannot-write", path=f"{RESULTS}/{run.name}", problem=problem) from error
