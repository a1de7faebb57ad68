"""Agents' teardowns that failed: each is in its attempt's result, and here they are counted to be said once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from niceeval._drive.driver import Driver
from niceeval._model.run_events import RunNotice

CODE = "teardown-failed"


class FailedTeardowns:
    """By experiment: in how many attempts the agent's teardown failed, and what the first of them said."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def look(self, experiment_id: str, driver: Driver) -> None:
        """An attempt is over, whatever it came to."""
        failed = next((one for one in driver.log.diagnostics if one.code == CODE), None)
        if failed is not None:
            self._counts[experiment_id] += 1
            self._first.setdefault(experiment_id, failed.message)

    def said(self) -> Iterator[RunNotice]:
        """One notice for each experiment that has any."""
        for experiment_id, count in self._counts.items():
            many = "1 attempt" if count == 1 else f"{count} attempts, first"
            message = f"experiment {experiment_id}: in {many}: {self._first[experiment_id]}"
            yield RunNotice(code=CODE, level="warning", message=message)
