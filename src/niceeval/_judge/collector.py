"""Recording assertions: one entry per call, a handle that configures it, and the outcome at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from niceeval._base.callsite import CallSite
from niceeval._base.errors import AuthorError
from niceeval._base.plain_text import clean_text
from niceeval._judge.evaluation import Evaluation
from niceeval._model.assertion import AssertionResult, JudgeRecord, Outcome, Severity
from niceeval._model.events import Loc
from niceeval._model.result import Points

MAX_ENTRIES = 10_000
"""Assertions that one attempt may record; an endless loop of checks must not take the machine's memory."""
MAX_TEXT = 2_000
"""Characters kept of expected, received, detail and evidence."""
_EPSILON = 1e-9


def _free() -> None:
    """Nobody is kept from configuring the entry."""


@dataclass(slots=True, kw_only=True)
class Entry:
    """One assertion while its attempt runs. `deferred` evaluates it at the end; `threshold` None is the default.

    `guard` raises where the code being run may not configure it: it is another attempt's.
    """

    name: str
    site: CallSite
    group: str | None
    severity: Severity = "gate"
    threshold: float | None = None
    optional: bool = False
    label: str | None = None
    points: float | None = None
    gate_said: bool = False
    evaluation: Evaluation | None = None
    deferred: Callable[[], Evaluation] | None = None
    guard: Callable[[], None] = _free
    judge: JudgeRecord | None = None

    @property
    def counts(self) -> bool:
        """Whether a failure touches the verdict: points alone do not, unless `.gate()` was said too."""
        return self.points is None or self.gate_said

    def missed(self) -> bool:
        """Whether the entry, as it is configured now, is anything but passed."""
        return outcome_of(self) != "passed"


class AssertionHandle:
    """Configures one recorded assertion; every method returns the handle again.

    The call that returned it has recorded the assertion already, so the handle has no truth value: `assert
    turn.called_tool(...)` raises.
    """

    __slots__ = ("_entry",)

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    def gate(self, line: float | None = None) -> Self:
        """A miss fails the attempt. `line` in [0, 1] is the score it must reach; without it the line stays as it is."""
        self._entry.guard()
        self._entry.severity = "gate"
        self._entry.gate_said = True
        if line is not None:
            self._entry.threshold = _valid_line(line, "gate")
        return self

    def at_least(self, line: float) -> Self:
        """Soft, with a line in [0, 1]: a miss is shown, and fails the attempt only under `--strict`."""
        self._entry.guard()
        self._entry.severity = "soft"
        self._entry.threshold = _valid_line(line, "at_least")
        return self

    def soft(self) -> Self:
        """Soft, without a line: the score is recorded and compared, nothing can be missed."""
        self._entry.guard()
        self._entry.severity = "soft"
        self._entry.threshold = None
        return self

    def optional(self) -> Self:
        """An `unavailable` outcome stays visible but does not make the attempt errored."""
        self._entry.guard()
        self._entry.optional = True
        return self

    def label(self, text: str) -> Self:
        """A name for people, shown beside the assertion's own."""
        self._entry.guard()
        self._entry.label = str(text)
        return self

    def points(self, points: float) -> Self:
        """Adds to the attempt's points: all when passed, score x points for a graded entry, none when failed.

        A failure then leaves the verdict alone, unless `.gate()` is said as well.
        """
        self._entry.guard()
        if type(points) not in (int, float) or not points > 0:
            raise AuthorError(
                "bad-argument", call="points", argument="points", problem=f"is {points!r}", fix="give a number > 0"
            )
        self._entry.points = float(points)
        return self

    def __bool__(self) -> bool:
        raise AuthorError("handle-as-bool")

    def __repr__(self) -> str:
        return f"<assertion {self._entry.name}>"


class Collector:
    """All assertions of one attempt, in the order they were recorded."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, entry: Entry) -> AssertionHandle:
        """Record an entry. Raises AuthorError (`too-many-entries`) beyond `MAX_ENTRIES`."""
        if len(self.entries) >= MAX_ENTRIES:
            raise AuthorError("too-many-entries", limit=f"{MAX_ENTRIES:,}")
        self.entries.append(entry)
        return AssertionHandle(entry)

    def waiting(self) -> list[Entry]:
        """The entries that are evaluated at the end of the eval function."""
        return [entry for entry in self.entries if entry.evaluation is None and entry.deferred is not None]

    def points(self) -> Points | None:
        """Earned and possible points; None where no entry carries any."""
        scored = [entry for entry in self.entries if entry.points is not None]
        if not scored:
            return None
        return Points(
            earned=round(sum(_earned(entry) for entry in scored), 6),
            possible=round(sum(entry.points or 0.0 for entry in scored), 6),
        )


def outcome_of(entry: Entry) -> Outcome:
    """`passed`, `failed` or `unavailable`, from what was evaluated and how the entry is configured now."""
    evaluation = entry.evaluation
    if evaluation is None or evaluation.reason is not None:
        return "unavailable"
    line = line_of(entry)
    return "passed" if line is None or evaluation.score >= line - _EPSILON else "failed"


def line_of(entry: Entry) -> float | None:
    """The score the entry must reach; None for a soft entry without a line."""
    if entry.threshold is not None:
        return entry.threshold
    if entry.severity == "gate":
        return 1.0
    return None


def stored(entry: Entry, loc: Callable[[CallSite], Loc | None]) -> AssertionResult:
    """The entry as it is written; `loc` names the place relative to the project."""
    evaluation = entry.evaluation or Evaluation()
    outcome = outcome_of(entry)
    return AssertionResult(
        name=_bounded(entry.name) or "",
        severity=entry.severity if entry.counts else "soft",
        score=0.0 if outcome == "unavailable" else evaluation.score,
        passed=outcome == "passed",
        outcome=outcome,
        threshold=entry.threshold if entry.counts else line_of(entry),
        optional=entry.optional,
        label=_bounded(entry.label),
        group=_bounded(entry.group),
        expected=_bounded(evaluation.expected),
        received=_bounded(evaluation.received),
        detail=_bounded(evaluation.detail),
        evidence=_bounded(evaluation.evidence),
        evidence_refs=evaluation.refs,
        reason=evaluation.reason,
        points=entry.points,
        loc=loc(entry.site),
        judge=entry.judge,
    )


def _earned(entry: Entry) -> float:
    points, evaluation = entry.points or 0.0, entry.evaluation
    if evaluation is None or outcome_of(entry) != "passed":
        return 0.0
    # Without a line nothing can be missed, so a passed entry may still have a score of 0.
    return points * evaluation.score if evaluation.graded or line_of(entry) is None else points


def _bounded(text: str | None) -> str | None:
    if text is None:
        return None
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]} [+{len(text) - MAX_TEXT} chars]"
    return clean_text(text, len(text))[0]


def _valid_line(line: object, call: str) -> float:
    if isinstance(line, bool) or not isinstance(line, (int, float)) or not 0 <= line <= 1:
        raise AuthorError(
            "bad-argument", call=call, argument="the line", problem=f"is {line!r}", fix="give a number from 0 to 1"
        )
    return float(line)
