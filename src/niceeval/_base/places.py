"""Where something was written, as a person would name it."""

from __future__ import annotations

import os
from pathlib import Path

from niceeval._base.callsite import call_site
from niceeval._base.errors import Place, SelectionError


def current_folder() -> Path:
    """The folder that the process was started in.

    Raises SelectionError (`no-folder`) where it was deleted, or may not be seen.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise SelectionError("no-folder") from error


def shown_path(path: str | os.PathLike[str]) -> str:
    """The path from the current folder, or the absolute one where that is shorter; always with `/`."""
    try:
        absolute = os.path.abspath(path)
        relative = os.path.relpath(absolute)
    except OSError:  # the current folder is not there any more
        return os.fspath(path).replace(os.sep, "/")
    except ValueError:  # another drive, on Windows
        return absolute.replace(os.sep, "/")
    shorter = relative if len(relative) <= len(absolute) else absolute
    return shorter.replace(os.sep, "/")


def author_place() -> Place:
    """The author's line that made the call being executed."""
    site = call_site()
    return Place(shown_path(site.file), site.line, site.column)
