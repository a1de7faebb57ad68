"""Whether the judges that gate an attempt are known to agree with people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from niceeval._drive.driver import Driver
from niceeval._drive.faults import Fault
from niceeval._drive.judgements import Asked
from niceeval._judging.recipes import Recipe
from niceeval._judging.records import CalibrationRecord, standing
from niceeval._model.result import Diagnostic

CODE: Final = "judge-uncalibrated"
NEXT: Final = "niceeval judge check LABELS, with labelled examples of this question"


def gating(driver: Driver) -> list[Asked]:
    """The judgements of a model that decide the verdict."""
    return [
        asked
        for asked in driver.judgements
        if asked.entry.severity == "gate" and isinstance(asked.question, Recipe) and asked.config is not None
    ]


def check_calibrations(driver: Driver, records: Sequence[CalibrationRecord]) -> None:
    """Say of each gate whose judge has no current calibration why; where the judge requires one, it is an error."""
    for asked in gating(driver):
        assert isinstance(asked.question, Recipe)
        assert asked.config is not None
        line = 1.0 if asked.entry.threshold is None else asked.entry.threshold
        found, why = standing(records, asked.question, asked.config, line)
        if found == "current":
            continue
        message = f"{asked.name} gates by {asked.config.model}, and {why}"
        if asked.config.require_calibration:
            driver.fail(Fault(code=CODE, phase="judge", message=message, site=asked.entry.site, next_step=NEXT))
        else:
            data = {"standing": found, "next": NEXT}
            driver.log.diagnose(Diagnostic(code=CODE, level="warning", message=message, data=data))
