"""What holds for every test."""

from __future__ import annotations

import signal

import pytest

from tests.docker_engine import LEFT_OUT

# A shell that starts a job in the background lets it ignore SIGINT, and its children inherit that: the runs that tests
# interrupt would then rightly ignore it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out for lack of a container engine: a green run without it has shown less."""
    reasons: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        if reason.startswith(LEFT_OUT):
            reasons[reason] = reasons.get(reason, 0) + 1
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count} tests left out: {reason}", yellow=True)
