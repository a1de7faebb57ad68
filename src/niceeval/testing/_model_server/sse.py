"""Server-sent events, as the protocols write them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def named(name: str, data: Mapping[str, Any]) -> bytes:
    """An event with a name."""
    return b"event: " + name.encode() + b"\n" + unnamed(data)


def unnamed(data: Mapping[str, Any]) -> bytes:
    """An event that is data only."""
    return b"data: " + json.dumps(data, ensure_ascii=False).encode("utf-8", "replace") + b"\n\n"
