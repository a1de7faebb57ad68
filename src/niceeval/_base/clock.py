"""Instants are UTC text; durations come from the monotonic clock and never from these."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """The present instant, with its zone."""
    return datetime.now(UTC)


def utc_text(instant: datetime | None = None) -> str:
    """ISO 8601 with milliseconds and `Z`: `2026-07-02T03:10:24.123Z`."""
    return (instant or utc_now()).isoformat(timespec="milliseconds").replace("+00:00", "Z")
