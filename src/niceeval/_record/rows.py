"""Stored results as they are read: the slim row at once, everything nested only when it is asked for.

Reading is lenient where writing is exact: unknown fields are ignored, fields that another producer leaves out are
derived, and texts that strict JSON decoders refuse are taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec

from niceeval._model.assertion import AssertionResult, EvidenceRef, JudgeRecord, Outcome, Severity, UnavailableReason
from niceeval._model.diff import StoredDiff
from niceeval._model.events import KnownEvent, Loc, StreamEvent, UnknownEvent
from niceeval._model.judgement import StoredJudgement
from niceeval._model.o11y import O11ySummary
from niceeval._model.result import (
    CarriedFrom,
    ChannelCoverage,
    Diagnostic,
    ErrorInfo,
    ExperimentInfo,
    LogLine,
    Points,
    Retry,
    SandboxInfo,
    SourceFile,
    StoredIdentity,
    Verdict,
)
from niceeval._model.usage import Usage
from niceeval._record.encode import tolerant_json

T = TypeVar("T")

_NULL = msgspec.Raw(b"null")


class AttemptRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What every list of attempts needs. Nested values stay undecoded bytes."""

    id: str
    outcome: Verdict
    started_at: str = msgspec.field(name="startedAt")
    duration_ms: float = msgspec.field(name="durationMs")
    attempt: int = 0
    agent: str = ""
    experiment_id: str | None = msgspec.field(name="experimentId", default=None)
    model: str | None = None
    description: str | None = None
    usage: Usage | None = None
    estimated_cost_usd: float | None = msgspec.field(name="estimatedCostUSD", default=None)
    error: str | None = None
    skip_reason: str | None = msgspec.field(name="skipReason", default=None)
    fingerprint: str | None = None
    artifacts_dir: str = msgspec.field(name="artifactsDir", default="")
    has_events: bool = msgspec.field(name="hasEvents", default=False)
    has_trace: bool = msgspec.field(name="hasTrace", default=False)
    has_sources: bool = msgspec.field(name="hasSources", default=False)
    has_o11y: bool = msgspec.field(name="hasO11y", default=False)
    has_logs: bool = msgspec.field(name="hasLogs", default=False)
    has_diff: bool = msgspec.field(name="hasDiff", default=False)
    has_judgements: bool = msgspec.field(name="hasJudgements", default=False)
    judge_usage: Usage | None = msgspec.field(name="judgeUsage", default=None)
    judge_cost_usd: float | None = msgspec.field(name="judgeCostUSD", default=None)
    early_exited: bool = msgspec.field(name="earlyExited", default=False)
    tags: tuple[str, ...] = ()
    assertions: msgspec.Raw = _NULL
    experiment: msgspec.Raw = _NULL
    error_info: msgspec.Raw = msgspec.field(name="errorInfo", default=_NULL)
    coverage: msgspec.Raw = _NULL
    diagnostics: msgspec.Raw = _NULL
    phases: msgspec.Raw = _NULL
    points: msgspec.Raw = _NULL
    carried_from: msgspec.Raw = msgspec.field(name="carriedFrom", default=_NULL)
    identity: msgspec.Raw = _NULL
    retries: msgspec.Raw = _NULL
    sandbox: msgspec.Raw = _NULL


class AssertionRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An assertion of any producer; the TypeScript tool writes no `outcome`."""

    name: str
    severity: Severity = "gate"
    score: float | None = None
    passed: bool = False
    outcome: Outcome | None = None
    threshold: float | None = None
    optional: bool = False
    label: str | None = None
    group: str | None = None
    expected: str | None = None
    received: str | None = None
    detail: str | None = None
    evidence: str | None = None
    evidence_refs: tuple[EvidenceRef, ...] = ()
    reason: UnavailableReason | None = None
    points: float | None = None
    loc: Loc | None = None
    judge: JudgeRecord | None = None

    def result(self) -> AssertionResult:
        """The assertion with what was left out derived from what is there."""
        derived: Outcome = "passed" if self.passed else "failed"
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        score = float(self.passed) if self.score is None else self.score
        return AssertionResult(**{**fields, "score": score, "outcome": self.outcome or derived})


class ProducerRow(msgspec.Struct, frozen=True, kw_only=True):
    """Which tool wrote a run, of whatever version."""

    name: str = ""
    version: str = ""
    runtime: str | None = None


class SummaryRow(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a `summary.json`, enough to know whose it is; `results` stays undecoded."""

    format: Any = None
    schema_version: Any = msgspec.field(name="schemaVersion", default=1)
    producer: Any = None
    started_at: Any = msgspec.field(name="startedAt", default=None)
    completed_at: Any = msgspec.field(name="completedAt", default=None)
    name: Any = None
    interrupted: Any = False
    not_started: Any = msgspec.field(name="notStarted", default=0)
    not_stored: Any = msgspec.field(name="notStored", default=0)
    results: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_ROW = msgspec.json.Decoder(AttemptRow, strict=False)
_ROWS = msgspec.json.Decoder(list[AttemptRow], strict=False)
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
_SUMMARY = msgspec.json.Decoder(SummaryRow)
_EVENTS = msgspec.json.Decoder(list[KnownEvent])
_EVENT = msgspec.json.Decoder(KnownEvent)
_ANY = msgspec.json.Decoder()


def tolerantly(decode: Callable[[bytes], T], data: bytes) -> T:
    """`decode(data)`; where the bytes are not JSON to msgspec but are to the standard library, once more from there.

    Raises ValueError (msgspec's errors are such) or RecursionError.
    """
    try:
        return decode(data)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        return decode(tolerant_json(data))


def decode_row(data: bytes) -> AttemptRow:
    """One `result.json`. Raises ValueError."""
    return tolerantly(_ROW.decode, data)


def decode_summary(data: bytes) -> SummaryRow:
    """The head of a `summary.json`. Raises ValueError."""
    return tolerantly(_SUMMARY.decode, data)


def decode_rows(data: msgspec.Raw) -> tuple[list[AttemptRow], list[str]]:
    """The rows of `results`, and why others could not be read. Raises ValueError where it is no list."""
    try:
        return _ROWS.decode(data), []
    except (msgspec.ValidationError, UnicodeDecodeError):
        return _one_by_one(_RAWS.decode(data))


def _one_by_one(items: list[msgspec.Raw]) -> tuple[list[AttemptRow], list[str]]:
    rows: list[AttemptRow] = []
    problems: list[str] = []
    for number, item in enumerate(items):
        try:
            rows.append(_ROW.decode(item))
        except ValueError as error:
            problems.append(f"results[{number}]: {error}")
    return rows, problems


def nested(data: msgspec.Raw, form: type[T] | Any) -> Any:
    """A nested value of a row as `form`; None where it is absent. Raises ValueError."""
    return msgspec.json.decode(data, type=form | None, strict=False)


def assertions_of(row: AttemptRow) -> tuple[AssertionResult, ...]:
    """The row's assertions. Raises ValueError."""
    return tuple(item.result() for item in nested(row.assertions, list[AssertionRow]) or ())


def experiment_of(row: AttemptRow) -> ExperimentInfo | None:
    """The configuration, also as another producer writes it. Raises ValueError."""
    found = nested(row.experiment, dict[str, Any])
    if found is None:
        return None
    defaults = {"id": row.experiment_id or "", "flags": {}, "runs": 1, "earlyExit": False}
    return msgspec.convert({**defaults, **found}, ExperimentInfo, strict=False)


def error_of(row: AttemptRow) -> ErrorInfo | None:
    """Code, phase and message of an errored attempt. Raises ValueError."""
    found: ErrorInfo | None = nested(row.error_info, ErrorInfo)
    return found


def coverage_of(row: AttemptRow) -> dict[str, ChannelCoverage] | None:
    """Channel to how complete it was. Raises ValueError."""
    found: dict[str, ChannelCoverage] | None = nested(row.coverage, dict[str, ChannelCoverage])
    return found


