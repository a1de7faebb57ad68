"""An attempt's slim result (`result.json`) and a run's `summary.json`. Field names are the results contract."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from niceeval._model.assertion import AssertionResult
from niceeval._model.usage import Usage

Verdict: TypeAlias = Literal["passed", "failed", "errored", "skipped"]
VERDICTS: tuple[Verdict, ...] = ("passed", "failed", "errored", "skipped")
Phase: TypeAlias = Literal["queued", "sandbox", "setup", "send", "eval", "judge", "diff", "teardown"]

FORMAT = "niceeval.results"
SCHEMA_VERSION = 1


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why an attempt is `errored`: a stable code, the phase it happened in, and the text people read.

    `loc` is where in the author's source; `trace` the user's own frames; `next` what to do.
    """

    code: str
    phase: Phase
    message: str
    loc: str | None = None
    trace: str | None = None
    next: str | None = None


class Diagnostic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something worth knowing that is not an assertion: a cut, a downgrade, a blocked loop, an adapter's remark."""

    code: str
    level: Literal["info", "warning", "error"]
    message: str
    data: Any = None
    turn: int | None = None


class ChannelCoverage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One channel of the attempt: the worst level of its turns and every reason."""

    status: Literal["complete", "partial", "unavailable"]
    reasons: tuple[str, ...] = ()


class StoredIdentity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a result depends on, by name: a value as JSON text, or a digest. The fingerprint covers `parts`.

    `reads` are files that the attempt itself read: path relative to the root -> digest; None where that was not noted.
    `reads_cut` says that there were more.
    """

    version: int
    parts: dict[str, str]
    reads: dict[str, str] | None = None
    reads_cut: bool = msgspec.field(name="readsCut", default=False)


class CarriedFrom(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The run that an attempt was first stored in, and its locator there."""

    run: str
    locator: str | None = None


class Retry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One send that was not accepted and was sent again: in which turn (from 0), after how long, and why."""

    turn: int
    wait_ms: int
    reason: str


class Points(msgspec.Struct, frozen=True, kw_only=True):
    """Points an attempt earned, of those it could have."""

    earned: float
    possible: float


class ExperimentInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The configuration an attempt ran under."""

    id: str
    flags: dict[str, Any]
    runs: int
    early_exit: bool
    description: str | None = None
    reasoning_effort: str | None = None
    labels: dict[str, str] | None = None
    strict: bool = False
    timeout: float | None = None
    budget: float | None = None
    agent_version: str | None = None


class SandboxInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The sandbox an attempt ran in. `description` is what its backend says of it, such as an image's digest.

    `reused`: another attempt had it before. `kept`: it was left standing, to be looked at.
    """

    backend: str
    id: str
    description: dict[str, Any] | None = None
    reused: bool = False
    kept: bool = False


class AttemptResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt, sealed. `attempt` counts from 0; `started_at` is UTC ISO text; `duration_ms` is monotonic.

    `judge_usage` and `judge_cost_usd` are what judging used and cost; the agent's own stand apart from them.
    """

    id: str
    agent: str
    outcome: Verdict
    attempt: int
    started_at: str = msgspec.field(name="startedAt")
    duration_ms: int = msgspec.field(name="durationMs")
    assertions: tuple[AssertionResult, ...]
    artifacts_dir: str = msgspec.field(name="artifactsDir")
    has_events: bool = msgspec.field(name="hasEvents")
    has_trace: bool = msgspec.field(name="hasTrace")
    has_sources: bool = msgspec.field(name="hasSources")
    locator: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    experiment_id: str | None = msgspec.field(name="experimentId", default=None)
    experiment: ExperimentInfo | None = None
    model: str | None = None
    fingerprint: str | None = None
    usage: Usage | None = None
    estimated_cost_usd: float | None = msgspec.field(name="estimatedCostUSD", default=None)
    error: str | None = None
    error_info: ErrorInfo | None = msgspec.field(name="errorInfo", default=None)
    skip_reason: str | None = msgspec.field(name="skipReason", default=None)
    coverage: dict[str, ChannelCoverage] | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    points: Points | None = None
    has_o11y: bool = msgspec.field(name="hasO11y", default=False)
    has_logs: bool = msgspec.field(name="hasLogs", default=False)
    has_diff: bool = msgspec.field(name="hasDiff", default=False)
    early_exited: bool = msgspec.field(name="earlyExited", default=False)
    identity: StoredIdentity | None = None
    carried_from: CarriedFrom | None = msgspec.field(name="carriedFrom", default=None)
    retries: tuple[Retry, ...] = ()
    phases: dict[str, int] | None = None
    sandbox: SandboxInfo | None = None
    has_judgements: bool = msgspec.field(name="hasJudgements", default=False)
    judge_usage: Usage | None = msgspec.field(name="judgeUsage", default=None)
    judge_cost_usd: float | None = msgspec.field(name="judgeCostUSD", default=None)


class Producer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which tool wrote a run. `runtime` is absent in runs of the TypeScript tool."""

    name: str
    version: str
    runtime: str | None = None


class RunSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`summary.json` without its `results`, which are streamed after it. Counts are of attempts.

    `not_stored` are attempts that were run and that the disk did not take; no other count has them.
    """

    format: str
    schema_version: int = msgspec.field(name="schemaVersion")
    producer: Producer
    agent: str
    started_at: str = msgspec.field(name="startedAt")
    completed_at: str = msgspec.field(name="completedAt")
    passed: int
    failed: int
    skipped: int
    errored: int
    duration_ms: int = msgspec.field(name="durationMs")
    output_dir: str = msgspec.field(name="outputDir")
    name: Any = None
    model: str | None = None
    usage: Usage | None = None
    estimated_cost_usd: float | None = msgspec.field(name="estimatedCostUSD", default=None)
    interrupted: bool = False
    not_started: int = msgspec.field(name="notStarted", default=0)
    cancelled: int = 0
    carried: int = 0
    not_stored: int = msgspec.field(name="notStored", default=0)
    judge_usage: Usage | None = msgspec.field(name="judgeUsage", default=None)
    judge_cost_usd: float | None = msgspec.field(name="judgeCostUSD", default=None)


class LogLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `logs.json`: `source` is `eval`, `adapter`, `stdout` or `stderr`; `turn` counts from 0."""

    at: str
    source: str
    text: str
    turn: int | None = None


class SourceFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of `sources.json`, as it was when it was run."""

    path: str
    content: str
