"""`niceeval show`: stored results in the terminal."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from niceeval._base.errors import NiceevalError, ResultsError, SelectionError
from niceeval._base.ids import parse_locator
from niceeval._base.places import current_folder
from niceeval._base.redaction import Redactor, secret_values
from niceeval._cli.exit_codes import PASSED
from niceeval._cli.streams import Streams
from niceeval._discover.dotenv import load_dotenv
from niceeval._discover.project import find_root
from niceeval._discover.select import under
from niceeval._judging import records
from niceeval._record.attempt import Attempt
from niceeval._record.layout import RESULTS_FOLDER
from niceeval._record.reader import Results, open_results
from niceeval._view.attempt_page import attempt_page
from niceeval._view.bounded import bounded
from niceeval._view.documents import attempt_document, overview_document
from niceeval._view.overview import json_command, overview

_IDS: Final[tuple[tuple[str, Callable[[Attempt], str]], ...]] = (
    ("eval", lambda attempt: attempt.eval_id),
    ("experiment", lambda attempt: attempt.experiment_id or ""),
)


@click.command("show", add_help_option=False)
@click.argument("target", required=False)
@click.option("--json", "as_json", is_flag=True)
def show_command(target: str | None, as_json: bool) -> int:
    """An attempt by its locator, a run, a results folder; without a target, the project's results."""
    streams = Streams.standard(Redactor(_secrets()))
    found = find_target(target)
    if as_json:
        streams.say_json(
            attempt_document(found) if isinstance(found, Attempt) else overview_document(found, _calibrations())
        )
        return PASSED
    if isinstance(found, Attempt):
        lines = attempt_page(found, streams.out_style)
    else:
        lines = overview(found, streams.out_style, datetime.now(UTC), target=target or "", calibrations=_calibrations())
    more = streams.out_style.clean(json_command(target or ""))
    streams.say(*(lines if streams.out.isatty else bounded(lines, more)))
    return PASSED


def _calibrations() -> tuple[records.CalibrationRecord, ...]:
    """What is known of the judges of the project around here."""
    try:
        return records.load(find_root(current_folder()))
    except SelectionError:
        return ()


def find_target(target: str | None) -> Results | Attempt:
    """What a target names: `@LOCATOR` in the project's results, `PATH/@LOCATOR` in those at a path, a path itself, or
    a run of the project by its name.

    Raises ResultsError (`not-a-target` for the id of an eval or experiment), or SelectionError (`no-project`) where a
    project is needed and there is none.
    """
    if target is None:
        return open_results(_project_results())
    path, name = os.path.split(target)
    if name.startswith("@") and not os.path.exists(target):
        return (_results_at(path) if path else open_results(_project_results())).find(name)
    try:
        if os.path.exists(target) or parse_locator(target) is None:
            return _results_at(target)
        return open_results(_project_results()).find(target)
    except ResultsError as error:
        if error.code not in ("no-results", "unknown-locator"):
            raise
        raise _named(target) or error from None


def _named(word: str) -> ResultsError | None:
    """The error for a word that is the id of an eval or an experiment with results, or holds some."""
    try:
        attempts = open_results(_project_results()).attempts
    except NiceevalError:
        return None
    for kind, id_of in _IDS:
        newest = next((one for one in attempts if under(id_of(one), word.rstrip("/"))), None)
        if newest is not None:
            command = f"niceeval show {newest.locator}"
            return ResultsError("not-a-target", word=word, kind=kind, command=command)
    return None


def _results_at(target: str) -> Results:
    """The results at a path, or of a run of the project."""
    if os.path.exists(target) or os.path.basename(target) != target:
        return open_results(target)
    try:
        run = _project_results() / target
    except SelectionError:
        run = Path(target)
    if not run.exists():
        raise ResultsError("no-results", path=target)
    return open_results(run)


def _project_results() -> Path:
    """The results folder of the project around the current folder, as a person would name it."""
    here = current_folder()
    try:
        folder = find_root(here) / RESULTS_FOLDER
    except SelectionError:
        if not (here / RESULTS_FOLDER).is_dir():
            raise
        folder = here / RESULTS_FOLDER
    return Path(os.path.relpath(folder, here))


def _secrets() -> frozenset[str]:
    """Results hold no secrets when they are ours; what others wrote may hold those of this project."""
    try:
        root = find_root(current_folder())
    except SelectionError:
        return secret_values(os.environ, {})
    variables, _ = load_dotenv(root, dict(os.environ))
    return secret_values(os.environ, variables)
