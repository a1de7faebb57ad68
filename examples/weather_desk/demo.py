"""Runs the example's evals and checks that everything came out as this file expects, failures included."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from niceeval.results import Attempt, open_results

HERE = Path(__file__).resolve().parent
NICEEVAL = Path(sysconfig.get_path("scripts")) / "niceeval"
PAIRS = 32
NOT_PASSED = {
    ("compare/concise", "shortened_context/required"): "errored",
    ("compare/concise", "wind_speed"): "failed",
    ("compare/verbose", "shortened_context/required"): "errored",
    ("compare/verbose", "short_answer"): "failed",
    ("compare/verbose", "wind_speed"): "failed",
}


def main() -> int:
    exit_code = subprocess.run([sys.executable, "-m", "niceeval", "exp", "compare"], cwd=HERE).returncode
    if exit_code != 1:
        print(f"\nexpected exit code 1 (some evals fail on purpose), got {exit_code}", file=sys.stderr)
        return 1
    attempts = open_results(HERE / ".niceeval").runs[0].attempts
    outcomes = {(attempt.experiment_id, attempt.eval_id): attempt.outcome for attempt in attempts}
    not_passed = {pair: outcome for pair, outcome in outcomes.items() if outcome != "passed"}
    if not_passed != NOT_PASSED or len(outcomes) != PAIRS:
        print(f"\nnot as expected: {len(outcomes)} of {PAIRS} pairs, not passed: {not_passed}", file=sys.stderr)
        return 1
    print_what_next(attempts)
    return 0


def print_what_next(attempts: Sequence[Attempt]) -> None:
    located = {(attempt.experiment_id, attempt.eval_id): attempt.locator for attempt in attempts}
    show = f"cd {os.path.relpath(HERE)} && {os.path.relpath(NICEEVAL, HERE)} show"
    print("\nAs it should be: 27 pairs passed, 3 failed and 2 errored. Look at them:")
    print(f"  {show}  # both configurations, one row each")
    print(f"  {show} {located['compare/concise', 'wind_speed']}  # a failure, beside its source")
    print(f"  {show} {located['compare/concise', 'shortened_context/required']}  # what the evidence cannot answer")
    print(f"  {show} {located['compare/verbose', 'short_answer']}  # where the two differ")


if __name__ == "__main__":
    sys.exit(main())
