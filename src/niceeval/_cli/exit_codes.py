"""What the process says to the one who started it. Nothing else in niceeval decides an exit code."""

from __future__ import annotations

from typing import Final

from niceeval._base.errors import NiceevalError

PASSED: Final = 0
"""Every selected (experiment, eval) pair passed or was skipped; a command did what was asked."""
NOT_PASSED: Final = 1
"""Some pair failed, errored or was not started, a file did not load, nothing was selected, or wrong usage."""
BROKE: Final = 2
"""niceeval itself broke."""
INTERRUPTED: Final = 130
"""Ctrl-C or SIGTERM."""


def code_for(error: BaseException) -> int:
    """The exit code of what ended a command."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return NOT_PASSED if isinstance(error, NiceevalError) else BROKE


def code_after(problems: object) -> int:
    """The exit code of a command that did its work, beside the problems it met."""
    return NOT_PASSED if problems else PASSED


def code_of(status: str) -> int:
    """The exit code of a run's status (`RunFinished.status`)."""
    if status == "interrupted":
        return INTERRUPTED
    return PASSED if status == "passed" else NOT_PASSED
