"""Secrets do not reach the disk or the terminal: their values are replaced by `[redacted]`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

REDACTED = "[redacted]"
MIN_SECRET = 6
"""Characters; a shorter value would be found everywhere by chance."""

PART = 4
"""Characters of a secret's beginning that are hidden where a text was cut behind them."""
_CUT = re.compile(r"…| \[\+[0-9]")
"""How a text says that it was cut: `…`, `… [cut: 70,000 characters]`, ` [+12 chars]`."""

_NAME = re.compile(
    r"(key|token|secret|password|passwd|passphrase|credential|credentials|auth|authorization|bearer|cookie|dsn)s?$",
    re.IGNORECASE,
)
_URL_PASSWORD = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")

_WORDS_OF_OURS = """
    passed failed errored skipped unavailable complete completed partial rejected waiting message assistant
    action.called action.result subagent.called subagent.completed input.requested thinking compaction events actions
    messages status warning queued sandbox default python niceeval niceeval.results stdout stderr adapter development
    production staging localhost 127.0.0.1
"""
VOCABULARY = frozenset(_WORDS_OF_OURS.split())
"""Words that are our own or everybody's: a variable that holds one keeps no secret."""


def looks_like_credential(name: str) -> bool:
    """Whether a variable's name says that its value is a secret (`OPENAI_API_KEY`, `dbPassword`, `GH_TOKEN`)."""
    return any(_NAME.search(word) for word in _WORDS.findall(name))


def _is_secret(value: str) -> bool:
    return len(value) >= MIN_SECRET and value not in VOCABULARY and not (value.isdigit() and len(value) < 9)


def secret_values(environ: Mapping[str, str], dotenv: Mapping[str, str], named: Iterable[str] = ()) -> frozenset[str]:
    """The values to hide: every value of the project's `.env`, and of the environment those whose name looks like a
    credential or is one of `named`; the passwords inside URLs of either.

    Values of fewer than `MIN_SECRET` characters, and common words, are left alone.
    """
    found = {value.strip() for value in dotenv.values()}
    found.update(value.strip() for name, value in environ.items() if looks_like_credential(name))
    found.update(environ[name].strip() for name in named if name in environ)
    for value in (*environ.values(), *dotenv.values()):
        found.update(_URL_PASSWORD.findall(value))
    return frozenset(value for value in found if _is_secret(value))


def _forms(secret: str) -> set[str]:
    """The secret as it is, and as it reads inside a JSON string (and inside JSON text that is itself a JSON string)."""
    escaped = {json.dumps(secret, ensure_ascii=ascii_only)[1:-1] for ascii_only in (False, True)}
    twice = {json.dumps(form, ensure_ascii=False)[1:-1] for form in escaped}
    return {secret} | escaped | twice


class Redactor:
    """Replaces each secret in a text by `[redacted]`; longer secrets first. Values that are too short are ignored.

    Where a text was cut in the middle of a secret, the part in front of the cut is replaced as well.
    """

    __slots__ = ("_forms", "_pattern")

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if _is_secret(secret) for form in _forms(secret)}
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        self._pattern = re.compile("|".join(map(re.escape, self._forms))) if forms else None

    def __call__(self, text: str) -> str:
        """The text without secrets; the same object where none occurs."""
        if self._pattern is None:
            return text
        if self._whole_in(text):
            text = self._pattern.sub(REDACTED, text)
        return self._without_parts(text) if _may_be_cut(text) else text

    def found_in(self, text: str) -> bool:
        """Whether some secret occurs in the text, or the beginning of one in front of a cut."""
        return self._whole_in(text) or (_may_be_cut(text) and self._without_parts(text) is not text)

    def _whole_in(self, text: str) -> bool:
        # Plain substring search beats one alternation by far, and nearly every text holds no secret.
        return any(form in text for form in self._forms)

    def _without_parts(self, text: str) -> str:
        kept: list[str] = []
        copied = 0
        for mark in _CUT.finditer(text):
            start = min(self._part_starts(text, copied, mark.start()), default=None)
            if start is not None:
                kept += (text[copied:start], REDACTED)
                copied = mark.start()
        return "".join((*kept, text[copied:])) if kept else text

    def _part_starts(self, text: str, after: int, end: int) -> Iterator[int]:
        """Where a secret begins whose text goes on to `end`, and no further."""
        for form in self._forms:
            start = text.rfind(form[:PART], max(after, end - len(form)), end)
            while start >= 0:
                if form.startswith(text[start:end]):
                    yield start
                start = text.rfind(form[:PART], max(after, end - len(form)), start + PART - 1)


def _may_be_cut(text: str) -> bool:
    return "…" in text or " [+" in text
