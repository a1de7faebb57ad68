"""What goes back over HTTP for one request, before anything of it is written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from niceeval.testing._model_server.recorded import Outcome

JSON = "application/json"
EVENTS = "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply: its body is one chunk, or the events of a stream.

    `outcome` is what the request is recorded with once the reply is written, `problem` what nobody scripted; `delay`
    and `cut_after` are a step's.
    """

    status: int
    chunks: Iterable[bytes]
    outcome: Outcome
    content_type: str = JSON
    streamed: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    cut_after: int | None = None
    scenario: str | None = None
    step: int | None = None
    problem: str | None = None


def json_bytes(value: Any) -> bytes:
    """JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def json_reply(value: Any, status: int = 200, outcome: Outcome = "answered", **more: Any) -> Reply:
    """A reply whose body is a value."""
    return Reply(status=status, chunks=(json_bytes(value),), outcome=outcome, **more)
