"""One sandbox in the hands of a run, and the calls that make and end one, each behind the guest boundary."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from niceeval._base.errors import NiceevalError, SandboxError, SandboxGoneError
from niceeval._base.guest import GuestHost, GuestScope, GuestTimeout
from niceeval._base.json_values import normalise_json
from niceeval._base.plain_text import clean_text
from niceeval._drive.faults import error_text
from niceeval._model.diff import DiffRules
from niceeval._model.json_types import JsonValue
from niceeval._model.result import SandboxInfo
from niceeval._model.sandbox import Sandbox, SandboxBackend, SandboxRequest, SandboxSpec
from niceeval._run.limits import Limits
from niceeval._sandbox.leased import LeasedSandbox
from niceeval._sandbox.workspace import Workspace

MAX_ID = 200
"""Characters of a sandbox's id that are stored and shown."""


@dataclass(slots=True, kw_only=True)
class Standing:
    """A sandbox that this run has made. `until` is when its time is up (monotonic); `used`: an attempt has had it."""

    sandbox: Sandbox
    id: str
    until: float
    used: bool = False

    def lasts(self, seconds: float) -> bool:
        """Whether it may be needed for so long."""
        return self.until - time.monotonic() >= seconds


@dataclass(slots=True, kw_only=True)
class Lease:
    """An attempt's hold on a sandbox: `held` is for its guests, `workspace` the runner's own."""

    standing: Standing
    held: LeasedSandbox
    workspace: Workspace
    info: SandboxInfo
    kept: bool = False


class Maker:
    """Makes and ends the sandboxes of one opened backend. `unremoved` are those that could not be ended, with why."""

    def __init__(self, spec: SandboxSpec, backend: SandboxBackend, host: GuestHost, limits: Limits) -> None:
        self.spec = spec
        self.backend = backend
        self._host = host
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._ending: set[asyncio.Task[Any]] = set()
        self.unremoved: list[tuple[str, str]] = []
        self.description = described(backend)

    async def make(self, request: SandboxRequest, scope: GuestScope) -> Standing:
        """A new sandbox. Cancelled, or when its time is up, whatever comes of it after all is ended again.

        Raises GuestTimeout, and what the backend raises.
        """
        making = _Making(self.backend, self._never_used)
        until = time.monotonic() + request.lifetime
        try:
            await scope.call("sandbox", self._limits.sandbox_create, making.run, request)
        except BaseException:
            making.give_up()
            raise
        sandbox = making.sandbox
        if sandbox is None:
            raise SandboxError(
                "sandbox-failed",
                backend=self.spec.name,
                problem="create returned no sandbox",
                fix="return an object with the methods of niceeval.sandbox.Sandbox",
            )
        return Standing(sandbox=sandbox, id=id_of(sandbox), until=until)

    def lease(self, standing: Standing, rules: DiffRules | None, *, reusable: bool) -> Lease:
        """An attempt's hold on it, from now on."""
        held = LeasedSandbox(standing.sandbox, self.spec.name)
        return Lease(
            standing=standing,
            held=held,
            workspace=Workspace(standing.sandbox, rules, reusable=reusable),
            info=SandboxInfo(
                backend=self.spec.name, id=standing.id, description=self.description or None, reused=standing.used
            ),
        )

    async def end(self, standing: Standing, label: str) -> str | None:
        """Stop a sandbox for good, whatever it takes within the limits. Why it may still stand; None where it is gone.

        Never raises, but for the cancellation of the one who waits.
        """
        scope = GuestScope(self._host, label)
        why = await _tried(scope, "stop", self._limits.sandbox_stop, standing.sandbox.stop)
        if why is not None and await self._removed(standing, scope):
            why = None
        if why is not None:
            self.unremoved.append((standing.id, why))
        return why

    async def _removed(self, standing: Standing, scope: GuestScope) -> bool:
        remove = getattr(self.backend, "remove", None)
        if remove is None or self.spec.create is not None:
            return False
        return await _tried(scope, "remove", self._limits.sandbox_stop, remove, standing.id) is None

    async def ready_again(self, lease: Lease, label: str) -> bool:
        """Make a sandbox as it was at first, for another attempt; in any doubt it is not."""
        scope = GuestScope(self._host, label)

        async def clean() -> None:
            await lease.standing.sandbox.end_processes()
            await lease.workspace.reset()

        return await _tried(scope, "reset", self._limits.sandbox_reset, clean) is None

    def _never_used(self, sandbox: Sandbox) -> None:
        self.end_later(Standing(sandbox=sandbox, id=id_of(sandbox), until=0.0))

    def end_later(self, standing: Standing) -> None:
        """End a sandbox that nobody waits for any more. May be called within a guest, which the work is none of."""
        self._loop.call_soon_threadsafe(self._begin, self.end(standing, f"sandbox {standing.id}"), context=Context())

    def _begin(self, work: Coroutine[Any, Any, Any]) -> None:
        task = self._loop.create_task(work, name="niceeval-sandbox-end")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def ended(self) -> None:
        """Until all that is being ended has been."""
        # What `end_later` has asked for comes to be on the loop's next turn.
        await asyncio.sleep(0)
        while self._ending:
            await asyncio.wait(set(self._ending))


class _Making:
    """One creation. What comes of it when nobody waits any more is handed to `late`."""

    def __init__(self, backend: SandboxBackend, late: Callable[[Sandbox], None]) -> None:
        self._backend = backend
        self._late = late
        self._over = False
        self.sandbox: Sandbox | None = None

    async def run(self, request: SandboxRequest) -> None:
        sandbox = await self._backend.create(request)
        if self._over:
            self._late(sandbox)
        else:
            self.sandbox = sandbox

    def give_up(self) -> None:
        self._over = True
        if self.sandbox is not None:
            self._late(self.sandbox)
            self.sandbox = None


async def _tried(
    scope: GuestScope, name: str, limit: float, function: Callable[..., Any], *given: object
) -> str | None:
    """Why a call came to nothing; None where it did what it should, or the sandbox is gone already."""
    try:
        await scope.call(name, limit, function, *given)
    except SandboxGoneError:
        return None
    except GuestTimeout as timeout:
        ignored = "; it ignored the cancellation and was abandoned" if timeout.abandoned else ""
        return f"{name} took longer than {timeout.limit:g}s{ignored}"
    except asyncio.CancelledError:
        raise
    except NiceevalError as error:
        return error.message()
    except BaseException as error:  # noqa: BLE001 - a guest; what it raised is said by whoever asked
        return error_text(error)
    return None


def id_of(sandbox: Sandbox) -> str:
    """A sandbox's id as text that can be stored; a question mark where it does not say."""
    try:
        return clean_text(str(sandbox.sandbox_id), MAX_ID)[0] or "?"
    except Exception:  # noqa: BLE001 - a guest's property
        return "?"


def described(backend: SandboxBackend) -> dict[str, JsonValue]:
    """What a backend says of itself, as plain JSON; nothing where it says nothing that can be stored."""
    try:
        plain, _ = normalise_json(dict(backend.description))
    except Exception:  # noqa: BLE001 - a guest's property
        return {}
    return plain if isinstance(plain, dict) else {}
