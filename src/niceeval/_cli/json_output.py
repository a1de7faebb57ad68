"""stdout while it belongs to `--json`: nothing but its lines comes out there, whoever prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from niceeval._base.errors import NiceevalError
from niceeval._base.forks import is_copy, own_pid
from niceeval._base.redaction import Redactor, secret_values
from niceeval._reporters.ndjson import EndStatus, Ndjson, line_of
from niceeval._reporters.records import Record

_STDOUT, _STDERR = 1, 2


class JsonOutput:
    """Takes stdout at construction; `release` gives it back.

    What evals, adapters and their child processes print goes to stderr meanwhile, by whatever way it comes.
    """

    def __init__(self) -> None:
        self._python_stdout = sys.stdout
        self._descriptor = self._take_descriptor()
        if self._descriptor is None:
            sys.stdout = sys.stderr
        self._reader_gone = False
        self._pid = own_pid()
        self.events = Ndjson(self._write, redact=Redactor(secret_values(os.environ, {})), rerun="niceeval exp")

    def end(self, status: EndStatus, exit_code: int, problems: Sequence[NiceevalError] = ()) -> None:
        """Write the last line, unless it was written."""
        self.events.end(status, exit_code, problems)

    def say(self, record: Record) -> None:
        """Write a line that belongs to no event of a run."""
        self._write(line_of(record, self.events.redact))

    def release(self) -> None:
        """Give stdout back."""
        if self._descriptor is None:
            sys.stdout = self._python_stdout
            return
        sys.stdout.flush()
        os.dup2(self._descriptor, _STDOUT)
        os.close(self._descriptor)
        self._reader_gone = True

    @staticmethod
    def _take_descriptor() -> int | None:
        """A descriptor of its own for what stdout is; None where Python's stdout is not the process's."""
        try:
            if sys.stdout.fileno() != _STDOUT:
                return None
            sys.stdout.flush()
            taken = os.dup(_STDOUT)
            os.dup2(_STDERR, _STDOUT)
        except (OSError, ValueError):
            return None
        return taken

    def _write(self, line: bytes) -> None:
        """The line whole. Once the reader has gone nothing is written, and the run goes on."""
        if self._reader_gone or is_copy(self._pid):
            return
        try:
            if self._descriptor is None:
                self._python_stdout.write(line.decode("ascii"))
                self._python_stdout.flush()
            else:
                _write_all(self._descriptor, line)
        except (OSError, ValueError):
            self._reader_gone = True


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
