"""`bub_agent`: Bub in a sandbox."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
import secrets as random_words
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from niceeval.adapter import Agent, SessionSlot
from niceeval.adapters.bub._tape import NO_STATE, Tape, coverage
from niceeval.cli_agent import (
    CliArguments,
    CliOptions,
    CliPackage,
    CliRun,
    CliSetup,
    CliTurn,
    Skill,
    define_cli_agent,
    merged,
)
from niceeval.turn_building import Collected

PACKAGE: Final = CliPackage(
    name="bub",
    command="bub",
    registry="pypi",
    package="bub",
    # It has no option for it; the first line of the script names the Python that it is installed in.
    version_script=(
        'IFS= read -r first < "$cli"; python=${first#"#!"}; '
        '"$python" -c "import importlib.metadata as m; print(m.version(\'bub\'))"'
    ),
    python="3,12",
)

LOWERED: Final[Mapping[str, str]] = {
    "events": "turns with a subagent: its own steps are not on the tape",
    "actions": f"turns in which tools ran: {NO_STATE}",
    "usage": "turns with a subagent: its own steps are not on the tape",
}
"""Channels that some whole turns have less of than the agent declares: when, and what is missing."""

MAX_PROMPT_BYTES: Final = 100_000
"""The longest prompt: it is an argument of the command, and systems limit those."""
_LIMIT: Final = re.compile(r"RuntimeError: max_steps_reached=(\d{1,9})")
MAX_TAPE_BYTES: Final = 64_000_000
"""The largest tape that is read."""

NO_COMMANDS: Final = "\N{SYMBOL FOR START OF HEADING}niceeval"
"""What begins one of Bub's own commands: no text does, so that a prompt is never taken for one."""


def bub_agent(
    *,
    name: str = "bub",
    version: str | None = None,
    command: str | None = None,
    provider: str = "openai",
    base_url: str | None = None,
    api_key_env: str | None = "OPENAI_API_KEY",
    skills: Sequence[Skill] = (),
    plugins: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    max_turns: int | None = 100,
    resume: bool = True,
    turn_timeout: float | None = None,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    secret_env: Mapping[str, str] | None = None,
) -> Agent:
    """Bub (`bub run`), run once for each turn in the attempt's sandbox. It needs Python 3.12 or newer there.

    `version`, `command`, `resume`, `turn_timeout`, `args`, `env`, `secret_env`: as for every agent of this kind.
    `provider` stands before a model that names none (`openai:gpt-5.5`), and says which API `base_url` speaks.
    `api_key_env`: the variable of this machine that holds the key; None where none is needed. The model is the
    experiment's; its effort goes to the model as `reasoning_effort`.

    `plugins` are packages of PyPI, installed with it, so not together with `command`. With `skills`, HOME is a folder
    of the attempt's own: Bub looks for skills below it. `settings` are Bub's own, by their names without `BUB_`.
    `max_turns`: the most model calls of a turn; Bub itself has no limit, so 100 where nobody says otherwise. Bub asks
    for no permission and has no rules.

    Raises ProjectError (`bad-argument`).
    """
    arguments = CliArguments("bub_agent", dict(locals()))
    key = arguments.text("api_key_env")
    if arguments.names("plugins") and arguments.text("command") is not None:
        problem = "are installed with Bub, and with command= nothing is installed"
        raise arguments.error("plugins", problem, "install them beside that command, and leave plugins= out")
    options = CliOptions(
        version=arguments.text("version"),
        command=arguments.text("command"),
        extra_packages=arguments.names("plugins"),
        secrets={**({} if key is None else {"BUB_API_KEY": key}), **arguments.texts("secret_env")},
        env=arguments.texts("env"),
        resume=arguments.flag("resume"),
    )
    given = _Given(
        provider=arguments.text("provider") or "openai",
        base_url=arguments.text("base_url"),
        settings=arguments.json_object("settings"),
        skills=arguments.parts("skills", Skill),
        max_turns=arguments.count("max_turns"),
        timeout=arguments.seconds("turn_timeout"),
        args=arguments.names("args"),
    )
    return define_cli_agent(
        name=name,
        package=PACKAGE,
        evidence_coverage=coverage,
        options=options,
        prepare=given.prepare,
        turn=given.turn,
        home_env=given.home_env,
        depends_on=[given.provider, given.settings, given.skills, given.max_turns, given.args],
    )


