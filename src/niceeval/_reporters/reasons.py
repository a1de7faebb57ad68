"""Why an attempt did not pass, for reports: what kind of reason, one line, all of it, and where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from niceeval._model.assertion import AssertionResult
from niceeval._model.events import Loc
from niceeval._model.result import AttemptResult, ErrorInfo
from niceeval._reporters.deciding import deciding

_LOC = re.compile(r"(.+?):(\d+)(?::(\d+))?")


@dataclass(frozen=True, slots=True)
class Reason:
    """Texts as they were stored: bounded and redacted, not cleaned for any reader."""

    kind: str
    headline: str
    lines: tuple[str, ...]
    loc: Loc | None


def reason_of(result: AttemptResult) -> Reason:
    """The reason of an attempt that is `failed` or `errored`."""
    if result.error_info is not None:
        return _of_error(result.error_info)
    entries = deciding(result)
    if not entries:
        text = result.error or f"{result.outcome}, and no assertion says why"
        return Reason(result.outcome, text.split("\n", 1)[0], (text,), None)
    first = entries[0]
    lines = tuple(line for entry in entries for line in _entry_lines(entry))
    return Reason(_kind(first), _headline(first), lines, first.loc)


def show_command(result: AttemptResult) -> str:
    """The command that shows the attempt."""
    return f"niceeval show {result.locator}" if result.locator else "niceeval show"


def _of_error(error: ErrorInfo) -> Reason:
    place = f"{error.loc} in {error.phase}" if error.loc else f"in {error.phase}"
    hint = f"next: {error.next}" if error.next else None
    lines = tuple(filter(None, (error.message, place, error.trace, hint)))
    return Reason(error.code, error.message.split("\n", 1)[0], lines, _loc(error.loc))


def _loc(text: str | None) -> Loc | None:
    found = _LOC.fullmatch(text or "")
    return Loc(file=found[1], line=int(found[2]), column=int(found[3]) if found[3] else None) if found else None


def _kind(entry: AssertionResult) -> str:
    if entry.outcome == "unavailable":
        return entry.reason.code if entry.reason is not None else "unavailable"
    return entry.severity


def _headline(entry: AssertionResult) -> str:
    if entry.outcome == "unavailable":
        return f"{_named(entry)}: unavailable: {_unanswered(entry)}"
    return f"{_named(entry)}: received {entry.received}" if entry.received else _named(entry)


def _named(entry: AssertionResult) -> str:
    return f"{entry.name} ({entry.label})" if entry.label else entry.name


def _unanswered(entry: AssertionResult) -> str:
    return entry.reason.message if entry.reason is not None else "the evidence does not say"


def _entry_lines(entry: AssertionResult) -> Iterator[str]:
    place = f"{entry.loc}  " if entry.loc is not None else ""
    yield f"{place}{entry.severity}  {_named(entry)}"
    if entry.outcome == "unavailable":
        yield f"  unavailable  {_unanswered(entry)}"
    said = {"expected": entry.expected, "received": entry.received, "detail": entry.detail}
    yield from (f"  {name}  {text}" for name, text in said.items() if text)
