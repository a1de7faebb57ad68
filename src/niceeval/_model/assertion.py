"""One recorded check, as it is stored (`assertions[]` of a result)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from niceeval._model.events import Loc
from niceeval._model.usage import Usage

Outcome: TypeAlias = Literal["passed", "failed", "unavailable"]
Severity: TypeAlias = Literal["gate", "soft"]


class UnavailableReason(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why an assertion could not be answered.

    Codes: `coverage-partial`, `coverage-unavailable`, `no-turn`, `no-price`, `path-ignored`, `diff-not-collected`,
    `judge-not-configured`, `judge-call-failed`, `judge-unparsable`. `declared` says that the agent itself declares the
    channel incomplete, so that no other run of it will answer either.
    """

    code: str
    message: str
    channel: str | None = None
    declared: bool = False


class EvidenceRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A pointer into the attempt's event stream: `event` is the index in `events.json`."""

    event: int
    call_id: str | None = None


class JudgeRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What a judged assertion was judged by: the recipe, and for a model's its name, endpoint and what it chose.

    `rubric_hash` is of the question without its case: a calibration with the same one holds for it. `usage` and
    `cost_usd` are the judge's own. A judgement by a function of the author's has only its recipe.
    """

    recipe: str
    model: str | None = None
    base_url: str | None = None
    rubric_hash: str | None = None
    choice: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = msgspec.field(default=None, name="costUSD")


class AssertionResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One check's outcome. `passed` is false and `score` 0 where `outcome` is `unavailable`.

    `score` lies in [0, 1]; `threshold` is the line it must reach; `expected`, `received` and `detail` are bounded,
    redacted text.
    """

    name: str
    severity: Severity
    score: float
    passed: bool
    outcome: Outcome
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
