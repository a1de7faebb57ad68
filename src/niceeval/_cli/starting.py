"""The first moments of a command: a signal that comes while our own modules load ends the process at once.

Nothing has begun by then. An exception out of the middle of an import would be shown as a traceback of ours, or be
lost. What this module needs is loaded by Python itself: nothing heavy may come before the handlers.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn

_INTERRUPTED = 130  # as in `exit_codes`, which takes its time to load
_SUMMARY = (
    b'{"type":"run:summary","status":"interrupted","exitCode":130,"passed":0,"failed":0,"skipped":0,"errored":0,'
    b'"notStarted":0,"cancelled":0,"carried":0,"problems":[],"next":[]}\n'
)
_taken: list[signal.Signals] = []
_say_end: Callable[[], None] | None = None


def script() -> NoReturn:
    """The console script: the handlers first, then everything else."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # A parent may have wanted Ctrl-C to be ignored.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _leave)
            _taken.append(number)
    from niceeval._cli.main import script as loaded

    loaded()


def started() -> None:
    """Everything is loaded: from here on a signal is a KeyboardInterrupt, in a process that began with `script`."""
    while _taken:
        signal.signal(_taken.pop(), _raise)


def ends_with(say: Callable[[], None]) -> None:
    """What is to be said at the end in place of the line that belongs on stdout with `--json`."""
    global _say_end
    _say_end = say


def wants_json_lines(arguments: Sequence[str]) -> bool:
    """Whether a command line asks for `exp` with `--json`, also one that is wrong in other ways."""
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if before[:1] != ["exp"] or before[1:2] == ["list"]:
        return False
    return "--json" in before and not asks_for_help(before)


def asks_for_help(arguments: Sequence[str]) -> bool:
    """Whether help is wanted rather than the command itself."""
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--help" in before or "-h" in before


def _leave(signum: int, frame: FrameType | None) -> NoReturn:
    try:
        os.write(2, b"interrupted\n")
        if _say_end is not None:
            _say_end()
        elif wants_json_lines(sys.argv[1:]):
            os.write(1, _SUMMARY)
    finally:
        os._exit(_INTERRUPTED)


def _raise(signum: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
