"""`niceeval` with limits that a test can wait for: run as a script, with the command's arguments."""

from __future__ import annotations

from niceeval._base import watchdog
from niceeval._cli import process
from niceeval._cli.starting import script
from niceeval._drive.retrying import Backoff
from niceeval._run.limits import Limits

if __name__ == "__main__":
    watchdog.GIVE_UP = 2.0
    process.LIMITS = Limits(
        grace=0.5,
        evaluation=1.0,
        teardown=0.5,
        experiment_setup=1.0,
        experiment_teardown=0.5,
        backoff=Backoff(first=0.01, longest=0.05),
    )
    script()
