"""`summary.json`: streamed from the stored results, never held in memory whole, renamed into place."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from niceeval._model.result import RunSummary
from niceeval._record import disk
from niceeval._record.encode import Redact, encode, record_without_secrets
from niceeval._record.layout import HIDDEN, RESULT, SUMMARY

_BUFFER = 1 << 20


def write_summary(run_folder: str, summary: RunSummary, folders: Iterable[str], redact: Redact) -> None:
    """Write the run's `summary.json` with the results stored in `folders`, in that order. Raises OSError."""
    hidden = f"{run_folder}/{HIDDEN}{SUMMARY}"
    try:
        _write(hidden, _parts(run_folder, summary, folders, redact))
        disk.replace(hidden, f"{run_folder}/{SUMMARY}")
    except BaseException:
        with contextlib.suppress(OSError):
            disk.remove(hidden)
        raise
    disk.sync_folder(run_folder)


def _write(path: str, parts: Iterable[bytes]) -> None:
    descriptor = disk.create(path)
    try:
        waiting = bytearray()
        for part in parts:
            waiting += part
            if len(waiting) >= _BUFFER:
                disk.write_all(descriptor, waiting)
                waiting = bytearray()
        disk.write_all(descriptor, waiting)
        disk.sync(descriptor)
    finally:
        disk.close(descriptor)


def _parts(run_folder: str, summary: RunSummary, folders: Iterable[str], redact: Redact) -> Iterator[bytes]:
    head = record_without_secrets(encode(summary), redact)
    yield head[:-1] + b',"results":[\n'
    between = b""
    for folder in folders:
        with open(f"{run_folder}/{folder}/{RESULT}", "rb") as result:
            yield between + result.read()
        between = b",\n"
    yield b"\n]}\n"
