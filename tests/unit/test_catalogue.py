"""Texts: one catalogue per language, with the same codes and the same fields, and no code that nothing raises."""

from __future__ import annotations

import ast
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

from niceeval._base import errors
from niceeval._base.catalogue import CATALOGUES

SOURCE = Path(errors.__file__).parents[1]
ERROR_CLASSES = {
    name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, errors.NiceevalError)
}


STORED_ONLY = {"setup-failed"}
"""Texts that no error is made with; this set only shrinks."""


def fields_of(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


def used_codes() -> Iterator[tuple[str, str]]:
    """(code, where) of every error that the source makes with a literal code."""
    for file in sorted(SOURCE.rglob("*.py")):
        if "catalogue" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            for code in made_codes(node):
                yield code, f"{file.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}"


def made_codes(node: ast.AST) -> list[str]:
    """The codes of an error's construction: `ProjectError("no-eval", ...)`, or one of two by a condition."""
    if not isinstance(node, ast.Call) or not node.args:
        return []
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name not in ERROR_CLASSES:
        return []
    first = node.args[0]
    options = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
    return [option.value for option in options if isinstance(option, ast.Constant)]


def string_constants() -> set[str]:
    """Every text in the source, for codes that reach an error through a variable."""
    return {
        node.value
        for file in SOURCE.rglob("*.py")
        if "catalogue" not in file.parts
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_both_languages_have_the_same_codes() -> None:
    """A code that one language lacks would raise while an error is being reported."""
    assert set(CATALOGUES["en"]) == set(CATALOGUES["zh"])


@pytest.mark.parametrize("code", sorted(CATALOGUES["en"]))
@pytest.mark.parametrize("part", [0, 1], ids=["message", "next"])
def test_both_languages_use_the_same_fields(code: str, part: int) -> None:
    """Nothing that English says is missing in Chinese, and the other way round."""
    english, chinese = CATALOGUES["en"][code][part], CATALOGUES["zh"][code][part]
    assert fields_of(english) == fields_of(chinese)


def test_every_code_that_is_used_has_a_text() -> None:
    """An error with an unknown code could not even be printed."""
    unknown = [f"{code} ({where})" for code, where in used_codes() if code not in CATALOGUES["en"]]
    assert unknown == []


def test_every_text_belongs_to_a_code_that_is_used() -> None:
    """A text that nothing raises is a promise that nothing keeps."""
    assert set(CATALOGUES["en"]) - string_constants() <= STORED_ONLY


@pytest.mark.parametrize("language", sorted(CATALOGUES))
def test_messages_say_neither_please_nor_invalid_nor_oops(language: str) -> None:
    """One thing in the user's words, without apology or accusation."""
    for message, _ in CATALOGUES[language].values():
        assert not {"please", "invalid", "oops"} & set(message.lower().split())


def test_an_error_reads_in_the_language_that_is_asked_for() -> None:
    """`str` is English whatever the language; the message is in either."""
    error = errors.AuthorError("send-not-awaited", call="send")
    assert str(error) == "t.send(...) was not awaited: nothing was sent"
    assert error.message("zh") == "t.send(...) 没有 await，什么也没有发送"
    assert error.next_step("zh") == "写成 `await t.send(...)`"
