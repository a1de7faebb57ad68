"""What an attempt's sandbox is asked when the eval function has returned: what changed, and the files of checks."""

from __future__ import annotations

import posixpath
from typing import Final

from niceeval._base.errors import SandboxError
from niceeval._drive.log import AttemptLog
from niceeval._judge.changes import Settled
from niceeval._model.assertion import UnavailableReason
from niceeval._model.changes import Changes
from niceeval._model.diff import StoredDiff
from niceeval._model.result import Diagnostic
from niceeval._model.sandbox import Sandbox
from niceeval._sandbox.workspace import Workspace

MAX_FILE_CHECKED: Final = 4 * 1024 * 1024
"""Bytes of a file that `t.sandbox.file(path)` reads."""

_SIZE = 'if [ -f "$1" ]; then wc -c < "$1"; elif [ -e "$1" ]; then echo other; else echo none; fi'
_SIZE_SECONDS = 30.0


class Collected:
    """What was collected of one attempt's sandbox. `changes` is None until then, and where it could not be."""

    def __init__(self) -> None:
        self.changes: Changes | None = None
        self._files: dict[str, Settled[str] | None] = {}

    def want(self, path: str) -> None:
        """The file will be asked for: `path` as its author wrote it."""
        self._files.setdefault(path, None)

    def file(self, path: str) -> Settled[str]:
        """The file's text; None where there was none at the end."""
        return self._files.get(path) or Settled(None, _unread(f"{path} was not read: the sandbox had ended"))

    async def collect(self, workspace: Workspace, log: AttemptLog) -> StoredDiff | None:
        """Read everything. What goes wrong is a diagnostic, and makes what depends on it unavailable."""
        changes = self.changes = await workspace.changes()
        if changes.problem is not None:
            message = f"what changed was not collected: {changes.problem}"
            log.diagnose(Diagnostic(code="diff-failed", level="error", message=message))
        elif changes.stored.incomplete is not None:
            message = f"the diff is not whole: {changes.stored.incomplete}"
            log.diagnose(Diagnostic(code="diff-incomplete", level="warning", message=message))
        if workspace.results_lost:
            message = "__niceeval__/results.json could not be written in the workdir"
            log.diagnose(Diagnostic(code="results-not-written", level="warning", message=message))
        for path, known in self._files.items():
            if known is None:
                self._files[path] = await _read(workspace.sandbox, path)
        return changes.stored if changes.windows and changes.problem is None else None


async def _read(sandbox: Sandbox, path: str) -> Settled[str]:
    whole = posixpath.join(sandbox.workdir, path)
    try:
        asked = await sandbox.run_command(
            "sh", ["-c", _SIZE, "sh", whole], cwd=sandbox.private_dir, timeout=_SIZE_SECONDS
        )
        said = asked.stdout.strip()
        if said == "none":
            return Settled(None)
        if not said.isdigit():
            return Settled(None, _unread(f"{path} is no ordinary file, or cannot be read"))
        if int(said) > MAX_FILE_CHECKED:
            return Settled(None, _unread(f"{path} has {int(said):,} bytes; at most {MAX_FILE_CHECKED:,} are read"))
        return Settled((await sandbox.read_bytes(whole)).decode("utf-8", "replace"))
    except SandboxError as error:
        return Settled(None, _unread(f"{path}: {error}"))


def _unread(message: str) -> UnavailableReason:
    return UnavailableReason(code="diff-not-collected", message=message)
