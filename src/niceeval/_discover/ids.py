"""What may be an id: segments that are safe as a folder, on a command line and in a message."""

from __future__ import annotations

MAX_SEGMENT = 200
"""Characters."""


def segment_problem(segment: str) -> str | None:
    """Why this cannot be one segment of an id, or None."""
    if not segment:
        return "it is empty"
    if segment in (".", ".."):
        return "it is a place in the file system"
    if "/" in segment or "\\" in segment:
        return "it holds a slash"
    if not segment.isprintable():
        return "it holds a character that cannot be seen"
    if segment != segment.strip():
        return "it begins or ends with a space"
    if segment[0] in "-@":
        return f'it begins with "{segment[0]}"'
    if len(segment) > MAX_SEGMENT:
        return f"it is longer than {MAX_SEGMENT} characters"
    return None


def id_problem(id: str) -> str | None:
    """Why this cannot be an id, or None."""
    return next((problem for part in id.split("/") if (problem := segment_problem(part))), None)
