"""`define_cli_agent`: a sandbox agent out of a command-line program."""

from __future__ import annotations

import dataclasses
import hashlib
import secrets as random_words
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from niceeval._base.errors import AdapterError
from niceeval._model.agent import Agent, SandboxAgentContext
from niceeval._model.coverage import Coverage, EvidenceCoverage
from niceeval._model.json_types import JsonValue
from niceeval._model.turn import Turn
from niceeval._model.turn_input import TurnInput
from niceeval.adapter import define_sandbox_agent
from niceeval.cli_agent.ensuring import CliPackage, InstalledCli, ensure_cli
from niceeval.cli_agent.failing import raise_if_unanswered
from niceeval.cli_agent.parts import Plugin, Skill, folder_digest
from niceeval.cli_agent.turns import CliRun, CliSetup, CliTurn, prompt_of, secret_values
from niceeval.turn_building import Collected

Prepare = Callable[[CliSetup], Awaitable[None]]
"""Writes the CLI's configuration, once per attempt."""
DriveTurn = Callable[[CliTurn], Awaitable[tuple[CliRun, Collected]]]
"""Runs the command of one turn, and says how it ended and what it came to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CliOptions:
    """What every command-line agent is told about its command.

    `version`, `command`, `extra_packages`: as `ensure_cli` takes them. `secrets`: the command's variables, each with
    the variable of this machine that holds its value. `env`: the command's other variables. `resume`: the next turn
    of a line goes on with the CLI's own conversation; without it, each turn begins a new one.
    """

    version: str | None = None
    command: str | None = None
    extra_packages: tuple[str, ...] = ()
    secrets: Mapping[str, str] = dataclasses.field(default_factory=dict)
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    resume: bool = True


def define_cli_agent(
    *,
    name: str,
    package: CliPackage,
    evidence_coverage: EvidenceCoverage | Mapping[str, Coverage],
    turn: DriveTurn,
    options: CliOptions,
    prepare: Prepare | None = None,
    home_env: Callable[[str], Mapping[str, str]] = lambda home: {},
    depends_on: Sequence[object] = (),
) -> Agent:
    """An agent that is a program in the sandbox, run once for each turn.

    `prepare(setup)` writes its configuration when an attempt begins; `turn(turn)` runs it and reads what it did. `home`
    is a folder of its own for each attempt, and `home_env(home)` the variables that tell the program so. `depends_on`
    is what a result depends on beside the source: settings, skills, plugins.

    What the program says its version is becomes the diagnostic `cli-version` of each attempt. A turn that failed before
    the model had answered anything makes the attempt errored, not failed.

    Raises AdapterError as `define_sandbox_agent` does.
    """
    driver = _Driver(name, package, options, turn, prepare, home_env)
    return define_sandbox_agent(
        name=name,
        evidence_coverage=evidence_coverage,
        setup=driver.setup,
        send=driver.send,
        teardown=driver.teardown,
        version=lambda: f"{options.version or 'any'}; settings {_digest([options, *depends_on])}",
        secret_env=tuple(dict.fromkeys(options.secrets.values())),
    )


@dataclass(slots=True)
class _Attempt:
    cli: InstalledCli
    home: str
    turns: int = 0


_Key = tuple[str, str, int, str]


class _Driver:
    """One agent's callbacks. What an attempt's setup found is kept until its teardown."""

    def __init__(
        self,
        name: str,
        package: CliPackage,
        options: CliOptions,
        turn: DriveTurn,
        prepare: Prepare | None,
        home_env: Callable[[str], Mapping[str, str]],
    ) -> None:
        self._name = name
        self._package = package
        self._options = options
        self._turn = turn
        self._prepare = prepare
        self._home_env = home_env
        self._attempts: dict[_Key, _Attempt] = {}

    async def setup(self, ctx: SandboxAgentContext) -> None:
        secret_values(self._name, self._options.secrets)
        home = f"{ctx.sandbox.private_dir}/agents/{random_words.token_hex(4)}"
        made = await ctx.sandbox.run_shell(f"umask 077; mkdir -p {shlex.quote(home)}")
        if made.exit_code != 0:
            problem = f"{home} cannot be made: {made.stderr.strip()[:300]}"
            raise AdapterError("cli-missing", cli=self._name, problem=problem, fix="give the sandbox a writable folder")
        cli = await ensure_cli(
            ctx.sandbox,
            self._package,
            version=self._options.version,
            command=self._options.command,
            extra=self._options.extra_packages,
            env=self._options.env,
            say=ctx.progress,
        )
        data: JsonValue = {
            "cli": self._package.name,
            "version": cli.version,
            "path": cli.path,
            "installed": cli.installed_now,
        }
        ctx.diagnostic("cli-version", "info", f"{self._package.name} {cli.version}", data)
        attempt = self._attempts[_key(ctx)] = _Attempt(cli, home)
        if self._prepare is not None:
            await self._prepare(self._setup(ctx, attempt))

    async def send(self, input: TurnInput, ctx: SandboxAgentContext) -> Turn:
        attempt = self._attempts[_key(ctx)]
        attempt.turns += 1
        prompt = await prompt_of(input, ctx.sandbox, attempt.home, attempt.turns)
        going_on = ctx.session.id if self._options.resume else None
        setup = self._setup(ctx, attempt)
        turn = CliTurn(
            agent=setup.agent,
            ctx=ctx,
            cli=setup.cli,
            home=setup.home,
            env=setup.env,
            secrets=setup.secrets,
            input=input,
            prompt=prompt,
            session_id=going_on,
        )
        run, collected = await self._turn(turn)
        done = collected.report(ctx)
        if not run.killed:
            raise_if_unanswered(
                collected,
                cli=self._package.name,
                exit_code=run.exit_code,
                last_words=run.last_words,
                fresh=going_on is None,
            )
        return done

    async def teardown(self, ctx: SandboxAgentContext) -> None:
        attempt = self._attempts.pop(_key(ctx), None)
        if attempt is not None:
            await ctx.sandbox.run_command("rm", ["-rf", "--", attempt.home])

    def _setup(self, ctx: SandboxAgentContext, attempt: _Attempt) -> CliSetup:
        return CliSetup(
            agent=self._name,
            ctx=ctx,
            cli=attempt.cli,
            home=attempt.home,
            env={**self._home_env(attempt.home), **self._options.env},
            secrets=self._options.secrets,
        )


def _key(ctx: SandboxAgentContext) -> _Key:
    return ctx.experiment_id, ctx.eval_id, ctx.attempt, ctx.sandbox.sandbox_id


def _digest(values: Sequence[object]) -> str:
    return hashlib.sha256(repr([_said(value) for value in values]).encode()).hexdigest()[:16]


def _said(value: object) -> object:
    if isinstance(value, (Skill, Plugin)):
        # The content, not the place: another machine has it elsewhere.
        return type(value).__name__, value.name, folder_digest(value.path)
    if isinstance(value, (list, tuple)):
        return [_said(item) for item in value]
    if isinstance(value, Mapping):
        return sorted((str(key), repr(_said(item))) for key, item in value.items())
    return repr(value)
