"""An attempt's sandbox at work: what the agent changed in it, and nothing that anybody else did."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from niceeval._base.errors import SandboxError
from niceeval._base.plain_text import clean_text
from niceeval._model.changes import Changes
from niceeval._model.diff import DiffRules, StoredDiff
from niceeval._model.ignoring import ignore_patterns
from niceeval._model.sandbox import Sandbox
from niceeval._sandbox.changes import UnreadableChanges, changes_of
from niceeval._sandbox.ledger import Ledger, TakenTree
from niceeval._sandbox.windows import Window, joined


class Workspace:
    """One attempt's sandbox with its change ledger.

    `prepare` once, before the agent's setup; `before_send` and `after_send` around every send; `diff` at the end, after
    which nothing is collected any more. Sends that overlap make one window, from the first one's start to the last
    one's end: what anybody writes meanwhile counts as the agent's. `reusable` also keeps a copy of the workdir as it is
    at first, which `reset` needs. `problem` says why there is no diff; the sends go on without.
    """

    def __init__(self, sandbox: Sandbox, rules: DiffRules | None = None, *, reusable: bool = False) -> None:
        self.sandbox = sandbox
        self.rules = rules or DiffRules()
        self.problem: str | None = None
        self.results_lost = False
        self._ledger = Ledger(sandbox, ignore_patterns(self.rules), reusable=reusable)
        self._lock = asyncio.Lock()
        self._first: str | None = None
        self._open = 0
        self._before: str | None = None
        self._windows: list[Window] = []
        self._sends = 0
        self._partly = False
        self._changes: Changes | None = None

    async def prepare(self) -> None:
        """Check for git, install it where it can be, and take the baseline.

        Raises SandboxError: `sandbox-no-git`, or what the backend raises.
        """
        async with self._lock:
            tree = await self._ledger.begin()
            self._first, self._partly = tree.id, tree.partly

    async def before_send(self) -> None:
        """A window opens, unless one is open already.

        Raises nothing of the sandbox's: a ledger that cannot be kept leaves the attempt without a diff, and not without
        a send. Cancelled, it opens nothing.
        """
        async with self._lock:
            self._sends += 1
            if self._open == 0 and self.problem is None:
                try:
                    self._before = self._noted(await self._ledger.before())
                except Exception as error:  # noqa: BLE001 - a sandbox is a guest; the diff says why there is none
                    self.give_up(_why(error))
            self._open += 1

    async def after_send(self, results: bytes | None = None) -> None:
        """The window closes with the last send in it; then `results` becomes `__niceeval__/results.json`.

        Raises as `before_send`.
        """
        async with self._lock:
            self._open = max(self._open - 1, 0)
            if self._open == 0:
                await self._close(results)

    def give_up(self, why: str) -> None:
        """From here on there is no diff, for this reason."""
        self.problem = self.problem or why

    async def changes(self) -> Changes:
        """What changed inside the windows, closing one that is open still. The same at each call."""
        async with self._lock:
            if self._changes is None:
                await self._close(None)
                self._changes = await self._collect()
            return self._changes

    async def diff(self) -> StoredDiff | None:
        """What changed inside the windows; None where nothing was sent, or it could not be collected."""
        changes = await self.changes()
        return changes.stored if changes.windows and changes.problem is None else None

    async def reset(self) -> None:
        """The workdir as it was at `prepare`, for the next attempt. It ends no process. Raises SandboxError."""
        async with self._lock:
            restored = await self._ledger.restore()
            if restored.id != self._first:
                raise SandboxError(
                    "sandbox-failed",
                    backend=f"sandbox {self.sandbox.sandbox_id}",
                    problem="the workdir is not as it was at first after it was reset",
                    fix="a fresh sandbox per attempt: leave out reuse_sandboxes=True",
                )

    async def _close(self, results: bytes | None) -> None:
        if self.problem is not None or (self._before is None and results is None):
            return
        try:
            after = self._noted(await self._ledger.after(results))
        except Exception as error:  # noqa: BLE001 - as in `before_send`
            self.give_up(_why(error))
            return
        # A close that was cancelled leaves the window open, for `changes` to close.
        if self._before is not None:
            self._windows.append(Window(self._before, after))
            self._before = None

    def _noted(self, tree: TakenTree) -> str:
        self._partly = self._partly or tree.partly
        self.results_lost = self.results_lost or tree.results_lost
        return tree.id

    async def _collect(self) -> Changes:
        none = Changes(
            stored=StoredDiff(generated_files={}, deleted_files=()),
            rules=self.rules,
            workdir=self.sandbox.workdir,
            windows=self._sends,
            problem=self.problem,
        )
        windows = joined(self._windows)
        incomplete = "some folders of the workdir could not be read" if self._partly else None
        if self.problem is not None:
            return none
        try:
            if not windows:
                return replace(none, stored=StoredDiff(generated_files={}, deleted_files=(), incomplete=incomplete))
            raw = await self._ledger.changes(windows)
            # Many paths, or long ones, take a while.
            return await asyncio.to_thread(
                changes_of,
                raw,
                rules=self.rules,
                workdir=self.sandbox.workdir,
                windows=self._sends,
                incomplete=incomplete,
            )
        except UnreadableChanges as error:
            self.give_up(f"git's answer cannot be read: {error}")
        except Exception as error:  # noqa: BLE001 - as in `before_send`
            self.give_up(_why(error))
        return replace(none, problem=self.problem)


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, SandboxError) else clean_text(f"{type(error).__name__}: {error}", 500)[0]
