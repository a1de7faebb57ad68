"""The change ledger: a git repository beside the workdir that takes trees of it and compares them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from niceeval._base.errors import SandboxError, SandboxUnsupportedError
from niceeval._base.plain_text import clean_text
from niceeval._model.ignoring import IgnorePattern
from niceeval._model.sandbox import CommandResult, Sandbox
from niceeval._sandbox import ledger_scripts
from niceeval._sandbox.ledger_scripts import TreeScripts
from niceeval._sandbox.windows import Window, index_lines, merge_windows

TREE_SECONDS: Final = 120.0
"""What taking one tree may take."""
INSTALL_SECONDS: Final = 300.0
"""What installing git may take."""

_TREE = re.compile(r"^tree ([0-9a-f]{40})$", re.MULTILINE)
_FIX: Final = "build git into the image (for Debian: RUN apt-get install -y git), or name an image that has it"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenTree:
    """A tree of the workdir. `partly`: some folder could not be read. `results_lost`: nor could results be written."""

    id: str
    partly: bool
    results_lost: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RawChanges:
    """What git says of the changes between two trees; each part may be cut at its limit."""

    listed: bytes
    patches: bytes
    contents: bytes


class Ledger:
    """The ledger of one sandbox, in its private folder. One operation at a time."""

    def __init__(self, sandbox: Sandbox, patterns: Sequence[IgnorePattern], *, reusable: bool) -> None:
        self._sandbox = sandbox
        self._folder = f"{sandbox.private_dir.rstrip('/')}/ledger"
        self._scripts = TreeScripts(patterns, reusable=reusable)

    async def begin(self) -> TakenTree:
        """A new ledger with the workdir as it is. Raises SandboxError (`sandbox-no-git`, `sandbox-failed`, ...)."""
        ran = await self._run(self._scripts.baseline())
        if ran.exit_code == ledger_scripts.NO_GIT:
            await self._install_git()
            ran = await self._run(self._scripts.baseline())
        return self._taken(ran, "the change ledger cannot take its baseline")

    async def before(self) -> TakenTree:
        """The workdir as a send begins, without the results file of the last one."""
        return self._taken(await self._run(self._scripts.before()), "the workdir before the send cannot be read")

    async def after(self, results: bytes | None) -> TakenTree:
        """The workdir as a send ends; then the results file is written."""
        ran = await self._run(self._scripts.after(results=results is not None), stdin=results)
        return self._taken(ran, "the workdir after the send cannot be read")

    async def changes(self, windows: Sequence[Window]) -> RawChanges:
        """What changed inside the windows, of which there is at least one. Raises SandboxError."""
        before, after = (windows[0].before, windows[0].after) if len(windows) == 1 else await self._merged(windows)
        ran = await self._run(ledger_scripts.CHANGES, before, after)
        sizes = self._sizes(ran, 3)
        data = await self._sandbox.read_bytes(f"{self._folder}/out")
        if len(data) != sum(sizes):
            raise self._failed("the list of changes was not read whole", ran)
        patches = sizes[0] + sizes[1]
        return RawChanges(listed=data[: sizes[0]], patches=data[sizes[0] : patches], contents=data[patches:])

    async def restore(self) -> TakenTree:
        """The workdir as it was at `begin`. Raises SandboxError."""
        ran = await self._run(self._scripts.restore())
        if ran.exit_code != 0:
            # What a command ran as root has left can only be removed as root.
            with suppress(SandboxUnsupportedError):
                await self._run(ledger_scripts.WIPE, root=True)
                ran = await self._run(self._scripts.restore())
        return self._taken(ran, "the workdir cannot be reset")

    async def _merged(self, windows: Sequence[Window]) -> tuple[str, str]:
        """Two trees that differ by what changed inside the windows, and by nothing else."""
        pairs = [tree for window in windows for tree in (window.before, window.after)]
        sizes = self._sizes(listed := await self._run(ledger_scripts.MERGE_LISTS, *pairs), len(windows))
        data = await self._sandbox.read_bytes(f"{self._folder}/out")
        if len(data) != sum(sizes):
            raise self._failed("the windows' changes were not read whole", listed)
        lists: list[bytes] = []
        for size in sizes:
            lists.append(data[:size])
            data = data[size:]
        first, last = merge_windows(lists)
        start = index_lines(first)
        made = await self._run(ledger_scripts.MERGE_TREES, str(len(start)), stdin=start + index_lines(last))
        trees = made.stdout.split()
        if made.exit_code != 0 or len(trees) != 2:
            raise self._failed("the windows' changes cannot be put together", made)
        return trees[0], trees[1]

    async def _install_git(self) -> None:
        try:
            ran = await self._sandbox.run_command(
                "sh", ["-c", ledger_scripts.INSTALL], cwd="/", root=True, timeout=INSTALL_SECONDS
            )
        except SandboxUnsupportedError as error:
            raise self._no_git(f"and it cannot be installed: {error}") from None
        if ran.exit_code == ledger_scripts.NO_INSTALLER:
            raise self._no_git("and no package manager that could install it")
        if ran.exit_code != 0:
            said = _last_words(ran)
            raise self._no_git(f"and installing it failed{': ' if said else ''}{said}")

    async def _run(self, script: str, *arguments: str, stdin: bytes | None = None, root: bool = False) -> CommandResult:
        # The workdir may be gone: a command that starts in it would not start.
        script = f'mkdir -p "$1" || exit 70\n{script}'
        given = ["-c", script, "niceeval-ledger", self._folder, self._sandbox.workdir, *arguments]
        return await self._sandbox.run_command(
            "sh", given, cwd=self._sandbox.private_dir, root=root, stdin=stdin, timeout=TREE_SECONDS
        )

    def _taken(self, ran: CommandResult, problem: str) -> TakenTree:
        found = _TREE.search(ran.stdout)
        if ran.exit_code == ledger_scripts.NO_GIT:
            raise self._no_git("")
        if ran.exit_code != 0 or found is None:
            raise self._failed(problem, ran)
        return TakenTree(id=found[1], partly="\npartly read" in ran.stdout, results_lost="results lost" in ran.stdout)

    def _sizes(self, ran: CommandResult, count: int) -> list[int]:
        lines = ran.stdout.split()
        if ran.exit_code != 0 or len(lines) != count or not all(line.isdigit() for line in lines):
            raise self._failed("the ledger does not say what changed", ran)
        return [int(line) for line in lines]

    def _failed(self, problem: str, ran: CommandResult) -> SandboxError:
        said = f"it took longer than {TREE_SECONDS:g}s" if ran.timed_out else _last_words(ran)
        why = f"exit code {ran.exit_code}" + (f": {said}" if said else "")
        return SandboxError(
            "sandbox-failed",
            backend=f"sandbox {self._sandbox.sandbox_id}",
            problem=f"{problem} ({why})",
            fix="look at the workdir's size and rights; DiffRules(ignore=...) leaves folders out",
        )

    def _no_git(self, why: str) -> SandboxError:
        problem = f"there is no git{', ' if why else ''}{why}"
        return SandboxError("sandbox-no-git", backend=f"sandbox {self._sandbox.sandbox_id}", problem=problem, fix=_FIX)


def _last_words(ran: CommandResult) -> str:
    lines = [line.strip() for line in (ran.stderr or ran.stdout).splitlines() if line.strip()]
    return clean_text(" | ".join(lines[-3:]), 400)[0]
