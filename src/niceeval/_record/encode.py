"""From values to the bytes of a results file: encoded, without secrets, always valid UTF-8 JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

Redact = Callable[[str], str]

INDEX_FROM_BYTES = 1_000_000
"""An `events.json` above this size gets an index beside it."""
INDEX_EVERY = 200

_SURROGATE = re.compile("[\ud800-\udfff]")
_IDENTITY = frozenset({"id", "experimentId", "agent", "model", "startedAt", "artifactsDir", "locator", "fingerprint"})


def _whole(text: str) -> str:
    return _SURROGATE.sub("\ufffd", text)


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """The same JSON value with each of its texts, keys too, replaced by `change(text)`."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(key): map_texts(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [map_texts(item, change) for item in value]
    return value


def encode(value: Any) -> bytes:
    """Compact JSON; a lone surrogate becomes the replacement character."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(map_texts(msgspec.to_builtins(value), _whole))


def tolerant_json(data: bytes) -> bytes:
    """JSON that msgspec refuses (lone surrogate escapes, NaN, a byte order mark) as JSON that it takes.

    Raises ValueError where the standard library cannot read it either.
    """
    return encode(map_texts(json.loads(data.decode("utf-8-sig", "replace")), _whole))


def without_secrets(data: bytes, redact: Redact) -> bytes:
    """Encoded JSON whose texts hold no secret; structure and numbers stay as they are."""
    text = data.decode("utf-8")
    if redact(text) == text:
        return data
    return encode(map_texts(msgspec.json.decode(data), redact))


def record_without_secrets(data: bytes, redact: Redact) -> bytes:
    """An encoded result or summary without secrets, but for what identifies it: checked-in names and times."""
    text = data.decode("utf-8")
    if redact(text) == text:
        return data
    record: dict[str, Any] = msgspec.json.decode(data)
    clean = {key: value if key in _IDENTITY else map_texts(value, redact) for key, value in record.items()}
    if isinstance(record.get("experiment"), dict):
        clean["experiment"] = {**clean["experiment"], "id": record["experiment"]["id"]}
    return encode(clean)


def events_index(data: bytes) -> tuple[bytes, bytes]:
    """An encoded event array, compact, and its index: the byte offset of every 200th event, as a JSON array."""
    events = msgspec.json.decode(data, type=list[msgspec.Raw])
    offsets: list[int] = []
    position = 1
    for number, event in enumerate(events):
        if number % INDEX_EVERY == 0:
            offsets.append(position)
        position += len(bytes(event)) + 1
    return b"[" + b",".join(map(bytes, events)) + b"]", msgspec.json.encode(offsets)
