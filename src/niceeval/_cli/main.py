"""`niceeval`: finds the command, and turns whatever ends it into words and an exit code."""

from __future__ import annotations

import importlib
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

import click

from niceeval._base.errors import NiceevalError, SelectionError
from niceeval._base.places import current_folder
from niceeval._base.redaction import Redactor, secret_values
from niceeval._cli.errors import print_broke, print_errors, safe_standard_streams
from niceeval._cli.exit_codes import INTERRUPTED, PASSED, code_for
from niceeval._cli.help import help_lines
from niceeval._cli.leaving import leave, own_the_process
from niceeval._cli.starting import asks_for_help, ends_with, started, wants_json_lines
from niceeval._cli.streams import Streams
from niceeval._cli.usage import close_to, usage_error
from niceeval._version import __version__

if TYPE_CHECKING:
    from niceeval._cli.json_output import JsonOutput

_COMMANDS: Mapping[str, str] = {
    "init": "niceeval._cli.init:init_command",
    "exp": "niceeval._cli.exp:exp_command",
    "exp list": "niceeval._cli.listing:exp_list_command",
    "list": "niceeval._cli.listing:list_command",
    "why": "niceeval._cli.why:why_command",
    "show": "niceeval._cli.show:show_command",
    "clean": "niceeval._cli.clean:clean_command",
    "sandbox list": "niceeval._cli.sandbox:sandbox_list_command",
    "sandbox prune": "niceeval._cli.sandbox:sandbox_prune_command",
    "sandbox enter": "niceeval._cli.sandbox:sandbox_enter_command",
    "adapter record": "niceeval._cli.adapter:adapter_record_command",
    "judge check": "niceeval._cli.judge:judge_check_command",
    "judge correct": "niceeval._cli.judge:judge_correct_command",
}

_GROUPS = {"sandbox": "list, prune and enter", "adapter": "record", "judge": "check and correct"}
"""Words that are no commands by themselves, with those that they have."""


class _Commands(click.Group):
    """The commands by name; a command's module is imported when it is the one that was asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        home = _COMMANDS.get(cmd_name)
        if home is None:
            return None
        module, _, name = home.partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        started()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, rest = args[0], args[1:]
        if " ".join(args[:2]) in _COMMANDS:
            name, rest = " ".join(args[:2]), rest[1:]
        elif name in _GROUPS:
            _group_alone(ctx, name, rest)
        if name not in _COMMANDS:
            raise _not_a_command(name)
        if asks_for_help(rest):
            _print_help(name)
            ctx.exit(PASSED)
        return name, self.get_command(ctx, name), rest


def _group_alone(ctx: click.Context, group: str, rest: list[str]) -> None:
    """`niceeval sandbox` by itself names its commands; another word is none of them."""
    if rest and not asks_for_help(rest):
        problem = f"{group} has no command {rest[0]}; it has {_GROUPS[group]}"
        raise SelectionError("usage", problem=problem, command=f"niceeval {group} --help")
    _print_help(group)
    ctx.exit(PASSED)


def _print_help(command: str) -> None:
    streams = Streams.standard()
    streams.say(*help_lines(command, streams.out_style))


def _not_a_command(word: str) -> SelectionError:
    """An unknown first word: a command that is close, or an eval or experiment of the project of that name."""
    near = close_to(word, [name for name in _COMMANDS if " " not in name])
    if near:
        return SelectionError("not-a-command", word=word, match=f"; {near} is close", command=f"niceeval {near}")
    match, command = _in_project(word)
    return SelectionError("not-a-command", word=word, match=match, command=command)


def _in_project(word: str) -> tuple[str, str]:
    # Loading a project costs as much as running it does, and is paid only for a word that may be part of one.
    from niceeval._discover.project import load_project
    from niceeval._discover.select import run_command, under

    try:
        project = load_project(current_folder())
    except NiceevalError:
        return "", "niceeval --help"
    if any(under(experiment.id, word) for experiment in project.experiments):
        return f"; it matches the experiment {word}", f"niceeval exp {shlex.quote(word)}"
    evals = [spec.id for spec in project.evals if under(spec.id, word)]
    if not evals:
        return "", "niceeval --help"
    named = f"the eval {evals[0]}" if len(evals) == 1 else f"{len(evals)} evals"
    return f"; it matches {named}", run_command(project, word)


@click.command(
    cls=_Commands, name="niceeval", invoke_without_command=True, add_help_option=False, no_args_is_help=False
)
@click.option("--help", "-h", "wants_help", is_flag=True, is_eager=True)
@click.option("--version", "wants_version", is_flag=True)
@click.pass_context
def niceeval(context: click.Context, wants_help: bool, wants_version: bool) -> None:
    if wants_version:
        Streams.standard().say(f"niceeval {__version__}")
        context.exit(PASSED)
    if wants_help or context.invoked_subcommand is None:
        _print_help("")
        context.exit(PASSED)


def _command_in(arguments: Sequence[str]) -> str:
    """The command that a command line begins with; "" for none."""
    two = " ".join(arguments[:2])
    return two if two in _COMMANDS else next((word for word in arguments[:1] if word in _COMMANDS), "")


def entry(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (the process's own by default) and return the exit code. Prints every error there is."""
    safe_standard_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not wants_json_lines(given):
        return _run(given, None)
    # Events of runs are of no use to any other command, and take as long to import as a short one takes.
    from niceeval._cli.json_output import JsonOutput

    output = JsonOutput()
    ends_with(lambda: output.end("interrupted", INTERRUPTED))
    try:
        return _run(given, output)
    finally:
        # A process that ends here keeps it: an abandoned guest may still print.
        if arguments is not None:
            output.release()


def _run(given: list[str], output: JsonOutput | None) -> int:
    try:
        code = niceeval.main(args=given, prog_name="niceeval", standalone_mode=False, obj=output)
        return code if isinstance(code, int) else PASSED
    except NiceevalError as error:
        return _ended_by(error, output)
    except click.ClickException as error:
        return _ended_by(usage_error(error, _command_in(given)), output)
    except (KeyboardInterrupt, click.Abort):
        _streams().note("interrupted")
        if output is not None:
            output.end("interrupted", INTERRUPTED)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last place that can say what happened; it is exit code 2
        broke = print_broke(error, _streams())
        if output is not None:
            output.end("broke", code_for(error), [broke])
        return code_for(error)


def _ended_by(error: NiceevalError, output: JsonOutput | None) -> int:
    print_errors([error], _streams())
    if output is not None:
        output.end("incomplete", code_for(error), [error])
    return code_for(error)


def _streams() -> Streams:
    """The streams as they are at the end, when the environment holds what a project's `.env` put there."""
    return Streams.standard(Redactor(secret_values(os.environ, {})))


def script() -> NoReturn:
    """The console script: `entry`, and a way out that no thread of an agent or an eval can hold up."""
    own_the_process()
    try:
        code = entry()
    except KeyboardInterrupt:
        # Between two steps, where nothing else takes it.
        code = INTERRUPTED
    leave(code)
