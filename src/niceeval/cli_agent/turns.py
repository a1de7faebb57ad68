"""One turn of a command-line agent: its command run in the sandbox, its output read as it comes."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from niceeval._base.errors import AdapterError
from niceeval._base.plain_text import shorten
from niceeval._model.agent import SandboxAgentContext
from niceeval._model.sandbox import Sandbox
from niceeval._model.turn_input import TurnInput
from niceeval.cli_agent.ensuring import InstalledCli

LOG_HEAD: Final = 40
"""The first lines of a command's standard error that are kept in a turn's log."""
LOG_TAIL: Final = 60
"""The last lines that are kept, where there are more: what went wrong stands at the end."""
MAX_LOG_CHARS: Final = 500
"""The longest of these lines that is kept, in characters."""
PROGRESS_EVERY: Final = 0.5
"""Seconds between two reports of how much a command has printed."""
MAX_ATTACHMENT_NAME: Final = 120
"""The longest file name of an attachment that is kept."""

_STYLE = re.compile(r"\x1b\[[0-9;:?]*[A-Za-z]")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Reader(Protocol):
    """What reads a command's standard output as it comes; chunks may end anywhere."""

    def feed(self, chunk: bytes) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CliRun:
    """How a command ended. `exit_code` is None where it was killed from outside: its time passed, or memory."""

    exit_code: int | None
    killed: bool
    stdout: str
    stderr: str

    @property
    def last_words(self) -> str:
        """The last line that it wrote to standard error, or to standard output."""
        lines = [
            _STYLE.sub("", line).strip()
            for line in (self.stderr.strip() or self.stdout.strip()).splitlines()
            if line.strip()
        ]
        return shorten(lines[-1], MAX_LOG_CHARS) if lines else "it said nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class CliSetup:
    """What an adapter's `prepare` and `turn` work with.

    `home` is a folder of the CLI's own, outside the working folder and gone with the attempt: configuration, sessions.
    `env` is set for every command; `secrets` maps a variable of the command to the one of this machine that holds its
    value, which is only ever given to the command.
    """

    agent: str
    ctx: SandboxAgentContext
    cli: InstalledCli
    home: str
    env: Mapping[str, str]
    secrets: Mapping[str, str]

    @property
    def sandbox(self) -> Sandbox:
        """The attempt's sandbox."""
        return self.ctx.sandbox

    async def write_home(self, files: Mapping[str, str | bytes]) -> None:
        """Write files below `home`, by their path relative to it."""
        await self.sandbox.write_files(files, target_dir=self.home)

    async def run(
        self,
        args: Sequence[str],
        *,
        stdin: str | None = None,
        reader: Reader | None = None,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
    ) -> CliRun:
        """Run the CLI in the working folder. Its standard output goes to `reader` as it comes, its standard error to
        the turn's log. Cancelled, or at the end of `timeout` seconds, its whole process tree is killed.

        Raises AdapterError (`cli-key`) and SandboxError.
        """
        watched = _Output(self.ctx, reader)
        environment = {**self.env, **(env or {}), **secret_values(self.agent, self.secrets)}
        result = await self.sandbox.run_command(
            self.cli.path,
            list(args),
            env=environment,
            stdin=stdin,
            timeout=timeout,
            on_stdout=watched.out,
            on_stderr=watched.err,
        )
        watched.finish()
        killed = result.timed_out or result.oom_killed
        if killed:
            what = "its time passed" if result.timed_out else "the sandbox's memory ran out"
            self.ctx.diagnostic("cli-killed", "warning", f"the command was killed: {what}")
        return CliRun(
            exit_code=None if killed else result.exit_code,
            killed=killed,
            stdout=result.stdout,
            stderr=result.stderr,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CliTurn(CliSetup):
    """One turn: what is asked (`prompt`), and the CLI's own id of the conversation to go on with, if there is one."""

    input: TurnInput
    prompt: str
    session_id: str | None

    def continues_as(self, session_id: str | None) -> None:
        """Say which conversation of the CLI's this line is, so that its next turn goes on with it."""
        if session_id:
            self.ctx.session.capture(session_id)


def secret_values(agent: str, secrets: Mapping[str, str]) -> dict[str, str]:
    """The command's variables with the values that this machine has for them. Raises AdapterError (`cli-key`)."""
    found = {}
    for variable, source in secrets.items():
        value = os.environ.get(source)
        if not value:
            raise AdapterError("cli-key", agent=agent, variable=source)
        found[variable] = value
    return found


async def prompt_of(input: TurnInput, sandbox: Sandbox, home: str, number: int) -> str:
    """The turn's text; its files are put beside the CLI's home, and the text names them.

    Not in the working folder: what is written there during a turn counts as the agent's change.
    """
    if not input.files:
        return input.text
    folder = f"{home}/attachments/{number}"
    files = {f"{index}-{_file_name(file.filename)}": file.data for index, file in enumerate(input.files, 1)}
    await sandbox.write_files(files, target_dir=folder)
    named = "\n".join(f"Attached file: {folder}/{name}" for name in files)
    return f"{input.text}\n\n{named}" if input.text else named


def _file_name(name: str) -> str:
    return _UNSAFE.sub("_", name)[-MAX_ATTACHMENT_NAME:] or "file"


class _Output:
    """Hands on what a command prints, bounded: events to the reader, errors to the log, counts to the live display."""

    def __init__(self, ctx: SandboxAgentContext, reader: Reader | None) -> None:
        self._ctx = ctx
        self._reader = reader
        self._lines = 0
        self._shown_at = 0.0
        self._rest = ""
        self._logged = 0
        self._between = 0
        self._tail: deque[str] = deque(maxlen=LOG_TAIL)

    def out(self, text: str) -> None:
        if self._reader is not None:
            self._reader.feed(text.encode(errors="replace"))
        self._lines += text.count("\n")
        now = time.monotonic()
        if now - self._shown_at >= PROGRESS_EVERY:
            self._shown_at = now
            self._ctx.progress(f"{self._lines} event{'' if self._lines == 1 else 's'}")

    def err(self, text: str) -> None:
        *lines, rest = (self._rest + text).split("\n")
        self._rest = rest[-MAX_LOG_CHARS:]
        for line in lines:
            self._log(line)

    def finish(self) -> None:
        self._log(self._rest)
        if self._between:
            self._ctx.log(f"({self._between:,} more lines of standard error)")
        for line in self._tail:
            self._ctx.log(line)

    def _log(self, line: str) -> None:
        line = shorten(_STYLE.sub("", line).strip(), MAX_LOG_CHARS)
        if not line:
            return
        if self._logged < LOG_HEAD:
            self._logged += 1
            self._ctx.log(line)
            return
        self._between += len(self._tail) == LOG_TAIL
        self._tail.append(line)
