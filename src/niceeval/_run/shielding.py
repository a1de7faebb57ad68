"""Cleanup that runs to its end although the task around it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def shielded(work: Coroutine[Any, Any, None]) -> bool:
    """Run cleanup to its end although the task around it is cancelled. Returns whether it was, meanwhile."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    return cancelled
