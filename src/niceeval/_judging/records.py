"""Calibrations that a project keeps in its folder `judges/`: one file for each judge, question and line.

They belong with the project's source: whoever runs its evals sees how far a judge that gates is to be trusted.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from niceeval._base.clock import utc_text
from niceeval._evidence.proportions import Estimate
from niceeval._judging.agreement import Confusion
from niceeval._judging.recipes import Recipe
from niceeval._judging.resolving import FOUND_WHEN_NEEDED, endpoint_of
from niceeval._model.judge import JudgeConfig
from niceeval._version import __version__

if TYPE_CHECKING:
    from niceeval._judging.calibrating import Calibration

FOLDER: Final = "judges"
FORMAT: Final = "niceeval.judge-calibration"
MAX_RECORD: Final = 1024 * 1024
"""Bytes that a record may have."""
MAX_RECORDS: Final = 1000
"""Records that are read of one project."""

Standing: TypeAlias = Literal["current", "stale", "missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRecord:
    """One judge's errors on one question, as they were measured. `file` is its name within the folder."""

    file: str
    question: str
    kind: str
    rubric_hash: str
    model: str
    base_url: str
    passes_at: float
    confusion: Confusion
    made: str


def store(root: Path, calibration: Calibration) -> Path:
    """Keep a calibration in the project at `root`; one of the same judge, question and line is replaced.

    Raises OSError.
    """
    labels, config = calibration.labels, calibration.config
    base_url = endpoint_of(config)
    key = [labels.recipe.rubric_hash, config.model, base_url, labels.passes_at]
    name = f"{_slug(labels.recipe.name)}-{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:10]}.json"
    folder = root / FOLDER
    folder.mkdir(exist_ok=True)
    path = folder / name
    part = folder / f".{name}.{secrets.token_hex(4)}"
    try:
        part.write_text(json.dumps(as_json(calibration), indent=2, ensure_ascii=False) + "\n", "utf-8")
        os.replace(part, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
    return path


def as_json(calibration: Calibration) -> dict[str, Any]:
    """A calibration in the form that is stored, and that `--json` prints."""
    labels, config, confusion = calibration.labels, calibration.config, calibration.confusion
    steady = [one.steady for one in calibration.judged if one.steady is not None]
    moved = [one.moved for one in calibration.judged if one.moved is not None]
    usage = calibration.usage
    return {
        "format": FORMAT,
        "version": 1,
        "question": labels.recipe.name,
        "kind": labels.recipe.kind,
        "rubricHash": labels.recipe.rubric_hash,
        "model": config.model,
        "baseUrl": endpoint_of(config),
        "passesAt": labels.passes_at,
        "counts": {
            "truePass": confusion.true_pass,
            "falsePass": confusion.false_pass,
            "trueFail": confusion.true_fail,
            "falseFail": confusion.false_fail,
        },
        "unjudged": len(calibration.unjudged),
        "agreement": _estimate(confusion.agreement),
        "kappa": _estimate(confusion.kappa),
        "falsePassRate": _estimate(confusion.false_pass_rate),
        "falseFailRate": _estimate(confusion.false_fail_rate),
        "repeats": {"times": calibration.repeat, "examples": len(steady), "same": sum(steady)},
        "order": {"examples": len(moved), "changed": sum(moved)} if calibration.swapped else None,
        "judgements": calibration.judgements,
        "inputTokens": None if usage is None else usage.input_tokens,
        "outputTokens": None if usage is None else usage.output_tokens,
        "costUSD": None if calibration.cost is None else float(calibration.cost),
        "labels": {"file": labels.file, "sha256": labels.digest, "examples": len(labels.examples)},
        "made": utc_text(),
        "niceeval": __version__,
    }


def load(root: Path) -> tuple[CalibrationRecord, ...]:
    """The calibrations of a project. A file that is none is passed over: what it might have said is then missing."""
    try:
        names = sorted(entry.name for entry in os.scandir(root / FOLDER) if entry.name.endswith(".json"))
    except OSError:
        return ()
    found = (read(root / FOLDER / name) for name in names[:MAX_RECORDS])
    return tuple(record for record in found if record is not None)


def digest(root: Path) -> str:
    """A digest of what a project's calibrations say: another one may decide otherwise whether a judge may gate."""
    said = [[one.rubric_hash, one.model, one.base_url, one.passes_at] for one in load(root)]
    return hashlib.sha256(json.dumps(sorted(said)).encode()).hexdigest()


def standing(
    records: Sequence[CalibrationRecord], recipe: Recipe, config: JudgeConfig, passes_at: float
) -> tuple[Standing, str]:
    """Whether a judge is calibrated for a question, and in words why it is not."""
    model, where = config.model, endpoint_of(config)
    same = [record for record in records if record.rubric_hash == recipe.rubric_hash]
    if any((one.model, one.base_url, one.passes_at) == (model, where, passes_at) for one in same):
        return "current", ""
    if not same:
        changed = [one for one in records if recipe.kind == "rubric" and one.question == recipe.name]
        if changed:
            return "stale", f"its words have changed since it was calibrated ({FOLDER}/{changed[0].file})"
        return "missing", "it was never calibrated"
    one = same[0]
    others = (
        (one.model != model, f"it was calibrated with {one.model}, not with {model}"),
        (one.base_url != where, f"it was calibrated at {one.base_url}, not at {where}"),
        (True, f"it was calibrated to pass at {one.passes_at:g}, not at {passes_at:g}"),
    )
    return "stale", next(words for differs, words in others if differs)


def matching(
    records: Sequence[CalibrationRecord], rubric_hash: str, model: str, base_url: str, passes_at: float
) -> CalibrationRecord | None:
    """The calibration that holds for a judgement that was stored, which names the address that was found."""
    for one in records:
        if (one.rubric_hash, one.model, one.passes_at) != (rubric_hash, model, passes_at):
            continue
        if one.base_url in (base_url, FOUND_WHEN_NEEDED):
            return one
    return None


def read(path: Path) -> CalibrationRecord | None:
    """One calibration; None for a file that is none."""
    try:
        if path.stat().st_size > MAX_RECORD:
            return None
        value = json.loads(path.read_bytes())
        if not isinstance(value, dict) or value.get("format") != FORMAT or value.get("version") != 1:
            return None
        return CalibrationRecord(
            file=path.name,
            question=str(value["question"]),
            kind=str(value["kind"]),
            rubric_hash=str(value["rubricHash"]),
            model=str(value["model"]),
            base_url=str(value["baseUrl"]),
            passes_at=float(value["passesAt"]),
            confusion=_confusion(value["counts"]),
            made=str(value["made"]),
        )
    except (OSError, ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None


def _confusion(counts: Mapping[str, Any]) -> Confusion:
    names = ("truePass", "falsePass", "trueFail", "falseFail")
    values = [counts[name] for name in names]
    if not all(isinstance(value, int) and value >= 0 for value in values):
        raise ValueError("counts are whole numbers from 0")
    return Confusion(true_pass=values[0], false_pass=values[1], true_fail=values[2], false_fail=values[3])


def _estimate(estimate: Estimate | None) -> dict[str, float] | None:
    return None if estimate is None else {"value": estimate.value, "low": estimate.low, "high": estimate.high}


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "judge"
