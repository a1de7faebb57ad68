"""One attempt's sandbox, from its making to its end: the two ends of an attempt that a sandbox agent has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from niceeval._base.errors import NiceevalError, SandboxError, SandboxUnavailableError
from niceeval._base.guest import GuestScope, GuestTimeout
from niceeval._drive.driver import Driver
from niceeval._drive.faults import Fault, error_text, fault_of_error, last_project_site, user_frames
from niceeval._model.diff import StoredDiff
from niceeval._model.result import Diagnostic, Phase, SandboxInfo, Verdict
from niceeval._plan.plan import AttemptPlan
from niceeval._run.leases import Lease
from niceeval._run.limits import Limits
from niceeval._run.sandboxes import Sandboxes


class AttemptSandbox:
    """The sandbox of one attempt. `diff` is what changed, once `collect` has run; None where that is not known."""

    def __init__(
        self,
        sandboxes: Sandboxes,
        attempt: AttemptPlan,
        scope: GuestScope,
        driver: Driver,
        root: Path,
        limits: Limits,
    ) -> None:
        self._sandboxes = sandboxes
        self._attempt = attempt
        self._scope = scope
        self._driver = driver
        self._root = root
        self._limits = limits
        self._lease: Lease | None = None
        self._prepared = False
        self.diff: StoredDiff | None = None

    @property
    def info(self) -> SandboxInfo | None:
        """What the result says of it; None where none was made."""
        lease = self._lease
        return None if lease is None else msgspec.structs.replace(lease.info, kept=lease.kept)

    @property
    def is_ready(self) -> bool:
        """Whether the agent can use it."""
        return self._prepared

    async def begin(self) -> None:
        """Get one, and take the baseline: part of the attempt's own guest call. What fails is the attempt's fault."""
        driver = self._driver
        try:
            lease = self._lease = await self._sandboxes.take(self._attempt, self._scope)
            await self._scope.call("sandbox", self._limits.sandbox_create, lease.workspace.prepare)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - a backend is a guest: what it raises is this attempt's fault
            raise driver.fail(self._fault(error)) from None
        self._prepared = True
        driver.workspace, driver.sandbox = lease.workspace, lease.held

    async def collect(self, enter: Callable[[Phase], None]) -> None:
        """What the agent changed, however the attempt went; not where a guest holds on to the sandbox still."""
        if self._lease is None or not self._prepared or self._scope.abandoned or self._is_gone:
            return
        enter("diff")
        scope = GuestScope(self._scope.host, self._scope.label)
        try:
            driver, workspace = self._driver, self._lease.workspace
            collect = driver.collected.collect
            self.diff = await scope.call("diff", self._limits.sandbox_diff, collect, workspace, driver.log)
        except GuestTimeout as timeout:
            self._say("diff-failed", f"what changed was not collected: {timeout.limit:g}s passed in diff")
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - as above; assertions on the diff are then unavailable
            said = error.message() if isinstance(error, NiceevalError) else error_text(error)
            self._say("diff-failed", f"what changed was not collected: {said}")

    async def end(self, verdict: Verdict | None) -> None:
        """Give it back. Without a verdict, or where anything is in doubt, it is ended."""
        lease, driver = self._lease, self._driver
        if lease is None:
            return
        clean = self._prepared and verdict is not None and not self._in_doubt
        left = await self._sandboxes.give_back(lease, self._attempt, self._scope.label, verdict=verdict, clean=clean)
        if left is not None:
            self._say("sandbox-left", f"the sandbox {lease.standing.id} may still stand: {left}")
        driver.workspace = driver.sandbox = None

    @property
    def _is_gone(self) -> bool:
        return self._driver.fault is not None and self._driver.fault.code == "sandbox-gone"

    @property
    def _in_doubt(self) -> bool:
        fault = self._driver.fault
        if self._scope.abandoned or self._scope.host.abandoned:
            return True
        failed = any(one.code in ("teardown-failed", "diff-failed") for one in self._driver.log.diagnostics)
        return failed or (fault is not None and (fault.code == "timeout" or fault.code.startswith("sandbox-")))

    def _say(self, code: str, message: str) -> None:
        self._driver.log.diagnose(Diagnostic(code=code, level="error", message=message))

    def _fault(self, error: BaseException) -> Fault:
        if isinstance(error, GuestTimeout):
            message = f"{error.limit:g}s passed in sandbox"
            message += f"; {error.name} ignored the cancellation and was abandoned" if error.abandoned else ""
            return Fault(code="timeout", phase="sandbox", message=message)
        site = last_project_site(error, self._root)
        if isinstance(error, NiceevalError):
            fault = fault_of_error(error, "sandbox", site)
            doomed = isinstance(error, SandboxUnavailableError)
            return replace(fault, scope="experiment") if doomed else fault
        name = "the sandbox" if self._attempt.experiment.sandbox is None else self._attempt.experiment.sandbox.name
        failed = SandboxError(
            "sandbox-failed",
            backend=name,
            problem=error_text(error),
            fix="correct what made it fail; an error of niceeval.sandbox says more",
        )
        return replace(fault_of_error(failed, "sandbox", site), trace=user_frames(error, self._root))
