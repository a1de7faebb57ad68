"""Running a command and saying what it took. POSIX only: the figures are those of `wait4`."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

NICEEVAL = str(Path(sysconfig.get_path("scripts")) / "niceeval")

_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds that one process took, and its largest resident size in MiB."""

    user: float
    system: float
    wall: float
    peak_mib: float


def measure(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> Cost:
    """Run a command in a folder to its end. Exits with what it printed where it fails."""
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **(environment or {})}, stdout=output, stderr=output
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            output.seek(0)
            printed = output.read().decode(errors="replace")
            sys.exit(f"{' '.join(command)} exited with {process.returncode}\n{printed}")
    return Cost(usage.ru_utime, usage.ru_stime, wall, usage.ru_maxrss * _MAXRSS_UNIT / (1 << 20))
