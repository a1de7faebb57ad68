"""`summary.json`: streamed from the stored results, never held in memory whole, renamed into place."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import BinaryIO

from niceeval._model.result import RunSummary
from niceeval._record.encode import Redact, encode, record_without_secrets
from niceeval._record.layout import HIDDEN, RESULT, SUMMARY
from niceeval._record.sync import sync_folder

_BUFFER = 1 << 20


def write_summary(run_folder: str, summary: RunSummary, folders: Iterable[str], redact: Redact) -> None:
    """Write the run's `summary.json` with the results stored in `folders`, in that order. Raises OSError."""
    hidden = f"{run_folder}/{HIDDEN}{SUMMARY}"
    with open(hidden, "wb", buffering=_BUFFER) as file:
        head = record_without_secrets(encode(summary), redact)
        file.write(head[:-1] + b',"results":[\n')
        _copy_results(file, run_folder, folders)
        file.write(b"\n]}\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(hidden, f"{run_folder}/{SUMMARY}")
    sync_folder(run_folder)


def _copy_results(file: BinaryIO, run_folder: str, folders: Iterable[str]) -> None:
    between = b""
    for folder in folders:
        with open(f"{run_folder}/{folder}/{RESULT}", "rb") as result:
            file.write(between + result.read())
        between = b",\n"
