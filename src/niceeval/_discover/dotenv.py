"""The project's `.env`: credentials for the run, never overriding what is set."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from pathlib import Path

from niceeval._base.errors import Place, ProjectError
from niceeval._base.places import shown_path

_LINE = re.compile(r"(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(?P<rest>.*)", re.DOTALL)
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def parse_dotenv(text: str) -> tuple[dict[str, str], list[int]]:
    """The variables of a `.env` text, and the numbers (from 1) of lines that are not `NAME=value`.

    `export` before a name is allowed. A value may stand in single quotes (taken as it is) or double quotes (`\\n` and
    the like are escapes); a quoted value may hold line ends. Outside quotes, ` #` begins a comment. Nothing is
    expanded. A name that occurs twice has its last value.
    """
    found: dict[str, str] = {}
    bad: list[int] = []
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    number = 0
    while number < len(lines):
        line, used = lines[number].strip(), 1
        if line and not line.startswith("#"):
            match = _LINE.fullmatch(line)
            value, used = _value(match["rest"], lines[number + 1 :]) if match else (None, 1)
            if match is None or value is None:
                bad.append(number + 1)
            else:
                found[match["name"]] = value
        number += used
    return found, bad


def _value(rest: str, following: list[str]) -> tuple[str | None, int]:
    """The value and how many lines it takes; None for a quote that is never closed."""
    if rest[:1] not in ("'", '"'):
        return _COMMENT.sub("", rest).strip(), 1
    quote = rest[0]
    text = rest[1:]
    for used in range(len(following) + 1):
        end = _closing(text, quote)
        if end is not None:
            behind = text[end + 1 :].strip()
            inner = text[:end]
            value = _ESCAPE.sub(_unescaped, inner) if quote == '"' else inner
            return (value, used + 1) if not behind or behind.startswith("#") else (None, 1)
        if used < len(following):
            text += "\n" + following[used]
    return None, 1


def _closing(text: str, quote: str) -> int | None:
    index = 0
    while index < len(text):
        if text[index] == quote:
            return index
        index += 2 if quote == '"' and text[index] == "\\" else 1
    return None


def _unescaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[0])


def load_dotenv(root: Path, environ: MutableMapping[str, str]) -> tuple[dict[str, str], list[ProjectError]]:
    """Put the variables of `<root>/.env` into `environ` where they are not set.

    Returns all of them (also those that did not get in), and a warning for each line that is not understood.
    """
    file = root / ".env"
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}, []
    except (OSError, UnicodeDecodeError) as error:
        return {}, [ProjectError("dotenv", place=Place(shown_path(file), 1), problem=f"cannot be read: {error}")]
    variables, bad = parse_dotenv(text)
    for name, value in variables.items():
        if "\0" not in value:
            environ.setdefault(name, value)
    # The line itself may hold a credential, so it is not quoted.
    problem = "this line is not NAME=value"
    return variables, [ProjectError("dotenv", place=Place(shown_path(file), line), problem=problem) for line in bad]
