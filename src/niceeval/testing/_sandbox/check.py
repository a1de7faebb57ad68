"""What a check of a sandbox is, what it is given to work with, and how it says what it saw."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from niceeval._base.errors import NiceevalError
from niceeval._model.sandbox import CommandResult, Sandbox

Feature: TypeAlias = Literal[
    "root", "non_root", "bash", "symlinks", "modes", "owners", "background", "cleared_environment", "end_processes"
]
"""What a backend may lack, and say so."""
FEATURES: tuple[Feature, ...] = (
    "root",
    "non_root",
    "bash",
    "symlinks",
    "modes",
    "owners",
    "background",
    "cleared_environment",
    "end_processes",
)


class Broken(Exception):
    """The contract is broken; the text says what was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What a check works with. `folder` is a folder of the workdir of its own, and `host` one of this machine.

    `fresh` gives another sandbox, which is stopped when the check is over.
    """

    sandbox: Sandbox
    folder: str
    host: Path
    fresh: Callable[[], Awaitable[Sandbox]]

    def path(self, name: str) -> str:
        """The path from the workdir of a name in the check's folder."""
        return f"{self.folder}/{name}"

    async def sh(self, script: str, *args: str, limit: float = 60.0) -> CommandResult:
        """Run a POSIX script in the check's folder; it sees `args` as $1 and so on."""
        return await self.sandbox.run_command("sh", ["-c", script, "sh", *args], cwd=self.folder, timeout=limit)

    async def said(self, script: str, *args: str) -> str:
        """The stdout of a script that has to end with 0."""
        result = await self.sh(script, *args)
        expect(result.exit_code == 0, f"`{script[:80]}` ended with {result.exit_code}: {result.stderr[:200]!r}")
        return result.stdout

    async def listed(self, *paths: str) -> list[tuple[str, str]]:
        """The mode, as `-rw-r--r--`, and the owner's number of each."""
        lines = [await self.said('ls -ldn "$1"', path) for path in paths]
        return [(fields[0][:10], fields[2]) for fields in (line.split() for line in lines)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxCheck:
    """One question: a stable id, the sentence that is true where it passed, and what to do where it does not.

    It is asked where the backend has what it `needs`, and lacks what it is for being `without`. `alone`: it ends or
    empties its sandbox, or measures this process, so nothing else runs at the time.
    """

    id: str
    says: str
    next: str
    judge: Callable[[Bench], Awaitable[None]]
    needs: tuple[Feature, ...] = ()
    without: Feature | None = None
    alone: bool = False


def check(
    id: str,
    says: str,
    next: str,
    *,
    needs: tuple[Feature, ...] = (),
    without: Feature | None = None,
    alone: bool = False,
) -> Callable[[Callable[[Bench], Awaitable[None]]], SandboxCheck]:
    """Makes a function that raises Broken a check."""
    return lambda judge: SandboxCheck(
        id=id, says=says, next=next, judge=judge, needs=needs, without=without, alone=alone
    )


def expect(holds: bool, seen: str) -> None:
    """Raises Broken where it does not hold."""
    if not holds:
        raise Broken(seen)


def expect_same(seen: object, wanted: object, what: str) -> None:
    """Raises Broken, with both, where they differ."""
    if seen != wanted:
        raise Broken(f"{what} is {_short(seen)}, and should be {_short(wanted)}")


async def expect_error(doing: Awaitable[object], kind: type[NiceevalError], what: str) -> None:
    """Raises Broken where it does not raise an error of this kind."""
    try:
        result = await doing
    except kind:
        return
    except Exception as error:  # noqa: BLE001 - whatever a backend raises instead is the finding
        raise Broken(f"{what} raised {type(error).__name__} ({_short(str(error))}), not {kind.__name__}") from None
    raise Broken(f"{what} raised nothing, and gave {_short(result)}; it has to raise {kind.__name__}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:160]}... ({len(text)} characters)"
