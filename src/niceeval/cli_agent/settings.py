"""Checking what a factory of a command-line agent was given, and the text forms of configuration files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from niceeval._base.arguments import Arguments, described
from niceeval._base.json_values import normalise_json
from niceeval._base.places import author_place

T = TypeVar("T")


class CliArguments(Arguments):
    """The arguments of a factory such as `claude_code_agent`; an error points at the one that is wrong."""

    def __init__(self, call: str, values: Mapping[str, object]) -> None:
        super().__init__(call, author_place(), values)

    def parts(self, name: str, kind: type[T]) -> tuple[T, ...]:
        """A list of McpServer, Skill, Plugin or Hook."""
        value = self[name]
        if isinstance(value, (list, tuple)) and all(isinstance(item, kind) for item in value):
            return tuple(value)
        raise self.error(name, f"is {described(value)}; it is a list of {kind.__name__}", f"{name}=[{kind.__name__}()]")

    def texts(self, name: str) -> dict[str, str]:
        """A mapping of text to text."""
        return {
            key: str(value) for key, value in self.mapping(name, lambda value: isinstance(value, str), "text").items()
        }

    def json_object(self, name: str) -> dict[str, Any]:
        """A mapping that is JSON; None is an empty one."""
        value = self.mapping(name, lambda _: True, "JSON")
        plain, problems = normalise_json(value)
        if problems:
            raise self.error(name, f"is not JSON: {problems[0]}", f'{name}={{"key": "value"}}')
        return dict(plain) if isinstance(plain, dict) else {}

    def one_of(self, name: str, allowed: Sequence[str]) -> str:
        """One of a few words."""
        value = self[name]
        if isinstance(value, str) and value in allowed:
            return value
        words = ", ".join(f'"{word}"' for word in allowed)
        raise self.error(name, f"is {described(value)}; it is one of {words}", f'{name}="{allowed[0]}"')


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Two objects as one: objects in both are merged, of everything else the second's counts."""
    result = dict(base)
    for key, value in over.items():
        known = result.get(key)
        inner = isinstance(known, Mapping) and isinstance(value, Mapping)
        result[key] = merged(result[key], value) if inner else value
    return result


def toml_lines(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> list[str]:
    """The object as TOML: its plain values first, then a table for each object in it. None is left out."""
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping) and value is not None}
    lines = [f"[{'.'.join(map(_toml_key, path))}]"] if path and (plain or not table) else []
    lines += [f"{_toml_key(key)} = {_toml_value(value)}" for key, value in plain.items()]
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines += toml_lines(value, (*path, key))
    return lines


def _toml_key(key: str) -> str:
    return key if key.replace("-", "").replace("_", "").isalnum() and key.isascii() else _toml_text(key)


def _toml_value(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml_key(key)} = {_toml_value(item)}" for key, item in value.items()) + "}"
    return _toml_text(value) if isinstance(value, str) else json.dumps(value)


def _toml_text(text: str) -> str:
    # JSON's escapes are TOML's, but for pairs of surrogates; and TOML wants one character more escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
