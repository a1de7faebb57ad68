"""Which assertions decided an attempt's verdict, and the one line that stands for it in an index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from niceeval._base.plain_text import shorten
from niceeval._model.assertion import AssertionResult
from niceeval._model.result import AttemptResult

_INDEX_TEXT = 200


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One line of the index of what did not pass; its texts are not cleaned yet. `carried`: it ran earlier."""

    outcome: Literal["failed", "errored"]
    eval_id: str
    experiment_id: str
    what: str
    locator: str | None
    carried: bool = False


def deciding(result: AttemptResult) -> list[AssertionResult]:
    """The entries that decided the verdict, gates first.

    For an `errored` attempt these are the unanswered ones, unless an error ended it: then that is the reason.
    """
    if result.outcome == "errored":
        return [entry for entry in result.assertions if entry.outcome == "unavailable" and not entry.optional]
    if result.outcome != "failed":
        return []
    # `.optional()` excuses what the evidence could not answer, and nothing that it did.
    failed = [entry for entry in result.assertions if entry.outcome == "failed"]
    gates = [entry for entry in failed if entry.severity == "gate"]
    strict = result.experiment is not None and result.experiment.strict
    return gates + [entry for entry in failed if entry.severity == "soft" and strict]


def failed_beside(result: AttemptResult) -> list[AssertionResult]:
    """The gates that failed in an attempt that is errored for another reason."""
    if result.outcome != "errored":
        return []
    return [entry for entry in result.assertions if entry.outcome == "failed" and entry.severity == "gate"]


def signature(result: AttemptResult) -> int:
    """Equal for attempts of one eval that ended for the same reason at the same place."""
    error = result.error_info
    if error is not None:
        return hash((result.outcome, error.code, error.phase, error.loc, error.message))
    return hash((result.outcome, *((entry.name, str(entry.loc), entry.outcome) for entry in deciding(result))))


def index_entry(experiment_id: str, result: AttemptResult) -> IndexEntry:
    """The line for an attempt that is `failed` or `errored`."""
    outcome: Literal["failed", "errored"] = "failed" if result.outcome == "failed" else "errored"
    carried = result.carried_from is not None
    return IndexEntry(outcome, result.id, experiment_id, shorten(_what(result), _INDEX_TEXT), result.locator, carried)


def _what(result: AttemptResult) -> str:
    if result.error_info is not None:
        return f"{result.error_info.code}: {_first_line(result.error_info.message)}"
    entries = deciding(result)
    if not entries:
        return _first_line(result.error or "")
    return _entry(entries[0])


def _entry(entry: AssertionResult) -> str:
    line = f":{entry.loc.line} " if entry.loc is not None else ""
    if entry.outcome == "unavailable":
        reason = entry.reason
        return f"{line}unavailable: {(reason.channel or reason.code) if reason else entry.name}"
    return line + (entry.label or entry.name)


def _first_line(text: str) -> str:
    return text.split("\n", 1)[0]
