"""Text from guests made safe to keep: bounded, encodable, and never an exception."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def clean_text(text: str, max_chars: int) -> tuple[str, str | None]:
    """The text as it can be stored, and what was changed (None: nothing, and the same object comes back).

    Lone surrogates become U+FFFD (two that form a pair become their character); a text over `max_chars` is cut and
    ends in a marker that says so, the marker included in `max_chars`.
    """
    if len(text) <= max_chars and (text.isascii() or _encodable(text)):
        return text, None
    changes: list[str] = []
    if not _encodable(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        changes.append("lone surrogates became U+FFFD")
    if len(text) > max_chars:
        changes.append(f"{len(text):,} characters cut to {max_chars:,}")
        text = cut_text(text, max_chars)
    return text, "; ".join(changes)


def cut_text(text: str, max_chars: int) -> str:
    """At most `max_chars` of the text; where it was longer, the end says how long it was."""
    if len(text) <= max_chars:
        return text
    marker = f"… [cut: {len(text):,} characters]"
    if len(marker) >= max_chars:
        return shorten(text, max_chars)
    return text[: max_chars - len(marker)] + marker


def shorten(text: str, max_chars: int) -> str:
    """At most `max_chars` of the text; `…` in the last place stands for what is left out."""
    return text if len(text) <= max_chars else text[: max(max_chars - 1, 0)] + "…"[:max_chars]


def type_name(value: object) -> str:
    """The name of the value's class; `object` where the class does not even give that."""
    try:
        name = type(value).__name__
        return clean_text(name, 100)[0] if type(name) is str else "object"
    except Exception:  # noqa: BLE001 - a hostile metaclass
        return "object"


def safe_repr(value: object, max_chars: int) -> str:
    """The value's `repr`, cleaned, bounded, without memory addresses; a stand-in where it raises."""
    if type(value) is str:
        value = shorten(value, max_chars)
    try:
        text = repr(value)
        text = text if type(text) is str else str.__str__(text)
    except Exception as error:  # noqa: BLE001 - a guest's repr may raise anything; the text says so
        text = f"<{type_name(value)} whose repr raises {type_name(error)}>"
    bounded = _ADDRESS.sub("", text[: max_chars * 2 + 100])
    return shorten(clean_text(bounded, len(bounded))[0], max_chars)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
