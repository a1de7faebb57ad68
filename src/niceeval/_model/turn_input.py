"""What one `send` receives."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file that goes with a turn; `data` is the content (base64 where a protocol wants text)."""

    filename: str
    mime_type: str
    data: bytes

    def base64(self) -> str:
        """The content as base64 text."""
        return base64.b64encode(self.data).decode("ascii")


class InputResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A human's answer to one request: exactly one of `option_id` and `text`."""

    request_id: str
    option_id: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnInput:
    """One turn's input.

    `text` is what the author sent (the answers joined by newlines for a response); `output_schema` is the JSON Schema
    of the answer that is wanted, or None.
    """

    text: str
    files: tuple[InputFile, ...] = ()
    responses: tuple[InputResponse, ...] = ()
    output_schema: dict[str, Any] | None = None
