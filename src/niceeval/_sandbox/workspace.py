"""An attempt's sandbox at work: what the agent changed in it, and nothing that anybody else did."""

from __future__ import annotations

from niceeval._model.diff import DiffRules, StoredDiff
from niceeval._model.sandbox import Sandbox


class Workspace:
    """One attempt's sandbox with its change ledger.

    `prepare` once, before the agent's setup; `before_send` and `after_send` around every send (overlapping sends make
    one window); `diff` at the end, after which nothing is collected any more. `reusable` also keeps a copy of the
    workdir as it is at first, which `reset` needs.
    """

    def __init__(self, sandbox: Sandbox, rules: DiffRules | None = None, *, reusable: bool = False) -> None:
        self.sandbox = sandbox
        self.rules = rules or DiffRules()
        self.reusable = reusable

    async def prepare(self) -> None:
        """Check for git, install it where it can be, and take the baseline.

        Raises SandboxError: `sandbox-no-git`, or what the backend raises.
        """
        raise NotImplementedError

    async def before_send(self) -> None:
        """A window opens. Raises nothing for a ledger that cannot be kept: the diff then says so."""
        raise NotImplementedError

    async def after_send(self, results: bytes | None = None) -> None:
        """The window closes, and `results` becomes `__niceeval__/results.json`."""
        raise NotImplementedError

    async def diff(self) -> StoredDiff | None:
        """What changed inside the windows; None where it could not be collected. The same at each call."""
        raise NotImplementedError

    async def reset(self) -> None:
        """The workdir as it was at `prepare`, for the next attempt. It ends no process. Raises SandboxError."""
        raise NotImplementedError
