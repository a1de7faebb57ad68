"""Where things lie in a run folder: names only, no disk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import NamedTuple

from niceeval._base.ids import folder_names

RESULTS_FOLDER = ".niceeval"
SUMMARY = "summary.json"
RESULT = "result.json"
EVENTS = "events.json"
EVENTS_INDEX = "events.idx.json"
SOURCES = "sources.json"
O11Y = "o11y.json"
LOGS = "logs.json"
DIFF = "diff.json"
JUDGEMENTS = "judgements.json"
HIDDEN = ".tmp-"
"""Start of the names of files and folders that are not finished; readers skip them."""
ARTIFACTS = frozenset({EVENTS, EVENTS_INDEX, SOURCES, O11Y, LOGS, DIFF, JUDGEMENTS})
"""The files beside a `result.json`; they never change once they are there."""

_RUN = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}-\d{3}Z(-\d+)?")


class FolderKey(NamedTuple):
    """What an attempt's folder is named after; `attempt` counts from 0."""

    experiment_id: str
    eval_id: str
    agent: str
    model: str | None
    attempt: int


def run_name(started: datetime) -> str:
    """A run folder's name: ISO time in UTC with milliseconds, `:` and `.` as `-`."""
    utc = started.astimezone(UTC)
    return f"{utc:%Y-%m-%dT%H-%M-%S}-{utc.microsecond // 1000:03d}Z"


def is_run_name(name: str) -> bool:
    """Whether a folder's name is one that a run gives itself."""
    return _RUN.fullmatch(name) is not None


def attempt_folders(keys: Sequence[FolderKey]) -> dict[FolderKey, str]:
    """A relative folder (posix) for each attempt of a run, none inside another, none equal to another in any case."""
    flat: set[str] = set()
    agents = folder_names((key.agent for key in keys), paths=False)
    models = folder_names((key.model or "default" for key in keys), paths=False)
    experiments = folder_names((key.experiment_id for key in keys), paths=False)
    while True:
        evals = folder_names((key.eval_id for key in keys), paths=True, flat=flat, taken=[SUMMARY])
        folders = {
            key: "/".join(
                (
                    evals[key.eval_id],
                    agents[key.agent],
                    models[key.model or "default"],
                    experiments[key.experiment_id],
                    f"a{key.attempt}",
                )
            )
            for key in keys
        }
        nested = _evals_inside_others(folders) - flat
        if not nested:
            return folders
        flat |= nested


def _evals_inside_others(folders: dict[FolderKey, str]) -> set[str]:
    """Evals whose id leads into another attempt's folder (an id like `a/agent/model/experiment/a0/b`)."""
    lowered = {folder.lower() for folder in folders.values()}
    return {key.eval_id for key, folder in folders.items() if _leads_into(folder.lower(), lowered)}


def _leads_into(folder: str, others: set[str]) -> bool:
    at = folder.find("/a")
    while at != -1:
        end = folder.find("/", at + 1)
        if end == -1:
            return False
        if folder[:end] in others:
            return True
        at = folder.find("/a", end)
    return False


def is_inside(path: str) -> bool:
    """Whether a stored relative path stays where it is meant to: not empty, not absolute, without `..` or `\\`."""
    return bool(path) and "\\" not in path and ":" not in path and "\0" not in path and _is_plain(PurePosixPath(path))


def _is_plain(path: PurePosixPath) -> bool:
    return not path.is_absolute() and ".." not in path.parts
