"""Sandboxes that are started ahead: never more than attempts are left that need one, and none is left at the end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from niceeval._base.guest import GuestHost, GuestScope
from niceeval._model.sandbox import SandboxRequest
from niceeval._run.leases import Maker, Standing


class WarmPool:
    """Keeps up to `size` sandboxes ready. `wanted`: how many attempts are still to start; `request`: what to ask for.

    A creation that fails makes nobody wait: whoever waited for it makes one, and meets the error.
    """

    def __init__(
        self,
        maker: Maker,
        host: GuestHost,
        size: int,
        *,
        wanted: Callable[[], int],
        request: Callable[[], SandboxRequest],
    ) -> None:
        self._maker = maker
        self._host = host
        self.size = size
        self._wanted = wanted
        self._request = request
        self._ready: deque[Standing] = deque()
        self._starting: set[asyncio.Task[Any]] = set()
        self._waiting: deque[asyncio.Future[Standing | None]] = deque()
        self._closed = False
        self._failures = 0

    def fill(self) -> None:
        """Start what is missing. To be called outside of guests: what it starts is none of them."""
        if self._closed or self._failures > 1:
            return
        missing = min(self.size, self._wanted()) - len(self._ready) - (len(self._starting) - len(self._waiting))
        for _ in range(max(0, missing)):
            task = asyncio.get_running_loop().create_task(self._start(), name="niceeval-warm-sandbox")
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def take(self, seconds: float) -> Standing | None:
        """One that lasts for so long, perhaps one that is being started; None where a new one has to be made."""
        while self._ready:
            standing = self._ready.popleft()
            if standing.lasts(seconds):
                return standing
            self._maker.end_later(standing)
        if len(self._starting) <= len(self._waiting):
            return None
        future: asyncio.Future[Standing | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            return await future
        except asyncio.CancelledError:
            with suppress(ValueError):
                self._waiting.remove(future)
            if future.done() and not future.cancelled() and (standing_now := future.result()) is not None:
                self._ready.append(standing_now)
            raise

    async def _start(self) -> None:
        standing: Standing | None = None
        try:
            standing = await self._maker.make(self._request(), GuestScope(self._host, "sandbox started ahead"))
            self._failures = 0
        except asyncio.CancelledError:
            raise
        except BaseException:  # noqa: BLE001 - the attempt that needs one makes it itself, and says what happens then
            self._failures += 1
        finally:
            self._hand_over(standing)

    def _hand_over(self, standing: Standing | None) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(standing)
                return
        if standing is not None:
            self._ready.append(standing)

    def stop_filling(self) -> None:
        """Start nothing more, and give up what is being started."""
        self._closed = True
        for task in tuple(self._starting):
            task.cancel()

    async def drain(self) -> None:
        """End all that was started and not used."""
        self.stop_filling()
        if self._starting:
            await asyncio.wait(set(self._starting))
        left, self._ready = list(self._ready), deque()
        await asyncio.gather(*(self._maker.end(standing, f"sandbox {standing.id}") for standing in left))
