"""Reading stored results: `open_results(path)` gives runs, snapshots and attempts, with artifacts on demand."""

from niceeval._record.attempt import Attempt
from niceeval._record.reader import Results, Snapshot, latest_per_experiment, open_results
from niceeval._record.runs import Run, Skipped

__all__ = ["Attempt", "Results", "Run", "Skipped", "Snapshot", "latest_per_experiment", "open_results"]
