"""Our own non-ASCII characters, as one set that a stream either takes whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """The characters of the marks, bars, rules and separators."""

    passed: str
    failed: str
    errored: str
    skipped: str
    carried: str
    unavailable: str
    soft: str
    full: str
    partial: str
    empty: str
    rule: str
    dot: str
    ellipsis: str
    escape: str


UNICODE = Glyphs(
    passed="✓",
    failed="✗",
    errored="!",
    skipped="-",
    carried="↺",
    unavailable="?",
    soft="~",
    full="█",
    partial="▒",
    empty="░",
    rule="│",
    dot="·",
    ellipsis="…",
    escape="␛",
)
ASCII = Glyphs(
    passed="+",
    failed="x",
    errored="!",
    skipped="-",
    carried="c",
    unavailable="?",
    soft="~",
    full="#",
    partial="=",
    empty=".",
    rule="|",
    dot="|",
    ellipsis="...",
    escape="^[",
)


def glyphs_for(encoding: str | None, language: str = "en") -> Glyphs:
    """The set that every character of fits the encoding.

    In a Chinese terminal several of ours are of ambiguous width, so `zh` takes the ASCII set.
    """
    if language == "zh" or not _encodable(encoding):
        return ASCII
    return UNICODE


def _encodable(encoding: str | None) -> bool:
    try:
        "".join(getattr(UNICODE, field.name) for field in fields(UNICODE)).encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
