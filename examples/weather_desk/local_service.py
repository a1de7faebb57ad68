"""Starts and stops the weather desk for an experiment, on a free port."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

SERVICE = Path(__file__).with_name("service.py")
SOURCES = (SERVICE, SERVICE.with_name("desk.py"))
STOP_SECONDS = 5


def version() -> str:
    """What the service is made of. niceeval cannot see into another process, so the adapter tells it this."""
    return hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()[:12]


class LocalService:
    """The desk as a child process: `start` and `stop` are an experiment's `setup` and `teardown`.

    The child stops by itself when this process goes away, however it goes.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._url = ""

    def url(self) -> str:
        """Where it listens. Raises RuntimeError while it is not running."""
        if self._process is None:
            raise RuntimeError("the weather desk is not running")
        return self._url

    def start(self) -> None:
        """Start it and wait until it accepts connections. Raises RuntimeError where it does not come up."""
        command = [sys.executable, str(SERVICE), "--port", "0", "--exit-with-stdin"]
        # A group of its own: Ctrl-C in the terminal is for niceeval, which then stops the service in good order.
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("listening on "):
            process.kill()
            process.wait()
            raise RuntimeError(f"the weather desk did not start (exit code {process.returncode})")
        self._url = line.removeprefix("listening on ").strip()
        self._process = process

    def stop(self) -> None:
        """Stop it; quiet where it is not running."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