def diagnostics_of(row: AttemptRow) -> tuple[Diagnostic, ...]:
    """Raises ValueError."""
    return tuple(nested(row.diagnostics, list[Diagnostic]) or ())


def phases_of(row: AttemptRow) -> dict[str, int]:
    """Phase to its milliseconds. Raises ValueError."""
    found = nested(row.phases, dict[str, float]) or {}
    return {phase: round(spent) for phase, spent in found.items()}


def points_of(row: AttemptRow) -> Points | None:
    """Raises ValueError."""
    found: Points | None = nested(row.points, Points)
    return found


def carried_from_of(row: AttemptRow) -> CarriedFrom | None:
    """Raises ValueError."""
    found: CarriedFrom | None = nested(row.carried_from, CarriedFrom)
    return found


def identity_of(row: AttemptRow) -> StoredIdentity | None:
    """Raises ValueError."""
    found: StoredIdentity | None = nested(row.identity, StoredIdentity)
    return found


def retries_of(row: AttemptRow) -> tuple[Retry, ...]:
    """Raises ValueError."""
    found: tuple[Retry, ...] | None = nested(row.retries, tuple[Retry, ...])
    return found or ()


def sandbox_of(row: AttemptRow) -> SandboxInfo | None:
    """The sandbox it ran in. Raises ValueError."""
    found: SandboxInfo | None = nested(row.sandbox, SandboxInfo)
    return found


def decode_events(data: bytes) -> list[StreamEvent]:
    """An `events.json`: what this version does not know is kept as it came, in its place. Raises ValueError."""
    return tolerantly(_events, data)


def _events(data: bytes) -> list[StreamEvent]:
    try:
        return list(_EVENTS.decode(data))
    except msgspec.ValidationError:
        return [_event(item) for item in _RAWS.decode(data)]


def _event(item: msgspec.Raw) -> StreamEvent:
    try:
        return _EVENT.decode(item)
    except msgspec.ValidationError:
        value = _ANY.decode(item)
    if isinstance(value, dict):
        return UnknownEvent(str(value.get("type", "?")), value)
    return UnknownEvent("?", {"value": value})


def decode_sources(data: bytes) -> tuple[SourceFile, ...]:
    """A `sources.json`. Raises ValueError."""
    return tuple(tolerantly(msgspec.json.Decoder(list[SourceFile]).decode, data))


def decode_logs(data: bytes) -> tuple[LogLine, ...]:
    """A `logs.json`. Raises ValueError."""
    return tuple(tolerantly(msgspec.json.Decoder(list[LogLine]).decode, data))


def decode_judgements(data: bytes) -> tuple[StoredJudgement, ...]:
    """A `judgements.json`. Raises ValueError."""
    return tuple(tolerantly(msgspec.json.Decoder(list[StoredJudgement]).decode, data))


def decode_diff(data: bytes) -> StoredDiff:
    """A `diff.json`; another producer's may lack what it has nothing of. Raises ValueError."""
    value = tolerantly(_ANY.decode, data)
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, got {type(value).__name__}")
    known = {name: item for name, item in value.items() if item is not None}
    return msgspec.convert({"generatedFiles": {}, "deletedFiles": [], **known}, StoredDiff, strict=False)


_O11Y_COUNTS: tuple[Literal["totalTurns", "totalToolCalls", "thinkingBlocks", "compactions", "durationMs"], ...] = (
    "totalTurns",
    "totalToolCalls",
    "thinkingBlocks",
    "compactions",
    "durationMs",
)
_O11Y_LISTS = ("filesRead", "filesModified", "shellCommands", "webFetches", "errors", "turns")


def decode_o11y(data: bytes) -> O11ySummary:
    """An `o11y.json`; another producer's has no `turns`. Raises ValueError."""
    value = tolerantly(_ANY.decode, data)
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, got {type(value).__name__}")
    empty: dict[str, Any] = {"toolCalls": {}, **{name: [] for name in _O11Y_LISTS}, **dict.fromkeys(_O11Y_COUNTS, 0)}
    known = {name: item for name, item in value.items() if item is not None}
    return msgspec.convert({**empty, **known}, O11ySummary, strict=False)
