"""A run's own results read back one at a time, by those who report on it when it is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from niceeval._base.errors import NiceevalError
from niceeval._model.result import AttemptResult
from niceeval._record.artifacts import unreadable
from niceeval._record.layout import RESULT, SUMMARY
from niceeval._record.runs import result_folders

_RESULT = msgspec.json.Decoder(AttemptResult)


def stored_results(run_folder: str) -> Iterator[AttemptResult]:
    """The results of a run that this version wrote, in discovery order; never more than one in memory.

    They come from `summary.json`, or where there is none from the attempts' own files. Raises ResultsError
    (`unreadable`).
    """
    try:
        yield from _from_summary(run_folder)
    except FileNotFoundError:
        yield from _from_folders(run_folder)
    except (OSError, ValueError) as error:
        raise _unreadable(run_folder, error) from error


def _from_summary(run_folder: str) -> Iterator[AttemptResult]:
    """`write_summary` puts the head, each result and the end on lines of their own."""
    with open(f"{run_folder}/{SUMMARY}", "rb") as file:
        file.readline()
        for line in file:
            if line.startswith(b"{"):
                yield _RESULT.decode(line.rstrip(b",\n"))


def _from_folders(run_folder: str) -> Iterator[AttemptResult]:
    places = []
    for place in result_folders(Path(run_folder)):
        result = _result_in(run_folder, place)
        places.append((result.experiment_id or "", result.id, result.attempt, place))
    for *_, place in sorted(places):
        yield _result_in(run_folder, place)


def _result_in(run_folder: str, place: str) -> AttemptResult:
    try:
        with open(f"{run_folder}/{place}/{RESULT}", "rb") as file:
            return _RESULT.decode(file.read())
    except (OSError, ValueError) as error:
        raise _unreadable(f"{run_folder}/{place}", error) from error


def _unreadable(path: str, error: Exception) -> NiceevalError:
    return unreadable(path, getattr(error, "strerror", None) or error)
