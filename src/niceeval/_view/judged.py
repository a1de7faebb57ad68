"""Pass rates that a calibrated judge gave, as judged and as they are worth: its measured errors corrected."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from niceeval._base.terminal import Style, cell_width, pad_end
from niceeval._evidence.proportions import Estimate, wilson
from niceeval._judging.correction import corrected
from niceeval._judging.records import CalibrationRecord, matching
from niceeval._model.assertion import AssertionResult
from niceeval._record.reader import Snapshot

MAX_QUESTIONS = 20
"""Questions that are shown; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRate:
    """How often a judge passed one of its gates in one experiment. `corrected` is text where it is withheld: why."""

    experiment_id: str
    name: str
    passed: int
    total: int
    observed: Estimate
    corrected: Estimate | str


def judged_rates(snapshots: Iterable[Snapshot], calibrations: Sequence[CalibrationRecord]) -> list[JudgedRate]:
    """The gates whose judge has a calibration that holds for it, in the order in which they are met."""
    counts: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    records: dict[tuple[str, str, str], CalibrationRecord] = {}
    if not calibrations:
        return []
    for snapshot in snapshots:
        for attempt in snapshot.attempts:
            for entry in attempt.assertions:
                record = _record(entry, calibrations)
                if record is not None:
                    key = (snapshot.experiment_id, entry.name, record.file)
                    records[key] = record
                    counts[key][0] += entry.outcome == "passed"
                    counts[key][1] += 1
    return [
        JudgedRate(
            experiment_id=key[0],
            name=key[1],
            passed=passed,
            total=total,
            observed=wilson(passed, total),
            corrected=corrected(passed, total, records[key].confusion),
        )
        for key, (passed, total) in counts.items()
    ]


def judged_json(rates: Sequence[JudgedRate]) -> list[dict[str, Any]]:
    """The same for programs."""
    return [
        {
            "experimentId": rate.experiment_id,
            "name": rate.name,
            "passed": rate.passed,
            "total": rate.total,
            "observed": _interval(rate.observed),
            **(
                {"withheld": rate.corrected}
                if isinstance(rate.corrected, str)
                else {"corrected": _interval(rate.corrected)}
            ),
        }
        for rate in rates
    ]


def judged_lines(rates: Sequence[JudgedRate], style: Style) -> list[str]:
    """The block of the overview; empty where no calibrated judge gates."""
    if not rates:
        return []
    cells = [
        (
            style.clean(f"  {rate.experiment_id}  {rate.name}"),
            f"{rate.passed}/{rate.total} passed ({rate.observed.value:.0%})",
            _worth(rate.corrected),
        )
        for rate in rates[:MAX_QUESTIONS]
    ]
    widths = [max(cell_width(row[column]) for row in cells) for column in (0, 1)]
    lines = [f"{pad_end(a, widths[0])}  {pad_end(b, widths[1])}  {c}" for a, b, c in cells]
    more = [f"  + {len(rates) - MAX_QUESTIONS} more"] if len(rates) > MAX_QUESTIONS else []
    return ["judged", *lines, *more]


def _interval(estimate: Estimate) -> dict[str, float]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


def _worth(found: Estimate | str) -> str:
    if isinstance(found, str):
        return f"not corrected: {found}"
    return f"corrected {found.value:.0%} ({found.low:.0%} to {found.high:.0%})"


def _record(entry: AssertionResult, calibrations: Sequence[CalibrationRecord]) -> CalibrationRecord | None:
    judge = entry.judge
    if judge is None or entry.severity != "gate" or entry.outcome not in ("passed", "failed"):
        return None
    if judge.rubric_hash is None or judge.model is None or judge.base_url is None:
        return None
    line = 1.0 if entry.threshold is None else entry.threshold
    return matching(calibrations, judge.rubric_hash, judge.model, judge.base_url, line)
