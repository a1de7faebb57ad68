"""Matchers: reusable questions about a value, for `t.check` and `t.require`.

Every name here is a function that returns a `Matcher`. A matcher is pure, knows no severity words, and gates where the
author says nothing else (`similarity` is soft with the line 0.6). A value of a kind that a matcher cannot judge (text
wanted, None given) fails it, also under `not_`. Whatever was received is kept as bounded text.

Numbers compare by value (`1` equals `1.0`); a bool is no number, so `True` never equals `1`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeGuard, TypeVar, overload

from typing_extensions import TypeIs

from niceeval._base.errors import AuthorError
from niceeval._base.plain_text import shorten, type_name
from niceeval._base.text_parts import heading_key, headings_in, url_within, urls_in
from niceeval._base.text_similarity import text_similarity
from niceeval._model.assertion import Severity
from niceeval._model.equality import first_inequality
from niceeval._model.matcher import (
    MAX_NAME,
    MAX_RECEIVED,
    DefinedMatcher,
    Judgement,
    Matcher,
    NarrowingMatcher,
    as_matcher,
    predicate_matcher,
)
from niceeval._model.matching import describe, difference, predicate_name, shown_value
from niceeval._model.sandbox import CommandResult

__all__ = [
    "Judgement",
    "Matcher",
    "all_of",
    "any_of",
    "as_matcher",
    "command_succeeded",
    "equals",
    "excludes",
    "has_sections",
    "includes",
    "includes_url",
    "is_defined",
    "is_false",
    "is_true",
    "matches",
    "not_",
    "satisfies",
    "similarity",
]

T = TypeVar("T")
N = TypeVar("N")
Text: TypeAlias = str | None
Wanted: TypeAlias = str | re.Pattern[str]

_LINE_OF_SIMILARITY = 0.6
_SHOWN_ITEMS = 10


def includes(*wanted: Wanted) -> Matcher[Text]:
    """Every text occurs in the value, and every compiled pattern is found in it. Case counts; `re.I` ignores it."""
    _require_wanted("includes", wanted)

    def judge(value: str) -> Judgement:
        missing = [item for item in wanted if not _found(item, value)]
        detail = f"not found: {_list(missing)}" if missing and len(wanted) > 1 else None
        return _judgement(not missing, f"includes {_list(wanted)}", value, detail)

    return Matcher(name=_name("includes", wanted), judge=_text_judge(f"includes {_list(wanted)}", judge))


def excludes(*unwanted: Wanted) -> Matcher[Text]:
    """None of the texts occurs in the value, and none of the compiled patterns is found. Case counts."""
    _require_wanted("excludes", unwanted)

    def judge(value: str) -> Judgement:
        present = [item for item in unwanted if _found(item, value)]
        detail = f"found: {_list(present)}" if present and len(unwanted) > 1 else None
        return _judgement(not present, f"excludes {_list(unwanted)}", value, detail)

    return Matcher(name=_name("excludes", unwanted), judge=_text_judge(f"excludes {_list(unwanted)}", judge))


def equals(expected: object) -> Matcher[object]:
    """Deeply equal: mappings with the same keys, lists (or tuples) with the same items, anything else by its `==`."""
    shown = shown_value(expected, MAX_RECEIVED)

    def judge(value: object) -> Judgement:
        different = first_inequality(expected, value)
        return _judgement(different is None, shown, value, different)

    return Matcher(name=_name("equals", [expected]), judge=judge)


def matches(pattern: object) -> Matcher[Any]:
    """Matches in the language of `called_tool(input=...)`, in which a text stands for itself; but a text given here is
    a regular expression that is searched for, like a compiled pattern.

    A mapping matches deeply and partially, a list item by item, a callable is a predicate, at any depth. Raises
    AuthorError (`bad-matcher`) for a text that is no regular expression.
    """
    condition = _compiled(pattern) if isinstance(pattern, str) else pattern

    def judge(value: object) -> Judgement:
        different = difference(condition, value)
        return _judgement(different is None, describe(condition), value, different)

    return Matcher(name=_name("matches", [condition]), judge=judge)


def similarity(expected: str) -> Matcher[Text]:
    """How similar a text is: 1 - (edits / length of the longer text). Soft, with the line 0.6.

    An edit inserts, deletes or replaces a character; case and white space count. Texts that differ over more than
    10,000 characters are compared word by word.
    """
    shown = f"similar to {shown_value(expected, MAX_RECEIVED)}"

    def judge(value: str) -> Judgement:
        score = text_similarity(expected, value)
        return Judgement(score=score, graded=True, expected=shown, received=shown_value(value, MAX_RECEIVED))

    return Matcher(
        name=_name("similarity", [expected]),
        judge=_text_judge(shown, judge),
        default_severity="soft",
        threshold=_LINE_OF_SIMILARITY,
    )


@overload
def satisfies(predicate: Callable[[Any], TypeIs[N]], label: str | None = None) -> NarrowingMatcher[object, N]: ...
@overload
def satisfies(predicate: Callable[[Any], TypeGuard[N]], label: str | None = None) -> NarrowingMatcher[object, N]: ...
@overload
def satisfies(predicate: Callable[[T], bool | float], label: str | None = None) -> Matcher[T]: ...
def satisfies(predicate: Callable[[Any], object], label: str | None = None) -> Matcher[Any]:
    """The predicate answers True, or a score of 1. `label` names it; without one it has its own name.

    Raises AuthorError (`bad-matcher`) when a value is judged and the predicate raises, is asynchronous, or answers with
    anything but a bool or a score in [0, 1].
    """
    name = predicate_name(predicate) if label is None else shorten(label, MAX_NAME)
    plain = predicate_matcher(predicate, name)
    return NarrowingMatcher(name=plain.name, judge=plain.judge)


def is_defined() -> DefinedMatcher:
    """The value is not None."""
    return DefinedMatcher(name="is_defined()", judge=lambda value: _judgement(value is not None, "not null", value))


def is_true() -> NarrowingMatcher[object, Literal[True]]:
    """The value is True itself, not merely something true."""
    return NarrowingMatcher(name="is_true()", judge=lambda value: _judgement(value is True, "true", value))


def is_false() -> NarrowingMatcher[object, Literal[False]]:
    """The value is False itself, not merely something false."""
    return NarrowingMatcher(name="is_false()", judge=lambda value: _judgement(value is False, "false", value))


def command_succeeded() -> Matcher[CommandResult]:
    """A command's result has exit code 0 and did not time out. The end of its output becomes the detail.

    Raises AuthorError (`bad-matcher`), when judging, for a value that is no command's result.
    """
    return Matcher(name="command_succeeded()", judge=_command)


def includes_url(url: Wanted | None = None) -> Matcher[Text]:
    """The text holds an http or https address; with `url`, one that fits.

    `url` is a host (`example.com`, with its subdomains), a host and a path, or a whole address; the paths under it fit
    too. A compiled pattern is searched for in each address.
    """
    expected = "includes a URL" if url is None else f"includes a URL within {_list([url])}"

    def judge(value: str) -> Judgement:
        found = urls_in(value)
        fits = any(url is None or _fits(item, url) for item in found)
        detail = None if fits else f"URLs there: {_list(found)}" if found else "there is no URL"
        return _judgement(fits, expected, value, detail)

    return Matcher(name=_name("includes_url", [] if url is None else [url]), judge=_text_judge(expected, judge))


def has_sections(*headings: Wanted) -> Matcher[Text]:
    """A Markdown text has these headings, at any level and in any order; the score is the share that is there.

    A text compares with a whole heading, without case, emphasis and a final colon; a compiled pattern is searched for.
    Headings inside fenced code do not count.
    """
    _require_wanted("has_sections", headings)
    expected = f"has sections {_list(headings)}"

    def judge(value: str) -> Judgement:
        there = headings_in(value)
        missing = [heading for heading in headings if not any(_is_heading(heading, title) for title in there)]
        detail = f"missing: {_list(missing)}; there: {_list(there) or 'no heading'}" if missing else None
        score = 1 - len(missing) / len(headings)
        return Judgement(
            score=score,
            graded=len(headings) > 1,
            expected=expected,
            received=shown_value(value, MAX_RECEIVED),
            detail=detail,
        )

    return Matcher(name=_name("has_sections", headings), judge=_text_judge(expected, judge))


def all_of(*checks: Matcher[T] | Callable[[T], bool | float]) -> Matcher[T]:
    """The lowest score of all. Severity and line are theirs where all agree, else a gate that wants a full score."""
    return _combined("all_of", checks, min, "not met")


def any_of(*checks: Matcher[T] | Callable[[T], bool | float]) -> Matcher[T]:
    """The highest score of all. Severity and line are theirs where all agree, else a gate that wants a full score."""
    return _combined("any_of", checks, max, "none of")


def not_(check: Matcher[T] | Callable[[T], bool | float]) -> Matcher[T]:
    """1 - the score: what passed fails, and a graded score and its line turn round (0.7 becomes 0.3).

    A value that the matcher cannot judge still scores 0: `not_(includes("x"))` does not pass for None.
    """
    inner = as_matcher(check)

    def judge(value: T) -> Judgement:
        found = inner.evaluate(value)
        return Judgement(
            score=1.0 - found.score if found.applies else 0.0,
            graded=found.graded,
            expected=shorten(f"not: {found.expected}", MAX_RECEIVED),
            received=found.received,
            detail=found.detail if not found.applies else None,
            applies=found.applies,
        )

    line = None if inner.threshold is None else 1.0 - inner.threshold
    name = shorten(f"not_({inner.name})", MAX_NAME)
    return Matcher(name=name, judge=judge, default_severity=inner.default_severity, threshold=line)


def _judgement(passed: bool, expected: str, value: object, detail: str | None = None) -> Judgement:
    return Judgement(
        score=1.0 if passed else 0.0,
        expected=shorten(expected, MAX_RECEIVED),
        received=shown_value(value, MAX_RECEIVED),
        detail=None if detail is None else shorten(detail, MAX_RECEIVED),
    )


def _text_judge(expected: str, judge: Callable[[str], Judgement]) -> Callable[[Text], Judgement]:
    def judge_text(value: object) -> Judgement:
        if isinstance(value, str):
            return judge(value)
        return Judgement(
            score=0.0,
            expected=shorten(expected, MAX_RECEIVED),
            received=shown_value(value, MAX_RECEIVED),
            detail=f"text is needed, got {'null' if value is None else type_name(value)}",
            applies=False,
        )

    return judge_text


def _combined(
    word: str, checks: tuple[Matcher[T] | Callable[[T], bool | float], ...], best: Callable[..., float], failing: str
) -> Matcher[T]:
    if not checks:
        raise AuthorError("bad-matcher", problem=f"{word}() has no matchers", fix="give it at least one")
    parts = [as_matcher(check) for check in checks]

    def judge(value: T) -> Judgement:
        found = [part.evaluate(value) for part in parts]
        score = best(item.score for item in found)
        short = [
            f"{part.name}{f' ({item.detail})' if item.detail else ''}"
            for part, item in zip(parts, found, strict=True)
            if not item.passed
        ]
        return Judgement(
            score=score,
            graded=any(item.graded for item in found),
            expected=shorten(f"{word}: {'; '.join(item.expected for item in found)}", MAX_RECEIVED),
            received=found[0].received,
            detail=None if score >= 1 else shorten(f"{failing}: {', '.join(short)}", MAX_RECEIVED),
            applies=all(item.applies for item in found),
        )

    lines: set[tuple[Severity, float | None]] = {(part.default_severity, part.threshold) for part in parts}
    severity, line = lines.pop() if len(lines) == 1 else ("gate", None)
    name = shorten(f"{word}({', '.join(part.name for part in parts)})", MAX_NAME)
    return Matcher(name=name, judge=judge, default_severity=severity, threshold=line)


def _command(result: Any) -> Judgement:
    code = getattr(result, "exit_code", None)
    if not isinstance(code, int) or isinstance(code, bool):
        raise AuthorError(
            "bad-matcher",
            problem=f"command_succeeded() was given {shown_value(result, 60)}, which is no command's result",
            fix="give it what `await t.sandbox.run_command(...)` returned",
        )
    timed_out = getattr(result, "timed_out", False) is True
    passed = code == 0 and not timed_out
    output = "" if passed else (getattr(result, "stderr", "") or getattr(result, "stdout", ""))
    received = f"exit code {code}" + (", timed out" if timed_out else "")
    detail = shown_value(output[-MAX_RECEIVED // 2 :], MAX_RECEIVED) if isinstance(output, str) and output else None
    return Judgement(score=float(passed), expected="exit code 0", received=received, detail=detail)


def _found(wanted: Wanted, text: str) -> bool:
    return wanted in text if isinstance(wanted, str) else wanted.search(text) is not None


def _fits(url: str, wanted: Wanted) -> bool:
    return url_within(url, wanted) if isinstance(wanted, str) else wanted.search(url) is not None


def _is_heading(wanted: Wanted, title: str) -> bool:
    if isinstance(wanted, str):
        return heading_key(wanted) == heading_key(title)
    return wanted.search(title) is not None


def _require_wanted(word: str, wanted: tuple[object, ...]) -> None:
    # An empty text is in every text: such a check could never fail.
    for item in wanted or ("",):
        if item == "" or not isinstance(item, (str, re.Pattern)) or isinstance(getattr(item, "pattern", ""), bytes):
            raise AuthorError(
                "bad-matcher",
                problem=f"{word}({'' if not wanted else shown_value(item, 60)}) asks for nothing that can be in a text",
                fix="give a non-empty text or a compiled pattern",
            )


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise AuthorError(
            "bad-matcher",
            problem=f"matches({shown_value(pattern, 60)}): {error}",
            fix="correct the regular expression, or use includes(...) for plain text",
        ) from error


def _name(word: str, arguments: object) -> str:
    items = arguments if isinstance(arguments, (list, tuple)) else ()
    return shorten(f"{word}({', '.join(_shown(item) for item in items)})", MAX_NAME)


def _shown(item: object) -> str:
    if isinstance(item, re.Pattern) or (callable(item) and not isinstance(item, type)):
        return describe(item, "").removeprefix(" matches ").removeprefix(" satisfies ")
    return shown_value(item, 60)


def _list(items: object) -> str:
    every = items if isinstance(items, (list, tuple)) else ()
    more = [] if len(every) <= _SHOWN_ITEMS else [f"and {len(every) - _SHOWN_ITEMS} more"]
    return ", ".join([*(_shown(item) for item in every[:_SHOWN_ITEMS]), *more])
