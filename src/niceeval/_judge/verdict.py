"""An attempt's verdict: the first rule that holds."""

from __future__ import annotations

from collections.abc import Iterable

from niceeval._judge.collector import Entry, outcome_of
from niceeval._model.result import Verdict


def attempt_verdict(entries: Iterable[Entry], *, errored: bool, skipped: bool, strict: bool) -> Verdict:
    """What the attempt comes to.

    1. an execution error, timeout or author error (`errored`), or a non-optional `unavailable` entry -> errored
    2. a gate failed, or under `strict` a soft line was missed -> failed
    3. the author skipped -> skipped
    4. otherwise -> passed
    """
    entries = list(entries)
    if errored or any(outcome_of(entry) == "unavailable" and not entry.optional for entry in entries):
        return "errored"
    if any(_fails(entry, strict) for entry in entries):
        return "failed"
    return "skipped" if skipped else "passed"


def _fails(entry: Entry, strict: bool) -> bool:
    return entry.counts and (strict or entry.severity == "gate") and outcome_of(entry) == "failed"
