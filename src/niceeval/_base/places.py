"""Where something was written, as a person would name it."""

from __future__ import annotations

import os

from niceeval._base.callsite import call_site
from niceeval._base.errors import Place


def shown_path(path: str | os.PathLike[str]) -> str:
    """The path from the current folder, or the absolute one where that is shorter; always with `/`."""
    absolute = os.path.abspath(path)
    try:
        relative = os.path.relpath(absolute)
    except ValueError:  # another drive, on Windows
        return absolute.replace(os.sep, "/")
    shorter = relative if len(relative) <= len(absolute) else absolute
    return shorter.replace(os.sep, "/")


def author_place() -> Place:
    """The author's line that made the call being executed."""
    site = call_site()
    return Place(shown_path(site.file), site.line, site.column)
