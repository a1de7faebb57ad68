"""Reading one file of an attempt. Paths inside results are somebody else's text: they never lead out of the run."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from niceeval._base.errors import ResultsError
from niceeval._record.layout import is_inside

MAX_BYTES = 256_000_000
"""An artifact above this size is not read."""


def unreadable(path: str, problem: object) -> ResultsError:
    """The error for results that are there and cannot be used."""
    return ResultsError("unreadable", path=path, problem=str(problem))


def read_artifact(run_folder: Path, artifacts_dir: str, name: str) -> bytes | None:
    """A file of an attempt; None where there is none.

    Raises ResultsError (`unreadable`) where the path leads out of the run folder (by `..` or by a link), is no
    ordinary file, or is larger than `MAX_BYTES`.
    """
    shown = f"{run_folder.name}/{artifacts_dir}/{name}"
    if not artifacts_dir:
        return None
    if not is_inside(artifacts_dir):
        raise unreadable(shown, "artifactsDir leads out of the run folder")
    path = os.path.join(run_folder, artifacts_dir, name)
    if not os.path.lexists(path):
        return None
    root, real = os.path.realpath(run_folder), os.path.realpath(path)
    if os.path.commonpath((root, real)) != root:
        raise unreadable(shown, "it is a link out of the run folder")
    return read_file(real, shown, limit=MAX_BYTES)


def read_file(path: str | Path, shown: str, *, limit: int | None = None) -> bytes:
    """An ordinary file's bytes, of at most `limit`. Raises ResultsError (`unreadable`)."""
    try:
        # Opening a pipe would wait for its writer, so the kind is asked first.
        kind = os.stat(path)
        if not stat.S_ISREG(kind.st_mode):
            raise unreadable(shown, "it is not an ordinary file")
        if limit is not None and kind.st_size > limit:
            raise unreadable(shown, f"it is larger than {limit} bytes")
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise unreadable(shown, error.strerror or error) from error
