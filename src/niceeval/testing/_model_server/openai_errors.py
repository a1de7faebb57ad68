"""Errors in the form that both OpenAI protocols share, and what they share of usage."""

from __future__ import annotations

from typing import Any

_TYPES = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


def openai_error(status: int, message: str, type: str | None) -> dict[str, Any]:
    """The body of an error."""
    known, code = _TYPES.get(status, ("server_error" if status >= 500 else "invalid_request_error", None))
    return {"error": {"message": message, "type": type or known, "param": None, "code": code}}
