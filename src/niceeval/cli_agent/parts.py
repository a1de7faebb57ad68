"""What an author adds to a command-line agent: MCP servers, skills, plugins, hooks. Plain data, checked at once."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from niceeval._base.arguments import Arguments
from niceeval._base.callsite import call_site, frame_site, is_ours
from niceeval._base.errors import Place
from niceeval._base.places import shown_path

SKILL_FILE: Final = "SKILL.md"
"""What makes a folder a skill."""

MAX_PART_FILES: Final = 5_000
"""The most files of a skill's or plugin's folder that count for what a result depends on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """A server of the Model Context Protocol that the agent may use: a `command` in the sandbox, or a `url`.

    `env` is set for the command, and `headers` are sent to the url; both are written into the CLI's configuration, so
    secrets do not belong there. `secret_env` names variables of this machine that the command is given, and
    `bearer_token_env` one whose value is the url's bearer token: their values are never written to a file.

    Raises ProjectError (`bad-argument`).
    """

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    secret_env: tuple[str, ...] = ()
    bearer_token_env: str | None = None

    def __post_init__(self) -> None:
        arguments = _arguments("McpServer", self, "name", "command", "args", "env", "url", "headers", "secret_env")
        if not (arguments.text("name") or "").replace("-", "").replace("_", "").isalnum():
            raise arguments.error("name", f"is {self.name!r}; it is letters, digits, - and _", 'name="docs"')
        if (arguments.text("command") is None) == (arguments.text("url") is None):
            raise arguments.error(
                "command", "and url: one of them is given", 'command="docs-server", or url="https://"'
            )
        if self.bearer_token_env is not None and self.url is None:
            raise arguments.error("bearer_token_env", "goes with url", 'secret_env=("TOKEN",) for a command')
        _keep(self, "args", arguments.names("args"))
        _keep(self, "secret_env", arguments.names("secret_env"))
        for name in ("env", "headers"):
            arguments.mapping(name, lambda value: isinstance(value, str), "text")

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of this machine that it is given."""
        return self.secret_env if self.bearer_token_env is None else (*self.secret_env, self.bearer_token_env)


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill: a folder of this machine with a `SKILL.md`. A relative path is relative to the author's file.

    Raises ProjectError (`bad-argument`).
    """

    path: str | os.PathLike[str]

    def __post_init__(self) -> None:
        folder = _folder("Skill", self.path)
        if not (folder / SKILL_FILE).is_file():
            raise _arguments("Skill", self, "path").error("path", f"{self.path!s} has no {SKILL_FILE}", "write one")
        _keep(self, "path", str(folder))

    @property
    def name(self) -> str:
        """The folder's name."""
        return Path(self.path).name


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin: a folder of this machine in the CLI's own form. A relative path is relative to the author's file.

    Raises ProjectError (`bad-argument`).
    """

    path: str | os.PathLike[str]

    def __post_init__(self) -> None:
        _keep(self, "path", str(_folder("Plugin", self.path)))

    @property
    def name(self) -> str:
        """The folder's name."""
        return Path(self.path).name


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A shell `command` of the sandbox that the CLI runs at one of its events, in the CLI's own words.

    `matcher` narrows it to tools where the event has tools; `timeout` in seconds.
    """

    event: str
    command: str
    matcher: str | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        arguments = _arguments("Hook", self, "event", "command", "matcher", "timeout")
        for name in ("event", "command"):
            if arguments.text(name) is None:
                raise arguments.error(name, "is None; it is text", f'{name}="..."')
        arguments.text("matcher")
        arguments.seconds("timeout")


def folder_digest(folder: str | os.PathLike[str]) -> str:
    """A digest of every file of the folder: its relative path and its bytes."""
    digest = hashlib.sha256()
    for path in _files(Path(folder)):
        digest.update(f"{path.relative_to(folder).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for number, path in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
        if number >= MAX_PART_FILES:
            return
        yield path


def _folder(call: str, path: str | os.PathLike[str]) -> Path:
    place = _place()
    arguments = Arguments(call, place, {"path": path})
    if not isinstance(path, (str, os.PathLike)):
        raise arguments.error("path", f"is {type(path).__name__}; it is a folder", f'{call}("skills/review")')
    folder = Path(os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(place.file)), os.fspath(path))))
    if not folder.is_dir():
        raise arguments.error("path", f"{folder.name!r} is no folder beside this file", f'{call}("skills/review")')
    return folder


def _place() -> Place:
    """The author's line. A dataclass's own constructor has no file, so that it would count as the author's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (is_ours(frame.f_code.co_filename) or frame.f_globals.get("__name__") == __name__):
        frame = frame.f_back
    site = call_site() if frame is None else frame_site(frame)
    return Place(shown_path(site.file), site.line, site.column)


def _arguments(call: str, value: object, *names: str) -> Arguments:
    return Arguments(call, _place(), {name: getattr(value, name) for name in names})


def _keep(value: object, name: str, kept: str | Sequence[str]) -> None:
    object.__setattr__(value, name, kept)
