"""click's objections, in our words: one thing, what is close, and the help to read."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click

from niceeval._base.errors import SelectionError
from niceeval._discover.select import close_names

_NOT_A = re.compile(r"'(?P<value>.*)' is not (?:a valid|one of)", re.DOTALL)
_KINDS = {
    "integer": "a whole number",
    "float": "a number",
    "integer range": "a whole number",
    "float range": "a number",
}
_MEANT = {
    "--repeat": "--runs",
    "--repeats": "--runs",
    "--epochs": "--runs",
    "-n": "--runs",
    "--no-cache": "--force",
    "--rerun": "--force",
    "-f": "--force",
    "-k": "--eval",
    "--filter": "--eval",
    "--jobs": "--max-concurrency",
    "-j": "--max-concurrency",
    "--dry-run": "--dry",
    "-q": "--quiet",
    "-v": "--verbose",
}
"""What other tools call an option of ours."""


def close_to(word: str, names: Iterable[str]) -> str | None:
    """The one name that a person most likely meant."""
    near = close_names(word, names, limit=1)
    return near[0] if near else None


def usage_error(error: click.ClickException, command: str) -> SelectionError:
    """The `usage` error for what click objects to in the arguments of a command ("" is niceeval itself)."""
    path = f"niceeval {command}".rstrip()
    return SelectionError("usage", problem=_problem(error, command or "niceeval"), command=f"{path} --help")


def _problem(error: click.ClickException, command: str) -> str:
    if isinstance(error, click.NoSuchOption):
        return f"{command} has no option {error.option_name}{_close_option(error)}"
    if isinstance(error, click.BadOptionUsage):
        return f"{error.option_name} needs a value" if "requires" in error.message else _plain(error.message)
    if isinstance(error, click.MissingParameter):
        return f"{command} needs {_parameter(error)}"
    if isinstance(error, click.BadParameter):
        return _bad_value(error)
    extra = re.fullmatch(r"Got unexpected extra arguments? \((?P<words>.*)\)", error.message, re.DOTALL)
    return f"{command} takes no argument {extra['words']}" if extra else _plain(error.message)


def _close_option(error: click.NoSuchOption) -> str:
    known = [name for option in (error.ctx.command.params if error.ctx else ()) for name in _names(option)]
    meant = _MEANT.get(error.option_name)
    if meant in known:
        return f"; it is {meant} here"
    near = close_to(error.option_name, known)
    return f"; {near} is close" if near else ""


def _names(parameter: click.Parameter) -> list[str]:
    if not isinstance(parameter, click.Option):
        return []
    return [name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("--")]


def _bad_value(error: click.BadParameter) -> str:
    match = _NOT_A.match(error.message)
    kind = _KINDS.get(error.param.type.name) if error.param is not None else None
    if match and kind:
        return f"{_parameter(error)} is {match['value']!r}; it is {kind}"
    return f"{_parameter(error)}: {_plain(error.message)}"


def _parameter(error: click.BadParameter) -> str:
    parameter = error.param
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    return parameter.make_metavar(error.ctx) if parameter is not None and error.ctx is not None else "an argument"


def _plain(message: str) -> str:
    return (message[:1].lower() + message[1:]).rstrip(".")
