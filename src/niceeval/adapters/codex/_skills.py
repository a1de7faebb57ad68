"""Telling that Codex loads a skill: it has no tool for it, so its model reads the skill's file with a command."""

from __future__ import annotations

import re
import shlex
from typing import Any, Final

from niceeval.turn_building import list_of, text_of

SKILL_FILE: Final = "SKILL.md"
MAX_COMMAND: Final = 2_000
"""Characters of the longest command that is looked at: one that only reads a file is short."""

_READERS: Final = frozenset({"cat", "sed", "head", "tail", "nl", "less", "more"})
_OPERATORS: Final = "|&;()<>`\n"
_RANGE: Final = re.compile(r"\d+(,(\d+|\$))?p?")
_OF_PLUGIN: Final = re.compile(rf"/plugins/cache/[^/]+/([^/]+)/[^/]+/skills/([^/]+)/{re.escape(SKILL_FILE)}\Z")
_SHELLS: Final = frozenset({"bash", "sh", "zsh"})


def skill_read(given: Any) -> str | None:
    """The skill whose file the command reads, where it does nothing else; None otherwise. A plugin's skill goes by the
    plugin's name too, as in the list that Codex shows its model: `greeter:greeting`.

    `given` is the input of a tool that runs commands.
    """
    command = text_of(given, "cmd") or text_of(given, "command") or _of_words(list_of(given, "command"))
    if SKILL_FILE not in command or len(command) > MAX_COMMAND or set(command.strip()) & set(_OPERATORS):
        return None
    try:
        reader, *words = shlex.split(command)
    except ValueError:
        return None
    if any(word.startswith(("-i", "--in-place")) for word in words):
        return None
    operands = [word for word in words if not word.startswith("-") and _RANGE.fullmatch(word) is None]
    if reader.rpartition("/")[2] not in _READERS or len(operands) != 1:
        return None
    of_plugin = _OF_PLUGIN.search(operands[0])
    if of_plugin is not None:
        return f"{of_plugin[1]}:{of_plugin[2]}"
    folder, _, file = operands[0].rpartition("/")
    return folder.rpartition("/")[2] or None if file == SKILL_FILE else None


def _of_words(words: list[Any]) -> str:
    """The command of older versions, which is a list: a shell and its script, or a program and its arguments."""
    texts = [word for word in words if isinstance(word, str)]
    if len(texts) == 3 and texts[0].rpartition("/")[2] in _SHELLS and texts[1] in ("-c", "-lc"):
        return texts[2]
    return shlex.join(texts)