@dataclass(slots=True)
class _Told:
    """What earlier turns of the conversation left: how long the tape was."""

    read: int = 0


_TOLD: Final = SessionSlot[_Told]("bub tape", default=_Told)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """The factory's arguments, checked, and what is done with them."""

    provider: str
    base_url: str | None
    settings: dict[str, Any]
    skills: tuple[Skill, ...]
    max_turns: int | None
    timeout: float | None
    args: tuple[str, ...]

    def home_env(self, home: str) -> dict[str, str]:
        env = {"BUB_HOME": home, "NO_COLOR": "1"}
        return {**env, "HOME": home} if self.skills else env

    async def prepare(self, setup: CliSetup) -> None:
        for skill in self.skills:
            await setup.sandbox.upload_directory(skill.path, f"{setup.home}/.agents/skills/{skill.name}")

    async def turn(self, turn: CliTurn) -> tuple[CliRun, Collected]:
        session_id = turn.session_id or f"niceeval-{random_words.token_hex(8)}"
        told = turn.ctx.session.get(_TOLD) if turn.session_id is not None else _Told()
        prompt = turn.prompt.encode()[:MAX_PROMPT_BYTES].decode(errors="ignore")
        if prompt != turn.prompt:
            turn.ctx.diagnostic("prompt-cut", "error", f"Bub takes prompts of {MAX_PROMPT_BYTES:,} bytes at most")
        words = ["-w", turn.sandbox.workdir, "run", "--session-id", session_id, *self.args, "--", prompt]
        run = await turn.run(words, timeout=self.timeout, env=self._environment(turn))
        turn.continues_as(session_id)
        data = await _tape(turn, session_id)
        tape = Tape()
        tape.feed(data[told.read :])
        turn.ctx.session.set(_TOLD, _Told(len(data)))
        return run, tape.finish(exit_code=run.exit_code, killed=run.killed, stopped=_stopped(run))

    def _environment(self, turn: CliTurn) -> dict[str, str]:
        """Bub's settings, each a variable; a value that is no text is JSON."""
        ours: dict[str, Any] = {"command_prefix": NO_COMMANDS}
        if turn.ctx.model is not None:
            ours["model"] = turn.ctx.model if ":" in turn.ctx.model else f"{self.provider}:{turn.ctx.model}"
        if self.base_url is not None:
            ours["api_base"] = self.base_url
        if self.max_turns is not None:
            ours["max_steps"] = self.max_turns
        if turn.ctx.reasoning_effort is not None:
            ours["completion_args"] = {"reasoning_effort": turn.ctx.reasoning_effort}
        settings = merged(ours, self.settings)
        return {
            f"BUB_{key.upper()}": value if isinstance(value, str) else json.dumps(value)
            for key, value in settings.items()
            if value is not None
        }


def _stopped(run: CliRun) -> str | None:
    """Whether Bub stopped at its limit of model calls, which it says as the last line of its standard error."""
    limit = _LIMIT.fullmatch(run.last_words) if run.exit_code == 1 else None
    return None if limit is None else f"Bub stopped at its limit of {limit[1]} model calls"


async def _tape(turn: CliTurn, session_id: str) -> bytes:
    """The conversation's tape; nothing where Bub wrote none."""
    workspace = (await turn.sandbox.run_command("readlink", ["-f", "--", turn.sandbox.workdir])).stdout.strip()
    name = f"{_hash(workspace or posixpath.normpath(turn.sandbox.workdir))}__{_hash(session_id)}.jsonl"
    path = f"{turn.home}/tapes/{name}"
    size = await turn.sandbox.run_command("wc", ["-c", path])
    count = size.stdout.split()[:1]
    if size.exit_code != 0 or not count:
        return b""
    if int(count[0]) > MAX_TAPE_BYTES:
        turn.ctx.diagnostic("tape-too-long", "warning", f"the tape has {int(count[0]):,} bytes, and was not read")
        return b""
    return await turn.sandbox.read_bytes(path)


def _hash(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:16]
